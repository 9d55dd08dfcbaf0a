//! `dovetail controller`: chooses the parts of the live controller and runs it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use controllers::ctx::Parts;
use controllers::settings::{Chosen, LogLevel, LogPath, LogSettings};
use controllers::{Ctx, Front, Metrics, Settings, events};
use provider::kwok::types::Menu;
use provider::kwok::{Assortment, Kwok};
use provider::metered::Metered;
use runtime::connect::{ClusterChoice, Connection, RequestLimits, connect_with};
use runtime::http::Server;
use runtime::lease::{self, LeaseSettings};
use runtime::log::{self, Place};
use runtime::{Clock, Compute, Election, Recorder, Rng, Stop, tasks};

use crate::args::{Cloud, Controller};

const OURS: &[&str] = &["cluster", "controllers", "dovetail", "engine", "provider", "runtime"];
/// The variable of `--instance-types-file-path`, as the reference has it.
const TYPES_VARIABLE: &str = "INSTANCE_TYPES_FILE_PATH";
/// Where the reference's manifests tell it its own namespace.
const NAMESPACE_VARIABLE: &str = "SYSTEM_NAMESPACE";

pub(crate) fn run(command: Controller) -> anyhow::Result<()> {
    let Chosen { settings, warnings } = Settings::choose(command.flags.clone(), |name| std::env::var(name).ok())?;
    let assortment = assortment(&command)?;
    log::install(&log_settings(&settings.log), Clock::wall())?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    // The cores that we may use; planning has threads of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.cores().clamp(1, 4))
        .enable_all()
        .build()
        .context("cannot start")?;
    let choice = ClusterChoice { kubeconfig: command.kubeconfig, context: command.context };
    let Cloud::Kwok = command.provider;
    let ended = runtime.block_on(serve(settings, &choice, assortment));
    // What is still being computed is of no use to anybody any more.
    runtime.shutdown_background();
    ended
}

async fn serve(settings: Settings, choice: &ClusterChoice, assortment: Assortment) -> anyhow::Result<()> {
    let shutdown = tasks::shutdown_signal()?;
    let limits = RequestLimits { rate: Some(settings.kube_client), repeats_refused: false, ..RequestLimits::default() };
    let Connection { client, address } = connect_with(choice, limits).await?;
    // A queue of other requests must never cost us the Lease.
    let of_lease = connect_with(choice, RequestLimits { rate: None, ..limits }).await?.client;
    let version =
        client.apiserver_version().await.with_context(|| format!("cannot talk to the cluster at {address}"))?;
    let (clock, rng, namespace) = (Clock::wall(), Rng::from_entropy(), own_namespace(&settings, &client));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = address,
        kubernetes = version.git_version,
        seed = rng.seed(),
        "starting"
    );
    let metrics = Arc::new(Metrics::default());
    let of_cloud = provider::kwok::Settings { namespace: namespace.clone(), rng: rng.fork("cloud") };
    let cloud = Kwok::new(client.clone(), clock.clone(), &of_cloud, assortment)?;
    let front = Front {
        election: settings.elects_leader.then(|| election(of_lease, &settings.lease_name, namespace, &clock, &rng)),
        metrics: Some(bind(settings.metrics_port).await?),
        probes: Some(bind(settings.health_probe_port).await?),
    };
    let ctx = Ctx::new(Parts {
        client,
        cloud: Metered::new(Arc::new(cloud), metrics.clone()),
        recorder: Recorder::new(events::COMPONENT, clock.clone(), rng.fork("events")),
        // Pods that wait must not wait behind a decision about nodes that run.
        compute: Compute::on_threads(settings.cores().max(2)),
        clock,
        metrics,
        settings,
        rng,
    });
    let stop = Stop::new();
    let stopping = stop.clone();
    let running = controllers::run(Arc::new(ctx), front, stop);
    let mut running = std::pin::pin!(running);
    tokio::select! {
        biased;
        ended = &mut running => return Ok(ended?),
        () = shutdown => stopping.cancel(),
    }
    Ok(running.await?)
}

async fn bind(port: u16) -> anyhow::Result<Server> {
    Ok(Server::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await?)
}

/// Where the Lease is, and what the simulated cloud must remember: the operator's choice, else the pod's own namespace, else
/// that of the kubeconfig.
fn own_namespace(settings: &Settings, client: &kube::Client) -> String {
    let of_environment = || std::env::var(NAMESPACE_VARIABLE).ok().filter(|name| !name.is_empty());
    let chosen = settings.lease_namespace.clone().or_else(of_environment);
    chosen.unwrap_or_else(|| client.default_namespace().to_owned())
}

fn election(client: kube::Client, lease: &str, namespace: String, clock: &Clock, rng: &Rng) -> Election {
    let rng = rng.fork("lease");
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let identity = lease::identity(host.as_deref().unwrap_or("dovetail").trim(), &rng);
    Election::new(client, clock.clone(), rng, LeaseSettings::new(namespace, lease, identity))
}

/// What the simulated cloud sells.
fn assortment(command: &Controller) -> anyhow::Result<Assortment> {
    if let Some(catalog) = &command.catalog {
        let region = catalog.strip_prefix("ec2:").filter(|region| !region.is_empty());
        let region = region
            .with_context(|| format!("--catalog {catalog:?} is not known; use ec2:REGION, such as ec2:us-east-1"))?;
        return Ok(Assortment::Ec2 { region: region.to_owned() });
    }
    let of_environment = || std::env::var_os(TYPES_VARIABLE).filter(|path| !path.is_empty()).map(Into::into);
    match command.instance_types_file_path.clone().or_else(of_environment) {
        None => Ok(Assortment::Menu(Menu::generated())),
        Some(path) => menu(&path).map(Assortment::Menu),
    }
}

fn menu(path: &Path) -> anyhow::Result<Menu> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read instance types from {}", path.display()))?;
    Menu::from_json(&text).with_context(|| format!("cannot use the instance types in {}", path.display()))
}

fn log_settings(settings: &LogSettings) -> log::LogSettings {
    let level = match settings.level {
        LogLevel::Debug => tracing::Level::DEBUG,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Error => tracing::Level::ERROR,
    };
    let places = settings.output.iter().map(|path| match path {
        LogPath::Stdout => Place::Stdout,
        LogPath::Stderr => Place::Stderr,
        LogPath::File(file) => Place::File(file.clone()),
    });
    log::LogSettings { level, places: places.collect(), ours: OURS, commit: controllers::metrics::COMMIT }
}
