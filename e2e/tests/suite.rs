//! The simulator's API server must not drift into fiction: the suite that it passes, a real control plane passes too.

use e2e::{Cluster, Dovetail};
use futures::{StreamExt, stream};
use sim::suite::cases;

/// Cases keep to namespaces of their own, so several can be played at once.
const AT_ONCE: usize = 8;

#[test]
fn a_real_api_server_keeps_every_promise_of_the_simulators() {
    let cluster = Cluster::start().unwrap();
    Dovetail::apply_crds(&cluster, "kwok").unwrap();
    cluster.succeed(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let failures: Vec<String> = runtime.block_on(async {
        let client = e2e::client(&cluster).await.unwrap();
        let client = &client;
        let played = stream::iter(cases().into_iter().enumerate()).map(|(number, case)| async move {
            case.play(client.clone(), &format!("case-{number}")).await.err().map(|error| format!("{error:#}"))
        });
        played.buffer_unordered(AT_ONCE).filter_map(async |failure| failure).collect().await
    });
    assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
}
