use model::claim::Status;
use model::instance::Offering;
use model::labels::ZONE;
use model::price::Price;
use model::requirements::Operator;
use model::resources::Resources;
use model::volume::AttachLimits;

use super::*;

const HOUR: i64 = 3600;

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second)
}

fn is(status: Status, second: i64) -> Verdict {
    Verdict { status, since: at(second) }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn demand(key: &str, operator: Operator, values: &[&str]) -> Requirements {
    Requirements::default().with(key, Requirement::new(operator, values.iter().copied()))
}

fn sold(name: &str, ways: &[(&str, &str)]) -> Arc<InstanceType> {
    let offering = |(zone, bought): &(&str, &str)| Offering {
        requirements: Requirements::from_labels(&labels(&[(ZONE, zone), (CAPACITY_TYPE, bought)])),
        price: Price::ZERO,
        // Nothing is left of it, and it is still no drift.
        is_available: false,
        reservation: None,
        capacity_override: None,
        overhead_override: None,
        has_price_overlay: false,
    };
    Arc::new(InstanceType {
        name: name.into(),
        requirements: Requirements::default(),
        capacity: Resources::default(),
        overhead: Resources::default(),
        offerings: ways.iter().map(offering).collect(),
        attach_limits: AttachLimits::new(),
        has_capacity_overlay: false,
    })
}

/// A claim of which nothing is wrong, and its pool.
struct Case {
    labels: Labels,
    requirements: Requirements,
    types: Vec<Arc<InstanceType>>,
    well_known: WellKnown,
    reserved_only: Vec<Arc<str>>,
}

impl Case {
    fn new() -> Self {
        Self {
            labels: labels(&[(INSTANCE_TYPE, "m"), (ZONE, "a"), (CAPACITY_TYPE, "spot"), ("team", "x")]),
            requirements: Requirements::default(),
            types: vec![sold("m", &[("a", "spot"), ("b", "on-demand")])],
            well_known: WellKnown::default(),
            reserved_only: vec!["reservation".into()],
        }
    }

    fn claim(&self) -> Subject<'_> {
        Subject {
            created: at(0),
            launched: is(Status::True, 5),
            initialized: is(Status::True, 60),
            labels: &self.labels,
            stamp: Some(Stamp { hash: "1", version: "v" }),
            last_pod_event: None,
            type_found: None,
            cloud: CloudSays::Fine,
        }
    }

    fn pool(&self) -> Terms<'_> {
        Terms {
            kind: PoolKind::Dynamic,
            stamp: Some(Stamp { hash: "1", version: "v" }),
            requirements: &self.requirements,
            consolidate_after: Some(Duration::ZERO),
            types: &self.types,
            well_known: &self.well_known,
            reserved_only: &self.reserved_only,
        }
    }

    /// What is said of drift two hours later.
    fn drift(&self) -> Drift<'_> {
        next_marks(&self.claim(), &self.pool(), at(2 * HOUR)).drift
    }
}

// 02/NC13 02/NC14 02/NC15
#[test]
fn a_node_is_for_consolidation_once_it_was_quiet_for_as_long_as_its_pool_says() {
    let case = Case::new();
    let said = |event: Option<i64>, quiet: Option<u64>, initialized: Status, now: i64| {
        let claim = Subject {
            last_pod_event: event.map(at),
            initialized: is(initialized, 60),
            cloud: CloudSays::Nothing,
            ..case.claim()
        };
        let pool = Terms { consolidate_after: quiet.map(Duration::from_secs), ..case.pool() };
        let marks = next_marks(&claim, &pool, at(now));
        (marks.consolidation, marks.until.filter(|until| *until < at(HOUR)))
    };
    let busy = |second| (Consolidation::Not(Restless::Until(at(second))), Some(at(second)));
    let allowed = (Consolidation::Allowed, None);
    let not = |why| (Consolidation::Not(why), None);
    assert_eq!(said(None, Some(30), Status::True, 89), busy(90), "since it was initialized");
    assert_eq!(said(None, Some(30), Status::True, 90), allowed);
    assert_eq!(said(Some(100), Some(30), Status::True, 129), busy(130), "since the last pod");
    assert_eq!(said(Some(100), Some(30), Status::True, 130), allowed);
    assert_eq!(said(Some(100), Some(0), Status::True, 99), allowed, "no time at all is over at once");
    assert_eq!(said(Some(100), None, Status::True, 999), not(Restless::Never));
    for status in [Status::False, Status::Unknown] {
        assert_eq!(said(None, Some(0), status, 999), not(Restless::NotInitialized));
    }
}

// 02/NC16
#[test]
fn nodes_of_static_pools_are_not_for_consolidation() {
    let case = Case::new();
    let pool = Terms { kind: PoolKind::Static { replicas: 3 }, ..case.pool() };
    let marks = next_marks(&case.claim(), &pool, at(999));
    assert_eq!(marks.consolidation, Consolidation::Not(Restless::StaticPool));
}

// 02/NC18 02/NC21 02/NC23
#[test]
fn the_cloud_is_believed_once_it_has_said_something_about_a_machine() {
    let case = Case::new();
    let said = |cloud, launched| {
        let claim = Subject { cloud, launched: is(launched, 5), ..case.claim() };
        let marks = next_marks(&claim, &case.pool(), at(9));
        (marks.drift, marks.awaits_cloud)
    };
    assert_eq!(said(CloudSays::Nothing, Status::True), (Drift::Unknown, true));
    assert_eq!(said(CloudSays::Fine, Status::True), (Drift::No, true));
    assert_eq!(said(CloudSays::Drifted("AMIDrift"), Status::True), (Drift::Because("AMIDrift"), true));
    for status in [Status::False, Status::Unknown] {
        assert_eq!(said(CloudSays::Drifted("AMIDrift"), status), (Drift::No, false), "there is no machine yet");
    }
}

// 02/NC25
#[test]
fn another_stamp_of_the_same_version_means_drift() {
    let case = Case::new();
    let stamp = |hash, version| Some(Stamp { hash, version });
    for (made, wanted, expected) in [
        (stamp("1", "v"), stamp("2", "v"), Drift::Because("NodePoolDrifted")),
        (stamp("1", "v"), stamp("1", "v"), Drift::No),
        (stamp("1", "v"), stamp("2", "w"), Drift::No),
        (None, stamp("2", "v"), Drift::No),
        (stamp("1", "v"), None, Drift::No),
    ] {
        let (claim, pool) = (Subject { stamp: made, ..case.claim() }, Terms { stamp: wanted, ..case.pool() });
        assert_eq!(next_marks(&claim, &pool, at(9)).drift, expected, "{made:?} {wanted:?}");
    }
}

// 02/NC24
#[test]
fn changed_requirements_are_held_against_the_labels_that_a_claim_has() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let drifted = Drift::Because("RequirementsDrifted");
    for (key, operator, values, expected) in [
        (ZONE, In, &["a", "b"][..], Drift::No),
        (ZONE, In, &["b"], drifted),
        (ZONE, NotIn, &["b"], Drift::No),
        (ZONE, NotIn, &["a"], drifted),
        ("team", Exists, &[], Drift::No),
        ("team", DoesNotExist, &[], drifted),
        ("cores", In, &["1"], drifted),
        ("cores", Exists, &[], drifted),
        ("cores", Gt, &["1"], drifted),
        ("cores", Lt, &["9"], drifted),
        ("cores", NotIn, &["1"], Drift::No),
        ("cores", DoesNotExist, &[], Drift::No),
    ] {
        let case = Case { requirements: demand(key, operator, values), ..Case::new() };
        assert_eq!(case.drift(), expected, "{key} {operator} {values:?}");
    }
    let mut case = Case { requirements: demand("cores", Gt, &["4"]), ..Case::new() };
    for (cores, expected) in [("4", drifted), ("8", Drift::No)] {
        case.labels.insert("cores".into(), cores.into());
        assert_eq!(case.drift(), expected, "{cores}");
    }
}

// 02/NC19
#[test]
fn a_type_that_nobody_sells_in_a_way_that_suits_the_claim_means_drift() {
    let not_found = Drift::Because("InstanceTypeNotFound");
    let mut unlabelled = Case::new();
    unlabelled.labels.remove(INSTANCE_TYPE);
    assert_eq!(unlabelled.drift(), not_found, "it does not say what it is");
    for (types, expected) in [
        (vec![sold("m", &[("a", "spot")])], Drift::No),
        (vec![sold("n", &[("a", "spot")])], not_found),
        (vec![sold("m", &[])], not_found),
        (vec![sold("m", &[("b", "spot"), ("a", "on-demand")])], not_found),
    ] {
        assert_eq!(Case { types, ..Case::new() }.drift(), expected);
    }
    let unknown = Case { types: Vec::new(), ..Case::new() };
    assert_eq!(unknown.drift(), Drift::No, "nobody can say what is on sale, so nobody says that it is not");
}

#[test]
fn types_are_looked_for_after_an_hour_and_then_every_half_hour() {
    let gone = Case { types: vec![sold("n", &[("a", "spot")])], ..Case::new() };
    let look = |found: Option<i64>, now: i64| {
        let claim = Subject { type_found: found.map(at), ..gone.claim() };
        let marks = next_marks(&claim, &gone.pool(), at(now));
        (marks.drift, marks.until)
    };
    let not_found = (Drift::Because("InstanceTypeNotFound"), None);
    assert_eq!(look(None, HOUR - 1), (Drift::No, Some(at(HOUR))));
    assert_eq!(look(None, HOUR), not_found);
    assert_eq!(look(Some(HOUR), HOUR + 1799), (Drift::No, Some(at(HOUR + 1800))));
    assert_eq!(look(Some(HOUR), HOUR + 1800), not_found);
    let case = Case::new();
    let marks = next_marks(&case.claim(), &case.pool(), at(HOUR));
    assert_eq!((marks.has_found_type, marks.until), (true, Some(at(HOUR + 1800))));
}

// 02/NC26
#[test]
fn a_machine_of_a_reservation_may_as_well_be_bought_on_demand() {
    for (ways, expected) in [
        (&[("a", "reserved")][..], Drift::No),
        (&[("a", "on-demand")], Drift::No),
        (&[("a", "spot")], Drift::Because("InstanceTypeNotFound")),
        (&[], Drift::Because("InstanceTypeNotFound")),
    ] {
        let mut case = Case { types: vec![sold("m", ways)], ..Case::new() };
        case.labels.insert(CAPACITY_TYPE.into(), "reserved".into());
        case.labels.insert("reservation".into(), "cr-1".into());
        assert_eq!(case.drift(), expected, "{ways:?}");
    }
}

// 02/NC20
#[test]
fn causes_in_the_pool_are_named_before_those_that_only_the_cloud_sees() {
    let mut case = Case { types: vec![sold("n", &[])], ..Case::new() };
    let said = |case: &Case, hash: &'static str| -> String {
        let claim = Subject { cloud: CloudSays::Drifted("AMIDrift"), ..case.claim() };
        let pool = Terms { stamp: Some(Stamp { hash, version: "v" }), ..case.pool() };
        let marks = next_marks(&claim, &pool, at(2 * HOUR));
        format!("{:?} {}", marks.drift, marks.awaits_cloud)
    };
    case.requirements = demand(ZONE, Operator::In, &["b"]);
    assert_eq!(said(&case, "2"), "Because(\"NodePoolDrifted\") false");
    assert_eq!(said(&case, "1"), "Because(\"RequirementsDrifted\") false");
    case.requirements = Requirements::default();
    assert_eq!(said(&case, "1"), "Because(\"InstanceTypeNotFound\") false");
    case.types = Case::new().types;
    assert_eq!(said(&case, "1"), "Because(\"AMIDrift\") true");
}

// 02/NC17
#[test]
fn one_look_can_set_one_mark_and_take_the_other_back() {
    let case = Case::new();
    let claim = Subject { last_pod_event: Some(at(100)), cloud: CloudSays::Drifted("AMIDrift"), ..case.claim() };
    let pool = Terms { consolidate_after: Some(Duration::from_secs(60)), ..case.pool() };
    let early = next_marks(&claim, &pool, at(120));
    assert_eq!(
        (early.drift, early.consolidation),
        (Drift::Because("AMIDrift"), Consolidation::Not(Restless::Until(at(160))))
    );
    let late = next_marks(&Subject { cloud: CloudSays::Fine, ..claim }, &pool, at(160));
    assert_eq!((late.drift, late.consolidation), (Drift::No, Consolidation::Allowed));
}
