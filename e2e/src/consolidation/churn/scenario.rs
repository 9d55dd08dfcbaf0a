//! What `scenarios/steady-churn.yaml` says, 48 times as fast: its day takes half an hour.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::super::objects::Kind;

const TIMES_AS_FAST: u64 = 48;

const WEB: Kind = Kind { name: "web", cpu_milli: 500, memory_mib: 1024 };
const WORKER: Kind = Kind { name: "worker", cpu_milli: 900, memory_mib: 3072 };
/// How many pods there are of each.
pub(super) const WORKLOADS: [(Kind, usize); 2] = [(WEB, 40), (WORKER, 20)];

/// A minute comes to a second and a quarter, and a pool takes whole seconds only.
pub(super) const CONSOLIDATE_AFTER: &str = "1s";
/// The hour before the first pod is replaced.
pub(super) const SETTLE: Duration = compressed(60 * 60);
/// Ten minutes pass from one pod of a workload to the next, and the two take turns.
const EVERY: Duration = compressed(10 * 60);
const HALF_A_TURN: Duration = compressed(5 * 60);

const fn compressed(seconds: u64) -> Duration {
    Duration::from_millis(seconds * 1000 / TIMES_AS_FAST)
}

/// A pod of a workload ends, so long after the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) at: Duration,
    pub(super) kind: Kind,
}

/// Whose pods end when, in the order of time.
pub(super) fn ends(length: Duration) -> Vec<End> {
    // As in the scenario, nobody ends so late that the next turn would be after the end.
    let times = |from: Duration, until: Duration| {
        (0..).map(move |turn: u32| from + EVERY * turn).take_while(move |at| *at + EVERY <= until)
    };
    let web = times(Duration::ZERO, length).map(|at| End { at, kind: WEB });
    let worker = times(HALF_A_TURN, length.saturating_sub(HALF_A_TURN)).map(|at| End { at, kind: WORKER });
    let mut ends: Vec<End> = web.chain(worker).collect();
    ends.sort_by_key(|end| end.at);
    ends
}

/// Who of a workload ends next: the oldest of those that are neither asked to go nor over, as in the simulator. Names decide
/// between pods of one second.
pub(super) fn oldest(pods: &[Pod]) -> Option<&Pod> {
    let is_over = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    };
    let is_leaving = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let stay = pods.iter().filter(|pod| !is_leaving(pod) && !is_over(pod));
    stay.min_by_key(|pod| (pod.creation_timestamp(), pod.name_any()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const FILE: &str = include_str!("../../../../scenarios/steady-churn.yaml");
    const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);

    #[test]
    fn the_scenario_says_what_is_played() {
        for line in [
            "    - at: 1h\n      churn: {kind: Deployment, name: web, every: 10m, for: 24h}\n",
            "    - at: 1h5m\n      churn: {kind: Deployment, name: worker, every: 10m, for: 23h50m}\n",
            "    consolidateAfter: 1m\n",
        ] {
            assert!(FILE.contains(line), "{line}");
        }
        for ((kind, replicas), deployment) in WORKLOADS.iter().zip(FILE.split("kind: Deployment\n").skip(1)) {
            let gib = kind.memory_mib / 1024;
            let requests = format!("cpu: {}m\n              memory: {gib}Gi\n", kind.cpu_milli);
            for part in [format!("name: {}\n", kind.name), format!("replicas: {replicas}\n"), requests] {
                assert!(deployment.contains(&part), "{part} in {deployment}");
            }
        }
    }

    #[test]
    fn a_pod_ends_every_six_and_a_quarter_seconds_and_the_workloads_take_turns() {
        let ends = ends(HALF_AN_HOUR);
        // A day has 144 times ten minutes.
        assert_eq!(ends.len(), 144 + 143);
        for (turn, end) in (0u32..).zip(&ends) {
            let kind = if turn % 2 == 0 { WEB } else { WORKER };
            assert_eq!(*end, End { at: Duration::from_millis(6250) * turn, kind });
        }
    }

    #[test]
    fn nobody_ends_in_less_than_a_turn() {
        assert_eq!(ends(EVERY - Duration::from_millis(1)), []);
        assert_eq!(ends(EVERY), [End { at: Duration::ZERO, kind: WEB }]);
    }

    fn pod(name: &str, second: u64) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")}})
    }

    #[test]
    fn the_oldest_pod_that_stays_ends_and_names_decide_between_equals() {
        let mut leaving = pod("a", 1);
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z".into();
        let mut over = pod("b", 1);
        over["status"] = json!({"phase": "Failed"});
        let mut pods: Vec<Pod> = [pod("c", 3), leaving, pod("e", 2), over, pod("d", 2)]
            .into_iter()
            .map(|pod| serde_json::from_value(pod).unwrap())
            .collect();
        for _ in 0..pods.len() {
            pods.rotate_left(1);
            assert_eq!(oldest(&pods).unwrap().name_any(), "d");
        }
        pods.retain(|pod| ["a", "b"].contains(&pod.name_any().as_str()));
        assert_eq!(oldest(&pods), None);
    }
}
