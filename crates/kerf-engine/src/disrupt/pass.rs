//! One pass over the disruption methods in their order (spec 03 §4). The first method that finds a
//! command ends the pass.
//!
//! Methods record why they leave a node alone. So the last pass, in which no method finds a
//! command, has a reason for every node that stays.

use kerf_api::labels;
use kerf_api::nodepool::DisruptionReason;
use kerf_api::slim::Str;
use rustc_hash::FxHashSet;

use super::block_reason::BlockReason;
use super::budgets::NodePoolBudgets;
use super::command::{BlockedNode, CommandNode, DisruptionCommand, Method, RejectedCommand};
use super::input::DisruptionSettings;
use super::simulate::{NodeIx, Purpose, SimulationEstimate, SimulationResult, Simulator};
use super::survey::{DisruptionClass, NodeFacts, Survey};
use super::{consolidation, drift, emptiness, moves, static_drift};
use crate::bits::Bits;
use crate::price::Price;
use crate::solve::PlannedClaim;

/// Index of a node in [`Survey::nodes`].
pub(crate) type SurveyIx = usize;

/// One run over the methods on one survey, with what it has learned so far. The simulator is built
/// at its first use.
#[derive(Debug)]
pub(crate) struct DisruptionPass<'a, 'i> {
    pub(crate) survey: &'a Survey<'i>,
    pub(crate) settings: &'a DisruptionSettings,
    pub(crate) budgets: &'a NodePoolBudgets,
    planned: Option<&'a PlannedNodes>,
    simulator: Option<Simulator>,
    /// Block reasons that methods recorded, by [`SurveyIx`].
    blocks_by_node: Vec<Vec<BlockReason>>,
    rejected: Vec<RejectedCommand>,
    simulations: usize,
}

/// Nodes that earlier commands of the plan launch and that this pass treats as running.
#[derive(Debug, Default)]
pub(crate) struct PlannedNodes {
    pub(crate) launched: FxHashSet<Str>,
    /// Nodes that commands of this pass must not remove.
    pub(crate) excluded: FxHashSet<Str>,
}

/// The results of a pass besides its commands.
#[derive(Debug)]
pub(crate) struct PassReport {
    /// Nodes that stay, with reasons.
    pub(crate) blocked: Vec<BlockedNode>,
    /// Commands that the `Balanced` policy of a NodePool rejected.
    pub(crate) rejected: Vec<RejectedCommand>,
    /// Number of simulations.
    pub(crate) simulations: usize,
}

impl<'a, 'i> DisruptionPass<'a, 'i> {
    pub(crate) fn new(survey: &'a Survey<'i>, settings: &'a DisruptionSettings, budgets: &'a NodePoolBudgets) -> Self {
        let blocks_by_node = vec![Vec::new(); survey.nodes.len()];
        let rejected = Vec::new();
        Self { survey, settings, budgets, planned: None, simulator: None, blocks_by_node, rejected, simulations: 0 }
    }

    /// Sets the nodes that exist only in the plan.
    pub(crate) fn with_planned_nodes(self, planned: &'a PlannedNodes) -> Self {
        Self { planned: Some(planned), ..self }
    }

    /// Tries all methods and returns the commands of the first one that finds any.
    pub(crate) fn run(&mut self) -> Vec<DisruptionCommand> {
        let mut results = Method::ALL.into_iter().map(|method| self.commands_of(method));
        results.find(|commands| !commands.is_empty()).unwrap_or_default()
    }

    /// Returns the commands of one method.
    pub(crate) fn commands_of(&mut self, method: Method) -> Vec<DisruptionCommand> {
        match method {
            Method::Emptiness => emptiness::commands(self),
            Method::StaticDrift => static_drift::commands(self),
            Method::Drift => drift::commands(self),
            Method::MultiNode => consolidation::multi_node(self),
            Method::SingleNode => consolidation::single_node(self),
            Method::Move => moves::commands(self),
        }
    }

    /// Returns the number of nodes that a method could remove if budgets allowed all of them.
    pub(crate) fn count_eligible(&self, method: Method) -> usize {
        let input = self.survey.input;
        match method {
            Method::Emptiness => {
                self.candidates(DisruptionClass::Graceful, |facts| emptiness::accepts(facts, input)).len()
            }
            Method::StaticDrift => {
                self.candidates(DisruptionClass::Eventual, |f| f.drift.is_some() && f.is_static(input)).len()
            }
            Method::Drift => {
                self.candidates(DisruptionClass::Eventual, |f| f.drift.is_some() && !f.is_static(input)).len()
            }
            Method::MultiNode | Method::SingleNode | Method::Move => {
                self.candidates(DisruptionClass::Graceful, |facts| consolidation::accepts(facts, input)).len()
            }
        }
    }

    pub(crate) fn facts(&self, ix: SurveyIx) -> &'a NodeFacts<'i> {
        &self.survey.nodes[ix]
    }

    /// Returns the nodes that no reason blocks for this class and that the filter accepts. Nodes
    /// that exist only in the plan are left out.
    pub(crate) fn candidates(&self, class: DisruptionClass, filter: impl Fn(&NodeFacts<'i>) -> bool) -> Vec<SurveyIx> {
        let mut all = self.candidates_including_planned(class, filter);
        all.retain(|ix| !self.is_planned(*ix));
        all
    }

    /// Like [`Self::candidates`], with nodes that exist only in the plan unless they are excluded.
    pub(crate) fn candidates_including_planned(
        &self,
        class: DisruptionClass,
        filter: impl Fn(&NodeFacts<'i>) -> bool,
    ) -> Vec<SurveyIx> {
        let is_excluded =
            |facts: &NodeFacts<'_>| self.planned.is_some_and(|planned| planned.excluded.contains(&facts.name));
        let nodes = self.survey.nodes.iter().enumerate();
        let is_eligible = |facts: &NodeFacts<'i>| facts.is_candidate(class) && filter(facts) && !is_excluded(facts);
        nodes.filter(|(_, facts)| is_eligible(facts)).map(|(ix, _)| ix).collect()
    }

    fn is_planned(&self, ix: SurveyIx) -> bool {
        self.planned.is_some_and(|planned| planned.launched.contains(&self.facts(ix).name))
    }

    /// Returns true if the budgets allow the removal of the node. A node that exists only in the
    /// plan counts against no budget.
    pub(crate) fn is_within_budget(&self, budgets: &NodePoolBudgets, ix: SurveyIx, reason: &DisruptionReason) -> bool {
        self.is_planned(ix) || self.facts(ix).pool.is_some_and(|pool| budgets.remaining(pool, reason) > 0)
    }

    /// Counts the removal of the node against the budgets.
    pub(crate) fn charge_budget(&self, budgets: &mut NodePoolBudgets, ix: SurveyIx) {
        if let Some(pool) = self.facts(ix).pool.filter(|_| !self.is_planned(ix)) {
            budgets.charge_node(pool);
        }
    }

    /// Records why a method leaves a node alone.
    pub(crate) fn record_block(&mut self, ix: SurveyIx, block: BlockReason) {
        if !self.blocks_by_node[ix].contains(&block) {
            self.blocks_by_node[ix].push(block);
        }
    }

    /// Records a command that a pool's `Balanced` policy rejects.
    pub(crate) fn record_rejected(&mut self, command: DisruptionCommand) {
        self.rejected.push(RejectedCommand {
            method: command.method,
            pools: command.pools(),
            nodes: command.nodes.len(),
            decision: command.decision(),
            scores: command.scores,
        });
    }

    /// Simulates the scheduling of all pods without these nodes. Returns `None` if the simulator
    /// does not know one of the nodes.
    pub(crate) fn simulate_removal(&mut self, batch: &[SurveyIx], purpose: Purpose) -> Option<SimulationResult> {
        self.simulations += 1;
        let (simulator, nodes) = self.simulator_for(batch)?;
        Some(simulator.simulate_removal(&nodes, purpose))
    }

    /// Simulates the removal of a drifted node whose pods may not move to any of the nodes in
    /// `others`.
    pub(crate) fn simulate_removal_avoiding(&mut self, ix: SurveyIx, others: &Bits) -> Option<SimulationResult> {
        self.simulations += 1;
        let (simulator, nodes) = self.simulator_for(&[ix])?;
        Some(simulator.simulate_removal_avoiding(&nodes, others))
    }

    /// Returns the given nodes as simulator indices. Nodes that the simulator does not know are
    /// left out.
    pub(crate) fn simulator_nodes(&mut self, nodes: &[SurveyIx]) -> Bits {
        let survey = self.survey;
        let simulator = self.simulator();
        nodes.iter().filter_map(|ix| simulator.node(&survey.nodes[*ix].name)).map(|node| node.0).collect()
    }

    /// Simulates the removal with a search for cheaper replacements than first fit finds. Returns
    /// `None` if no replacements could cost less than `max_price`.
    pub(crate) fn simulate_cheapest_removal(
        &mut self,
        batch: &[SurveyIx],
        max_price: Price,
    ) -> Option<SimulationResult> {
        self.simulations += 1;
        let (simulator, nodes) = self.simulator_for(batch)?;
        simulator.simulate_cheapest_removal(&nodes, max_price)
    }

    /// Estimates the price and node usage without these nodes. Returns `None` if some pod could not
    /// be scheduled.
    pub(crate) fn estimate_removal(&mut self, batch: &[SurveyIx]) -> Option<SimulationEstimate> {
        self.simulations += 1;
        let (simulator, nodes) = self.simulator_for(batch)?;
        simulator.estimate_removal(&nodes)
    }

    /// Returns the estimated usage of a node in thousandths. Returns `None` if the simulator does
    /// not know the node.
    pub(crate) fn estimated_usage_permille(&mut self, estimate: &SimulationEstimate, ix: SurveyIx) -> Option<i128> {
        let name = &self.facts(ix).name;
        let node = self.simulator().node(name)?;
        estimate.node_usage_permille.get(node.0).copied()
    }

    /// Returns the nodes sorted by usage, least used first: their pods fit elsewhere most easily.
    pub(crate) fn emptiest_first(&mut self, nodes: &[SurveyIx]) -> Vec<SurveyIx> {
        let Some((simulator, simulator_nodes)) = self.simulator_for(nodes) else { return Vec::new() };
        let mut all: Vec<(i128, SurveyIx)> =
            simulator_nodes.into_iter().map(|node| simulator.usage_permille(node)).zip(nodes.iter().copied()).collect();
        all.sort_by_key(|(usage, _)| *usage);
        all.into_iter().map(|(_, ix)| ix).collect()
    }

    fn simulator(&mut self) -> &mut Simulator {
        let survey = self.survey;
        let settings = &self.settings.scheduling;
        self.simulator
            .get_or_insert_with(|| Simulator::new(survey.input, settings, survey.nodes_in_consolidate_after()))
    }

    /// Returns the simulator and the nodes as simulator indices. Returns `None` if the simulator
    /// does not know one of the nodes.
    fn simulator_for(&mut self, batch: &[SurveyIx]) -> Option<(&mut Simulator, Vec<NodeIx>)> {
        let survey = self.survey;
        let simulator = self.simulator();
        let nodes: Option<Vec<NodeIx>> = batch.iter().map(|ix| simulator.node(&survey.nodes[*ix].name)).collect();
        Some((simulator, nodes?))
    }

    /// Builds the command that removes these nodes. `simulation` is the simulation that the command
    /// is based on, if the method needed one.
    pub(crate) fn build_command(
        &self,
        method: Method,
        batch: &[SurveyIx],
        replacements: Vec<PlannedClaim>,
        simulation: Option<SimulationResult>,
    ) -> DisruptionCommand {
        let facts = || batch.iter().map(|ix| self.facts(*ix));
        let mut pods: Vec<Str> = facts().flat_map(|f| &f.reschedulable).map(|pod| pod.namespaced_name()).collect();
        pods.sort_unstable();
        DisruptionCommand {
            method,
            nodes: facts().map(|f| self.command_node(f)).collect(),
            price_before: facts().map(NodeFacts::known_price).sum(),
            price_after: replacement_price(&replacements),
            replacements,
            replacement_names: Vec::new(),
            pods,
            placements: simulation.map(|s| s.nodes).unwrap_or_default(),
            scores: Vec::new(),
        }
    }

    fn command_node(&self, facts: &NodeFacts<'i>) -> CommandNode {
        let label = |key: &str| Str::new(facts.label(key).unwrap_or_default());
        CommandNode {
            name: facts.name.clone(),
            claim: facts.claim.map(|c| c.name.clone()).unwrap_or_default(),
            pool: self.survey.pool(facts).map(|p| p.name.clone()).unwrap_or_default(),
            instance_type: label(labels::INSTANCE_TYPE),
            capacity_type: label(labels::CAPACITY_TYPE),
            price: facts.known_price(),
        }
    }

    /// Ends the pass and returns all block reasons of each node that no command removes.
    pub(crate) fn into_report(self, commands: &[DisruptionCommand]) -> PassReport {
        let input = self.survey.input;
        let removed: FxHashSet<&Str> = commands.iter().flat_map(|c| &c.nodes).map(|n| &n.name).collect();
        let mut all = Vec::new();
        for (facts, recorded) in self.survey.nodes.iter().zip(self.blocks_by_node) {
            if removed.contains(&facts.name) {
                continue;
            }
            let mut blocks: Vec<BlockReason> = facts.blocks_for(DisruptionClass::Graceful).cloned().collect();
            for block in facts.method_blocks(input).into_iter().chain(recorded) {
                if !blocks.contains(&block) {
                    blocks.push(block);
                }
            }
            if !blocks.is_empty() {
                all.push(BlockedNode { node: facts.name.clone(), reasons: blocks });
            }
        }
        PassReport { blocked: all, rejected: self.rejected, simulations: self.simulations }
    }
}

/// Returns the expected price of replacements per hour.
pub(crate) fn replacement_price(claims: &[PlannedClaim]) -> Price {
    claims.iter().filter_map(|c| c.launch.estimate.as_ref()).map(|e| e.price).sum()
}

/// Sorts by savings per unit of disruption cost, highest first, ties by name (spec 03 §8.4).
pub(crate) fn sort_by_savings_ratio(pass: &DisruptionPass<'_, '_>, candidates: &mut [SurveyIx]) {
    candidates.sort_by(|a, b| {
        let (a, b) = (pass.facts(*a), pass.facts(*b));
        b.savings_ratio().total_cmp(&a.savings_ratio()).then_with(|| a.name.cmp(&b.name))
    });
}
