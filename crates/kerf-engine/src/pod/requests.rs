//! Effective requests of a pod (spec 02 §4.2): the same arithmetic as kube-scheduler's, with in-place resize taken into account.

use kerf_api::slim::{Container, ContainerStatus, Pod, ResourceList, Str};

use crate::resources::{Amounts, NANOS_PER_UNIT, ResourceIx, ResourceNames};

/// What the pod needs, with `pods: 1`, for whoever adds it up outside of decisions.
pub fn pod_requests(pod: &Pod) -> ResourceList {
    let mut names = ResourceNames::default();
    let amounts = effective_requests(pod, &mut names);
    names.to_resource_list(&amounts)
}

/// What the pod may use at most, of the resources that its containers limit; for whoever shows it. Decisions never ask.
pub fn pod_limits(pod: &Pod) -> ResourceList {
    let mut names = ResourceNames::default();
    let (mut sum, mut sidecars, mut init_most) = (Amounts::default(), Amounts::default(), Amounts::default());
    for container in &pod.spec.containers {
        sum.add(&names.amounts(&container.resources.limits));
    }
    for container in &pod.spec.init_containers {
        let own = names.amounts(&container.resources.limits);
        if container.is_sidecar {
            sidecars.add(&own);
            init_most.max_with(&sidecars);
        } else {
            init_most.max_with(&own.plus(&sidecars));
        }
    }
    sum.add(&sidecars);
    sum.max_with(&init_most);
    names.to_resource_list(&sum)
}

/// What the pod needs, with `pods: 1`.
pub(crate) fn effective_requests(pod: &Pod, names: &mut ResourceNames) -> Amounts {
    let spec = &pod.spec;
    let infeasible = resize_is_infeasible(pod);
    let mut sum = Amounts::default();
    for container in &spec.containers {
        sum.add(&effective_container_requests(container, &pod.status.container_statuses, infeasible, names));
    }
    let mut sidecars = Amounts::default();
    let mut init_most = Amounts::default();
    for container in &spec.init_containers {
        if container.is_sidecar {
            sidecars.add(&effective_container_requests(
                container,
                &pod.status.init_container_statuses,
                infeasible,
                names,
            ));
            init_most.max_with(&sidecars);
        } else {
            init_most.max_with(&names.amounts(&container.resources.requests).plus(&sidecars));
        }
    }
    sum.add(&sidecars);
    sum.max_with(&init_most);
    for (name, quantity) in spec.pod_requests.iter() {
        if *name == "cpu" || *name == "memory" || name.starts_with("hugepages-") {
            sum.set(names.intern(name), quantity.nanos());
        }
    }
    sum.add(&names.amounts(&spec.overhead));
    sum.set(ResourceIx::PODS, NANOS_PER_UNIT);
    sum
}

/// Whether the kubelet has said that a resize will never happen; what the spec asks then does not count.
pub(crate) fn resize_is_infeasible(pod: &Pod) -> bool {
    pod.status.conditions.iter().any(|c| c.condition_type == "PodResizePending" && c.reason == "Infeasible")
}

/// Whether the pod needs exactly what its containers ask for, because none of them is being resized.
pub(crate) fn has_spec_requests(pod: &Pod) -> bool {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    !statuses.into_iter().any(|status| status.has_resources)
}

/// A container's requests; while a resize is under way the largest of what was asked, granted and set aside.
fn effective_container_requests(
    container: &Container,
    statuses: &[ContainerStatus],
    infeasible: bool,
    names: &mut ResourceNames,
) -> Amounts {
    let asked = names.amounts(&container.resources.requests);
    let Some(status) = statuses.iter().find(|s| s.name == container.name && s.has_resources) else { return asked };
    let mut most = if infeasible { Amounts::default() } else { asked };
    most.max_with(&names.amounts(&status.requests));
    most.max_with(&names.amounts(&status.allocated));
    most
}

/// A daemon set's template has its limits count as requests where requests are missing (spec 02 §4.5).
pub(crate) fn default_requests_to_limits(container: &mut Container) {
    let mut filled: Vec<(Str, _)> = container.resources.requests.iter().map(|(k, q)| (k.clone(), q)).collect();
    for (name, quantity) in container.resources.limits.iter() {
        if container.resources.requests.get(name).is_none() {
            filled.push((name.clone(), quantity));
        }
    }
    container.resources.requests = filled.into_iter().collect::<ResourceList>();
}
