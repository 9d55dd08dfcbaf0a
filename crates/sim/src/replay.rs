//! Decides again what a recording says was decided.

use std::sync::atomic::AtomicBool;

use cluster::record::{Choice, Decided, ProvisioningQuestion, provisioning};
use controllers::recorded;
use engine::solve::{Question, solve};

/// What the same question is answered with today. Equal to the choice that was recorded, if nothing has changed since.
pub fn decide_again(decided: &Decided) -> Choice {
    match &decided.decision.choice {
        Choice::Provisioning(recorded) => {
            let (batch, asked) = (&decided.batch, recorded.question);
            let pods: Vec<_> = batch.pods().map(|pod| &**pod).collect();
            let asked_now = ProvisioningQuestion { pods: pods.len(), ..asked };
            let (effort, expects_more, promised) = (asked.effort, asked.expects_more, batch.promised.clone());
            let question = Question { effort, expects_more, promised, ..Question::about(pods) };
            provisioning(asked_now, &solve(&batch.snapshot, &question, &AtomicBool::new(false)))
        }
        Choice::Disruption(recorded) => recorded::decide_again(&decided.batch, recorded),
        Choice::SecondLook(recorded) => recorded::look_again(&decided.batch, recorded),
    }
}
