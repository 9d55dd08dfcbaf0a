use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn a_move_costs_its_evictions_and_the_time_side_by_side() {
    let dollar = Price::from_dollars(1.2).unwrap();
    assert_eq!(cost_pico(EvictionCost::ZERO, dollar), 100_000_000_000, "five minutes of it");
    assert_eq!(cost_pico(EvictionCost::COMMON, Price::ZERO), 100_000_000);
    assert_eq!(cost_pico(EvictionCost::ZERO, Price::ZERO), 0);
}

#[test]
fn what_must_be_saved_pays_for_the_cost_in_time_and_is_never_nothing() {
    assert_eq!(least_saving(24_000, DAY), 1000);
    assert_eq!(least_saving(24_001, DAY), 1001);
    assert_eq!([least_saving(0, DAY), least_saving(5, Duration::MAX)], [1, 1]);
    assert_eq!(least_saving(10, Duration::ZERO), 36_000);
    assert_eq!(pays_back_after(24_000, 1000), Some(DAY));
    assert_eq!([pays_back_after(5, 0), pays_back_after(5, -1)], [None, None]);
}
