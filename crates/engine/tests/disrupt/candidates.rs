//! Who may leave at all.

use engine::disrupt::candidates;
use model::disruption::{Method, Stay};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use model::node::Progress;
use model::pod::{DoNotDisrupt, Life, Owner, Pod, Readiness};

use crate::cluster::{Cluster, NOW, at, cluster};
use crate::fixture::*;

const TYPE: &str = "default-instance-type";

/// A drifted node with one pod.
fn one(change: impl FnOnce(&mut Pod)) -> Cluster {
    let pod = pod("a").label("app", "x").asks("cpu", 3000).change(change);
    cluster(vec![pool("p")]).machine("n", TYPE, vec![pod]).drifted("n", NOW - 5)
}

/// What keeps the node from being a candidate of a method, if anything does.
fn kept(cluster: &Cluster, method: Method) -> Option<Stay> {
    let scene = cluster.scene();
    let found = candidates(&scene, method);
    assert_eq!(found.may_leave.len() + found.staying.len(), cluster.snapshot.nodes.len());
    found.staying.into_iter().find(|(node, _)| node.as_str() == "n").map(|(_, stay)| stay)
}

fn is_kept_by_pod(cluster: &Cluster, method: Method) -> bool {
    matches!(
        kept(cluster, method),
        Some(Stay::PodDoNotDisrupt { .. } | Stay::PodBudget { .. } | Stay::SeveralPodBudgets { .. })
    )
}

// 02/CA1 02/CA2 02/CA11
#[test]
fn a_pod_that_may_not_be_disturbed_keeps_its_node_while_it_lives() {
    let check = |expected: bool, change: fn(&mut Pod)| {
        let cluster = one(|pod| {
            pod.do_not_disrupt = DoNotDisrupt::Always;
            change(pod);
        });
        assert_eq!(is_kept_by_pod(&cluster, Method::Drift), expected);
    };
    check(true, |_| {});
    check(true, |pod| pod.owner = Owner::DaemonSet);
    check(true, |pod| pod.owner = Owner::Node);
    check(false, |pod| pod.life = Life::Terminating);
    check(false, |pod| pod.life = Life::Terminal);
    check(true, |pod| pod.do_not_disrupt = DoNotDisrupt::Until(at(NOW + 1)));
    check(false, |pod| pod.do_not_disrupt = DoNotDisrupt::Until(at(NOW)));
    // The longest of several counts.
    for (first, second, is_kept) in [(0, 1, true), (1, 0, true), (0, 0, false)] {
        let other = pod("b").change(|pod| pod.do_not_disrupt = DoNotDisrupt::Until(at(NOW + second)));
        let both = one(|pod| pod.do_not_disrupt = DoNotDisrupt::Until(at(NOW + first))).running("n", vec![other]);
        assert_eq!(is_kept_by_pod(&both, Method::Drift), is_kept, "{first} and {second}");
    }
    let until = one(|pod| pod.do_not_disrupt = DoNotDisrupt::Until(at(NOW + 9)));
    let stay = kept(&until, Method::Drift).unwrap();
    assert_eq!(
        (stay.until(), stay.to_string().as_str()),
        (Some(at(NOW + 9)), "pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/a)")
    );
}

// 02/CA1
#[test]
fn a_wish_of_a_pod_is_told_before_a_budget() {
    let wish = pod("b").asks("cpu", 10).change(|pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    let both = one(|_| {}).running("n", vec![wish]).pdb("x", 0, |_| {});
    assert!(matches!(kept(&both, Method::Drift), Some(Stay::PodDoNotDisrupt { .. })));
}

// 02/CA3 02/CA4 02/CA5
#[test]
fn a_deadline_for_the_drain_lets_drift_but_not_consolidation_pass_pods_that_block() {
    let protected = || one(|pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    let blocked = || one(|_| {}).pdb("x", 0, |_| {});
    let with_grace =
        |cluster: Cluster| cluster.tenure("n", |tenure| tenure.grace = Some(std::time::Duration::from_secs(60)));
    for (without, with) in [(protected(), with_grace(protected())), (blocked(), with_grace(blocked()))] {
        assert!(is_kept_by_pod(&without, Method::Drift));
        assert!(!is_kept_by_pod(&with, Method::Drift));
        assert!(is_kept_by_pod(&with, Method::SingleConsolidation));
        assert!(is_kept_by_pod(&with, Method::Emptiness));
    }
}

// 02/CA7 02/CA8 02/CA12
#[test]
fn budgets_of_pods_keep_a_node_when_they_let_nobody_go() {
    let kept_by = |cluster: Cluster| kept(&cluster, Method::Drift).map(|stay| stay.to_string());
    let text = "pdb prevents pod evictions (PodDisruptionBudget=[default/x])";
    assert_eq!(kept_by(one(|_| {}).pdb("x", 0, |_| {})).as_deref(), Some(text));
    assert_eq!(kept_by(one(|_| {}).pdb("x", 1, |_| {})), None);
    assert_eq!(kept_by(one(|_| {}).pdb("y", 0, |_| {})), None, "it is over other pods");
    assert_eq!(kept_by(one(|_| {}).pdb("x", 0, |budget| budget.namespace = "other".into())), None);
    let two = one(|_| {}).pdb("x", 1, |_| {}).pdb("x", 1, |budget| budget.name = "y".into());
    let text = "eviction does not support multiple PDBs (PodDisruptionBudget(s)=[default/x, default/y])";
    assert_eq!(kept_by(two).as_deref(), Some(text));
    let lenient = |readiness: Readiness| {
        one(|pod| pod.is_ready = readiness).pdb("x", 0, |budget| budget.lets_unhealthy_go = true)
    };
    assert_eq!(kept_by(lenient(Readiness::NotReady)), None);
    assert!(kept_by(lenient(Readiness::Ready)).is_some());
    let of = |owner: Owner, life: Life| one(|pod| (pod.owner, pod.life) = (owner, life)).pdb("x", 0, |_| {});
    assert!(kept_by(of(Owner::DaemonSet, Life::Active)).is_some());
    assert_eq!(kept_by(of(Owner::Node, Life::Active)), None);
    assert_eq!(kept_by(of(Owner::Other, Life::Terminating)), None);
}

// 02/CA9
#[test]
fn what_is_not_settled_and_ours_is_no_candidate() {
    let check = |text: &str, change: fn(Cluster) -> Cluster| {
        let stay = kept(&change(one(|_| {})), Method::Drift).unwrap();
        assert_eq!(stay.to_string(), text);
    };
    check("node isn't managed by karpenter", |cluster| cluster.node("n", |node| node.tenure = None));
    check("nodeclaim does not have an associated node", |cluster| {
        cluster.node("n", |node| node.progress = Progress::Starting { has_node: false })
    });
    check("node isn't initialized", |cluster| {
        cluster.node("n", |node| node.progress = Progress::Starting { has_node: true })
    });
    check("node is deleting or marked for deletion", |cluster| cluster.node("n", |node| node.is_leaving = true));
    check("node is nominated for a pending pod", |mut cluster| {
        cluster.nominated.insert("n".into());
        cluster
    });
    check("node is nominated for a pending pod", |mut cluster| {
        cluster.nominated.insert("claim-n".into());
        cluster
    });
    check("disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation", |cluster| {
        cluster.tenure("n", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always)
    });
    check("node doesn't have required label (label=karpenter.sh/nodepool)", |cluster| {
        cluster.node("n", |node| drop(node.labels.remove(NODE_POOL)))
    });
    check("NodePool not found (NodePool=q)", |cluster| cluster.label("n", NODE_POOL, "q"));
    check("NodePool not found (NodePool=p)", |cluster| cluster.pool("p", |pool| pool.instance_types.clear()));
    check("candidate is already being disrupted", |mut cluster| {
        cluster.under_way = cluster.decide().commands;
        cluster
    });
}

// 02/CA10
#[test]
fn labels_that_only_prices_need_keep_nobody() {
    for label in [INSTANCE_TYPE, CAPACITY_TYPE, ZONE] {
        let cluster = one(|_| {}).node("n", |node| drop(node.labels.remove(label)));
        assert_eq!(kept(&cluster, Method::Drift), None, "{label}");
        assert!(kept(&cluster, Method::SingleConsolidation).is_some(), "{label}");
    }
    let unknown = one(|_| {}).label("n", INSTANCE_TYPE, "gone");
    assert_eq!(kept(&unknown, Method::Drift), None);
    assert_eq!(kept(&unknown, Method::SingleConsolidation).unwrap().to_string(), "Instance Type \"gone\" not found");
}

// 02/CO22
#[test]
fn who_is_not_consolidated_is_told_why() {
    use model::pool::ConsolidationPolicy::WhenEmpty;
    let check = |text: &str, change: fn(Cluster) -> Cluster| {
        let stay = kept(&change(one(|_| {})), Method::SingleConsolidation).unwrap();
        assert_eq!(stay.event_text().as_deref(), Some(text));
    };
    check("NodePool \"p\" has consolidation policy WhenEmpty, but node is not empty", |it| it.policy("p", WhenEmpty));
    check("NodePool \"p\" has consolidation disabled", |it| it.consolidate_after("p", None));
    check("Node does not have label \"topology.kubernetes.io/zone\"", |it| {
        it.node("n", |node| drop(node.labels.remove(ZONE)))
    });
    assert_eq!(kept(&one(|_| {}), Method::SingleConsolidation), None);
}
