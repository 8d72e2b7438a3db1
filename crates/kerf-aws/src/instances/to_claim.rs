//! From an instance to what its NodeClaim adopts (spec 05 §15.8).

use std::collections::BTreeMap;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels::{self, aws};
use kerf_api::quantity::Quantity;
use kerf_api::slim::ResourceList;
use kerf_api::unparsed::{QuantityText, Resources};
use kerf_cloud::Instance;
use kerf_engine::catalogue::InstanceType;
use kerf_engine::requirement::EffectiveOperator;

use super::provider_id::provider_id;
use super::record::InstanceRecord;
use crate::ports::ec2::PlacementGroup;

/// Resource of EFA interfaces.
const EFA_RESOURCE: &str = "vpc.amazonaws.com/efa";
/// Tag that the tagging controller sets, with the name of the claim.
pub(crate) const NODECLAIM_TAG: &str = "karpenter.sh/nodeclaim";

/// Labels of claims, nodes and types that depend on the reservation of an instance.
pub(crate) const RESERVATION_LABELS: [&str; 3] =
    [aws::CAPACITY_RESERVATION_ID, aws::CAPACITY_RESERVATION_TYPE, aws::CAPACITY_RESERVATION_INTERRUPTIBLE];

/// Facts about an instance that EC2 does not report. Without them labels and resources are
/// incomplete.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TypeData<'a> {
    /// The instance type as the pool's node class sees it.
    pub(crate) instance_type: Option<&'a InstanceType>,
    /// The node class of the instance.
    pub(crate) class: Option<&'a EC2NodeClass>,
    /// The placement group of the node class.
    pub(crate) group: Option<&'a PlacementGroup>,
    /// The partition that a launch has requested. `None` leaves it to EC2; the claim's label is
    /// then empty until registration reads the partition.
    pub(crate) requested_partition: Option<i32>,
}

/// Converts an instance. The annotations are those of a claim at launch and stay empty here.
pub(crate) fn to_instance(record: &InstanceRecord, data: TypeData<'_>) -> Instance {
    let resources =
        |list: Option<ResourceList>| list.map(|list| resources(&list, record.efa_count)).unwrap_or_default();
    Instance {
        provider_id: provider_id(&record.zone, &record.id),
        claim: record.tag(NODECLAIM_TAG).map(str::to_owned),
        labels: instance_labels(record, data),
        annotations: BTreeMap::new(),
        image_id: Some(record.image_id.clone()).filter(|id| !id.is_empty()),
        capacity: resources(data.instance_type.map(|instance_type| instance_type.capacity.clone())),
        allocatable: resources(data.instance_type.map(InstanceType::allocatable)),
        launched_at: record.launched_at,
        is_terminating: record.is_terminating(),
    }
}

fn instance_labels(record: &InstanceRecord, data: TypeData<'_>) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for requirement in data.instance_type.iter().flat_map(|instance_type| instance_type.requirements.iter()) {
        let is_single = requirement.operator() == EffectiveOperator::In && requirement.values().len() == 1;
        if is_single && !RESERVATION_LABELS.contains(&requirement.key().as_str()) {
            labels.insert(requirement.key().to_string(), requirement.values()[0].to_string());
        }
    }
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    set(labels::ZONE, &record.zone);
    let subnets = data.class.and_then(|class| class.status.as_ref()?.subnets.as_ref());
    let zone_id = subnets.into_iter().flatten().find(|subnet| subnet.zone == record.zone);
    if let Some(id) = zone_id.and_then(|subnet| subnet.zone_id.as_deref()).filter(|id| !id.is_empty()) {
        set(aws::ZONE_ID, id);
    }
    set(labels::CAPACITY_TYPE, record.capacity_type);
    set(aws::INSTANCE_TENANCY, &record.tenancy);
    if let Some(reservation) = &record.reservation {
        set(aws::CAPACITY_RESERVATION_ID, &reservation.id);
        set(aws::CAPACITY_RESERVATION_TYPE, reservation.reservation_type);
        set(aws::CAPACITY_RESERVATION_INTERRUPTIBLE, if reservation.is_interruptible { "true" } else { "false" });
    }
    if let Some(group) = data.group {
        set(aws::PLACEMENT_GROUP_ID, &group.id);
        if group.has_partitions() {
            let partition = data.requested_partition.map(|partition| partition.to_string()).unwrap_or_default();
            set(aws::PLACEMENT_GROUP_PARTITION, &partition);
        }
    }
    if let Some(pool) = record.tags.get(labels::NODEPOOL) {
        set(labels::NODEPOOL, pool);
    }
    labels
}

/// Returns the resources without those of amount zero, and without EFA interfaces that the instance
/// does not have.
fn resources(list: &ResourceList, efa_count: usize) -> Resources {
    list.iter()
        .filter(|(name, amount)| *amount != Quantity::ZERO && (efa_count > 0 || *name != EFA_RESOURCE))
        .map(|(name, amount)| (name.to_string(), QuantityText::from(amount.to_string())))
        .collect()
}
