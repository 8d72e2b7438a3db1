//! `capacityreservation.capacitytype`: relabels claims and nodes whose instance has left its
//! capacity reservation and goes on as on-demand (spec 06 §11.5).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as CoreNode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::{Node, Str};
use kerf_operator::{Reconcile, ReconcileError};
use kerf_runtime::{ApiError, MergePatch, OptimisticLock, PatchTarget, ReconcileAction};
use kerf_state::TrackedClaim;
use kube::Api;
use serde_json::{Map, Value, json};
use tracing::debug;

use crate::context::AwsContext;
use crate::instances::{InstanceCallError, RESERVATION_LABELS, provider_id};

/// Time between two runs.
const INTERVAL: Duration = Duration::from_mins(1);

/// The controller.
pub(super) struct CapacityTypeUpdate {
    context: Arc<AwsContext>,
}

/// Failure to list instances or to change labels. All other objects are changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CapacityTypeError {
    #[error("listing instances, {0}")]
    List(#[source] InstanceCallError),
    #[error("updating capacity type, {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Patch(Vec<LabelError>),
}

/// Failure to change the labels of an object.
#[derive(Debug, thiserror::Error)]
#[error("{object}, {cause}")]
pub(super) struct LabelError {
    object: String,
    cause: ApiError,
}

impl ReconcileError for CapacityTypeError {
    fn log_fields(&self) -> Vec<(String, Value)> {
        match self {
            Self::List(cause) => cause.log_fields(),
            Self::Patch(_) => Vec::new(),
        }
    }
}

/// A claim with the nodes that may have to be relabelled with it.
struct LabelledClaim {
    claim: Arc<TrackedClaim>,
    nodes: Vec<Arc<Node>>,
}

impl CapacityTypeUpdate {
    pub(super) fn new(context: Arc<AwsContext>) -> Self {
        Self { context }
    }

    /// Returns the claims that are labelled as reserved, or that have a registered node which is.
    fn labelled_claims(&self) -> Vec<LabelledClaim> {
        let cluster = self.context.cluster.lock();
        let mut labelled = Vec::new();
        for claim in cluster.all::<TrackedClaim>().values() {
            let provider_id = claim.engine_claim.provider_id.as_str();
            if provider_id.is_empty() {
                continue;
            }
            let nodes: Vec<Arc<Node>> =
                cluster.nodes_of(provider_id).filter(|node| is_reserved_node(node)).cloned().collect();
            if !nodes.is_empty() || is_reserved_claim(claim) {
                labelled.push(LabelledClaim { claim: claim.clone(), nodes });
            }
        }
        labelled
    }

    async fn relabel_claim(&self, claim: &NodeClaim) -> Result<(), ApiError> {
        let claims: Api<NodeClaim> = Api::all(self.context.client.clone());
        let labels = claim.metadata.labels.clone().unwrap_or_default();
        let (before, after) = (part(&labels), part(&on_demand(&labels)));
        match MergePatch::OBJECT.send_part(&claims, &claim.metadata, &before, &after).await {
            Ok(Some(written)) => {
                self.context.cluster.lock().apply_own_write(TrackedClaim::from(written));
                Ok(())
            }
            Ok(None) | Err(ApiError::NotFound) => Ok(()),
            Err(cause) => Err(cause),
        }
    }

    async fn relabel_node(&self, node: &Node) -> Result<(), ApiError> {
        let nodes: Api<CoreNode> = Api::all(self.context.client.clone());
        let labels: BTreeMap<String, String> =
            node.metadata.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let metadata = ObjectMeta { name: Some(node.metadata.name.to_string()), ..ObjectMeta::default() };
        // Cluster state keeps no resource version of nodes. The patch names only these labels.
        let patch = MergePatch { target: PatchTarget::Object, lock: OptimisticLock::None };
        match patch.send_part(&nodes, &metadata, &part(&labels), &part(&on_demand(&labels))).await {
            Ok(_) | Err(ApiError::NotFound) => Ok(()),
            Err(cause) => Err(cause),
        }
    }
}

impl Reconcile for CapacityTypeUpdate {
    type Error = CapacityTypeError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, CapacityTypeError> {
        let labelled = self.labelled_claims();
        if labelled.is_empty() {
            return Ok(ReconcileAction::RequeueAfter(INTERVAL));
        }
        let instances = self.context.instances.list().await.map_err(CapacityTypeError::List)?;
        let capacity_types: BTreeMap<String, &str> =
            instances.iter().map(|record| (provider_id(&record.zone, &record.id), record.capacity_type)).collect();
        let (mut updated, mut errors) = (Vec::new(), Vec::new());
        for LabelledClaim { claim, nodes } in labelled {
            let capacity_type = capacity_types.get(claim.engine_claim.provider_id.as_str());
            if capacity_type != Some(&labels::CAPACITY_TYPE_ON_DEMAND) {
                continue;
            }
            let name = claim.object.metadata.name.clone().unwrap_or_default();
            if is_reserved_claim(&claim) {
                match self.relabel_claim(&claim.object).await {
                    Ok(()) => updated.push(name.clone()),
                    Err(cause) => {
                        errors.push(LabelError { object: format!("nodeclaim {name}"), cause });
                        continue;
                    }
                }
            }
            for node in nodes {
                if let Err(cause) = self.relabel_node(&node).await {
                    errors.push(LabelError { object: format!("node {}", node.metadata.name), cause });
                }
            }
        }
        if !updated.is_empty() {
            debug!(NodeClaims = updated.join(", "), "updated capacity type for nodeclaims");
        }
        if errors.is_empty() {
            Ok(ReconcileAction::RequeueAfter(INTERVAL))
        } else if errors.iter().all(|error| matches!(error.cause, ApiError::Conflict)) {
            Ok(ReconcileAction::RequeueWithBackoff)
        } else {
            Err(CapacityTypeError::Patch(errors))
        }
    }
}

fn is_reserved_claim(claim: &TrackedClaim) -> bool {
    let capacity_type = claim.object.metadata.labels.as_ref().and_then(|labels| labels.get(labels::CAPACITY_TYPE));
    !claim.is_terminating() && capacity_type.is_some_and(|value| value == labels::CAPACITY_TYPE_RESERVED)
}

/// Returns true for a registered node that is labelled as reserved and is not being deleted.
fn is_reserved_node(node: &Node) -> bool {
    let has = |key: &str, value: &str| node.metadata.labels.has_value(key, value);
    node.metadata.deletion_timestamp.is_none()
        && has(labels::REGISTERED, "true")
        && has(labels::CAPACITY_TYPE, labels::CAPACITY_TYPE_RESERVED)
}

/// Returns the labels of an instance that uses no reservation.
fn on_demand(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut changed = labels.clone();
    changed.retain(|key, _| !RESERVATION_LABELS.contains(&key.as_str()));
    changed.insert(labels::CAPACITY_TYPE.to_owned(), labels::CAPACITY_TYPE_ON_DEMAND.to_owned());
    changed
}

fn part(labels: &BTreeMap<String, String>) -> Value {
    let labels: Map<String, Value> = labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({ "metadata": { "labels": labels } })
}
