//! Decodes volumes: fields that are nested under `spec` and `status` in JSON are flat in slim
//! objects.

use super::super::pod::{NodeSelectorOperator, NodeSelectorRequirement};
use super::super::storage::{
    CsiNode, CsiNodeDriver, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use super::pod::NodeSelector;
use super::{Str, decode_object};

/// CSI driver to which in-tree EBS volumes are migrated.
const EBS_DRIVER: Str = Str::new_static("ebs.csi.aws.com");

decode_object!(PersistentVolumeClaim(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => {
        let spec = field.get::<ClaimSpec>()?;
        out.volume_name = spec.volume_name;
        out.storage_class_name = spec.storage_class_name;
    },
    "status" => out.phase = field.get::<ClaimStatus>()?.phase,
});

#[derive(Default)]
struct ClaimSpec {
    volume_name: Str,
    storage_class_name: Option<Str>,
}

decode_object!(ClaimSpec(out, field) {
    "volumeName" => out.volume_name = field.text()?,
    "storageClassName" => out.storage_class_name = field.optional()?,
});

#[derive(Default)]
struct ClaimStatus {
    phase: Str,
}

decode_object!(ClaimStatus(out, field) {
    "phase" => out.phase = field.text()?,
});

decode_object!(PersistentVolume(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => {
        let spec = field.get::<VolumeSpec>()?;
        out.driver = spec.csi_driver.or(spec.is_in_tree_ebs.then_some(EBS_DRIVER));
        out.is_local = spec.is_local || spec.is_host_path;
        out.node_affinity = spec.node_affinity.required.terms;
    },
});

#[derive(Default)]
struct VolumeSpec {
    csi_driver: Option<Str>,
    is_in_tree_ebs: bool,
    is_local: bool,
    is_host_path: bool,
    node_affinity: VolumeNodeAffinity,
}

decode_object!(VolumeSpec(out, field) {
    "csi" => out.csi_driver = field.get::<CsiSource>()?.driver,
    "awsElasticBlockStore" => out.is_in_tree_ebs = field.exists()?,
    "local" => out.is_local = field.exists()?,
    "hostPath" => out.is_host_path = field.exists()?,
    "nodeAffinity" => out.node_affinity = field.get()?,
});

#[derive(Default)]
struct CsiSource {
    driver: Option<Str>,
}

decode_object!(CsiSource(out, field) {
    "driver" => out.driver = field.non_empty_text()?,
});

#[derive(Default)]
struct VolumeNodeAffinity {
    required: NodeSelector,
}

decode_object!(VolumeNodeAffinity(out, field) {
    "required" => out.required = field.get()?,
});

decode_object!(StorageClass(out, field) {
    "metadata" => out.metadata = field.get()?,
    "provisioner" => out.provisioner = field.text()?,
    "volumeBindingMode" => out.volume_binding_mode = field.get()?,
    "allowedTopologies" => {
        out.allowed_topologies = field.list::<TopologyTerm>()?.into_iter().map(TopologyTerm::expressions).collect();
    },
});

#[derive(Default)]
struct TopologyTerm {
    expressions: Vec<TopologyExpression>,
}

impl TopologyTerm {
    fn expressions(self) -> Vec<NodeSelectorRequirement> {
        let one_of = |expression: TopologyExpression| NodeSelectorRequirement {
            key: expression.key,
            operator: NodeSelectorOperator::In,
            values: expression.values,
        };
        self.expressions.into_iter().map(one_of).collect()
    }
}

decode_object!(TopologyTerm(out, field) {
    "matchLabelExpressions" => out.expressions = field.list()?,
});

#[derive(Default)]
struct TopologyExpression {
    key: Str,
    values: Vec<Str>,
}

decode_object!(TopologyExpression(out, field) {
    "key" => out.key = field.text()?,
    "values" => out.values = field.text_list()?,
});

decode_object!(CsiNode(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => out.drivers = field.get::<CsiNodeSpec>()?.drivers,
});

#[derive(Default)]
struct CsiNodeSpec {
    drivers: Vec<CsiNodeDriver>,
}

decode_object!(CsiNodeSpec(out, field) {
    "drivers" => out.drivers = field.list()?,
});

decode_object!(CsiNodeDriver(out, field) {
    "name" => out.name = field.text()?,
    "allocatable" => out.count = field.get::<DriverAllocatable>()?.count,
});

#[derive(Default)]
struct DriverAllocatable {
    count: Option<i32>,
}

decode_object!(DriverAllocatable(out, field) {
    "count" => out.count = field.optional()?,
});

decode_object!(VolumeAttachment(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => {
        let spec = field.get::<AttachmentSpec>()?;
        out.node_name = spec.node_name;
        out.persistent_volume_name = spec.source.persistent_volume_name;
    },
});

#[derive(Default)]
struct AttachmentSpec {
    node_name: Str,
    source: AttachmentSource,
}

decode_object!(AttachmentSpec(out, field) {
    "nodeName" => out.node_name = field.text()?,
    "source" => out.source = field.get()?,
});

#[derive(Default)]
struct AttachmentSource {
    persistent_volume_name: Option<Str>,
}

decode_object!(AttachmentSource(out, field) {
    "persistentVolumeName" => out.persistent_volume_name = field.non_empty_text()?,
});
