use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use super::*;

#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("broken")
    }
}

impl Error for Broken {}

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(4));

fn queue() -> Queue<&'static str> {
    Queue::new("test", BACKOFF, Rng::new(1))
}

/// What was worked on, and in which second since the start.
#[derive(Default)]
struct Diary(RefCell<Vec<(u64, &'static str)>>);

impl Diary {
    fn note(&self, start: Instant, key: &'static str) {
        self.0.borrow_mut().push((start.elapsed().as_secs(), key));
    }
}

/// Runs the queue for almost a minute of virtual time with workers that answer at once, and expects this diary.
async fn check(queue: &Queue<&'static str>, answer: impl Fn(&str) -> Result<Next, Broken>, expected: &[(u64, &str)]) {
    let (start, diary, stop) = (Instant::now(), Diary::default(), Stop::new());
    let work = run(queue, 1, &stop, |key| {
        diary.note(start, key);
        let answer = answer(key);
        async { answer }
    });
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(59)).await;
        stop.cancel();
    };
    futures::join!(work, stopping);
    assert_eq!(*diary.0.borrow(), expected);
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_order_and_once_however_often_they_were_pushed() {
    let queue = queue();
    for key in ["b", "a", "b", "c", "a"] {
        queue.push(key);
    }
    queue.push_after("a", Duration::from_secs(5));
    assert_eq!(queue.depth(), Depth { ready: 3, ..Depth::default() });
    check(&queue, |_| Ok(Next::OnChange), &[(0, "b"), (0, "a"), (0, "c")]).await;
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_come_when_their_time_has_come_and_equals_in_the_order_of_keys() {
    let queue = queue();
    queue.push_after("late", Duration::from_secs(9));
    for key in ["y", "x"] {
        queue.push_after(key, Duration::from_secs(3));
    }
    queue.push_after("late", Duration::from_secs(20));
    queue.push_after("late", Duration::from_secs(7));
    queue.push_after("never", Duration::MAX);
    check(&queue, |_| Ok(Next::OnChange), &[(3, "x"), (3, "y"), (7, "late")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_push_brings_a_waiting_key_at_once_and_replaces_the_wait() {
    let queue = queue();
    queue.push_after("a", Duration::from_secs(9));
    queue.push("a");
    check(&queue, |_| Ok(Next::OnChange), &[(0, "a")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_says_when_it_wants_its_key_back() {
    let queue = queue();
    queue.push("a");
    let expected = [(0, "a"), (25, "a"), (50, "a")];
    check(&queue, |_| Ok(Next::After(Duration::from_secs(25))), &expected).await;
    assert_eq!(queue.depth(), Depth { waiting: 1, ..Depth::default() });
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_by_key_up_to_the_cap_and_a_success_forgives_them() {
    let queue = queue();
    queue.push("bad");
    queue.push("good");
    let tries = RefCell::new(0);
    let answer = |key: &str| {
        if key == "good" {
            return Ok(Next::OnChange);
        }
        *tries.borrow_mut() += 1;
        if *tries.borrow() == 5 { Ok(Next::After(Duration::from_secs(30))) } else { Err(Broken) }
    };
    // Waits of 1, 2, 4, 4, then the success that asked for 30, then 1, 2, 4, 4.
    let bad = [0, 1, 3, 7, 11, 41, 42, 44, 48, 52, 56].map(|second| (second, "bad"));
    let expected: Vec<_> = [bad[0], (0, "good")].into_iter().chain(bad[1..].iter().copied()).collect();
    check(&queue, answer, &expected).await;
}

#[tokio::test(start_paused = true)]
async fn one_worker_per_key_and_no_more_workers_than_allowed() {
    let queue = queue();
    let stop = Stop::new();
    for key in ["a", "b", "c", "d"] {
        queue.push(key);
    }
    let busy: RefCell<BTreeMap<&str, u32>> = RefCell::default();
    let most = RefCell::new(0);
    let diary = Diary::default();
    let start = Instant::now();
    let work = run(&queue, 2, &stop, |key| {
        diary.note(start, key);
        let (busy, most, queue) = (&busy, &most, &queue);
        async move {
            assert!(busy.borrow_mut().insert(key, 1).is_none(), "{key} is worked on twice");
            let at_once = busy.borrow().len();
            most.replace_with(|most| at_once.max(*most));
            tokio::time::sleep(Duration::from_secs(1)).await;
            if key == "a" && start.elapsed() < Duration::from_secs(2) {
                queue.push("a");
                queue.push("a");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            busy.borrow_mut().remove(key);
            Ok::<_, Broken>(Next::OnChange)
        }
    });
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        stop.cancel();
    };
    futures::join!(work, stopping);
    assert_eq!(*most.borrow(), 2);
    assert_eq!(*diary.0.borrow(), [(0, "a"), (0, "b"), (2, "c"), (2, "d"), (4, "a")]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_always_comes_back_does_not_starve_the_others() {
    let queue = queue();
    queue.push("greedy");
    queue.push("modest");
    let stop = Stop::new();
    let seen = RefCell::new(Vec::new());
    run(&queue, 1, &stop, |key| {
        seen.borrow_mut().push(key);
        if key == "greedy" {
            queue.push("greedy");
        } else {
            stop.cancel();
        }
        async { Ok::<_, Broken>(Next::After(Duration::ZERO)) }
    })
    .await;
    assert_eq!(*seen.borrow(), ["greedy", "modest"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_was_started_and_starts_nothing_more() {
    let queue = queue();
    let stop = Stop::new();
    queue.push("a");
    queue.push("b");
    let finished = RefCell::new(Vec::new());
    run(&queue, 1, &stop, |key| {
        let (finished, stop) = (&finished, &stop);
        async move {
            stop.cancel();
            tokio::time::sleep(Duration::from_secs(5)).await;
            finished.borrow_mut().push(key);
            Ok::<_, Broken>(Next::OnChange)
        }
    })
    .await;
    assert_eq!(*finished.borrow(), ["a"]);
    assert_eq!(queue.depth(), Depth { ready: 1, ..Depth::default() });
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_order_of_a_crowd() {
    let crowd = async |seed| {
        let queue: Queue<u64> = Queue::new("crowd", BACKOFF.with_jitter(0.5), Rng::new(seed));
        let (stop, start, seen) = (Stop::new(), Instant::now(), RefCell::new(Vec::new()));
        (0..50).for_each(|key| queue.push(key));
        let work = run(&queue, 7, &stop, |key| {
            seen.borrow_mut().push((start.elapsed(), key));
            async move {
                tokio::time::sleep(Duration::from_millis(key * 3 % 7)).await;
                if key % 3 == 0 { Err(Broken) } else { Ok(Next::After(Duration::from_secs(key))) }
            }
        });
        let stopping = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            stop.cancel();
        };
        futures::join!(work, stopping);
        seen.into_inner()
    };
    let first = crowd(1).await;
    assert!(first.len() > 200, "{}", first.len());
    assert_eq!(first, crowd(1).await);
    assert_ne!(first, crowd(2).await);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_failure_pushes_its_own_key_waits_all_the_same() {
    let queue = queue();
    queue.push("a");
    let tries = RefCell::new(0);
    let answer = |_: &str| {
        *tries.borrow_mut() += 1;
        assert!(*tries.borrow() < 100, "it is repeated at full speed");
        queue.push("a");
        Err(Broken)
    };
    let seconds = [0, 1].into_iter().chain((3..60).step_by(4));
    let expected: Vec<(u64, &str)> = seconds.map(|second| (second, "a")).collect();
    check(&queue, answer, &expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_wanted_again_comes_later_and_later_unless_somebody_pushes_it() {
    let queue = queue();
    queue.push("a");
    let again = Next::Again(Backoff::new(Duration::from_secs(2), Duration::from_secs(20)));
    let tries = RefCell::new(0);
    let answer = |_: &str| {
        *tries.borrow_mut() += 1;
        // A push while it is worked on is not put off: nothing has failed.
        if *tries.borrow() == 2 {
            queue.push("a");
        }
        Ok(if *tries.borrow() == 6 { Next::OnChange } else { again })
    };
    check(&queue, answer, &[(0, "a"), (2, "a"), (2, "a"), (10, "a"), (26, "a"), (46, "a")]).await;
}
