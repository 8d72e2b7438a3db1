//! One pass over the methods in their order (spec 03 §4): the first that acts ends it. What a pass learns of nodes that stay is kept with
//! them, so that the last pass, in which nothing acts, knows a reason for every node.

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

/// A node of the survey, by its place there.
pub(crate) type SurveyIx = usize;

/// One pass.
#[derive(Debug)]
pub(crate) struct DisruptionPass<'a, 'i> {
    pub(crate) survey: &'a Survey<'i>,
    pub(crate) settings: &'a DisruptionSettings,
    pub(crate) budgets: &'a NodePoolBudgets,
    planned: Option<&'a PlannedNodes>,
    simulator: Option<Simulator>,
    /// What methods found against each node.
    blocks_by_node: Vec<Vec<BlockReason>>,
    rejected: Vec<RejectedCommand>,
    simulations: usize,
}

/// Machines that commands of the plan launch, in a world in which they are there already.
#[derive(Debug, Default)]
pub(crate) struct PlannedNodes {
    pub(crate) launched: FxHashSet<Str>,
    /// Those that a later command may not take.
    pub(crate) excluded: FxHashSet<Str>,
}

/// What a pass has to say besides its commands.
#[derive(Debug)]
pub(crate) struct PassReport {
    /// Nodes that stay.
    pub(crate) blocked: Vec<BlockedNode>,
    /// Moves that a pool's policy refused.
    pub(crate) rejected: Vec<RejectedCommand>,
    /// Questions asked of the simulator.
    pub(crate) simulations: usize,
}

impl<'a, 'i> DisruptionPass<'a, 'i> {
    pub(crate) fn new(survey: &'a Survey<'i>, settings: &'a DisruptionSettings, budgets: &'a NodePoolBudgets) -> Self {
        let verdicts = vec![Vec::new(); survey.nodes.len()];
        let refused = Vec::new();
        Self {
            survey,
            settings,
            budgets,
            planned: None,
            simulator: None,
            blocks_by_node: verdicts,
            rejected: refused,
            simulations: 0,
        }
    }

    /// The same on a world in which some machines are only planned.
    pub(crate) fn with_planned_nodes(self, planned: &'a PlannedNodes) -> Self {
        Self { planned: Some(planned), ..self }
    }

    /// The commands of the first method that acts.
    pub(crate) fn run(&mut self) -> Vec<DisruptionCommand> {
        let mut found = Method::ALL.into_iter().map(|method| self.commands_of(method));
        found.find(|commands| !commands.is_empty()).unwrap_or_default()
    }

    /// What one method wants to do.
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

    /// How many nodes one method could take, budgets aside.
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

    /// Nodes that a method of this class may take and its filter accepts.
    pub(crate) fn candidates(&self, class: DisruptionClass, filter: impl Fn(&NodeFacts<'i>) -> bool) -> Vec<SurveyIx> {
        let mut all = self.candidates_including_planned(class, filter);
        all.retain(|ix| !self.is_planned(*ix));
        all
    }

    /// The same, and machines that are only planned, but for those that are spared.
    pub(crate) fn candidates_including_planned(
        &self,
        class: DisruptionClass,
        filter: impl Fn(&NodeFacts<'i>) -> bool,
    ) -> Vec<SurveyIx> {
        let is_spared =
            |facts: &NodeFacts<'_>| self.planned.is_some_and(|planned| planned.excluded.contains(&facts.name));
        let nodes = self.survey.nodes.iter().enumerate();
        let may_go = |facts: &NodeFacts<'i>| facts.is_candidate(class) && filter(facts) && !is_spared(facts);
        nodes.filter(|(_, facts)| may_go(facts)).map(|(ix, _)| ix).collect()
    }

    fn is_planned(&self, ix: SurveyIx) -> bool {
        self.planned.is_some_and(|planned| planned.launched.contains(&self.facts(ix).name))
    }

    /// Whether budgets let a node go. What is only planned is nobody's disruption.
    pub(crate) fn is_within_budget(&self, budgets: &NodePoolBudgets, ix: SurveyIx, reason: &DisruptionReason) -> bool {
        self.is_planned(ix) || self.facts(ix).pool.is_some_and(|pool| budgets.remaining(pool, reason) > 0)
    }

    /// Takes a node off what budgets leave.
    pub(crate) fn charge_budget(&self, budgets: &mut NodePoolBudgets, ix: SurveyIx) {
        if let Some(pool) = self.facts(ix).pool.filter(|_| !self.is_planned(ix)) {
            budgets.charge_node(pool);
        }
    }

    /// Remembers why a method leaves a node alone.
    pub(crate) fn record_block(&mut self, ix: SurveyIx, block: BlockReason) {
        if !self.blocks_by_node[ix].contains(&block) {
            self.blocks_by_node[ix].push(block);
        }
    }

    /// Remembers a move that a pool's policy refuses.
    pub(crate) fn record_rejected(&mut self, command: DisruptionCommand) {
        self.rejected.push(RejectedCommand {
            method: command.method,
            pools: command.pools(),
            nodes: command.nodes.len(),
            decision: command.decision(),
            scores: command.scores,
        });
    }

    /// What would become of everything without these nodes.
    pub(crate) fn simulate_removal(&mut self, batch: &[SurveyIx], purpose: Purpose) -> Option<SimulationResult> {
        self.simulations += 1;
        let (simulator, nodes) = self.simulator_for(batch)?;
        Some(simulator.simulate_removal(&nodes, purpose))
    }

    /// What would become of everything without a node that has drifted, if its pods do not go to any of the others.
    pub(crate) fn simulate_removal_avoiding(&mut self, ix: SurveyIx, others: &Bits) -> Option<SimulationResult> {
        self.simulations += 1;
        let (simulator, nodes) = self.simulator_for(&[ix])?;
        Some(simulator.simulate_removal_avoiding(&nodes, others))
    }

    /// Those of the nodes that the simulator knows, as it knows them.
    pub(crate) fn simulator_nodes(&mut self, nodes: &[SurveyIx]) -> Bits {
        let survey = self.survey;
        let simulator = self.simulator();
        nodes.iter().filter_map(|ix| simulator.node(&survey.nodes[*ix].name)).map(|node| node.0).collect()
    }

    /// The same, with a look for cheaper machines than first fit finds; nothing if none could cost less than `most`.
    pub(crate) fn simulate_cheapest_removal(&mut self, batch: &[SurveyIx], most: Price) -> Option<SimulationResult> {
        self.simulations += 1;
        let (simulator, nodes) = self.simulator_for(batch)?;
        simulator.simulate_cheapest_removal(&nodes, most)
    }

    /// What it would come to without these nodes, roughly; nothing if some pod had no place.
    pub(crate) fn estimate_removal(&mut self, batch: &[SurveyIx]) -> Option<SimulationEstimate> {
        self.simulations += 1;
        let (simulator, nodes) = self.simulator_for(batch)?;
        simulator.estimate_removal(&nodes)
    }

    /// How much of a node would be taken, in thousandths; nothing if the simulator does not know it.
    pub(crate) fn estimated_usage_permille(&mut self, sketch: &SimulationEstimate, ix: SurveyIx) -> Option<i128> {
        let name = &self.facts(ix).name;
        let node = self.simulator().node(name)?;
        sketch.node_usage_permille.get(node.0).copied()
    }

    /// The same nodes, those first of which the least is taken: their pods find room most easily.
    pub(crate) fn emptiest_first(&mut self, nodes: &[SurveyIx]) -> Vec<SurveyIx> {
        let Some((simulator, known)) = self.simulator_for(nodes) else { return Vec::new() };
        let mut all: Vec<(i128, SurveyIx)> =
            known.into_iter().map(|node| simulator.usage_permille(node)).zip(nodes.iter().copied()).collect();
        all.sort_by_key(|(filled, _)| *filled);
        all.into_iter().map(|(_, ix)| ix).collect()
    }

    fn simulator(&mut self) -> &mut Simulator {
        let survey = self.survey;
        let settings = &self.settings.scheduling;
        self.simulator
            .get_or_insert_with(|| Simulator::new(survey.input, settings, survey.nodes_in_consolidate_after()))
    }

    /// The simulator and the nodes as it knows them; nothing if it does not know one of them.
    fn simulator_for(&mut self, batch: &[SurveyIx]) -> Option<(&mut Simulator, Vec<NodeIx>)> {
        let survey = self.survey;
        let simulator = self.simulator();
        let nodes: Option<Vec<NodeIx>> = batch.iter().map(|ix| simulator.node(&survey.nodes[*ix].name)).collect();
        Some((simulator, nodes?))
    }

    /// A command of these nodes. `what_if` is the answer that it rests on, if one was needed.
    pub(crate) fn build_command(
        &self,
        method: Method,
        batch: &[SurveyIx],
        replacements: Vec<PlannedClaim>,
        what_if: Option<SimulationResult>,
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
            placements: what_if.map(|w| w.nodes).unwrap_or_default(),
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

    /// Ends the pass: everything that keeps each node that stays.
    pub(crate) fn into_report(self, commands: &[DisruptionCommand]) -> PassReport {
        let input = self.survey.input;
        let gone: FxHashSet<&Str> = commands.iter().flat_map(|c| &c.nodes).map(|n| &n.name).collect();
        let mut all = Vec::new();
        for (facts, verdicts) in self.survey.nodes.iter().zip(self.blocks_by_node) {
            if gone.contains(&facts.name) {
                continue;
            }
            let mut blocks: Vec<BlockReason> = facts.blocks_for(DisruptionClass::Graceful).cloned().collect();
            for block in facts.method_blocks(input).into_iter().chain(verdicts) {
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

/// What replacements are expected to cost.
pub(crate) fn replacement_price(claims: &[PlannedClaim]) -> Price {
    claims.iter().filter_map(|c| c.launch.estimate.as_ref()).map(|e| e.price).sum()
}

/// The most saved for the least disruption first, ties by name (spec 03 §8.4).
pub(crate) fn sort_by_savings_ratio(pass: &DisruptionPass<'_, '_>, candidates: &mut [SurveyIx]) {
    candidates.sort_by(|a, b| {
        let (a, b) = (pass.facts(*a), pass.facts(*b));
        b.savings_ratio().total_cmp(&a.savings_ratio()).then_with(|| a.name.cmp(&b.name))
    });
}
