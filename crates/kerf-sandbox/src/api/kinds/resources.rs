//! Requests and limits of containers and of whole pods (`spec.resources`): defaults and validation.
//!
//! Both follow the same rules except for the resource names that they may use. In addition, the
//! pod-level amounts must be large enough for the containers of the pod.

use std::collections::BTreeMap;

use kerf_api::quantity::Quantity;
use serde_json::{Map, Value};

use crate::api::field::{self, FieldError};
use crate::api::names;
use crate::api::object;

/// Resource names without a domain that Kubernetes defines, for example for quotas.
const STANDARD_RESOURCES: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// The owner of requests and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResourceHolder {
    Container,
    Pod,
}

fn is_huge_page(resource: &str) -> bool {
    resource.starts_with(HUGE_PAGES_PREFIX)
}

/// Returns true if Kubernetes itself defines the resource. Its resources have no domain or a domain
/// `kubernetes.io/`.
fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

fn is_extended(resource: &str) -> bool {
    const QUOTA: &str = "requests.";
    !is_native(resource)
        && !resource.starts_with(QUOTA)
        && names::qualified_name_problems(&format!("{QUOTA}{resource}")).is_empty()
}

/// Returns true if the limits of a resource may exceed what a node has.
fn can_be_overcommitted(resource: &str) -> bool {
    is_native(resource) && !is_huge_page(resource)
}

/// Returns true if a pod can have the resource in `spec.resources`.
fn is_pod_level_resource(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || is_huge_page(resource)
}

fn amounts<'a>(resources: Option<&'a Value>, which: &str) -> impl Iterator<Item = (&'a str, Quantity)> {
    let amounts = resources.and_then(|resources| resources.get(which)).and_then(Value::as_object);
    // Decoding has already rejected quantities that cannot be parsed.
    amounts
        .into_iter()
        .flatten()
        .filter_map(|(resource, amount)| Some((resource.as_str(), amount.as_str()?.parse().ok()?)))
}

/// Returns the amounts that the containers need together. Containers that run at the same time add
/// up. An init container runs beside the sidecars that started before it.
fn aggregate_container_resources<'a>(
    containers: &'a [Value],
    init: &'a [Value],
    which: &str,
) -> BTreeMap<&'a str, Quantity> {
    let mut total: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut sidecars: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut init_peak: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut raise_init_peak = |resource, amount: Quantity| {
        let max = init_peak.entry(resource).or_insert(amount);
        *max = (*max).max(amount);
    };
    for container in containers {
        for (resource, amount) in amounts(container.get("resources"), which) {
            *total.entry(resource).or_default() += amount;
        }
    }
    for container in init {
        let container_amounts = amounts(container.get("resources"), which);
        if object::text(container, &["restartPolicy"]) == "Always" {
            for (resource, amount) in container_amounts {
                *total.entry(resource).or_default() += amount;
                *sidecars.entry(resource).or_default() += amount;
                raise_init_peak(resource, sidecars[resource]);
            }
        } else {
            for (resource, amount) in container_amounts {
                raise_init_peak(resource, amount + sidecars.get(resource).copied().unwrap_or_default());
            }
        }
    }
    for (resource, amount) in init_peak {
        let max = total.entry(resource).or_insert(amount);
        *max = (*max).max(amount);
    }
    total
}

fn aggregate_resources_in_spec<'a>(spec: &'a Map<String, Value>, which: &str) -> BTreeMap<&'a str, Quantity> {
    let list = |name: &str| spec.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    aggregate_container_resources(list("containers"), list("initContainers"), which)
}

/// Sets defaults of the pod-level resources if the pod has any, from its containers: limits of huge
/// pages, and requests of every resource that has a pod-level limit. The containers must have their
/// defaults already.
pub(super) fn default_pod_level_resources(spec: &mut Map<String, Value>) {
    let has_amounts = |spec: &Map<String, Value>, which: &str| {
        let amounts = spec.get("resources").and_then(|resources| resources.get(which)).and_then(Value::as_object);
        amounts.is_some_and(|amounts| !amounts.is_empty())
    };
    if has_amounts(spec, "limits") || has_amounts(spec, "requests") {
        let has_own = |which: &str, resource: &str| object::at(&spec["resources"], &[which, resource]).is_some();
        let limits = aggregate_resources_in_spec(spec, "limits").into_iter();
        let huge_pages = limits.filter(|(resource, _)| is_huge_page(resource) && !has_own("requests", resource));
        let huge_pages: Vec<_> =
            huge_pages.map(|(resource, amount)| (resource.to_owned(), amount.to_string().into())).collect();
        add_missing_amounts(spec, "limits", huge_pages);
    }
    if has_amounts(spec, "limits") {
        let requests = aggregate_resources_in_spec(spec, "requests").into_iter();
        let requests =
            requests.filter(|(resource, _)| is_pod_level_resource(resource) && can_be_overcommitted(resource));
        let requests: Vec<_> =
            requests.map(|(resource, amount)| (resource.to_owned(), amount.to_string().into())).collect();
        add_missing_amounts(spec, "requests", requests);
        let limits = object::at(&spec["resources"], &["limits"]).and_then(Value::as_object);
        let limits = limits.into_iter().flatten().filter(|(resource, _)| is_pod_level_resource(resource));
        let limits: Vec<_> = limits.map(|(resource, limit)| (resource.clone(), limit.clone())).collect();
        add_missing_amounts(spec, "requests", limits);
    }
}

/// Adds those amounts to the pod-level resources that are missing there.
fn add_missing_amounts(spec: &mut Map<String, Value>, which: &str, additions: Vec<(String, Value)>) {
    let Some(resources) = spec.get_mut("resources").filter(|_| !additions.is_empty()) else { return };
    let amounts = object::ensure_object(resources, &[which]);
    for (resource, amount) in additions {
        amounts.entry(resource).or_insert(amount);
    }
}

/// Validates the requests and limits of the container at `path`.
pub(super) fn validate_container_resources(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(resources) = container.get("resources") {
        validate_resources(resources, &format!("{path}.resources"), ResourceHolder::Container, errors);
    }
}

/// Validates the pod-level resources. `path` is the path of the pod spec.
pub(super) fn validate_pod_level_resources(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(resources) = spec.get("resources") else { return };
    let path = format!("{path}.resources");
    if object::text(spec, &["os", "name"]) == "windows" {
        errors.push(field::forbidden(path, "may not be set for a windows pod"));
        return;
    }
    if resources.get("claims").is_some() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(field::forbidden(format!("{path}.claims"), detail));
    }
    validate_resources(resources, &path, ResourceHolder::Pod, errors);
    validate_containers_fit_pod(spec, resources, &path, errors);
}

fn validate_resources(resources: &Value, path: &str, holder: ResourceHolder, errors: &mut Vec<FieldError>) {
    let (mut has_pages, mut has_base) = (false, false);
    for which in ["limits", "requests"] {
        for (resource, amount) in amounts(Some(resources), which) {
            let field = format!("{path}.{which}[{resource}]");
            validate_resource_name(resource, &field, holder, errors);
            if amount.is_negative() {
                errors.push(field::invalid(&field, amount.to_string(), "must be greater than or equal to 0"));
            }
            if is_extended(resource) && amount.nanos() % 1_000_000_000 != 0 {
                errors.push(field::invalid(&field, amount.to_string(), "must be an integer"));
            }
            if which == "requests" {
                validate_request(resources, resource, amount, path, errors);
            }
            if is_huge_page(resource) && !is_whole_pages(resource, amount) {
                let detail = format!("{amount} is not positive integer multiple of {resource}");
                errors.push(field::invalid(&field, amount.to_string(), detail));
            }
            has_pages |= is_huge_page(resource);
            has_base |= ["cpu", "memory"].contains(&resource);
        }
    }
    if has_pages && !has_base {
        errors.push(field::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// Validates that a request is not above its limit. It must equal the limit if the resource cannot
/// be overcommitted.
fn validate_request(resources: &Value, resource: &str, amount: Quantity, path: &str, errors: &mut Vec<FieldError>) {
    let limit = amounts(Some(resources), "limits").find(|(name, _)| *name == resource).map(|(_, limit)| limit);
    let overcommits = can_be_overcommitted(resource);
    let problem = match limit {
        Some(limit) if amount != limit && !overcommits => format!("must be equal to {resource} limit of {limit}"),
        Some(limit) if amount > limit => format!("must be less than or equal to {resource} limit of {limit}"),
        None if !overcommits => {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(field::required(format!("{path}.limits"), detail));
            return;
        }
        Some(_) | None => return,
    };
    errors.push(field::invalid(format!("{path}.requests"), amount.to_string(), problem));
}

/// Returns true if the amount is a multiple of the page size that the resource's name states.
fn is_whole_pages(resource: &str, amount: Quantity) -> bool {
    const UNIT: i128 = 1_000_000_000;
    let size: Option<Quantity> = resource.strip_prefix(HUGE_PAGES_PREFIX).and_then(|size| size.parse().ok());
    size.is_some_and(|size| size.nanos() > 0 && size.nanos() % UNIT == 0 && amount.value() % size.value() == 0)
}

fn validate_resource_name(resource: &str, field: &str, holder: ResourceHolder, errors: &mut Vec<FieldError>) {
    let errors_before = errors.len();
    for problem in names::qualified_name_problems(resource) {
        errors.push(field::invalid(field, resource, problem));
    }
    let has_no_domain = !resource.contains('/');
    let is_quota_of_pages = resource.strip_prefix("requests.").is_some_and(is_huge_page);
    let is_standard = STANDARD_RESOURCES.contains(&resource) || is_huge_page(resource) || is_quota_of_pages;
    if errors.len() == errors_before && has_no_domain && !is_standard {
        errors.push(field::invalid(field, resource, "must be a standard resource type or fully qualified"));
    }
    match holder {
        ResourceHolder::Container if has_no_domain => {
            if !["cpu", "memory", "ephemeral-storage"].contains(&resource) && !is_huge_page(resource) {
                errors.push(field::invalid(field, resource, "must be a standard resource for containers"));
            }
        }
        ResourceHolder::Container => {
            if !is_native(resource) && !is_extended(resource) {
                errors.push(field::invalid(field, resource, "doesn't follow extended resource name standard"));
            }
        }
        ResourceHolder::Pod => {
            if errors.len() == errors_before && !is_pod_level_resource(resource) {
                errors.push(field::not_supported(field, resource, &["cpu", HUGE_PAGES_PREFIX, "memory"]));
            }
        }
    }
}

/// Validates that the pod-level resources cover the containers: their aggregate requests must not
/// exceed the pod's requests, and no container's limit the pod's limit. Huge pages cannot be
/// overcommitted, so for them the aggregate limits must not exceed the pod's limit.
fn validate_containers_fit_pod(spec: &Value, resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let pod_level = |which: &str, resource: &str| {
        amounts(Some(resources), which).find(|(name, _)| *name == resource).map(|(_, amount)| amount)
    };
    let (containers, init) = (object::list(spec, &["containers"]), object::list(spec, &["initContainers"]));
    for which in ["requests", "limits"] {
        let aggregates = aggregate_container_resources(containers, init, which).into_iter();
        for (resource, needed) in aggregates.filter(|(resource, _)| which == "requests" || is_huge_page(resource)) {
            if let Some(pod_amount) = pod_level(which, resource).filter(|pod_amount| needed > *pod_amount) {
                let detail = format!("must be greater than or equal to aggregate container {which} of {needed}");
                errors.push(field::invalid(format!("{path}.{which}[{resource}]"), pod_amount.to_string(), detail));
            }
        }
    }
    for (index, container) in containers.iter().enumerate() {
        for (resource, limit) in amounts(container.get("resources"), "limits") {
            if let Some(pod_limit) = pod_level("limits", resource).filter(|pod_limit| limit > *pod_limit) {
                let field = format!("{path}.containers[{index}][{resource}].limits");
                let detail = format!("must be less than or equal to pod limits of {pod_limit}");
                errors.push(field::invalid(field, limit.to_string(), detail));
            }
        }
    }
}
