//! The kinds that the keys of each controller name, for logs.

use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_operator::ControllerName;
use kerf_operator::logs::ObjectKind;

/// Returns a controller's name together with the kind that its keys name.
pub(crate) fn controller_name(name: &'static str) -> ControllerName {
    ControllerName { name, kind: kind_of(name) }
}

/// Returns the kind that a controller's keys name. Returns `None` for controllers with a single
/// key.
fn kind_of(controller: &str) -> Option<ObjectKind> {
    match controller {
        "nodeclaim.garbagecollection" | "provisioner" | "disruption" => None,
        "provisioner.trigger.pod" | "eviction-queue" => Some(ObjectKind::of::<Pod>()),
        "provisioner.trigger.node" | "nodeclaim.podevents" | "operatorpkg.node.status" => {
            Some(ObjectKind::of::<Node>())
        }
        "state.nodeclaimgc" | "operatorpkg.nodeclaim.status" => Some(ObjectKind::of::<NodeClaim>()),
        "metrics.nodepool" | "operatorpkg.nodepool.status" => Some(ObjectKind::of::<NodePool>()),
        other => match other.split_once('.') {
            Some(("node", _)) => Some(ObjectKind::of::<Node>()),
            Some(("nodeclaim", _)) => Some(ObjectKind::of::<NodeClaim>()),
            Some(("nodepool" | "static", _)) => Some(ObjectKind::of::<NodePool>()),
            Some(_) | None => None,
        },
    }
}
