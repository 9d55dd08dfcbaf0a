use super::*;

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second)
}

fn policy(condition: &'static str, status: Status, seconds: u64) -> Policy<'static> {
    Policy { condition, status, toleration: Duration::from_secs(seconds) }
}

fn symptom(condition: &'static str, status: Status, since: i64) -> Symptom<'static> {
    Symptom { condition, verdict: Verdict { status, since: at(since) } }
}

// 02/NR2 02/NR3
#[test]
fn only_what_the_cloud_lists_is_an_ailment() {
    let policies = [policy("Ready", Status::False, 600), policy("Ready", Status::Unknown, 60)];
    for (condition, status, due) in [
        ("Ready", Status::False, Some(700)),
        ("Ready", Status::Unknown, Some(160)),
        ("Ready", Status::True, None),
        ("DiskPressure", Status::False, None),
    ] {
        let found = ailment(&[symptom(condition, status, 100)], &policies);
        assert_eq!(found.map(|ailment| ailment.due), due.map(at), "{condition} {status:?}");
    }
    assert_eq!(ailment(&[], &policies), None);
    assert_eq!(ailment(&[symptom("Ready", Status::False, 100)], &[]), None);
}

// 02/NR8
#[test]
fn of_several_ailments_the_one_whose_time_is_up_first_counts() {
    let policies = [policy("Ready", Status::False, 600), policy("GPU", Status::True, 900)];
    let both = [symptom("Ready", Status::False, 500), symptom("GPU", Status::True, 100)];
    assert_eq!(ailment(&both, &policies), Some(Ailment { condition: "GPU", due: at(1000) }));
}

// 02/NR11 02/NR13
#[test]
fn a_fifth_rounded_up_may_be_broken_and_no_more() {
    for (broken, all, expected) in [
        (1, 1, false),
        (1, 3, false),
        (1, 5, false),
        (2, 5, true),
        (2, 6, false),
        (3, 10, true),
        (20, 100, false),
        (21, 100, true),
    ] {
        assert_eq!(is_epidemic(Ward { broken, all }), expected, "{broken} of {all}");
    }
}
