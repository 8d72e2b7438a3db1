//! What is fixed while pods are placed: templates, classes of pods, groups with their counts, nodes by shape.

use jiff::Timestamp;
use kerf_api::slim::{Pod, Str};

use super::class::{Class, ClassIx};
use super::compile;
use super::template::{Template, pool_set, pools_in_order};
use crate::bits::Bits;
use crate::explain::Reason;
use crate::narrow::{Narrowing, SetIx};
use crate::pod::default_spread::DefaultSpread;
use crate::topology::{Counts, Group, TopologyKeys};
use crate::world::{Attachment, Input, Settings, World, selection};

/// A pod to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PodIx(pub(crate) u32);

/// Everything that one solve is about.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) world: World,
    pub(crate) table: Narrowing,
    pub(crate) templates: Vec<Template>,
    /// Whether any pool takes part at all.
    pub(crate) has_pools: bool,
    pub(crate) keys: TopologyKeys,
    pub(crate) groups: Vec<Group>,
    pub(crate) counts: Vec<Counts>,
    pub(crate) classes: Vec<Class>,
    pub(crate) pods: Vec<PodEntry>,
    /// Pods that are left out before anything is tried.
    pub(crate) refused: Vec<(Str, Reason)>,
    /// Nodes of one shape accept the same classes.
    pub(crate) shapes: Vec<Shape>,
    /// Per topology key the domain of each node.
    pub(crate) node_domains: Vec<Vec<Option<u32>>>,
    pub(crate) reservations: Vec<(Str, i32)>,
    /// Nodes that take no pod that lets them rest.
    pub(crate) resting: Bits,
}

/// A pod of the problem.
#[derive(Debug, Clone)]
pub(crate) struct PodEntry {
    pub(crate) name: Str,
    pub(crate) class: ClassIx,
    pub(crate) created: Option<Timestamp>,
    pub(crate) uid: Str,
    pub(crate) attachments: Vec<Attachment>,
    /// Whether it stays away from nodes that rest: it could stay where it is.
    pub(crate) lets_rest: bool,
}

/// Nodes that no class can tell apart by labels and taints.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) labels: SetIx,
    pub(crate) taints_of: usize,
    pub(crate) nodes: Bits,
}

impl Problem {
    pub(crate) fn new(input: &Input, settings: &Settings) -> Self {
        let leaving_nodes = leaving_nodes(input);
        let is_leaving = |pod: &Pod| {
            pod.spec.node_name.as_ref().is_some_and(|n| leaving_nodes.contains(n))
                && selection::is_leaving(pod, &input.disruption_budgets, input.at)
        };
        let world = World::new(input, settings, &is_leaving);
        let mut table = world.table.clone();
        let order = pools_in_order(&world.pools);
        let mut templates = Vec::new();
        for pool_ix in &order {
            let pool = &world.pools[*pool_ix];
            let set = pool_set(pool, &world.label_rules, &mut table);
            let (set, rows) = compile::pre_filter(&world, pool, set, &mut table);
            if !rows.is_empty() {
                templates.extend(Template::new(&world, *pool_ix, set, rows, &mut table));
            }
        }
        let mut problem = Self {
            table,
            templates,
            has_pools: !order.is_empty(),
            keys: TopologyKeys::default(),
            groups: Vec::new(),
            counts: Vec::new(),
            classes: Vec::new(),
            pods: Vec::new(),
            refused: Vec::new(),
            shapes: Vec::new(),
            node_domains: Vec::new(),
            reservations: Vec::new(),
            resting: Bits::new(),
            world,
        };
        let pending = input.pods.iter().filter(|p| selection::is_provisionable(p, settings));
        let mut defaults = DefaultSpread::new(&settings.default_spread, &input.services, &input.replica_owners);
        compile::classes(&mut problem, &mut defaults, pending, input.pods.iter().filter(|p| is_leaving(p)));
        compile::domains(&mut problem, &order);
        compile::counts(&mut problem);
        compile::shapes(&mut problem);
        compile::reservations(&mut problem);
        problem
    }

    /// The queue's order: much CPU first, then much memory, then age, then uid (spec 02 §6.2).
    pub(crate) fn queue(&self) -> Vec<PodIx> {
        use crate::resources::ResourceIx;
        let mut order: Vec<PodIx> = (0..self.pods.len() as u32).map(PodIx).collect();
        let request = |pod: PodIx, resource| self.class_of(pod).requests.get(resource);
        order.sort_by(|a, b| {
            let (x, y) = (&self.pods[a.0 as usize], &self.pods[b.0 as usize]);
            request(*b, ResourceIx::CPU)
                .cmp(&request(*a, ResourceIx::CPU))
                .then_with(|| request(*b, ResourceIx::MEMORY).cmp(&request(*a, ResourceIx::MEMORY)))
                .then_with(|| x.created.cmp(&y.created))
                .then_with(|| x.uid.cmp(&y.uid))
                .then_with(|| x.name.cmp(&y.name))
        });
        order
    }

    /// What a class turns into once all its wishes are given up.
    pub(crate) fn most_relaxed(&self, class: ClassIx) -> ClassIx {
        let mut class = class;
        while let Some(next) = self.classes[class.0 as usize].relaxed {
            class = next;
        }
        class
    }

    pub(crate) fn class_of(&self, pod: PodIx) -> &Class {
        &self.classes[self.pods[pod.0 as usize].class.0 as usize]
    }
}

/// Names of nodes that are going away; their pods look for a new place in the same pass.
fn leaving_nodes(input: &Input) -> rustc_hash::FxHashSet<Str> {
    let going = |claim: &crate::world::NodeClaim| claim.is_deleting || claim.is_marked;
    let by_provider: rustc_hash::FxHashMap<&Str, bool> =
        input.node_claims.iter().filter(|c| !c.provider_id.is_empty()).map(|c| (&c.provider_id, going(c))).collect();
    input
        .nodes
        .iter()
        .filter(|node| match by_provider.get(&node.spec.provider_id) {
            Some(going) => *going,
            None => node.metadata.deletion_timestamp.is_some(),
        })
        .map(|node| node.metadata.name.clone())
        .collect()
}
