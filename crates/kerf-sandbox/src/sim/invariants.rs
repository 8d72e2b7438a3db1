//! What must hold, whatever happens: checked at every change (safety), and once more when nothing goes wrong any more (liveness). The rules
//! are written from the objects alone; nothing here knows how the autoscaler decides.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kerf_api::annotations::DO_NOT_DISRUPT;
use kerf_api::nodepool::DisruptionReason;
use kerf_api::schedule::allowed_disruptions;
use kerf_api::slim::Str;

use super::ledger::Ledger;

/// Machines of the simulated cloud.
const SCHEME: &str = "kwok://";

/// A node has come or gone: no two of them may be one machine.
pub(super) fn on_nodes(ledger: &mut Ledger, now: Timestamp) {
    let mut machines: BTreeMap<&Str, usize> = BTreeMap::new();
    for node in ledger.nodes.values().filter(|node| !node.provider_id.is_empty()) {
        *machines.entry(&node.provider_id).or_default() += 1;
    }
    let twice: Vec<String> =
        machines.into_iter().filter(|(_, nodes)| *nodes > 1).map(|(machine, _)| machine.to_string()).collect();
    for machine in twice {
        ledger.violate(now, "one machine, one node", machine);
    }
}

/// Somebody has decided that a claim goes: its pool's budget allows it, and no pod on it forbids it.
pub(super) fn on_decision(ledger: &mut Ledger, name: &str, now: Timestamp) {
    let Some(claim) = ledger.claims.get(name) else { return };
    let (pool, node) = (claim.pool.clone(), claim.node.clone());
    let reason = DisruptionReason::from(claim.reason.as_deref().unwrap_or_default());
    let protected: Vec<String> = ledger
        .live()
        .filter(|record| record.pod.spec.node_name.as_deref() == Some(node.as_str()))
        .filter(|record| !record.pod.is_terminal() && !record.pod.is_terminating())
        .filter(|record| record.pod.metadata.annotations.is(DO_NOT_DISRUPT, "true"))
        .map(|record| format!("{} on {node} ({name})", record.pod.namespaced_name()))
        .collect();
    for what in protected {
        ledger.violate(now, "do-not-disrupt is kept", what);
    }
    let in_pool = ledger.claims.values().filter(|claim| claim.pool == pool && !claim.provider_id.is_empty());
    let total = u32::try_from(in_pool.clone().count()).unwrap_or(u32::MAX);
    let going = in_pool.filter(|claim| claim.reason.is_some()).count();
    let budgets = ledger.pools.get(&pool).and_then(|pool| pool.spec.disruption.as_ref()?.budgets.as_deref());
    let Some(Ok(allowed)) = budgets.map(|budgets| allowed_disruptions(budgets, &reason, total, now)) else { return };
    if going > allowed as usize {
        let what = format!("{going} of {total} nodes of pool {pool} go at once ({reason}), {allowed} may");
        ledger.violate(now, "budgets are kept", what);
    }
}

/// Nothing goes wrong any more: what is still not as it should be? Empty if all is well.
pub(super) fn unsettled(ledger: &Ledger, may_pend: usize) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let pending: Vec<String> = ledger.waiting().map(|pod| pod.namespaced_name().to_string()).collect();
    if pending.len() > may_pend {
        let first: Vec<&str> = pending.iter().take(3).map(String::as_str).collect();
        found.push(("every pod runs", format!("{} pods wait, such as {}", pending.len(), first.join(", "))));
    }
    let has_claim = |machine: &str| ledger.claims.values().any(|claim| claim.provider_id == machine);
    for (name, node) in ledger.nodes.iter().filter(|(_, node)| node.provider_id.starts_with(SCHEME)) {
        if !has_claim(&node.provider_id) {
            found.push(("no machine is leaked", format!("node {name} has no claim")));
        }
    }
    let has_node = |machine: &str| ledger.nodes.values().any(|node| node.provider_id == machine);
    for (name, claim) in &ledger.claims {
        if !has_node(&claim.provider_id) {
            found.push(("every claim has a machine", format!("claim {name} has none")));
        }
    }
    found
}
