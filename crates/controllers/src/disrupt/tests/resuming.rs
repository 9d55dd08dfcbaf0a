use super::super::resume::resume;
use super::*;
use crate::disrupt::leftovers;

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
    stage.initialize(&stage.replacements()[0]);
    pass(601).await;
    stage.tick(number).await;
    let left = stage.replacements();
    assert_eq!(left.len(), 1);
    let (stage, numbers) = reborn(&stage);
    assert!(numbers.is_empty());
    assert_eq!(stage.replacements(), left);
    assert!(stage.is_as_before("a"));
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
