//! Our schedules against the answers of the library whose language they speak.

use model::cron::Cron;
use model::time::Instant;

/// What `cron_table.txt` says in its second column: the next hit, `never`, or `refused`.
fn answer(spec: &str, after: &str) -> String {
    let Ok(cron) = Cron::parse(spec) else {
        return "refused".to_owned();
    };
    let after: Instant = after.parse().expect("an accepted schedule has a time beside it");
    cron.next_after(after).map_or("never".to_owned(), |hit| hit.to_string())
}

/// A row is `after next "schedule"`. The quotes keep spaces at the ends visible; a tab is written as `\t`.
fn check(row: &str) {
    let [after, next, spec] = row.splitn(3, ' ').collect::<Vec<_>>().try_into().expect("a row has three columns");
    let spec = spec.strip_prefix('"').and_then(|spec| spec.strip_suffix('"')).expect("the schedule is quoted");
    assert_eq!(answer(&spec.replace("\\t", "\t"), after), next, "row: {row}");
}

#[test]
fn schedules_are_accepted_refused_and_hit_as_in_the_reference_library() {
    include_str!("cron_table.txt").lines().filter(|row| !row.starts_with('#')).for_each(check);
}
