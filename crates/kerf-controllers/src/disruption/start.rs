//! Start of a command (spec 03 §10.1). First the candidates get their visible marks, then the
//! replacements are created, and only then the candidates count as marked for deletion in cluster
//! state. If the process dies between any two of these writes, the next pass removes the marks, and
//! created claims become ordinary nodes.

use futures::future::join_all;
use jiff::Timestamp;
use kerf_api::slim::{Node, Pod, Str};
use kerf_engine::{BlockReason, CommandNode, DisruptionCommand, Method, blocked_by_budget};
use kerf_state::TrackedClaim;

use super::churn_backoff::{self, OfferingKey};
use super::decision::{Decision, log_decision};
use super::queue::{CommandCandidate, CommandQueue, CommandReplacement};
use super::taint::{self, CandidateNames};
use crate::error::Error;
use crate::events;
use crate::provisioning::claim;
use crate::static_capacity::provisioning::node_limit;
use kerf_operator::SharedCluster;

impl CommandQueue {
    /// Starts a command. `offerings` lists, for each replacement, the offerings that it may be
    /// launched from.
    pub(crate) async fn start(&self, decision: Decision, offerings: Vec<Vec<OfferingKey>>) -> Result<(), Error> {
        if decision.command.nodes.iter().any(|node| self.is_disrupting(&node.claim)) {
            return Err(Error::Invalid("candidate is being disrupted".to_owned()));
        }
        if let Some(why) = decision.command.nodes.iter().find_map(|node| self.block_by_budget(&decision.command, node))
        {
            log_decision!(debug, decision, error = %why, "not disrupting node(s), a PodDisruptionBudget is used up");
            return Ok(());
        }
        let reservation = self.reserve_node_limit(&decision.command)?;
        // Operators search for this line. It is logged before the first write.
        log_decision!(info, decision, "disrupting node(s)");
        let reason = decision.command.reason().to_string();
        let marks = join_all(decision.command.nodes.iter().map(|node| self.mark_candidate(&decision, node, &reason)));
        let (marked, errors): (Vec<_>, Vec<_>) = marks.await.into_iter().partition(Result::is_ok);
        let is_blocked = marked.iter().any(|marked| matches!(marked, Ok(None)));
        let marked: Vec<CandidateNames> = marked.into_iter().filter_map(Result::ok).flatten().collect();
        if is_blocked && (marked.is_empty() || !decision.command.replacements.is_empty()) {
            // Not a failure: the next pass removes the marks and decides again.
            log_decision!(debug, decision, "not disrupting node(s), a PodDisruptionBudget is used up");
            return Ok(());
        }
        if !errors.is_empty() && (marked.is_empty() || !decision.command.replacements.is_empty()) {
            return self.abandon_command(&decision, errors.into_iter().filter_map(Result::err).collect());
        }
        let replacements = match self.create_replacements(&decision, offerings).await {
            Ok(replacements) => replacements,
            Err(error) => return self.abandon_command(&decision, vec![error]),
        };
        self.count_decision(&decision);
        let names = replacements.iter().map(|replacement| replacement.name.clone()).collect();
        self.history.record_started(&decision, names);
        let nodes = self.mark_and_nominate(&decision.command, marked);
        drop(reservation);
        self.track(decision, nodes, replacements);
        Ok(())
    }

    /// Marks a candidate. Returns `None` if evictions on other nodes have used up a
    /// PodDisruptionBudget of its pods since the decision.
    async fn mark_candidate(
        &self,
        decision: &Decision,
        node: &CommandNode,
        reason: &str,
    ) -> Result<Option<CandidateNames>, Error> {
        let marked = CandidateNames { node: node.name.clone(), claim: node.claim.clone() };
        let check = || self.block_by_budget(&decision.command, node);
        let is_marked = taint::mark(&self.ctx, &marked, reason, check).await?;
        Ok(is_marked.then_some(marked))
    }

    /// Returns the reason if a PodDisruptionBudget does not allow the disruption of a candidate
    /// now, with Kerf's own evictions counted. A node with a termination grace period may drift
    /// whatever its pods forbid (spec 03 §5.3).
    fn block_by_budget(&self, command: &DisruptionCommand, node: &CommandNode) -> Option<BlockReason> {
        let (now, cluster) = (self.ctx.now(), self.ctx.cluster.lock());
        let claim = cluster.get::<TrackedClaim>(&node.claim);
        let has_grace_period =
            claim.is_some_and(|claim| claim.engine_claim.lifecycle.termination_grace_period.is_some());
        if has_grace_period && matches!(command.method, Method::Drift | Method::StaticDrift) {
            return None;
        }
        let budgets = cluster.budgets_with_own_evictions(now);
        blocked_by_budget(cluster.pods_on(&node.name).map(AsRef::as_ref), &budgets, now)
    }

    /// Reserves one node under the node limit of a static NodePool, because the static provisioner
    /// may create claims at the same time (spec 03 §8.2). Returns `None` for other commands.
    fn reserve_node_limit(&self, command: &DisruptionCommand) -> Result<Option<NodeLimitReservation<'_>>, Error> {
        let (Method::StaticDrift, [planned]) = (command.method, command.replacements.as_slice()) else {
            return Ok(None);
        };
        let pool = self.ctx.managed_pool(&planned.pool).ok_or_else(|| Error::PoolNotFound(planned.pool.to_string()))?;
        let mut cluster = self.ctx.cluster.lock();
        if cluster.reserve_nodes(&planned.pool, node_limit(&pool), 1) == 0 {
            return Err(Error::Invalid("nodepool node limit reached".to_owned()));
        }
        let replaced: Vec<Str> = command.nodes.iter().map(|node| node.claim.clone()).collect();
        for claim in &replaced {
            cluster.begin_replacing(claim);
        }
        Ok(Some(NodeLimitReservation { cluster: &self.ctx.cluster, pool: planned.pool.clone(), replaced }))
    }

    /// Gives up a command that could not be started. The next pass removes its marks.
    fn abandon_command(&self, decision: &Decision, errors: Vec<Error>) -> Result<(), Error> {
        self.record_drift_failure(&decision.command);
        Error::combine(errors)
    }

    async fn create_replacements(
        &self,
        decision: &Decision,
        offerings: Vec<Vec<OfferingKey>>,
    ) -> Result<Vec<CommandReplacement>, Error> {
        let command = &decision.command;
        let reason = decision.reason();
        let creations = command.replacements.iter().zip(offerings).map(|(planned, offerings)| {
            let reason = &reason;
            async move {
                let Some(pool) = self.ctx.managed_pool(&planned.pool) else {
                    return Err(Error::PoolNotFound(planned.pool.to_string()));
                };
                let mut node_claim = claim::build_claim(planned, &pool);
                let annotation = {
                    let cluster = self.ctx.cluster.lock();
                    churn_backoff::replaced_annotation(&cluster, command, planned, decision.created)
                };
                node_claim.metadata.annotations.get_or_insert_default().extend(annotation);
                let name = Str::from(claim::create(&self.ctx, planned, &node_claim, reason).await?);
                // Until the replacement is launched, provisioning leaves these pods out.
                self.ctx.cluster.lock().assign_pods(&planned.pods, &name);
                Ok(CommandReplacement { name, pool: planned.pool.clone(), offerings, is_initialized: false })
            }
        });
        let (created, errors): (Vec<_>, Vec<_>) = join_all(creations).await.into_iter().partition(Result::is_ok);
        Error::combine(errors.into_iter().filter_map(Result::err).collect())?;
        Ok(created.into_iter().filter_map(Result::ok).collect())
    }

    /// Marks the candidates for deletion in cluster state and nominates the nodes that receive
    /// their pods. Before the replacements exist this would be too early: provisioning would launch
    /// instances for the same pods.
    fn mark_and_nominate(&self, command: &DisruptionCommand, marked: Vec<CandidateNames>) -> Vec<CommandCandidate> {
        let mut nominations = Vec::new();
        let mut cluster = self.ctx.cluster.lock();
        let mut nodes = Vec::new();
        for marked in marked {
            let recorded_id =
                cluster.get::<TrackedClaim>(&marked.claim).map(|claim| claim.engine_claim.provider_id.clone());
            let provider_id = recorded_id.unwrap_or_default();
            cluster.mark_for_deletion(&provider_id);
            nodes.push(CommandCandidate { names: marked, provider_id });
        }
        let until = self.ctx.now().saturating_add(self.ctx.settings.nomination_window()).unwrap_or(Timestamp::MAX);
        for placement in &command.placements {
            let Some(node) = cluster.get::<Node>(&placement.node).cloned() else { continue };
            let id = &node.spec.provider_id;
            let claim = cluster.claims_of(id).next().map(|claim| claim.name().clone());
            cluster.nominate(if id.is_empty() { &node.metadata.name } else { id }, until);
            for pod in placement.pods.iter().filter_map(|pod| cluster.get::<Pod>(pod)) {
                nominations.push(events::nominated(pod, claim.as_deref(), Some(&node.metadata.name)));
            }
        }
        drop(cluster);
        for event in nominations {
            self.ctx.publish(event);
        }
        nodes
    }

    fn count_decision(&self, decision: &Decision) {
        let command = &decision.command;
        let (reason, kind) = (decision.reason(), command.method.consolidation_type());
        let metrics = &self.ctx.metrics.disruption;
        metrics.decisions.inc(&[command.decision(), &reason, kind]);
        let mut pools: Vec<&Str> = command.nodes.iter().map(|node| &node.pool).collect();
        pools.sort_unstable();
        pools.dedup();
        for pool in pools {
            metrics.decisions_by_nodepool.inc(&[pool, command.decision(), &reason, kind]);
        }
    }
}

/// One reserved node under the limit of a static NodePool. It is released on drop, when cluster
/// state contains the replacement or its creation has failed.
struct NodeLimitReservation<'c> {
    cluster: &'c SharedCluster,
    pool: Str,
    replaced: Vec<Str>,
}

impl Drop for NodeLimitReservation<'_> {
    fn drop(&mut self) {
        let mut cluster = self.cluster.lock();
        cluster.release_nodes(&self.pool, 1);
        for claim in &self.replaced {
            cluster.end_replacing(claim);
        }
    }
}
