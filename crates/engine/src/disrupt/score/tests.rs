use super::*;

fn dollars(amount: f64) -> i128 {
    (amount * 1e12) as i128
}

fn cost(pods: i64) -> EvictionCost {
    (0..pods).map(|_| EvictionCost::COMMON).sum()
}

/// Scores a saving for so many pods' trouble in a pool with these totals.
fn scored(saved: f64, pods: i64, price: f64, all_pods: i64, k: i128) -> PoolScore {
    let totals = Totals { price_pico: dollars(price), cost: cost(all_pods) };
    score(&"p".into(), ConsolidationPolicy::Balanced, (dollars(saved), cost(pods)), totals, k)
}

fn verdict(saved: f64, pods: i64, price: f64, all_pods: i64) -> Verdict {
    scored(saved, pods, price, all_pods, K).verdict
}

// 02/BA1
#[test]
fn the_worked_examples_of_the_reference_come_out_alike() {
    let of = |saved: f64, pods: i64| {
        let scored = scored(saved, pods, 58.08, 80, K);
        ((scored.score().unwrap() * 100.0) as i64, scored.verdict)
    };
    assert_eq!(of(7.26, 3), (333, Verdict::Approved));
    assert_eq!(of(4.84, 4), (166, Verdict::Approved));
    assert_eq!(of(2.42, 8), (41, Verdict::Rejected));
}

// 02/BA1 02/BA2
#[test]
fn half_the_price_of_an_average_node_is_just_enough_at_any_scale() {
    for scale in [1, 7, 1000] {
        let all = 10 * scale;
        assert_eq!(verdict(0.5, 1, all as f64, all), Verdict::Approved);
        assert_eq!(verdict(0.49, 1, all as f64, all), Verdict::Rejected);
    }
    assert_eq!((verdict(1.0, 1, 10.0, 20), verdict(1.0, 8, 10.0, 20)), (Verdict::Approved, Verdict::Rejected));
}

// 02/BA3
#[test]
fn nothing_saved_or_nothing_known_is_rejected_and_nothing_disturbed_is_approved() {
    assert_eq!(verdict(0.0, 1, 10.0, 20), Verdict::Rejected);
    assert_eq!(verdict(-1.0, 1, 10.0, 20), Verdict::Rejected);
    assert_eq!(verdict(1.0, 1, 0.0, 20), Verdict::Rejected);
    assert_eq!(verdict(1.0, 1, 10.0, 0), Verdict::Rejected);
    assert_eq!(verdict(1.0, 0, 10.0, 20), Verdict::Approved);
    assert_eq!(verdict(0.0, 0, 10.0, 20), Verdict::Rejected);
    let marginal = |k: i128| scored(0.4, 1, 10.0, 10, k).verdict;
    assert_eq!([1, 2, 3].map(marginal), [Verdict::Rejected, Verdict::Rejected, Verdict::Approved]);
}

// 02/BA7
#[test]
fn deleting_the_only_node_of_a_pool_scores_one() {
    assert_eq!(scored(3.0, 5, 3.0, 5, K).score(), Some(1.0));
}

// 02/BA5
#[test]
fn savings_are_split_by_what_each_pool_loses_and_other_policies_approve_unseen() {
    use model::pool::ConsolidationPolicy::WhenEmptyOrUnderutilized;
    let leaver = |pool: &str, dollars: f64| Leaver {
        node: "n".into(),
        claim: "c".into(),
        pool: pool.into(),
        instance_type: None,
        capacity_type: None,
        price: Price::from_dollars(dollars).unwrap(),
        pods: Vec::new(),
        cost: cost(2),
    };
    let totals = [("p", 10.0), ("q", 30.0)]
        .map(|(name, price)| (PoolName::from(name), Totals { price_pico: dollars(price), cost: cost(10) }));
    let snapshot = Snapshot::empty(model::time::Instant::from_unix_seconds(0));
    let after = Price::from_dollars(2.0).unwrap();
    let found = scores(&snapshot, &totals.into(), &[leaver("p", 1.0), leaver("q", 3.0)], after);
    // Two of four dollars are saved: a quarter of that is p's.
    assert_eq!([0, 1].map(|pool| found[pool].savings.unwrap().fraction()), [0.05, 0.05]);
    assert_eq!([0, 1].map(|pool| found[pool].disruption.unwrap().fraction()), [0.2, 0.2]);
    let totals = Totals { price_pico: dollars(10.0), cost: cost(10) };
    let unasked = score(&"p".into(), WhenEmptyOrUnderutilized, (dollars(0.1), cost(9)), totals, K);
    assert_eq!(unasked.verdict, Verdict::Approved);
}
