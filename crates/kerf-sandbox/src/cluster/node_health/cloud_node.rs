//! The cloud node lifecycle controller, a part of a cloud controller manager: deletes a Node that
//! is not ready once the attached cloud has terminated its instance. Finalizers keep the Node until
//! the autoscaler has removed them.

use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;
use crate::cluster::component_client::ComponentClient;
use crate::cluster::control_plane::{ControlPlane, RunAgain};
use crate::cluster::events::{EventComponent, EventType};
use crate::cluster::kind::ControlPlaneKind;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("cloud-node-lifecycle-controller");
/// User agent of the controller's requests.
const USER_AGENT: &str = "cloud-controller-manager";

/// Deletes a Node if its instance has ended. A ready Node is kept: its heartbeats have to end
/// first, as in a real cluster.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let (Some(node), Some(cloud)) = (plane.cache.nodes.get(key), plane.server.attached_cloud()) else {
        return Ok(RunAgain::WhenChanged);
    };
    let provider_id = &node.spec.provider_id;
    let is_ready = node.ready().is_some_and(|ready| ready.status == "True");
    let has_ended =
        provider_id.starts_with(cloud.provider_id_prefix()) && plane.kubelets.cloud_instances.has_ended(provider_id);
    if is_ready || node.metadata.is_deleting() || !has_ended {
        return Ok(RunAgain::WhenChanged);
    }
    let message = format!("Deleting node {} because it does not exist in the cloud provider", node.metadata.name);
    plane.publish_event(
        EVENT_COMPONENT,
        (ControlPlaneKind::Node, &node.metadata),
        EventType::Normal,
        "DeletingNode",
        message,
    );
    let client = ComponentClient::new(plane.server.clone(), USER_AGENT);
    client.delete(ControlPlaneKind::Node, key, &node.metadata.uid)?;
    Ok(RunAgain::WhenChanged)
}
