//! What the operator chose: flags first, then the environment, then the reference's defaults.
//!
//! Names and defaults are the reference's, so that its manifests start us unchanged. What cannot be meant is refused before
//! anything starts, and the message names the flag, its variable and what would do. Decision 0039 has the few differences.

mod flags;
mod gates;
mod scale;
mod spread;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use model::price::Price;
use model::snapshot::{MinValuesPolicy, PreferencePolicy, SchedulingPolicy};
use runtime::Rate;

pub use flags::Flags;
pub use gates::Gates;
pub use scale::{Workers, scaled_rate};

const CPU_REQUESTS: u32 = 1000;
const CONSOLIDATION_PAYBACK: Duration = Duration::from_secs(24 * 60 * 60);
const POD_MOVE_COOLDOWN: Duration = Duration::from_secs(30);
const INITIALIZATION_TIMEOUT: Duration = Duration::from_secs(60 * 60);
const NOMINATION_LEAST: Duration = Duration::from_secs(10);
/// In dollars per hour. No single machine costs much more, so whoever writes more has thought of another unit.
const NODE_FEE_MOST: f64 = 100.0;

/// Everything that can be chosen, as plain values.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub metrics_port: u16,
    pub health_probe_port: u16,
    /// How often the API server is asked.
    pub kube_client: Rate,
    pub elects_leader: bool,
    /// Whether the world is watched before we lead, so that a new leader can act at once.
    pub watches_before_leading: bool,
    /// Whether metrics tell about each pod, node and pool, and about conditions.
    pub observes_cluster_state: bool,
    pub lease_name: String,
    /// The namespace of the Lease; ours when nobody says.
    pub lease_namespace: Option<String>,
    /// Cores that we may use, in thousandths.
    pub cpu_requests: u32,
    pub log: LogSettings,
    pub batch_max: Duration,
    pub batch_idle: Duration,
    pub policy: SchedulingPolicy,
    /// A consolidation must have saved what it costs after this time. Decision 0052.
    pub consolidation_payback: Duration,
    /// A pod that was moved is not moved again for so long, to save money.
    pub pod_move_cooldown: Duration,
    /// A node that has registered is given up after this time without being initialized, if anybody minds. Decision 0068.
    pub initialization_timeout: Option<Duration>,
    pub gates: Gates,
    /// Spreads for pods that name none.
    pub default_spread: Vec<TopologySpreadConstraint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    pub level: LogLevel,
    pub output: Vec<LogPath>,
    /// Where our own trouble with logging goes.
    pub error_output: Vec<LogPath>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPath {
    Stdout,
    Stderr,
    File(PathBuf),
}

/// A setting that cannot be meant. One line: what it is, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{flag} (or {variable}) {problem}", variable = variable_of(flag))]
pub struct SettingsError {
    flag: &'static str,
    problem: String,
}

/// Settings, and what a person should know about how they were found.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub settings: Settings,
    /// To be logged once, at the start.
    pub warnings: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self::choose(Flags::default(), |_| None).expect("the defaults are sound").settings
    }
}

impl Settings {
    /// Flags win over the environment, which wins over the defaults.
    pub fn choose(flags: Flags, environment: impl Fn(&str) -> Option<String>) -> Result<Chosen, SettingsError> {
        let (from_environment, mut warnings) = Flags::from_environment(environment);
        let flags = flags.or(from_environment);
        warnings.extend(without_effect(&flags));
        let (gates, gate_warnings) = Gates::parse(flags.feature_gates.as_deref().unwrap_or_default())
            .map_err(|problem| SettingsError { flag: "feature-gates", problem })?;
        warnings.extend(gate_warnings);
        if flags.ignore_dra_requests == Some(false) {
            let problem = "is false, but devices by resource claim are not served yet; leave it at true".to_owned();
            return Err(SettingsError { flag: "ignore-dra-requests", problem });
        }
        let text = |value: Option<String>, default: &str| value.unwrap_or_else(|| default.to_owned());
        let settings = Self {
            metrics_port: flags.metrics_port.unwrap_or(8080),
            health_probe_port: flags.health_probe_port.unwrap_or(8081),
            kube_client: Rate {
                per_second: f64::from(flags.kube_client_qps.unwrap_or(200)),
                burst: flags.kube_client_burst.unwrap_or(300),
            },
            elects_leader: !flags.disable_leader_election.unwrap_or(false),
            watches_before_leading: !flags.disable_controller_warmup.unwrap_or(true),
            observes_cluster_state: !flags.disable_cluster_state_observability.unwrap_or(false),
            lease_name: text(flags.leader_election_name, "karpenter-leader-election"),
            lease_namespace: flags.leader_election_namespace.filter(|name| !name.is_empty()),
            cpu_requests: flags.cpu_requests.filter(|milli| *milli > 0).map_or(CPU_REQUESTS, saturated),
            log: LogSettings {
                level: log_level(flags.log_level.as_deref())?,
                output: log_paths(&text(flags.log_output_paths, "stdout")),
                error_output: log_paths(&text(flags.log_error_output_paths, "stderr")),
            },
            batch_max: flags.batch_max_duration.map_or(Duration::from_secs(10), api::Duration::to_std),
            batch_idle: flags.batch_idle_duration.map_or(Duration::from_secs(1), api::Duration::to_std),
            policy: SchedulingPolicy {
                preferences: preference_policy(flags.preference_policy.as_deref())?,
                min_values: min_values_policy(flags.min_values_policy.as_deref())?,
                uses_reservations: gates.reserved_capacity,
                node_fee: node_fee(flags.node_fee.as_deref())?,
                ..SchedulingPolicy::default()
            },
            consolidation_payback: flags.consolidation_payback.map_or(CONSOLIDATION_PAYBACK, api::Duration::to_std),
            pod_move_cooldown: flags.pod_move_cooldown.map_or(POD_MOVE_COOLDOWN, api::Duration::to_std),
            initialization_timeout: timeout(flags.initialization_timeout, INITIALIZATION_TIMEOUT),
            gates,
            default_spread: spread::parse(flags.scheduler_config.as_deref().unwrap_or_default())
                .map_err(|problem| SettingsError { flag: "scheduler-config", problem })?,
        };
        settings.check()?;
        Ok(Chosen { settings, warnings })
    }

    fn check(&self) -> Result<(), SettingsError> {
        let refuse = |flag, problem: &str| Err(SettingsError { flag, problem: problem.to_owned() });
        if self.kube_client.per_second < 1.0 {
            return refuse("kube-client-qps", "is 0, so nothing could ever be asked; use at least 1");
        }
        if self.kube_client.burst == 0 {
            return refuse("kube-client-burst", "is 0, so nothing could ever be asked; use at least 1");
        }
        if self.lease_name.is_empty() {
            return refuse("leader-election-name", "is empty; name a Lease, or use --disable-leader-election");
        }
        Ok(())
    }

    /// How long a machine is left alone for pods that were planned onto it.
    pub fn nomination(&self) -> Duration {
        self.batch_max.saturating_mul(2).max(NOMINATION_LEAST)
    }

    /// Whole cores, rounded up: how many threads may compute.
    pub fn cores(&self) -> usize {
        self.cpu_requests.div_ceil(1000) as usize
    }
}

/// The variable that stands for a flag.
fn variable_of(flag: &str) -> String {
    flag.to_uppercase().replace('-', "_")
}

/// No time at all means that nobody minds.
fn timeout(chosen: Option<api::Duration>, default: Duration) -> Option<Duration> {
    Some(chosen.map_or(default, api::Duration::to_std)).filter(|timeout| !timeout.is_zero())
}

fn saturated(milli: i64) -> u32 {
    u32::try_from(milli).unwrap_or(u32::MAX)
}

/// What the reference does with these has no counterpart here; whoever set them should know.
fn without_effect(flags: &Flags) -> Vec<String> {
    let mut warnings = Vec::new();
    if flags.enable_profiling == Some(true) {
        warnings.push("--enable-profiling has no effect: there is no Go runtime here to be profiled".to_owned());
    }
    if flags.karpenter_service.as_ref().is_some_and(|name| !name.is_empty()) {
        warnings.push("--karpenter-service has no effect: there are no webhooks any more".to_owned());
    }
    if flags.log_error_output_paths.as_ref().is_some_and(|paths| paths != "stderr") {
        warnings.push("--log-error-output-paths has no effect: whoever cannot log has nobody to tell".to_owned());
    }
    warnings
}

fn log_level(text: Option<&str>) -> Result<LogLevel, SettingsError> {
    match text.unwrap_or("info") {
        "debug" => Ok(LogLevel::Debug),
        "" | "info" => Ok(LogLevel::Info),
        "error" => Ok(LogLevel::Error),
        other => {
            Err(SettingsError { flag: "log-level", problem: format!("is {other:?}; use one of debug, info, error") })
        }
    }
}

fn log_paths(list: &str) -> Vec<LogPath> {
    let paths = list.split(',').map(str::trim).filter(|path| !path.is_empty());
    paths
        .map(|path| match path {
            "stdout" => LogPath::Stdout,
            "stderr" => LogPath::Stderr,
            file => LogPath::File(file.into()),
        })
        .collect()
}

fn preference_policy(text: Option<&str>) -> Result<PreferencePolicy, SettingsError> {
    match text.unwrap_or("Respect") {
        "Respect" => Ok(PreferencePolicy::Respect),
        "Ignore" => Ok(PreferencePolicy::Ignore),
        other => Err(SettingsError {
            flag: "preference-policy",
            problem: format!("is {other:?}; use one of Respect, Ignore"),
        }),
    }
}

fn min_values_policy(text: Option<&str>) -> Result<MinValuesPolicy, SettingsError> {
    match text.unwrap_or("Strict") {
        "Strict" => Ok(MinValuesPolicy::Strict),
        "BestEffort" => Ok(MinValuesPolicy::BestEffort),
        other => Err(SettingsError {
            flag: "min-values-policy",
            problem: format!("is {other:?}; use one of Strict, BestEffort"),
        }),
    }
}

/// Dollars up to the limit are exact to the pico-dollar, although they are read as a floating point number.
fn node_fee(text: Option<&str>) -> Result<Price, SettingsError> {
    let Some(text) = text else { return Ok(SchedulingPolicy::default().node_fee) };
    let dollars = text.trim().parse().ok().filter(|dollars: &f64| *dollars <= NODE_FEE_MOST);
    dollars.and_then(|dollars| Price::from_dollars(dollars).ok()).ok_or_else(|| SettingsError {
        flag: "node-fee",
        problem: format!("is {text:?}; use dollars per hour from 0 to {NODE_FEE_MOST}, such as 0.002"),
    })
}
