//! Effective resource requests of a pod (spec 02 §4.2), computed as kube-scheduler does, including
//! in-place resize.

use kerf_api::slim::{Container, ContainerStatus, Pod, ResourceList, Str};

use crate::resources::{Amounts, NANOS_PER_UNIT, ResourceIx, ResourceNames};

/// Returns the effective requests of a pod, including `pods: 1`, for sums outside of decisions.
pub fn pod_requests(pod: &Pod) -> ResourceList {
    let mut names = ResourceNames::default();
    let amounts = effective_requests(pod, &mut names);
    names.to_resource_list(&amounts)
}

/// Returns the effective limits of a pod, for the resources that its containers limit. Used only
/// for display, never for decisions.
pub fn pod_limits(pod: &Pod) -> ResourceList {
    let mut names = ResourceNames::default();
    let (mut sum, mut sidecars, mut init_max) = (Amounts::default(), Amounts::default(), Amounts::default());
    for container in &pod.spec.containers {
        sum.add(&names.amounts(&container.resources.limits));
    }
    for container in &pod.spec.init_containers {
        let limits = names.amounts(&container.resources.limits);
        if container.is_sidecar {
            sidecars.add(&limits);
            init_max.max_with(&sidecars);
        } else {
            init_max.max_with(&limits.plus(&sidecars));
        }
    }
    sum.add(&sidecars);
    sum.max_with(&init_max);
    names.to_resource_list(&sum)
}

/// Returns the effective requests of a pod, including `pods: 1`.
pub(crate) fn effective_requests(pod: &Pod, names: &mut ResourceNames) -> Amounts {
    let spec = &pod.spec;
    let infeasible = resize_is_infeasible(pod);
    let mut sum = Amounts::default();
    for container in &spec.containers {
        sum.add(&effective_container_requests(container, &pod.status.container_statuses, infeasible, names));
    }
    let mut sidecars = Amounts::default();
    let mut init_max = Amounts::default();
    for container in &spec.init_containers {
        if container.is_sidecar {
            sidecars.add(&effective_container_requests(
                container,
                &pod.status.init_container_statuses,
                infeasible,
                names,
            ));
            init_max.max_with(&sidecars);
        } else {
            init_max.max_with(&names.amounts(&container.resources.requests).plus(&sidecars));
        }
    }
    sum.add(&sidecars);
    sum.max_with(&init_max);
    for (name, quantity) in spec.pod_requests.iter() {
        if *name == "cpu" || *name == "memory" || name.starts_with("hugepages-") {
            sum.set(names.intern(name), quantity.nanos());
        }
    }
    sum.add(&names.amounts(&spec.overhead));
    sum.set(ResourceIx::PODS, NANOS_PER_UNIT);
    sum
}

/// Returns true if the kubelet has rejected a resize for good. Then the requests of the spec do not
/// count.
pub(crate) fn resize_is_infeasible(pod: &Pod) -> bool {
    pod.status.conditions.iter().any(|c| c.condition_type == "PodResizePending" && c.reason == "Infeasible")
}

/// Returns true if the effective requests are those of the spec, because no container is being
/// resized.
pub(crate) fn has_spec_requests(pod: &Pod) -> bool {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    !statuses.into_iter().any(|status| status.has_resources)
}

/// Returns the requests of a container. During a resize this is the maximum of the requested, the
/// current and the allocated resources.
fn effective_container_requests(
    container: &Container,
    statuses: &[ContainerStatus],
    infeasible: bool,
    names: &mut ResourceNames,
) -> Amounts {
    let requested = names.amounts(&container.resources.requests);
    let Some(status) = statuses.iter().find(|s| s.name == container.name && s.has_resources) else { return requested };
    let mut maximum = if infeasible { Amounts::default() } else { requested };
    maximum.max_with(&names.amounts(&status.requests));
    maximum.max_with(&names.amounts(&status.allocated));
    maximum
}

/// Sets missing requests of a DaemonSet's template to the limits (spec 02 §4.5).
pub(crate) fn default_requests_to_limits(container: &mut Container) {
    let mut requests: Vec<(Str, _)> = container.resources.requests.iter().map(|(k, q)| (k.clone(), q)).collect();
    for (name, quantity) in container.resources.limits.iter() {
        if container.resources.requests.get(name).is_none() {
            requests.push((name.clone(), quantity));
        }
    }
    container.resources.requests = requests.into_iter().collect::<ResourceList>();
}
