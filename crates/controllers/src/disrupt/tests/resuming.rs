use runtime::{Stop, Tasks};

use super::super::add_about;
use super::super::resume::resume;
use super::*;
use crate::controller::Duties;
use crate::disrupt::leftovers;
use crate::testing::pending_pod;
use crate::{facts, statics};

/// The same cluster for the next process, which has taken up what it found.
fn reborn(stage: &Stage) -> (Stage, Vec<Number>) {
    let next = Stage::on(stage.world.reborn());
    next.world.sync();
    let numbers = resume(&next.world.ctx, &next.commands);
    (next, numbers)
}

#[tokio::test(start_paused = true)]
async fn a_command_that_was_begun_is_gone_on_with() {
    let stage = Stage::with(&["a", "b"]).await;
    stage.begun(&["a", "b"], 2).await;
    pass(300).await;
    let (stage, numbers) = reborn(&stage);
    let [number] = *numbers else { panic!("{numbers:?}") };
    assert!(stage.is_leaving("a") && stage.is_leaving("b"));
    leftovers::repair(&stage.world.ctx, &stage.commands).await;
    assert!(stage.is_tainted("a") && stage.is_tainted("b"), "somebody stands behind them");
    assert!(matches!(stage.tick(number).await, Next::After(_)));
    let made = stage.replacements();
    assert_eq!(made.len(), 2, "nothing is made twice");
    made.iter().for_each(|name| stage.initialize(name));
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_deleted("a") && stage.is_deleted("b"));
    assert!(reborn(&stage).1.is_empty(), "it is done");
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_give_a_command_more_time() {
    let stage = Stage::with(&["a"]).await;
    stage.begun(&["a"], 1).await;
    pass(590).await;
    let (stage, numbers) = reborn(&stage);
    assert!(matches!(stage.tick(numbers[0]).await, Next::After(_)));
    pass(11).await;
    assert_eq!(stage.tick(numbers[0]).await, Next::OnChange);
    assert!(stage.is_as_before("a"));
    assert_eq!(stage.replacements(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn of_a_command_that_was_not_begun_in_full_nothing_is_left() {
    let stage = Stage::with(&["a"]).await;
    stage.begun(&["a"], 2).await;
    let made = stage.replacements();
    // As if the process had ended between the two.
    stage.world.server.remove("NodeClaim", &made[1]);
    let (stage, numbers) = reborn(&stage);
    assert!(!stage.is_leaving("a"));
    assert_eq!(stage.tick(numbers[0]).await, Next::OnChange);
    assert!(stage.is_as_before("a"));
    assert_eq!(stage.replacements(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_deleting_was_interrupted_deletes_the_rest() {
    let stage = Stage::with(&["a", "b"]).await;
    stage.begun(&["a", "b"], 1).await;
    stage.initialize(&stage.replacements()[0]);
    let deleted = json!({"metadata": {"deletionTimestamp": EPOCH}});
    stage.world.put(merged(stage.claim("a").unwrap(), deleted));
    let (stage, numbers) = reborn(&stage);
    assert_eq!(stage.tick(numbers[0]).await, Next::OnChange);
    assert!(stage.is_deleted("b"));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_was_taken_back_stays_so() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 2).await;
    let made = stage.replacements();
    stage.initialize(&made[0]);
    pass(601).await;
    stage.tick(number).await;
    assert_eq!(stage.claims(), ["a".to_owned(), made[0].clone()], "what has come is kept");
    assert_eq!(stage.replacements(), [""; 0], "as a node like others");
    let (stage, numbers) = reborn(&stage);
    assert!(numbers.is_empty());
    assert_eq!(stage.claims(), ["a".to_owned(), made[0].clone()]);
    assert!(stage.is_as_before("a"));
}

/// A command that failed, and left a node behind that is there to stay. Gives its name.
async fn failed(stage: &Stage) -> String {
    let number = stage.begun(&["a"], 2).await;
    let made = stage.replacements();
    stage.initialize(&made[0]);
    stage.world.put(merged(stage.claim(&made[1]).unwrap(), json!({"metadata": {"deletionTimestamp": EPOCH}})));
    stage.world.sync();
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_as_before("a"));
    stage.world.server.remove("NodeClaim", &made[1]);
    made[0].clone()
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_command_has_left_does_not_undo_a_later_one() {
    let stage = Stage::with(&["a"]).await;
    let left = failed(&stage).await;
    pass(700).await;
    stage.begun(&["a"], 1).await;
    let (stage, numbers) = reborn(&stage);
    assert_eq!(numbers.len(), 1, "there is one command");
    assert!(matches!(stage.tick(numbers[0]).await, Next::After(_)));
    assert!(stage.is_tainted("a") && stage.reason("a").is_some() && stage.is_leaving("a"), "which goes on");
    assert!(stage.claims().contains(&left));
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_command_has_left_does_not_end_a_later_one_too_soon() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 1).await;
    let late = stage.replacements().remove(0);
    stage.world.put(pending_pod("web", "1"));
    stage.world.sync();
    stage.world.ctx.store().nominate(&PodName::new("shop", "web"), &late.as_str().into(), stage.world.ctx.now());
    pass(601).await;
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_as_before("a") && stage.claims().contains(&late), "a pod waits for it");
    stage.initialize(&late);
    stage.begun(&["a"], 1).await;
    let (stage, numbers) = reborn(&stage);
    assert_eq!(numbers.len(), 1, "there is one command");
    for number in numbers {
        assert!(matches!(stage.tick(number).await, Next::After(_)), "its replacement has not come");
    }
    assert!(!stage.is_deleted("a"));
}

#[tokio::test(start_paused = true)]
async fn of_a_command_whose_nodes_somebody_has_opened_only_the_notes_go() {
    let stage = Stage::with(&["a"]).await;
    stage.begun(&["a"], 1).await;
    let made = stage.replacements().remove(0);
    let mut claim = stage.claim("a").unwrap();
    claim["status"]["conditions"].as_array_mut().unwrap().retain(|condition| condition["type"] != "DisruptionReason");
    stage.world.put(claim);
    let (stage, numbers) = reborn(&stage);
    assert_eq!(stage.tick(numbers[0]).await, Next::OnChange);
    assert!(stage.claims().contains(&made) && stage.replacements().is_empty());
    assert!(reborn(&stage).1.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_takes_nothing_away_before_commands_are_found_again() {
    for statics_first in [true, false] {
        let stage = Stage::with(&["a", "b"]).await;
        let pool = stage.world.server.get("NodePool", "general").unwrap();
        stage.world.put(merged(pool, json!({"spec": {"replicas": 2}})));
        stage.world.sync();
        let number = stage.ripe(command(Method::StaticDrift, &["a"], 1));
        assert!(matches!(stage.tick(number).await, Next::After(_)));
        let made = stage.replacements();
        let stage = Stage::on(stage.world.reborn());
        let (ctx, mut tasks) = (&stage.world.ctx, Tasks::new(Stop::new()));
        let mut duties = Duties::new(ctx.clone());
        let add_statics = |duties: &mut Duties| {
            duties.add(statics::StaticUp);
            duties.add(statics::StaticDown);
        };
        if statics_first {
            add_statics(&mut duties);
        }
        add_about(&mut duties, ctx, stage.commands.clone());
        if !statics_first {
            add_statics(&mut duties);
        }
        facts::spawn(ctx, &mut tasks);
        duties.spawn(&mut tasks);
        let time = Duration::from_secs(5);
        assert!(tokio::time::timeout(time, tasks.run(std::future::pending::<()>(), time)).await.is_err());
        assert_eq!(stage.replacements(), made, "statics first: {statics_first}");
        assert!(stage.is_tainted("a"), "its command goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_was_interrupted_is_undone_and_found_anew() {
    let stage = Stage::with(&["a"]).await;
    stage.world.server.cut_power_after(2, true);
    let number = stage.ripe(command(Method::Emptiness, &["a"], 0));
    assert!(tokio::time::timeout(Duration::from_secs(60), stage.tick(number)).await.is_err());
    stage.world.server.restore_power();
    assert!(stage.is_tainted("a"));
    let (stage, numbers) = reborn(&stage);
    assert!(numbers.is_empty());
    leftovers::repair(&stage.world.ctx, &stage.commands).await;
    assert!(stage.is_as_before("a") || stage.is_deleted("a"));
}
