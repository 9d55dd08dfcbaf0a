//! The quick board gives the judge's answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use judge::World;
use model::ids::{NodeName, PodName};
use model::node::Node;
use model::pod::{Life, Pod};
use model::snapshot::Snapshot;
use model::taints::Effect;
use model::time::Instant;
use proptest::prelude::*;

use super::drawn;
use crate::binder::board::{Board, Facts};
use crate::binder::class::ClassId;

/// One thing that happens to a cluster.
#[derive(Clone, Debug)]
enum Step {
    Node(Box<Node>, usize),
    NodeGone(usize),
    /// A pod looks for a place; where it finds one, `choice` decides among the best whether it takes it or goes away.
    Pod(Box<Pod>, usize),
    PodGone(usize),
    /// A pod stands somewhere without anybody asking.
    Seated(Box<Pod>, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (drawn::node(), 0..5_usize).prop_map(|(node, number)| Step::Node(Box::new(node), number)),
        1 => (0..5_usize).prop_map(Step::NodeGone),
        8 => (drawn::pod(), any::<prop::sample::Index>()).prop_map(|(pod, choice)| Step::Pod(Box::new(pod), choice.index(7))),
        2 => (0..40_usize).prop_map(Step::PodGone),
        2 => (drawn::pod(), 0..5_usize).prop_map(|(pod, node)| Step::Seated(Box::new(pod), node)),
    ]
}

/// The same cluster twice: on the board, and as a list to make the judge's world from.
#[derive(Default)]
struct Twice {
    board: Board,
    nodes: BTreeMap<NodeName, Node>,
    standing: BTreeMap<PodName, (Arc<Pod>, NodeName, ClassId)>,
    pods: usize,
}

pub(crate) fn facts(node: &Node) -> Facts {
    let (soft, hard) = node.taints.iter().cloned().partition(|taint| taint.effect == Effect::PreferNoSchedule);
    Facts {
        labels: node.labels.clone(),
        hard,
        soft,
        is_cordoned: false,
        allocatable: node.allocatable.clone(),
        attach_limits: node.attach_limits.clone(),
    }
}

impl Twice {
    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Node(node, number) => {
                let node = drawn::named(*node, number);
                self.board.put_node(&node.name, facts(&node));
                self.nodes.insert(node.name.clone(), node);
            }
            Step::NodeGone(number) => {
                let name = NodeName::from(format!("n{number}"));
                self.board.remove_node(&name);
                self.nodes.remove(&name);
            }
            Step::Pod(pod, choice) => self.place(*pod, choice)?,
            Step::PodGone(number) => {
                let gone = self.standing.keys().nth(number % self.standing.len().max(1)).cloned();
                if let Some((name, (_, _, class))) = gone.and_then(|name| self.standing.remove_entry(&name)) {
                    prop_assert!(self.board.lift(&name).is_some());
                    self.board.leave_class(class);
                }
            }
            Step::Seated(pod, number) => {
                self.pods += 1;
                let pod = drawn::called(*pod, self.pods);
                let class = self.board.join_class(&pod, true);
                self.seat(&pod, class, &NodeName::from(format!("n{number}")));
            }
        }
        Ok(())
    }

    fn seat(&mut self, pod: &Arc<Pod>, class: ClassId, node: &NodeName) {
        self.board.seat(pod, class, node);
        self.standing.insert(pod.name.clone(), (pod.clone(), node.clone(), class));
    }

    fn place(&mut self, mut pod: Pod, choice: usize) -> Result<(), TestCaseError> {
        self.pods += 1;
        pod.life = Life::Active;
        let pod = drawn::called(pod, self.pods);
        let class = self.board.join_class(&pod, true);
        let world = self.world();
        let expected: BTreeMap<NodeName, i64> = judge::rank(&world, &pod).into_iter().collect();
        let look = self.board.look(class);
        let scores = self.board.scores(class, &look.feasible);
        let name = |slot: &usize| self.board.seat_at(*slot).map(|seat| seat.name.clone()).unwrap();
        let found: BTreeMap<NodeName, i64> = look.feasible.iter().map(name).zip(scores).collect();
        prop_assert_eq!(&found, &expected, "{:?}", pod);
        for (slot, seat, _) in self.board.nodes() {
            let refusal = self.board.refusal(class, &look, slot);
            prop_assert_eq!(refusal.is_none(), judge::filter(&world, &pod, &seat.name).is_ok());
        }
        let most = found.values().max().copied().unwrap_or(0);
        let best: Vec<NodeName> =
            found.iter().filter(|(_, score)| **score == most).map(|(name, _)| name.clone()).collect();
        if best.is_empty() || choice == 0 {
            self.board.leave_class(class);
        } else {
            self.seat(&pod, class, &best[choice % best.len()]);
        }
        Ok(())
    }

    /// The judge's world, made anew.
    fn world(&self) -> World {
        let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
        snapshot.nodes = self.nodes.iter().map(|(name, node)| (name.clone(), Arc::new(node.clone()))).collect();
        for (name, (pod, node, _)) in &self.standing {
            let standing = Pod { node: Some(node.clone()), ..Pod::clone(pod) };
            snapshot.pods.insert(name.clone(), Arc::new(standing));
        }
        World::new(&snapshot)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_board_finds_the_nodes_and_scores_that_the_judge_finds(steps in prop::collection::vec(step(), 1..60)) {
        let mut twice = Twice::default();
        for number in 0..3 {
            // Something to stand on from the start.
            let mut node = drawn::named(base_node(), number);
            node.labels.insert(model::labels::ZONE.into(), ["a", "b", "c"][number].into());
            twice.take(Step::Node(Box::new(node), number))?;
        }
        for step in steps {
            twice.take(step)?;
        }
        // Nothing is kept for pods that are gone.
        for name in twice.standing.keys().cloned().collect::<Vec<_>>() {
            twice.board.lift(&name);
            let (_, _, class) = twice.standing.remove(&name).unwrap();
            twice.board.leave_class(class);
        }
        prop_assert_eq!((twice.board.classes.len(), twice.board.counters.asked().count()), (0, 0));
        prop_assert_eq!(twice.board.counters.wishes().count(), 0);
    }
}

fn base_node() -> Node {
    use model::resources::Resources;
    let amounts = Resources::default().with("cpu", 4000).with("memory", 4 << 30).with("pods", 10);
    Node {
        name: "".into(),
        pool: None,
        labels: Default::default(),
        taints: Vec::new(),
        capacity: amounts.clone(),
        allocatable: amounts,
        attach_limits: [].into(),
        progress: model::node::Progress::Initialized,
        is_leaving: false,
        created: Instant::from_unix_seconds(0),
        tenure: None,
    }
}
