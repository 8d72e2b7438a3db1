//! The price of a cluster's pods if all its nodes were launched anew. Simulations compare the cost
//! of a cluster that has grown and shrunk with this price. The solver runs as in `kerf plan`, on
//! the current pods and without the nodes that Kerf manages.

use std::sync::Arc;

use kerf_api::labels;
use kerf_api::slim::{Node, Pod};
use kerf_engine::{Input, Price, Settings, solve};
use kerf_sandbox::{ApiServer, Cluster};
use kube::Client;

use crate::args;
use crate::commands::plan;
use crate::input::{SelectorKinds, load_with_client};
use crate::plan_input::{PlanInput, PlanOrigin};
use crate::provider::Provider;

/// Computes the lowest price for the current pods of a cluster.
pub(super) struct BestPriceCalculator {
    server: ApiServer,
    client: Client,
    clock: kerf_runtime::Clock,
    settings: Settings,
    selectors: SelectorKinds,
    provider: Arc<dyn Provider>,
}

impl BestPriceCalculator {
    pub(super) fn new(cluster: &Cluster, settings: &args::Settings, provider: Arc<dyn Provider>) -> Self {
        let server = cluster.api().clone();
        let (client, clock) = (server.client_as("appraiser"), server.clock());
        let selectors = SelectorKinds::needed_by(settings);
        Self { server, client, clock, settings: plan::engine_settings(settings, false, 1), selectors, provider }
    }

    /// Returns the price of the best plan in millionths of a dollar per hour, or `None` if the plan
    /// leaves a pod unplaced.
    pub(super) async fn best_price(&self) -> Option<u64> {
        let loaded = load_with_client(self.client.clone(), self.selectors).await.ok()?;
        let types = self.provider.priced_catalogue(&self.server, &loaded.objects);
        let origin = PlanOrigin { is_live: true, ..PlanOrigin::default() };
        let plan_input = PlanInput::new(loaded.objects, types.as_ref(), self.clock.now(), origin);
        let solution = solve(&without_launched_nodes(plan_input.input), &self.settings);
        if !solution.unplaced.is_empty() {
            return None;
        }
        let prices = solution.claims.iter().map(|claim| claim.launch.estimate.as_ref().map(|best| best.price));
        u64::try_from(prices.sum::<Option<Price>>()?.micro_dollars()).ok()
    }
}

/// Removes all nodes that Kerf launched from the input and makes their pods pending.
fn without_launched_nodes(mut input: Input) -> Input {
    let is_launched = |node: &Arc<Node>| node.metadata.labels.get(labels::NODEPOOL).is_some();
    let (launched, other_nodes): (Vec<Arc<Node>>, Vec<Arc<Node>>) = input.nodes.into_iter().partition(is_launched);
    input.nodes = other_nodes;
    input.node_claims.clear();
    let is_on_launched_node =
        |pod: &Pod| launched.iter().any(|node| pod.spec.node_name.as_ref() == Some(&node.metadata.name));
    // Every new node gets its own DaemonSet pods.
    let is_daemon_of_launched_node = |pod: &Pod| is_on_launched_node(pod) && pod.is_owned_by_daemonset();
    input.pods.retain(|pod| !pod.is_terminal() && !pod.is_terminating());
    input.pods.retain(|pod| !is_daemon_of_launched_node(pod));
    for pod in input.pods.iter_mut().filter(|pod| is_on_launched_node(pod)) {
        let pod = Arc::make_mut(pod);
        pod.spec.node_name = None;
        pod.status.conditions.retain(|condition| condition.condition_type != "PodScheduled");
    }
    input
}
