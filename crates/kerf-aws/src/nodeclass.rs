//! The controllers of EC2NodeClasses (spec 06 §3 to §6): they resolve the selectors of a class into
//! its status, validate it, own its instance profiles, and clean up after it.
//!
//! The launch path reads only the status of a class and never evaluates its selectors.
#![expect(clippy::result_large_err, reason = "an error ends a reconcile; its size does not matter")]

mod amis;
mod capacity_reservations;
mod controller;
mod deletion;
mod dry_run_error;
mod error;
mod hash;
mod instance_profile;
mod placement_group;
mod planned;
mod profile_gc;
mod reconcile;
mod security_groups;
mod ssm_invalidation;
mod subnets;
mod trial;
mod validation;

use std::sync::Arc;

use kerf_api::conditions::{Condition, ConditionStatus};
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::nodepool::NodeClassReference;
use kerf_api::slim::Str;
use kerf_cloud::{NodeClassKind, NodeClassStatusReport, ProviderSetup};
use kerf_operator::logs::ObjectKind;
use kerf_operator::{Concurrency, ControllerName, SharedCluster};
use kerf_state::{NodeClass, TrackedClaim};

use self::controller::NodeClassController;
use self::hash::NodeClassHash;
pub use self::planned::{PlannedClass, plan_class};
use self::profile_gc::InstanceProfileGarbageCollection;
use self::reconcile::SUBNETS_READY;
use self::ssm_invalidation::SsmInvalidation;
pub use self::trial::NodeClassTrialError;
pub(crate) use self::trial::{reconcile_once, resolve_amis};
use crate::cluster_facts::{VERSION_CONTROLLER, VersionRefresh};
use crate::context::AwsContext;
use crate::node_classes::class_reference;
use crate::settings::{AwsSettings, node_class_conditions};

/// Number of workers of the controllers of node classes.
const WORKERS: usize = 10;

/// Returns true if a reconcile has evaluated the subnet selector of the class.
pub(crate) fn has_read_subnets(class: &EC2NodeClass) -> bool {
    let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let is_read = |own: &Condition| own.condition_type == SUBNETS_READY && own.status != ConditionStatus::Unknown;
    conditions.iter().any(is_read)
}

/// Adds the controllers of node classes, and the handlers that enqueue their keys.
pub(crate) fn add_controllers(context: &Arc<AwsContext>, setup: &mut ProviderSetup<'_>) {
    let kind = ObjectKind::of::<EC2NodeClass>();
    let controller = Arc::new(NodeClassController::new(context.clone()));
    let classes = setup.set.add::<NodeClassController>(
        ControllerName::of_kind("nodeclass", kind),
        controller.clone(),
        Concurrency::reasonable(WORKERS),
    );
    controller.set_queue(classes.queue.clone());
    let hashes = setup.set.add::<NodeClassHash>(
        ControllerName::of_kind("nodeclass.hash", kind),
        NodeClassHash::new(context.clone()),
        Concurrency::reasonable(WORKERS),
    );
    let classes_of_claims = classes.clone();
    setup.set.handlers_mut().add::<NodeClass>(move |change| {
        if let Some(class) = change.latest().filter(|class| is_ec2_node_class(&class.reference())) {
            let name = Str::new(class.name());
            classes.enqueue(&name);
            hashes.enqueue(&name);
        }
    });
    // The deletion of a class waits for its claims.
    setup.set.handlers_mut().add::<TrackedClaim>(move |change| {
        if let (Some(claim), None) = (&change.before, &change.after) {
            let class = &claim.object.spec.node_class_ref;
            if is_ec2_node_class(class) {
                classes_of_claims.enqueue(&Str::new(&class.name));
            }
        }
    });
    let single = Concurrency { cores: 1 }.single_worker();
    setup.set.add_singleton::<VersionRefresh>(VERSION_CONTROLLER, VersionRefresh(context.discovery.clone()), single);
    setup.set.add_singleton::<SsmInvalidation>(
        "providers.ssm.invalidation",
        SsmInvalidation::new(context.amis.clone()),
        single,
    );
    if !context.settings.isolated_vpc {
        setup.set.add_singleton::<InstanceProfileGarbageCollection>(
            "instanceprofile.garbagecollection",
            InstanceProfileGarbageCollection::new(context.clone()),
            single,
        );
    }
}

/// Returns how the conditions of classes are reported as metrics and Events.
pub(crate) fn status_report(kind: NodeClassKind, settings: &AwsSettings) -> NodeClassStatusReport {
    NodeClassStatusReport {
        controller: "operatorpkg.ec2nodeclass.status",
        kind,
        dependents: node_class_conditions(settings.reserved_capacity),
    }
}

fn is_ec2_node_class(reference: &NodeClassReference) -> bool {
    *reference == class_reference(&reference.name)
}

/// Returns a class from cluster state. Returns `None` if it does not exist.
pub(crate) fn find_class(cluster: &SharedCluster, name: &str) -> Result<Option<EC2NodeClass>, serde_json::Error> {
    let class = cluster.lock().node_class(&class_reference(name)).cloned();
    class.map(|class| class.decode()).transpose()
}

/// Returns the claims that use a class, sorted by name.
fn claims_of_class(cluster: &SharedCluster, name: &str) -> Vec<Arc<TrackedClaim>> {
    let reference = class_reference(name);
    let cluster = cluster.lock();
    let claims = cluster.all::<TrackedClaim>().values();
    claims.filter(|claim| claim.object.spec.node_class_ref == reference).cloned().collect()
}

/// Returns the controller `nodeclass` without a process.
#[cfg(test)]
pub(crate) fn test_controller(context: &Arc<AwsContext>) -> impl Sized {
    NodeClassController::new(context.clone())
}

#[cfg(test)]
mod tests;
