//! Taints and marks that no command of ours stands behind: left by a process that ended in between, or put there by hand.

use model::ids::NodeName;
use runtime::error::with_causes;

use super::commands::Commands;
use super::doors;
use crate::ctx::Ctx;

/// Opens every node of ours that is closed although it does not leave. What fails now is found again at the next look.
pub(super) async fn repair(ctx: &Ctx, commands: &Commands) {
    let mut attempts = Vec::new();
    for (node, claim) in found(ctx, commands) {
        attempts.push(async move {
            match doors::open(ctx, &node, &claim).await {
                Ok(()) => {
                    tracing::info!(Node = %node, NodeClaim = %claim, "opened a node that no command stands behind")
                }
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::warn!(Node = %node, NodeClaim = %claim, error, "cannot open a node again, will try later");
                }
            }
        });
    }
    doors::side_by_side(attempts).await;
}

/// Nodes that are closed or marked, and neither leaving nor part of a command.
fn found(ctx: &Ctx, commands: &Commands) -> Vec<(NodeName, NodeName)> {
    let owned = commands.claims();
    let store = ctx.store();
    let machines = store.machines().iter().filter(|(_, machine)| !machine.node.is_leaving);
    let pairs = machines.filter_map(|(name, machine)| Some((name, machine.claim.as_ref()?)));
    let stale = pairs.filter(|(node, claim)| {
        let is_told_to_leave = store.nodes().is_told_to_leave(node) || store.claims().is_told_to_leave(claim);
        is_told_to_leave && !owned.contains(*claim)
    });
    stale.map(|(node, claim)| (node.clone(), claim.clone())).collect()
}
