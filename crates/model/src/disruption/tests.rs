use super::*;
use crate::time::Instant;

fn leaver(node: &str, pool: &str, dollars: f64) -> Leaver {
    Leaver {
        node: node.into(),
        claim: format!("claim-{node}").into(),
        pool: pool.into(),
        instance_type: None,
        capacity_type: None,
        price: Price::from_dollars(dollars).unwrap(),
        pods: Vec::new(),
        cost: EvictionCost::COMMON,
    }
}

fn command(nodes: &[&str], replacements: usize) -> Disruption {
    let price = |dollars: f64| Price::from_dollars(dollars).unwrap();
    Disruption {
        method: if nodes.len() > 1 { Method::MultiConsolidation } else { Method::SingleConsolidation },
        leaving: nodes.iter().map(|node| leaver(node, "p", 1.0)).collect(),
        replacements: vec![PlannedClaim::bare("p".into()); replacements],
        moves: Vec::new(),
        worth: Worth { before: price(3.456), after: price(1.0), evicted: 7, ..Worth::default() },
    }
}

#[test]
fn commands_read_as_the_reference_writes_them() {
    let told = |count| Decided::For(&command(&["n1"], count), &"n1".into()).to_string();
    assert_eq!(told(0), "delete: [n1]");
    assert_eq!(told(2), "replace: [n1] -> [2 replacements]");
    let (one, mut two) = (command(&["n1"], 1), command(&["n1", "n2"], 1));
    assert_eq!(Decided::For(&one, &"n1".into()).to_string(), "replace: [n1] -> [1 replacement]");
    assert_eq!(
        two.candidate_event(&"n2".into()),
        "Consolidation candidate: replace: [n2] (part of 2-node consolidation) (savings: $2.46)"
    );
    assert_eq!(
        one.rejected_event(&"n1".into(), "churn"),
        "Consolidation rejected: replace: [n1] -> [1 replacement], reason: churn (savings: $2.46)"
    );
    two.leaving[0].pool = "q".into();
    let logged = Decided::Logged { command: &two, id: "7" }.to_string();
    assert_eq!(logged, "Underutilized/7: replace: nodepools=[p,q]: [n1, n2] -> [1 replacement] (savings: $2.46)");
    assert_eq!(one.why(), "1 node at $3.4560/h become 1 at $1.0000/h: saves $2.4560/h, evicts 7 pods");
}

// 02/QU15
#[test]
fn methods_have_the_labels_of_their_metrics() {
    let labels =
        Method::ALL.map(|method| (method.reason().as_str(), method.consolidation_type(), method.is_graceful()));
    assert_eq!(
        labels,
        [
            ("Empty", "empty", true),
            ("Drifted", "", false),
            ("Drifted", "", false),
            ("Underutilized", "multi", true),
            ("Underutilized", "single", true),
        ]
    );
    assert_eq!([command(&["n"], 0), command(&["n"], 1)].map(|command| command.verb().as_str()), ["delete", "replace"]);
}

#[test]
fn texts_of_events_begin_as_the_reference_begins_them() {
    let text = |stay: Stay| stay.event_text().unwrap();
    assert_eq!(text(Stay::Nominated), "Node is nominated for a pending pod");
    assert_eq!(text(Stay::NoPool("a".into())), "NodePool not found (NodePool=a)");
    assert_eq!(text(Stay::NotCheaper), "Can't replace with a cheaper node");
    assert_eq!(
        text(Stay::TooManyReplacements { count: 3, price: Price::ZERO }),
        "Can't remove without creating 3 candidates"
    );
    assert_eq!(
        text(Stay::SpotToSpotTooFew { found: 4 }),
        "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to consolidate, got 4"
    );
    let left = |count: usize| {
        let unplaced = |i: usize| crate::why::Unplaced {
            pod: PodName::new("a", &i.to_string()),
            nearest_node: None,
            pools: Vec::new(),
            closest_pool: None,
            general: vec![crate::why::Obstacle::NoPool],
        };
        text(Stay::CannotMove((0..count).map(unplaced).collect()))
    };
    assert!(left(1).starts_with("Not all pods would schedule, a/0 => "));
    assert!(left(7).ends_with(" and 2 other(s)") && left(7).contains("a/4 => ") && !left(7).contains("a/5"));
    let unready = |claim: Option<&str>, node: Option<&str>| Unready {
        pod: PodName::new("a", "b"),
        claim: claim.map(Into::into),
        node: node.map(Into::into),
    };
    let both = unready(Some("c"), Some("n"));
    let says = "Not all pods would schedule, a/b => would schedule against uninitialized nodeclaim/c, node/n";
    assert_eq!([Stay::Unready(both.clone()), Stay::CannotMoveYet(both.clone())].map(text), [says; 2]);
    assert_eq!(
        [Stay::Unready(both.clone()), Stay::CannotMoveYet(both)].map(|stay| stay.event().unwrap()),
        [StayEvent::Unconsolidatable, StayEvent::DisruptionBlocked]
    );
    assert!(text(Stay::Unready(unready(Some("c"), None))).ends_with(" uninitialized nodeclaim/c"));
    assert_eq!([Stay::Wanted, Stay::UnderWay, Stay::OthersFirst].map(|stay| stay.event_text()), [None, None, None]);
}

#[test]
fn what_time_lifts_says_when_and_is_easier_than_what_somebody_must_change() {
    let until = Instant::from_unix_seconds(9);
    let passing = Stay::MovedLately { pod: PodName::new("a", "b"), until };
    let budget = |until| Stay::Budget { pool: "p".into(), reason: Reason::Empty, allowed: 0, unready: 0, until };
    assert_eq!(
        (passing.until(), budget(Some(until)).until(), Stay::NotCheaper.until()),
        (Some(until), Some(until), None)
    );
    let order = [passing, budget(None), Stay::DoNotDisrupt { until: None }, Stay::NotCheaper, Stay::NotOurs]
        .map(|stay| stay.hardness());
    assert!(order.is_sorted() && order[0] < order[4], "{order:?}");
}

// 02/BA7
#[test]
fn an_approval_says_its_score_and_shares() {
    let score = PoolScore {
        pool: "p".into(),
        policy: ConsolidationPolicy::Balanced,
        savings: Some(Share { part: 125, whole: 1000 }),
        disruption: Some(Share { part: 375, whole: 10_000 }),
        verdict: Verdict::Approved,
    };
    assert_eq!(score.approved_event(), "score 3.33 >= threshold 0.50 (k: 2, savings 12.5%, disruption 3.8%)");
    let free = PoolScore { disruption: Some(Share { part: 0, whole: 9 }), ..score.clone() };
    assert_eq!(free.score(), None);
    assert_eq!(PoolScore { savings: Some(Share { part: -5, whole: 9 }), ..score.clone() }.score(), Some(0.0));
    // A third of a millionth of the money for a millionth of the peace.
    let [savings, disruption] = [3_000_000, 1_000_000].map(|whole| Some(Share { part: 1, whole }));
    let small = PoolScore { savings, disruption, ..score };
    assert!((small.score().unwrap() - 1.0 / 3.0).abs() < 1e-9, "{:?}", small.score());
    let rejected = Stay::Score { pool: "p".into(), score: 499_999 };
    assert_eq!(rejected.to_string(), "pool p scores the saving 0.49, less than 0.50");
}

// Decision 0081.
#[test]
fn a_move_is_half_as_dear_exactly_when_it_says() {
    let day = Duration::from_secs(24 * 60 * 60);
    let moved = Moved { when: Instant::from_unix_seconds(0), times: 1 };
    let at_once = Instant::from_unix_seconds(1);
    let mut now = at_once;
    assert_eq!(moved.dearer(now, day), 1 << 17);
    while let Some(next) = moved.half_as_dear_at(now, day) {
        let (dearer, before) = (moved.dearer(now, day), next.minus(Duration::from_secs(1)));
        assert_eq!((moved.dearer(before.max(now), day), moved.dearer(next, day)), (dearer, dearer / 2), "{next}");
        now = next;
    }
    assert_eq!((moved.dearer(now, day), now), (1, Instant::from_unix_seconds(12 * 60 * 60 + 1)));
    assert_eq!(moved.dearer(now, Duration::ZERO), 1, "nothing has to pay in no time");
    assert_eq!(moved.dearer(at_once, Duration::MAX), i64::MAX);
}
