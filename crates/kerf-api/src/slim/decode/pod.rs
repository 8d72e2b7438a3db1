//! Decodes pods.

use super::super::pod::{
    Affinity, Container, ContainerResources, ContainerStatus, HostPort, LabelSelector, LabelSelectorOperator,
    LabelSelectorRequirement, NodeAffinity, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    PodAffinity, PodAffinityTerm, PodCondition, PodSpec, PodStatus, PodVolume, PreferredSchedulingTerm, Toleration,
    TopologySpreadConstraint, VolumeClaimSource, WeightedPodAffinityTerm,
};
use super::{Str, decode_object};
use crate::slim::ResourceList;

decode_object!(Pod(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => out.spec = field.get()?,
    "status" => out.status = field.get()?,
} finally {
    // On most pods the kubelet repeats the requests of the spec. Such a status does not change the
    // result, which is the larger of the two.
    let PodStatus { container_statuses, init_container_statuses, .. } = &mut out.status;
    drop_statuses_equal_to_spec(container_statuses, &out.spec.containers);
    drop_statuses_equal_to_spec(init_container_statuses, &out.spec.init_containers);
});

fn drop_statuses_equal_to_spec(statuses: &mut Vec<ContainerStatus>, containers: &[Container]) {
    statuses.retain(|status| {
        let spec = containers.iter().find(|container| container.name == status.name).map(|c| &c.resources.requests);
        spec.is_none_or(|spec| status.requests != *spec || !(status.allocated.is_empty() || status.allocated == *spec))
    });
    statuses.shrink_to_fit();
}

decode_object!(PodSpec(out, field) {
    "nodeName" => out.node_name = field.non_empty_text()?,
    "nodeSelector" => out.node_selector = field.get()?,
    "affinity" => out.affinity = field.optional::<Affinity>()?.filter(|a| *a != Affinity::default()).map(Box::new),
    "tolerations" => out.tolerations = field.list()?,
    "topologySpreadConstraints" => out.topology_spread_constraints = field.list()?,
    "containers" => out.containers = field.list()?,
    "initContainers" => out.init_containers = field.list()?,
    "overhead" => out.overhead = field.get()?,
    "resources" => out.pod_requests = field.get::<ContainerResources>()?.requests,
    "volumes" => out.volumes = claim_volumes(field.list()?),
    "priority" => out.priority = field.optional()?,
    "priorityClassName" => out.is_critical = is_critical(&field.text()?),
    "terminationGracePeriodSeconds" => out.termination_grace_period_seconds = field.optional()?,
    "resourceClaims" => out.has_resource_claims = field.has_items()?,
    "schedulingGates" => out.is_gated = field.has_items()?,
} finally {
    let mut containers = out.containers.iter().chain(&out.init_containers);
    out.has_resource_claims |= containers.any(|container| container.resources.has_claims);
});

fn is_critical(priority_class: &str) -> bool {
    matches!(priority_class, "system-cluster-critical" | "system-node-critical")
}

decode_object!(Container(out, field) {
    "name" => out.name = field.text()?,
    "resources" => out.resources = field.get()?,
    "ports" => out.ports = host_ports(field.list()?),
    "restartPolicy" => out.is_sidecar = field.text()? == "Always",
});

decode_object!(ContainerResources(out, field) {
    "requests" => out.requests = field.get()?,
    "limits" => out.limits = field.get()?,
    "claims" => out.has_claims = field.has_items()?,
});

#[derive(Default)]
struct WirePort {
    host_ip: Option<Str>,
    host_port: i32,
    protocol: Option<Str>,
}

decode_object!(WirePort(out, field) {
    "hostIP" => out.host_ip = field.non_empty_text()?,
    "hostPort" => out.host_port = field.get()?,
    "protocol" => out.protocol = field.non_empty_text()?,
});

fn host_ports(ports: Vec<WirePort>) -> Vec<HostPort> {
    let on_host = ports.into_iter().filter(|port| port.host_port != 0).map(|port| HostPort {
        ip: port.host_ip.unwrap_or(Str::new_static("0.0.0.0")),
        port: port.host_port,
        protocol: port.protocol.unwrap_or(Str::new_static("TCP")),
    });
    collect_exact(on_host)
}

/// Collects without spare capacity, which a filtered in-place collect would keep.
fn collect_exact<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut collected: Vec<T> = items.collect();
    collected.shrink_to_fit();
    collected
}

#[derive(Default)]
struct WireVolume {
    name: Str,
    claim: Option<WireClaim>,
    is_ephemeral: bool,
}

decode_object!(WireVolume(out, field) {
    "name" => out.name = field.text()?,
    "persistentVolumeClaim" => out.claim = field.optional()?,
    "ephemeral" => out.is_ephemeral = field.exists()?,
});

#[derive(Default)]
struct WireClaim {
    name: Str,
}

decode_object!(WireClaim(out, field) {
    "claimName" => out.name = field.text()?,
});

fn claim_volumes(volumes: Vec<WireVolume>) -> Vec<PodVolume> {
    collect_exact(volumes.into_iter().filter_map(|volume| {
        let source = match volume.claim {
            Some(claim) => VolumeClaimSource::Claim(claim.name),
            None if volume.is_ephemeral => VolumeClaimSource::Ephemeral,
            None => return None,
        };
        Some(PodVolume { name: volume.name, source })
    }))
}

decode_object!(Affinity(out, field) {
    "nodeAffinity" => out.node_affinity = field.get()?,
    "podAffinity" => out.pod_affinity = field.get()?,
    "podAntiAffinity" => out.pod_anti_affinity = field.get()?,
});

decode_object!(NodeAffinity(out, field) {
    "requiredDuringSchedulingIgnoredDuringExecution" => {
        out.required = field.optional::<NodeSelector>()?.map(|selector| selector.terms);
    },
    "preferredDuringSchedulingIgnoredDuringExecution" => out.preferred = field.list()?,
});

/// Object between a required node affinity and its terms.
#[derive(Default)]
pub(super) struct NodeSelector {
    pub(super) terms: Vec<NodeSelectorTerm>,
}

decode_object!(NodeSelector(out, field) {
    "nodeSelectorTerms" => out.terms = field.list()?,
});

decode_object!(NodeSelectorTerm(out, field) {
    "matchExpressions" => out.match_expressions = field.list()?,
    "matchFields" => out.match_fields = field.list()?,
});

decode_object!(NodeSelectorRequirement(out, field) from NodeSelectorRequirement {
    operator: NodeSelectorOperator::Unsupported(Str::default()),
    ..NodeSelectorRequirement::default()
}; {
    "key" => out.key = field.text()?,
    "operator" => out.operator = field.text()?.into(),
    "values" => out.values = field.text_list()?,
});

decode_object!(PreferredSchedulingTerm(out, field) {
    "weight" => out.weight = field.get()?,
    "preference" => out.preference = field.get()?,
});

decode_object!(PodAffinity(out, field) {
    "requiredDuringSchedulingIgnoredDuringExecution" => out.required = field.list()?,
    "preferredDuringSchedulingIgnoredDuringExecution" => out.preferred = field.list()?,
});

decode_object!(WeightedPodAffinityTerm(out, field) {
    "weight" => out.weight = field.get()?,
    "podAffinityTerm" => out.pod_affinity_term = field.get()?,
});

decode_object!(PodAffinityTerm(out, field) {
    "labelSelector" => out.label_selector = field.optional()?,
    "namespaces" => out.namespaces = field.text_list()?,
    "namespaceSelector" => out.namespace_selector = field.optional()?,
    "topologyKey" => out.topology_key = field.text()?,
});

decode_object!(TopologySpreadConstraint(out, field) {
    "maxSkew" => out.max_skew = field.get()?,
    "topologyKey" => out.topology_key = field.text()?,
    "whenUnsatisfiable" => out.when_unsatisfiable = field.get()?,
    "labelSelector" => out.label_selector = field.optional()?,
    "minDomains" => out.min_domains = field.optional()?,
    "nodeAffinityPolicy" => out.node_affinity_policy = field.optional()?,
    "nodeTaintsPolicy" => out.node_taints_policy = field.optional()?,
    "matchLabelKeys" => out.match_label_keys = field.text_list()?,
});

decode_object!(LabelSelector(out, field) {
    "matchLabels" => out.match_labels = field.get()?,
    "matchExpressions" => out.match_expressions = field.list()?,
});

decode_object!(LabelSelectorRequirement(out, field) from LabelSelectorRequirement {
    operator: LabelSelectorOperator::Unsupported(Str::default()),
    ..LabelSelectorRequirement::default()
}; {
    "key" => out.key = field.text()?,
    "operator" => out.operator = field.text()?.into(),
    "values" => out.values = field.text_list()?,
});

decode_object!(Toleration(out, field) {
    "key" => out.key = field.text()?,
    "operator" => out.operator = field.text()?.into(),
    "value" => out.value = field.text()?,
    "effect" => out.effect = field.non_empty_text()?.map(Into::into),
    "tolerationSeconds" => out.toleration_seconds = field.optional()?,
});

decode_object!(PodStatus(out, field) {
    "phase" => out.phase = field.text()?.into(),
    "conditions" => out.conditions = kept_conditions(field.list()?),
    "nominatedNodeName" => out.nominated_node_name = field.non_empty_text()?,
    "startTime" => out.start_time = field.optional()?,
    "containerStatuses" => out.container_statuses = resource_statuses(field.list()?),
    "initContainerStatuses" => out.init_container_statuses = resource_statuses(field.list()?),
});

decode_object!(PodCondition(out, field) {
    "type" => out.condition_type = field.text()?,
    "status" => out.status = field.text()?,
    "reason" => out.reason = field.text()?,
    "lastTransitionTime" => out.last_transition_time = field.optional()?,
});

fn kept_conditions(conditions: Vec<PodCondition>) -> Vec<PodCondition> {
    let is_read =
        |condition: &PodCondition| matches!(&*condition.condition_type, "PodScheduled" | "Ready" | "PodResizePending");
    collect_exact(conditions.into_iter().filter(is_read))
}

#[derive(Default)]
struct WireContainerStatus {
    name: Str,
    resources: Option<ContainerResources>,
    allocated: ResourceList,
}

decode_object!(WireContainerStatus(out, field) {
    "name" => out.name = field.text()?,
    "resources" => out.resources = field.optional()?,
    "allocatedResources" => out.allocated = field.get()?,
});

fn resource_statuses(statuses: Vec<WireContainerStatus>) -> Vec<ContainerStatus> {
    let has_any_resources = |status: &WireContainerStatus| status.resources.is_some() || !status.allocated.is_empty();
    collect_exact(statuses.into_iter().filter(has_any_resources).map(|status| ContainerStatus {
        name: status.name,
        has_resources: status.resources.is_some(),
        requests: status.resources.map(|resources| resources.requests).unwrap_or_default(),
        allocated: status.allocated,
    }))
}
