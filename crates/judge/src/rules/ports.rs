//! NodePorts: no other pod on the node has the port.

use model::pod::{HostPort, Owner, Pod};

use crate::violation::Refusal;
use crate::world::Node;

pub(super) fn refusal(pod: &Pod, node: &Node) -> Option<Refusal> {
    if pod.wants.ports.is_empty() {
        return None;
    }
    let by_pods = node.pods().flat_map(|other| other.wants.ports.iter().map(|port| (port, Some(other.name.clone()))));
    // Daemons do not compete with each other: a node's set of them is given.
    let is_daemon = pod.owner == Owner::DaemonSet;
    let by_daemons = node.daemon_ports().iter().filter(|_| !is_daemon).map(|port| (port, None));
    let held: Vec<_> = by_pods.chain(by_daemons).collect();
    pod.wants.ports.iter().find_map(|wanted| {
        let (_, holder) = held.iter().find(|(port, _)| is_conflict(wanted, port))?;
        Some(Refusal::Port { wanted: wanted.clone(), holder: holder.clone() })
    })
}

/// To kube-scheduler only an empty address and 0.0.0.0 mean every address; `::` is an address like any other.
fn is_conflict(a: &HostPort, b: &HostPort) -> bool {
    let is_every = |port: &HostPort| port.ip.is_empty() || *port.ip == *"0.0.0.0";
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || is_every(a) || is_every(b))
}
