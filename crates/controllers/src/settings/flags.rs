//! The flags of the controller process, each declared once. The variable of a flag is its name in capitals.

use std::error::Error;

use clap::{Args, Command, FromArgMatches};

use super::variable_of;

macro_rules! flags {
    (
        values { $($(#[$value_attribute:meta])* $value:ident: $type:ty,)+ }
        switches { $($(#[$switch_attribute:meta])* $switch:ident,)+ }
    ) => {
        /// What the command line says; nothing where it is silent.
        #[derive(Clone, Debug, Default, PartialEq, clap::Args)]
        pub struct Flags {
            $($(#[$value_attribute])* #[arg(long)] pub $value: Option<$type>,)+
            $(
                $(#[$switch_attribute])*
                #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
                pub $switch: Option<bool>,
            )+
        }

        impl Flags {
            /// These, and where they are silent, the others.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self {
                    $($value: self.$value.or(other.$value),)+
                    $($switch: self.$switch.or(other.$switch),)+
                }
            }
        }
    };
}

flags! {
    values {
        /// Port of /metrics [default: 8080].
        #[arg(value_name = "PORT")]
        metrics_port: u16,
        /// Port of /healthz and /readyz [default: 8081].
        #[arg(value_name = "PORT")]
        health_probe_port: u16,
        /// Requests per second to the API server in the long run [default: 200].
        #[arg(value_name = "NUMBER")]
        kube_client_qps: u32,
        /// Requests to the API server at once [default: 300].
        #[arg(value_name = "NUMBER")]
        kube_client_burst: u32,
        /// Name of the Lease by which one of several replicas leads [default: karpenter-leader-election].
        #[arg(value_name = "NAME")]
        leader_election_name: String,
        /// Namespace of that Lease [default: our own].
        #[arg(value_name = "NAME")]
        leader_election_namespace: String,
        /// Memory of the container in bytes; accepted for the reference's manifests, we need no hint [default: -1].
        #[arg(value_name = "BYTES", allow_negative_numbers = true)]
        memory_limit: i64,
        /// Cpu of the container in thousandths of a core, by which workers are counted [default: 1000].
        #[arg(value_name = "MILLICORES", allow_negative_numbers = true)]
        cpu_requests: i64,
        /// How much is logged: debug, info or error [default: info].
        #[arg(value_name = "LEVEL")]
        log_level: String,
        /// Where logs go: stdout, stderr or files, separated by commas [default: stdout].
        #[arg(value_name = "LIST")]
        log_output_paths: String,
        /// Where trouble with logging itself goes [default: stderr].
        #[arg(value_name = "LIST")]
        log_error_output_paths: String,
        /// The longest time that pods are collected before a plan is made [default: 10s].
        #[arg(value_name = "DURATION")]
        batch_max_duration: api::Duration,
        /// The quiet time after which a collection of pods ends [default: 1s].
        #[arg(value_name = "DURATION")]
        batch_idle_duration: api::Duration,
        /// What preferences of pods are worth: Respect or Ignore [default: Respect].
        #[arg(value_name = "POLICY")]
        preference_policy: String,
        /// What minValues of pools are worth: Strict or BestEffort [default: Strict].
        #[arg(value_name = "POLICY")]
        min_values_policy: String,
        /// What a node is taken to cost beyond its machine, in dollars per hour; more of it makes fewer, larger nodes [default: 0.002].
        #[arg(value_name = "DOLLARS", allow_negative_numbers = true)]
        node_fee: String,
        /// Within this time the saving of a consolidation must have paid for what it disturbs [default: 24h].
        #[arg(value_name = "DURATION")]
        consolidation_payback: api::Duration,
        /// A pod that was moved is not moved again for so long in order to save money [default: 30s].
        #[arg(value_name = "DURATION")]
        pod_move_cooldown: api::Duration,
        /// A node that has registered and is not initialized after so long is replaced; 0s waits for ever [default: 1h].
        #[arg(value_name = "DURATION")]
        initialization_timeout: api::Duration,
        /// Features to switch on or off, such as NodeRepair=true,ReservedCapacity=false.
        #[arg(value_name = "LIST")]
        feature_gates: String,
        /// YAML or JSON with podTopologySpread.defaultConstraints, for pods that name no spread of their own.
        #[arg(value_name = "DOCUMENT")]
        scheduler_config: String,
        /// Left over from webhooks, without effect.
        #[arg(value_name = "NAME", hide = true)]
        karpenter_service: String,
    }
    switches {
        /// Lead without asking for the Lease [default: false].
        disable_leader_election,
        /// Do not watch the cluster before leading [default: true].
        disable_controller_warmup,
        /// Leave out metrics about single pods, nodes, pools and conditions [default: false].
        disable_cluster_state_observability,
        /// Leave pods with resource claims alone [default: true].
        ignore_dra_requests,
        /// Accepted for the reference's manifests, without effect [default: false].
        enable_profiling,
    }
}

impl Flags {
    /// What the environment says, and one line for each variable that could not be read, which then counts as unset. The
    /// reference does the same, but silently.
    pub(super) fn from_environment(read: impl Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let (mut found, mut warnings) = (Self::default(), Vec::new());
        for flag in Self::command().get_arguments().filter_map(|argument| argument.get_long()) {
            let variable = variable_of(flag);
            let Some(value) = read(&variable) else { continue };
            match Self::of_one(flag, &value).or_else(|error| Self::of_one(flag, as_switch(&value)).map_err(|_| error)) {
                Ok(one) => found = found.or(one),
                Err(error) => {
                    let reason = error.source().map(|source| format!(" ({source})")).unwrap_or_default();
                    warnings.push(format!(
                        "the environment variable {variable} is {value:?}, which --{flag} does not take{reason}; the default holds"
                    ));
                }
            }
        }
        (found, warnings)
    }

    fn command() -> Command {
        Self::augment_args(Command::new("flags").no_binary_name(true).disable_help_flag(true))
    }

    fn of_one(flag: &str, value: &str) -> Result<Self, clap::Error> {
        Self::command()
            .try_get_matches_from([format!("--{flag}={value}")])
            .and_then(|matches| Self::from_arg_matches(&matches))
    }
}

/// The environment may spell truth in all ways that Go reads.
fn as_switch(value: &str) -> &str {
    match value {
        "1" | "t" | "T" | "TRUE" | "True" => "true",
        "0" | "f" | "F" | "FALSE" | "False" => "false",
        other => other,
    }
}
