//! The input of the next pass: planned claims are launched, and their pods run on them.

use std::sync::Arc;

use kerf_api::labels;
use kerf_api::slim::{Node, PodPhase, Str};
use kerf_engine::catalogue::OfferingState;
use kerf_engine::{NodeClaimInput, PlannedClaim, Solution};

use crate::fixture::Fixture;

impl Fixture {
    /// Returns the fixture after all planned claims are launched and all placed pods run. A used
    /// reservation has one slot less.
    pub(crate) fn after_launch(&self) -> Self {
        let solution = self.solve();
        let mut next = self.clone();
        let first = next.input.nodes.len();
        for (i, claim) in solution.claims.iter().enumerate() {
            next.add_launched_node(claim, Str::from(format!("launched-{}", first + i)));
        }
        next.bind_pods(&solution, first);
        next
    }

    fn add_launched_node(&mut self, claim: &PlannedClaim, name: Str) {
        let estimate = claim.launch.estimate.as_ref().unwrap();
        let lists = self.input.catalogues.iter_mut();
        let current_types = lists.into_iter().find(|types| types.find(&estimate.instance_type).is_some()).unwrap();
        let types = current_types.clone();
        let instance_type = types.find(&estimate.instance_type).unwrap();
        let mut node = Node::default();
        let matches = |key: &str, value: &Str, o: &kerf_engine::catalogue::Offering| {
            o.requirements.get(key).is_some_and(|r| r.has(value))
        };
        let used_offering = instance_type.offerings().find(|o| {
            o.is_available()
                && matches(labels::ZONE, &estimate.zone, o)
                && matches(labels::CAPACITY_TYPE, &estimate.capacity_type, o)
        });
        if let Some(used_offering) = used_offering.filter(|_| estimate.capacity_type == labels::CAPACITY_TYPE_RESERVED)
        {
            let reservation_capacity = used_offering.reservation_capacity() - 1;
            let state = OfferingState { is_available: reservation_capacity > 0, reservation_capacity };
            current_types.set_state(used_offering.ix(), state);
        }
        let node_labels = [
            (labels::ZONE, &estimate.zone),
            (labels::CAPACITY_TYPE, &estimate.capacity_type),
            (labels::INSTANCE_TYPE, &estimate.instance_type),
            (labels::HOSTNAME, &name),
            (labels::REGISTERED, &Str::new("true")),
            (labels::INITIALIZED, &Str::new("true")),
        ];
        let node_labels = node_labels.into_iter().map(|(key, value)| (Str::new(key), value.clone()));
        node.metadata.labels =
            claim.launch.labels.iter().map(|(k, v)| (k.clone(), v.clone())).chain(node_labels).collect();
        node.metadata.name = name.clone();
        node.spec.provider_id = Str::from(format!("cloud:///{name}"));
        node.spec.taints.clone_from(&self.input.pools.iter().find(|p| p.name == claim.pool).unwrap().taints);
        node.status.capacity = instance_type.capacity.clone();
        node.status.allocatable = instance_type.capacity.clone();
        self.input.node_claims.push(NodeClaimInput {
            labels: node.metadata.labels.clone(),
            provider_id: node.spec.provider_id.clone(),
            name,
            ..NodeClaimInput::default()
        });
        self.input.nodes.push(Arc::new(node));
    }

    fn bind_pods(&mut self, solution: &Solution, first: usize) {
        let claims = solution.claims.iter().enumerate();
        let launched = claims.flat_map(|(i, c)| c.pods.iter().map(move |p| (p, format!("launched-{}", first + i))));
        let existing = solution.nodes.iter().flat_map(|n| n.pods.iter().map(move |p| (p, n.node.to_string())));
        for (name, node) in launched.chain(existing) {
            let pod = self.input.pods.iter_mut().find(|p| p.namespaced_name() == *name).unwrap();
            let pod = Arc::make_mut(pod);
            pod.spec.node_name = Some(node.into());
            pod.status.phase = PodPhase::Running;
        }
    }
}
