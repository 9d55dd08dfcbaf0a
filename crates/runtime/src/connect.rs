//! From "which cluster?" to a client, with an answer for people when it does not work.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// Long enough for a distant API server, short enough that somebody at a terminal learns of a wrong address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(60);

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
    let mut config = read_config(choice).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    let address = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = Client::try_from(config).map_err(|source| ConnectError::Setup { address: address.clone(), source })?;
    Ok(Connection { client, address })
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
