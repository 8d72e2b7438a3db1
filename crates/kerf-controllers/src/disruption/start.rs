//! How a command starts (spec 03 §10.1): nodes are marked where everybody can see it, replacements are created, and only then the nodes
//! stop to count. A process that dies between any two of these writes leaves marks that the next look cleans up, and claims that
//! become ordinary nodes.

use futures::future::join_all;
use jiff::Timestamp;
use kerf_api::slim::{Node, Pod, Str};
use kerf_engine::{DisruptionCommand, Method};
use kerf_state::TrackedClaim;

use super::churn_backoff::{self, OfferingKey};
use super::decision::{Decision, log_decision};
use super::queue::{CommandCandidate, CommandQueue, CommandReplacement};
use super::taint::{self, CandidateNames};
use crate::context::SharedCluster;
use crate::error::Error;
use crate::events;
use crate::provisioning::claim;
use crate::static_capacity::provisioning::node_limit;

impl CommandQueue {
    /// Starts a command: from here on it is visible to everybody. `offered` says for each replacement what it may be launched from.
    pub(crate) async fn start(&self, decision: Decision, offered: Vec<Vec<OfferingKey>>) -> Result<(), Error> {
        if decision.command.nodes.iter().any(|node| self.is_disrupting(&node.claim)) {
            return Err(Error::Invalid("candidate is being disrupted".to_owned()));
        }
        let room = self.reserve_node_limit(&decision.command)?;
        // The line that operators look for, before anything is changed.
        log_decision!(info, decision, "disrupting node(s)");
        let reason = decision.command.reason().to_string();
        let marks = join_all(decision.command.nodes.iter().map(|node| async {
            let marked = CandidateNames { node: node.name.clone(), claim: node.claim.clone() };
            taint::mark(&self.ctx, &marked, &reason).await.map(|()| marked)
        }));
        let (marked, errors): (Vec<_>, Vec<_>) = marks.await.into_iter().partition(Result::is_ok);
        let marked: Vec<CandidateNames> = marked.into_iter().filter_map(Result::ok).collect();
        if !errors.is_empty() && (marked.is_empty() || !decision.command.replacements.is_empty()) {
            return self.abandon_command(&decision, errors.into_iter().filter_map(Result::err).collect());
        }
        let replacements = match self.create_replacements(&decision, offered).await {
            Ok(replacements) => replacements,
            Err(error) => return self.abandon_command(&decision, vec![error]),
        };
        self.count_decision(&decision);
        let names = replacements.iter().map(|one| one.name.clone()).collect();
        self.history.record_started(&decision, names);
        let nodes = self.mark_and_nominate(&decision.command, marked);
        drop(room);
        self.track(decision, nodes, replacements);
        Ok(())
    }

    /// Room under the node limit of a static pool, for whom others create claims at the same time (spec 03 §8.2). Other pools have none to reserve.
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

    /// A command could not be started. What was marked is found by the next clean-up.
    fn abandon_command(&self, decision: &Decision, errors: Vec<Error>) -> Result<(), Error> {
        self.record_drift_failure(&decision.command);
        Error::combine(errors)
    }

    async fn create_replacements(
        &self,
        decision: &Decision,
        offered: Vec<Vec<OfferingKey>>,
    ) -> Result<Vec<CommandReplacement>, Error> {
        let command = &decision.command;
        let reason = decision.reason();
        let creations = command.replacements.iter().zip(offered).map(|(planned, offered)| {
            let reason = &reason;
            async move {
                let Some(pool) = self.ctx.managed_pool(&planned.pool) else {
                    return Err(Error::PoolNotFound(planned.pool.to_string()));
                };
                let mut wanted = claim::build_claim(planned, &pool);
                let note = {
                    let cluster = self.ctx.cluster.lock();
                    churn_backoff::replaced_annotation(&cluster, command, planned, decision.created)
                };
                wanted.metadata.annotations.get_or_insert_default().extend(note);
                let name = claim::create(&self.ctx, planned, &wanted, reason).await?;
                Ok(CommandReplacement {
                    name: Str::from(name),
                    pool: planned.pool.clone(),
                    offerings: offered,
                    is_initialized: false,
                })
            }
        });
        let (created, errors): (Vec<_>, Vec<_>) = join_all(creations).await.into_iter().partition(Result::is_ok);
        Error::combine(errors.into_iter().filter_map(Result::err).collect())?;
        Ok(created.into_iter().filter_map(Result::ok).collect())
    }

    /// From here on the nodes do not count any more, and others are expected to take their pods. Not earlier: as long as the
    /// replacements were not known, provisioning would have launched machines for the same pods.
    fn mark_and_nominate(&self, command: &DisruptionCommand, marked: Vec<CandidateNames>) -> Vec<CommandCandidate> {
        let mut told = Vec::new();
        let mut cluster = self.ctx.cluster.lock();
        let mut nodes = Vec::new();
        for marked in marked {
            let known = cluster.get::<TrackedClaim>(&marked.claim).map(|claim| claim.engine_claim.provider_id.clone());
            let provider_id = known.unwrap_or_default();
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
                told.push(events::nominated(pod, claim.as_deref(), Some(&node.metadata.name)));
            }
        }
        drop(cluster);
        for event in told {
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

/// Room for the replacement of a static node. It is given back once the replacement is known, or will not be.
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
