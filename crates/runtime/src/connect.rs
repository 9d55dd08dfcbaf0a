//! From "which cluster?" to a client, with an answer for people when it does not work.

use std::path::PathBuf;
use std::time::Duration;

use http::{Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::limit::ConcurrencyLimitLayer;
use tower::timeout::TimeoutLayer;
use tower::util::option_layer;
use tower::{BoxError, Service};

use crate::limit::{PaceLayer, Rate};
use crate::watch;

/// Long enough for a distant API server, short enough that somebody at a terminal learns of a wrong address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Enough for a few hundred requests per second to a server that takes a tenth of one.
const AT_ONCE: usize = 32;
/// A watch may be silent for as long as it lasts.
const READ_TIMEOUT: Duration = watch::LIFETIME_MAX.saturating_add(Duration::from_secs(5));

/// Which cluster to talk to. Nothing given means `KUBECONFIG`, then the default file, then the pod's service account.
#[derive(Clone, Debug, Default)]
pub struct ClusterChoice {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// A client and the address that it talks to, for messages.
#[derive(Clone)]
pub struct Connection {
    pub client: Client,
    pub address: String,
}

/// What every request is held to, whoever answers it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestLimits {
    /// How long the first byte of an answer may take.
    pub answer_timeout: Duration,
    /// How many requests may be sent; nothing given means as many as there are.
    pub rate: Option<Rate>,
    /// How many may wait for their answer at the same time. Each of them has a connection of its own, and to make one costs
    /// more than most requests do.
    pub at_once: usize,
    /// Whether a request that a busy server turned away (429, 503, 504) is sent again behind the caller's back. Right for a
    /// command that somebody waits for. A controller has back-offs of its own, and to it 429 also means that a budget
    /// forbids an eviction.
    pub repeats_refused: bool,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { answer_timeout: ANSWER_TIMEOUT, rate: None, at_once: AT_ONCE, repeats_refused: true }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot use the kubeconfig {place}; name a readable one")]
    Kubeconfig { place: String, source: KubeconfigError },
    #[error("no cluster is configured; pass --kubeconfig FILE or set KUBECONFIG")]
    NoCluster { source: kube::config::InClusterError },
    #[error("the kubeconfig's context {context:?} does not work; pick another one with --context")]
    Context { context: String, source: KubeconfigError },
    #[error(
        "cannot set up a connection to {address}; check the certificates, credentials and proxy that the kubeconfig names"
    )]
    Setup { address: String, source: kube::Error },
}

/// Makes a client. Nothing is sent yet, so a cluster that does not answer is found out by the first request.
pub async fn connect(choice: &ClusterChoice) -> Result<Connection, ConnectError> {
    connect_with(choice, RequestLimits::default()).await
}

/// The same with limits of its own. Clients do not share their limits, so whoever must never wait behind others, such as
/// the lease, asks for a client of its own.
pub async fn connect_with(choice: &ClusterChoice, limits: RequestLimits) -> Result<Connection, ConnectError> {
    let mut config = read_config(choice).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.default_retry = limits.repeats_refused;
    let address = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let builder =
        ClientBuilder::try_from(config).map_err(|source| ConnectError::Setup { address: address.clone(), source })?;
    Ok(Connection { client: client_around(builder, limits), address })
}

/// A client whose requests are held to the limits. The simulator's server goes through here as well, so a request that is
/// never answered ends there as it does in production.
pub fn client_around<S, B>(builder: ClientBuilder<S>, limits: RequestLimits) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let pace = option_layer(limits.rate.map(PaceLayer));
    let at_once = ConcurrencyLimitLayer::new(limits.at_once.max(1));
    // Waiting for one's turn is no fault of the server, so the clock starts afterwards.
    builder.with_layer(&TimeoutLayer::new(limits.answer_timeout)).with_layer(&at_once).with_layer(&pace).build()
}

/// A kubeconfig that is named but broken is an error. Falling back to the pod's own cluster would write to a cluster that
/// nobody meant.
async fn read_config(choice: &ClusterChoice) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: choice.context.clone(), ..KubeConfigOptions::default() };
    let Some(kubeconfig) = named_kubeconfig(choice)? else {
        return Config::incluster().map_err(|source| ConnectError::NoCluster { source });
    };
    let context = choice.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|source| ConnectError::Context { context, source })
}

/// The kubeconfig of the choice, of the environment, or of the home directory, whichever comes first.
fn named_kubeconfig(choice: &ClusterChoice) -> Result<Option<Kubeconfig>, ConnectError> {
    let failed = |place: String| move |source| ConnectError::Kubeconfig { place, source };
    if let Some(path) = &choice.kubeconfig {
        return Kubeconfig::read_from(path).map(Some).map_err(failed(path.display().to_string()));
    }
    if let Some(kubeconfig) = Kubeconfig::from_env().map_err(failed("of KUBECONFIG".to_owned()))? {
        return Ok(Some(kubeconfig));
    }
    let home = std::env::home_dir().map(|home| home.join(".kube/config")).filter(|path| path.exists());
    home.map(|path| Kubeconfig::read_from(&path).map_err(failed(path.display().to_string()))).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::fake_server::{FakeServer, Reply};

    #[tokio::test(start_paused = true)]
    async fn a_request_that_nobody_answers_ends() {
        let server = FakeServer::new(|_| Reply::Never);
        let start = Instant::now();
        server.client().apiserver_version().await.unwrap_err();
        assert_eq!(start.elapsed(), ANSWER_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_keep_to_their_rate() {
        let server = FakeServer::new(|_| Reply::Json(200, json!({"groups": []})));
        let rate = Some(Rate { per_second: 200.0, burst: 300 });
        let client = server.client_with(RequestLimits { rate, ..RequestLimits::default() });
        let start = Instant::now();
        for _ in 0..900 {
            client.list_api_groups().await.unwrap();
        }
        assert_eq!(start.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_requests_and_no_more_wait_for_their_answer() {
        let server = FakeServer::new(|_| Reply::Never);
        let client = server.client_with(RequestLimits { at_once: 3, ..RequestLimits::default() });
        let asking = futures::future::join_all((0..5).map(|_| client.list_api_groups()));
        let ended = tokio::time::timeout(ANSWER_TIMEOUT / 2, asking).await;
        assert!(ended.is_err(), "nobody answers");
        assert_eq!(server.asked().len(), 3);
    }
}
