//! Drift between an instance and its node class (spec 06 §7).

use std::collections::BTreeSet;
use std::sync::Arc;

use kerf_api::annotations::aws as aws_annotations;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::hash::{self, HashAnnotations};
use kerf_api::labels::{self, aws};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_operator::events::pool_reference;
use kerf_operator::{Event, EventType};
use kerf_runtime::ApiError;

use crate::context::AwsContext;
use crate::discovery::amis::{AmiMatchError, map_types_to_amis};
use crate::instance_types::InstanceTypeError;
use crate::instances::{InstanceCallError, InstanceRecord, ProviderIdError, ReadFrom, parse_provider_id};
use crate::launch::NODE_CLASS_NOT_RESOLVED;
use crate::node_classes::NodeClassReadError;
use crate::ports::AwsError;

const NODE_CLASS_DRIFT: &str = "NodeClassDrift";
const AMI_DRIFT: &str = "AMIDrift";
const SECURITY_GROUP_DRIFT: &str = "SecurityGroupDrift";
const SUBNET_DRIFT: &str = "SubnetDrift";
const CAPACITY_RESERVATION_DRIFT: &str = "CapacityReservationDrift";
const PLACEMENT_GROUP_DRIFT: &str = "PlacementGroupDrift";

/// Reason why it is unknown if an instance has drifted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriftCheckError {
    #[error("getting nodepool, {0}")]
    Pool(#[source] ApiError),
    #[error("resolving node class, {0}")]
    Class(#[source] NodeClassReadError),
    #[error("getting instance types, {0}")]
    InstanceTypes(#[source] InstanceTypeError),
    #[error("finding node instance type (instance-type={0})")]
    UnknownType(String),
    #[error(transparent)]
    Amis(AmiMatchError),
    #[error("no ami ID found in nodeClaim status")]
    NoImage,
    #[error(transparent)]
    ProviderId(ProviderIdError),
    #[error("getting instance, {0}")]
    Instance(#[source] Box<InstanceCallError>),
    #[error("resolving placement group, {0}")]
    PlacementGroup(#[source] AwsError),
    #[error("no security groups are present in the status")]
    NoSecurityGroups,
    #[error("no subnets are discovered")]
    NoSubnets,
}

/// Returns the reason why a claim's instance no longer matches its node class. Returns `None` if it
/// matches, or if pool or class do not exist.
pub(crate) async fn check_drift(
    context: &AwsContext,
    claim: &NodeClaim,
) -> Result<Option<&'static str>, DriftCheckError> {
    let Some(pool_name) = label(claim, labels::NODEPOOL) else { return Ok(None) };
    let Some(pool) = context.node_classes.pool(pool_name).await.map_err(DriftCheckError::Pool)? else {
        return Ok(None);
    };
    let Some(class) = class_of_pool(context, &pool).await.map_err(DriftCheckError::Class)? else {
        return Ok(None);
    };
    if is_class_drifted(&class, claim) {
        return Ok(Some(NODE_CLASS_DRIFT));
    }
    if is_ami_drifted(context, &class, claim).await? {
        return Ok(Some(AMI_DRIFT));
    }
    let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
    let id = parse_provider_id(provider_id).map_err(DriftCheckError::ProviderId)?;
    let instance = context.instances.get(id, ReadFrom::Cache).await.map_err(instance_error)?;
    // All checks are made before the first hit is reported: an error of one hides a hit of another.
    let checks = [
        (SECURITY_GROUP_DRIFT, is_security_group_drifted(&class, &instance)?),
        (SUBNET_DRIFT, is_subnet_drifted(&class, &instance)?),
        (CAPACITY_RESERVATION_DRIFT, is_reservation_drifted(context, &class, &instance).await?),
        (PLACEMENT_GROUP_DRIFT, is_placement_group_drifted(context, &class, claim).await?),
    ];
    Ok(checks.into_iter().find(|(_, is_drifted)| *is_drifted).map(|(reason, _)| reason))
}

/// Returns the class of a pool. If it does not exist or is being deleted, publishes an Event on the
/// pool and returns `None`.
pub(crate) async fn class_of_pool(
    context: &AwsContext,
    pool: &NodePool,
) -> Result<Option<Arc<EC2NodeClass>>, NodeClassReadError> {
    match context.node_classes.get(&pool.spec.template.spec.node_class_ref.name).await {
        Ok(class) => Ok(Some(class)),
        Err(error) if error.is_not_found() => {
            let message = NODE_CLASS_NOT_RESOLVED.to_owned();
            // Karpenter's Event has no reason either (spec 06 §1.5).
            context.events.publish(Event::new(pool_reference(pool), EventType::Warning, "", message));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn instance_error(error: InstanceCallError) -> DriftCheckError {
    DriftCheckError::Instance(Box::new(error))
}

fn label<'c>(claim: &'c NodeClaim, key: &str) -> Option<&'c str> {
    let value = claim.metadata.labels.as_ref()?.get(key)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

fn is_class_drifted(class: &EC2NodeClass, claim: &NodeClaim) -> bool {
    fn annotations(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> HashAnnotations<'_> {
        let value = |key: &str| metadata.annotations.as_ref()?.get(key).map(String::as_str);
        HashAnnotations {
            hash: value(aws_annotations::EC2NODECLASS_HASH),
            version: value(aws_annotations::EC2NODECLASS_HASH_VERSION),
        }
    }
    hash::is_drifted(annotations(&class.metadata), annotations(&claim.metadata))
}

async fn is_ami_drifted(
    context: &AwsContext,
    class: &EC2NodeClass,
    claim: &NodeClaim,
) -> Result<bool, DriftCheckError> {
    let types = context.instance_types_of(class).await.map_err(DriftCheckError::InstanceTypes)?;
    let name = label(claim, labels::INSTANCE_TYPE).unwrap_or_default();
    let Some(instance_type) = types.find(name) else { return Err(DriftCheckError::UnknownType(name.to_owned())) };
    let amis = class.status.as_ref().and_then(|status| status.amis.as_deref()).unwrap_or_default();
    let image = claim.status.as_ref().and_then(|status| status.image_id.as_deref()).unwrap_or_default();
    let matches = match map_types_to_amis(&[instance_type], amis) {
        Ok(matches) => matches,
        // No image is chosen for the type, so the claim's image is not among them.
        Err(AmiMatchError::NoMatch(_)) => Vec::new(),
        Err(error @ AmiMatchError::NoAmis) => return Err(DriftCheckError::Amis(error)),
    };
    if image.is_empty() {
        return Err(DriftCheckError::NoImage);
    }
    Ok(matches.iter().all(|matched| matched.ami.id != image))
}

fn is_security_group_drifted(class: &EC2NodeClass, instance: &InstanceRecord) -> Result<bool, DriftCheckError> {
    let groups = class.status.as_ref().and_then(|status| status.security_groups.as_deref()).unwrap_or_default();
    if groups.is_empty() {
        return Err(DriftCheckError::NoSecurityGroups);
    }
    let wanted: BTreeSet<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    let actual: BTreeSet<&str> = instance.security_group_ids.iter().map(String::as_str).collect();
    Ok(wanted != actual)
}

fn is_subnet_drifted(class: &EC2NodeClass, instance: &InstanceRecord) -> Result<bool, DriftCheckError> {
    let subnets = class.status.as_ref().and_then(|status| status.subnets.as_deref()).unwrap_or_default();
    if subnets.is_empty() {
        return Err(DriftCheckError::NoSubnets);
    }
    Ok(subnets.iter().all(|subnet| subnet.id != instance.subnet_id))
}

/// Reads the instance again before it reports drift: an instance that has left its reservation has
/// not drifted.
async fn is_reservation_drifted(
    context: &AwsContext,
    class: &EC2NodeClass,
    instance: &InstanceRecord,
) -> Result<bool, DriftCheckError> {
    let known = class.status.as_ref().and_then(|status| status.capacity_reservations.as_deref()).unwrap_or_default();
    let is_outside = |instance: &InstanceRecord| {
        let reservation = instance.reservation.as_ref();
        reservation.is_some_and(|reservation| known.iter().all(|other| other.id != reservation.id))
    };
    if !is_outside(instance) {
        return Ok(false);
    }
    let current = context.instances.get(&instance.id, ReadFrom::Ec2).await.map_err(instance_error)?;
    Ok(is_outside(&current))
}

/// Compares the group of a claim with that of its class. While EC2 does not answer, the last known
/// group counts; without one it is unknown if the claim has drifted.
async fn is_placement_group_drifted(
    context: &AwsContext,
    class: &EC2NodeClass,
    claim: &NodeClaim,
) -> Result<bool, DriftCheckError> {
    let group = match context.placement_groups.resolve(class).await {
        Ok(group) => group,
        Err(error) => Some(context.known_groups.get(class).ok_or(DriftCheckError::PlacementGroup(error))?),
    };
    Ok(label(claim, aws::PLACEMENT_GROUP_ID) != group.as_ref().map(|group| group.id.as_str()))
}

#[cfg(test)]
mod tests;
