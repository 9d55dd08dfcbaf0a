//! The second look.

use engine::disrupt::{Dropped, Rejection, Validity};
use model::pod::DoNotDisrupt;

use crate::cluster::{Cluster, cluster};
use crate::fixture::*;

fn cpu(name: &str, milli: i64) -> PodSketch {
    pod(name).label("app", name).asks("cpu", milli)
}

fn replaced() -> Cluster {
    cluster(vec![pool("p").types(series(32))]).machine("n", "fake-it-30", vec![cpu("x", 500)])
}

fn deleted() -> Cluster {
    cluster(vec![pool("p").types(series(4))]).machine("a", "fake-it-3", vec![cpu("x", 500)]).machine(
        "b",
        "fake-it-3",
        vec![cpu("y", 3000)],
    )
}

/// What becomes of a command when the world changes.
fn rejection(before: Cluster, change: impl FnOnce(Cluster) -> Cluster) -> Option<&'static str> {
    let command = before.command();
    match change(before).holds(&command) {
        Validity::Holds { command: held, dropped } => {
            assert_eq!((held, dropped), (command, vec![]));
            None
        }
        Validity::Fails { why, .. } => Some(why.as_str()),
    }
}

// 02/CO12 02/CO24
#[test]
fn a_command_holds_while_nothing_changes_and_falls_with_what_it_relied_on() {
    for command in [replaced, deleted] {
        assert_eq!(rejection(command(), |it| it), None);
        assert_eq!(rejection(command(), |it| it.pdb("x", 0, |_| {})), Some("churn"));
        assert_eq!(rejection(command(), |it| it.budget("p", &["0"])), Some("budget"));
    }
    assert_eq!(rejection(deleted(), |it| it.running("b", vec![cpu("z", 800)])), Some("scheduling"));
    assert_eq!(rejection(deleted(), |it| it.running("a", vec![cpu("z", 10)])), Some("churn"));
    let protected = || vec![cpu("z", 10).change(|pod| pod.do_not_disrupt = DoNotDisrupt::Always)];
    assert_eq!(rejection(replaced(), |it| it.running("n", protected())), Some("churn"));
    let nominated = |mut cluster: Cluster| {
        cluster.nominated.insert("n".into());
        cluster
    };
    assert_eq!(rejection(replaced(), nominated), Some("budget"));
    let fewer_types = |it: Cluster| it.pool("p", |pool| drop(pool.instance_types.remove(0)));
    assert_eq!(rejection(replaced(), fewer_types), Some("scheduling"));
}

// 02/EM11 02/EM15
#[test]
fn empty_nodes_are_dropped_one_by_one() {
    let three = || {
        let names = ["a", "b", "c"];
        names.iter().fold(cluster(vec![pool("p")]), |it, name| it.machine(name, "default-instance-type", vec![]))
    };
    let command = three().command();
    let outcome = |cluster: Cluster| match cluster.holds(&command) {
        Validity::Holds { command, dropped } => Ok((command.leaving.len(), dropped)),
        Validity::Fails { why, .. } => Err(why),
    };
    assert_eq!(outcome(three()), Ok((3, vec![])));
    let busy = three().running("a", vec![cpu("x", 500)]);
    assert_eq!(outcome(busy), Ok((2, vec![("a".into(), Dropped::Churn)])));
    let mut nominated = three();
    nominated.nominated.insert("b".into());
    assert_eq!(outcome(nominated), Ok((2, vec![("b".into(), Dropped::Nominated)])));
    let dropped = ["b", "c"].map(|name| (name.into(), Dropped::Budget)).to_vec();
    assert_eq!(outcome(three().budget("p", &["1"])), Ok((1, dropped)));
    assert_eq!(outcome(three().budget("p", &["0"])), Err(Rejection::Budget));
    // Somebody has come meanwhile who fits on an empty node only.
    let wanted = three().waiting(vec![cpu("w", 3500)]);
    assert_eq!(outcome(wanted), Ok((2, vec![("c".into(), Dropped::Nominated)])));
    let all_busy = ["a", "b", "c"].iter().fold(three(), |it, name| it.running(name, vec![cpu(name, 500)]));
    assert_eq!(outcome(all_busy), Err(Rejection::Churn));
}
