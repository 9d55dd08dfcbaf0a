//! A thousand pods: they come, become fewer, are spread, and get new nodes, each within the bounds that the reference holds itself to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use e2e::Replica;
use e2e::replica::wait_for;
use serde_json::{Value, json};

use crate::leaving::Nodes;
use crate::stage::{LIMIT, Stage, deployment, merged, pool};

const MINUTE: Duration = Duration::from_secs(60);

/// What the nodes of a pool cost per hour.
fn price(stage: &Stage, pool: &str) -> f64 {
    let nodes = stage.items(&["nodes", &format!("--selector=karpenter.sh/nodepool={pool}")]);
    let price =
        |node: &Value| node["metadata"]["labels"]["eks-node-viewer/instance-price"].as_str()?.parse::<f64>().ok();
    let prices: Option<Vec<f64>> = nodes.iter().map(price).collect();
    prices.unwrap().iter().sum()
}

fn memory(live: &Replica) -> f64 {
    let metrics = live.metrics().unwrap();
    let memory = metrics.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    memory.unwrap().parse().unwrap()
}

fn patch(stage: &Stage, pool: &str, patch: Value) {
    let patch = patch.to_string();
    stage.cluster.succeed(&["patch", "nodepool", pool, "--type=merge", "--patch", &patch]).unwrap();
}

fn sizes() -> Value {
    json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["33"]}])
}

// 02/E11
#[test]
fn a_thousand_pods_come_become_fewer_and_get_new_nodes_in_good_time() {
    let stage = Stage::kwok();
    stage.apply(&pool("general", sizes()));
    let live = Replica::start(&stage.cluster, &[]).unwrap();
    let began = Instant::now();
    stage.apply(&deployment("small", 500, json!({"cpu": "900m", "memory": "3100Mi"})));
    stage.apply(&deployment("large", 500, json!({"cpu": "3500m", "memory": "28Gi"})));
    stage.rolled_out("small", &live);
    stage.rolled_out("large", &live);
    assert!(began.elapsed() < 2 * MINUTE, "all pods ran after {:?}", began.elapsed());
    let used = memory(&live);
    assert!(used < 260e6, "{used} bytes");
    stage.agrees(&live);
    // 500 of the large pods fill 56 machines of 32 cores and 256 GiB, 500 small ones 15 of 128 GiB: 74 dollars an hour. The
    // scheduler does not know our plan and seats pods as nodes come up, which costs some; 82 and 83.5 were seen,
    // and 92.5 beside all the other tests on two busy cores.
    let dear = price(&stage, "general");
    assert!(dear < 96.0, "{dear} dollars an hour");
    shrink(&stage, &live);
    renew(&stage, &live);
    let used = memory(&live);
    assert!(used < 1.3e9, "{used} bytes");
}

/// Seven hundred of a thousand stay: seven tenths of 74 dollars would be 52, and 61 leave as much room as the first plan had.
fn shrink(stage: &Stage, live: &Replica) {
    let began = Instant::now();
    let soon = json!({"consolidateAfter": "5s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "100%"}]});
    patch(stage, "general", json!({"spec": {"disruption": soon}}));
    for name in ["small", "large"] {
        stage.cluster.succeed(&["scale", "deployment", name, "--replicas=350"]).unwrap();
    }
    let rests = wait_for("the price of seven hundred pods", LIMIT, || {
        std::thread::sleep(Duration::from_secs(2));
        Ok(Some(price(stage, "general")).filter(|price| *price < 61.0))
    });
    let rests = rests.unwrap_or_else(|error| panic!("{error}: {}\n{}", price(stage, "general"), live.log()));
    assert!(began.elapsed() < 20 * MINUTE, "{rests} dollars an hour after {:?}", began.elapsed());
    patch(stage, "general", json!({"spec": {"disruption": {"consolidateAfter": "Never"}}}));
    stage.rolled_out("small", live);
    stage.rolled_out("large", live);
}

/// All nodes are of yesterday, and a quarter of them may leave at a time.
fn renew(stage: &Stage, live: &Replica) {
    stage.agrees(live);
    let nodes = Nodes::watch(&stage.cluster, "general", 1);
    let old: std::collections::BTreeSet<String> = nodes.seen().nodes.into_keys().collect();
    let began = Instant::now();
    let newer = json!({"metadata": {"labels": {"example.com/version": "2"}}});
    patch(stage, "general", json!({"spec": {"template": newer, "disruption": {"budgets": [{"nodes": "25%"}]}}}));
    let renewed = wait_for("new nodes", 3 * MINUTE, || {
        Ok(nodes.seen().nodes.keys().all(|node| !old.contains(node)).then_some(()))
    });
    renewed.unwrap_or_else(|error| panic!("{error}: {:?}\n{}", nodes.seen(), live.log()));
    assert!(began.elapsed() < 50 * MINUTE, "{} nodes replaced after {:?}", old.len(), began.elapsed());
    let most = old.len().div_ceil(4).max(nodes.seen().ever.len().div_ceil(4));
    assert!(nodes.seen().most_leaving <= most, "{} of {}", nodes.seen().most_leaving, old.len());
    stage.rolled_out("small", live);
    stage.rolled_out("large", live);
}

// 02/E11
#[test]
fn five_hundred_pods_are_spread_over_hosts_in_good_time() {
    let stage = Stage::kwok();
    stage.apply(&pool("general", sizes()));
    let live = Replica::start(&stage.cluster, &[]).unwrap();
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    let pods = deployment("web", 500, json!({"cpu": "900m", "memory": "1Gi"}));
    let began = Instant::now();
    stage.apply(&merged(pods, json!({"spec": {"template": {"spec": {"topologySpreadConstraints": spread}}}})));
    stage.rolled_out("web", &live);
    println!("500 pods spread after {:?}", began.elapsed());
    assert!(began.elapsed() < 35 * MINUTE);
    let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
    for pod in stage.items(&["pods"]) {
        *hosts.entry(pod["spec"]["nodeName"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    println!("{hosts:?}");
    assert!(memory(&live) < 1.3e9, "{} bytes", memory(&live));
}
