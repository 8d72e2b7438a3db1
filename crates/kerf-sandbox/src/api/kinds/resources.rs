//! Requests and limits, of a container and of a whole pod (`spec.resources`): what a pod's own are filled in with, and what is wrong with
//! either. The two obey the same rules but for the names that they may use; besides, a pod's own must have room for its containers'.

use std::collections::BTreeMap;

use kerf_api::quantity::Quantity;
use serde_json::{Map, Value};

use crate::api::field::{self, FieldError};
use crate::api::names;
use crate::api::object;

/// The names without a domain that mean something somewhere, in quotas for example.
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

/// Whose requests and limits they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResourceHolder {
    Container,
    Pod,
}

fn is_huge_page(resource: &str) -> bool {
    resource.starts_with(HUGE_PAGES_PREFIX)
}

/// Whether Kubernetes itself defines it: no domain means its own.
fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

fn is_extended(resource: &str) -> bool {
    const QUOTA: &str = "requests.";
    !is_native(resource)
        && !resource.starts_with(QUOTA)
        && names::qualified_name_problems(&format!("{QUOTA}{resource}")).is_empty()
}

/// Whether more may be promised of it than there is.
fn can_be_overcommitted(resource: &str) -> bool {
    is_native(resource) && !is_huge_page(resource)
}

/// Whether a pod can have it as a whole.
fn is_pod_level_resource(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || is_huge_page(resource)
}

fn amounts<'a>(resources: Option<&'a Value>, which: &str) -> impl Iterator<Item = (&'a str, Quantity)> {
    let amounts = resources.and_then(|resources| resources.get(which)).and_then(Value::as_object);
    // What was decoded can be read.
    amounts
        .into_iter()
        .flatten()
        .filter_map(|(resource, amount)| Some((resource.as_str(), amount.as_str()?.parse().ok()?)))
}

/// What the containers have together: those that run side by side add up, and each one that runs before them needs room beside the
/// sidecars that began earlier.
fn aggregate_container_resources<'a>(
    containers: &'a [Value],
    init: &'a [Value],
    which: &str,
) -> BTreeMap<&'a str, Quantity> {
    let mut total: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut sidecars: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut first: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut raise = |resource, amount: Quantity| {
        let most = first.entry(resource).or_insert(amount);
        *most = (*most).max(amount);
    };
    for container in containers {
        for (resource, amount) in amounts(container.get("resources"), which) {
            *total.entry(resource).or_default() += amount;
        }
    }
    for container in init {
        let own = amounts(container.get("resources"), which);
        if object::text(container, &["restartPolicy"]) == "Always" {
            for (resource, amount) in own {
                *total.entry(resource).or_default() += amount;
                *sidecars.entry(resource).or_default() += amount;
                raise(resource, sidecars[resource]);
            }
        } else {
            for (resource, amount) in own {
                raise(resource, amount + sidecars.get(resource).copied().unwrap_or_default());
            }
        }
    }
    for (resource, amount) in first {
        let most = total.entry(resource).or_insert(amount);
        *most = (*most).max(amount);
    }
    total
}

fn aggregate_resources_in_spec<'a>(spec: &'a Map<String, Value>, which: &str) -> BTreeMap<&'a str, Quantity> {
    let list = |name: &str| spec.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    aggregate_container_resources(list("containers"), list("initContainers"), which)
}

/// Fills in what a pod says of itself, if it says anything, from what its containers say: huge pages in full, and of what it limits the
/// requests. The containers are filled in already.
pub(super) fn default_pod_level_resources(spec: &mut Map<String, Value>) {
    let says = |spec: &Map<String, Value>, which: &str| {
        let amounts = spec.get("resources").and_then(|resources| resources.get(which)).and_then(Value::as_object);
        amounts.is_some_and(|amounts| !amounts.is_empty())
    };
    if says(spec, "limits") || says(spec, "requests") {
        let own = |which: &str, resource: &str| object::at(&spec["resources"], &[which, resource]).is_some();
        let limits = aggregate_resources_in_spec(spec, "limits").into_iter();
        let pages = limits.filter(|(resource, _)| is_huge_page(resource) && !own("requests", resource));
        let pages: Vec<_> = pages.map(|(resource, amount)| (resource.to_owned(), amount.to_string().into())).collect();
        add_missing_amounts(spec, "limits", pages);
    }
    if says(spec, "limits") {
        let asked = aggregate_resources_in_spec(spec, "requests").into_iter();
        let asked = asked.filter(|(resource, _)| is_pod_level_resource(resource) && can_be_overcommitted(resource));
        let asked: Vec<_> = asked.map(|(resource, amount)| (resource.to_owned(), amount.to_string().into())).collect();
        add_missing_amounts(spec, "requests", asked);
        let limits = object::at(&spec["resources"], &["limits"]).and_then(Value::as_object);
        let limits = limits.into_iter().flatten().filter(|(resource, _)| is_pod_level_resource(resource));
        let limits: Vec<_> = limits.map(|(resource, limit)| (resource.clone(), limit.clone())).collect();
        add_missing_amounts(spec, "requests", limits);
    }
}

/// Adds to a pod's own amounts what is not there yet.
fn add_missing_amounts(spec: &mut Map<String, Value>, which: &str, more: Vec<(String, Value)>) {
    let Some(resources) = spec.get_mut("resources").filter(|_| !more.is_empty()) else { return };
    let own = object::ensure_object(resources, &[which]);
    for (resource, amount) in more {
        own.entry(resource).or_insert(amount);
    }
}

/// Judges the requests and limits of a container at `path`.
pub(super) fn validate_container_resources(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(resources) = container.get("resources") {
        validate_resources(resources, &format!("{path}.resources"), ResourceHolder::Container, errors);
    }
}

/// Judges the requests and limits that a pod has as a whole; its spec stands at `path`.
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

/// A request is within its limit; where nothing can be promised twice, it is its limit.
fn validate_request(resources: &Value, resource: &str, amount: Quantity, path: &str, errors: &mut Vec<FieldError>) {
    let limit = amounts(Some(resources), "limits").find(|(name, _)| *name == resource).map(|(_, limit)| limit);
    let overcommits = can_be_overcommitted(resource);
    let wrong = match limit {
        Some(limit) if amount != limit && !overcommits => format!("must be equal to {resource} limit of {limit}"),
        Some(limit) if amount > limit => format!("must be less than or equal to {resource} limit of {limit}"),
        None if !overcommits => {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(field::required(format!("{path}.limits"), detail));
            return;
        }
        Some(_) | None => return,
    };
    errors.push(field::invalid(format!("{path}.requests"), amount.to_string(), wrong));
}

/// Whether an amount is made of pages of the size that the resource's name says.
fn is_whole_pages(resource: &str, amount: Quantity) -> bool {
    const UNIT: i128 = 1_000_000_000;
    let size: Option<Quantity> = resource.strip_prefix(HUGE_PAGES_PREFIX).and_then(|size| size.parse().ok());
    size.is_some_and(|size| size.nanos() > 0 && size.nanos() % UNIT == 0 && amount.value() % size.value() == 0)
}

fn validate_resource_name(resource: &str, field: &str, holder: ResourceHolder, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    for problem in names::qualified_name_problems(resource) {
        errors.push(field::invalid(field, resource, problem));
    }
    let plain = !resource.contains('/');
    let is_quota_of_pages = resource.strip_prefix("requests.").is_some_and(is_huge_page);
    let standard = STANDARD_RESOURCES.contains(&resource) || is_huge_page(resource) || is_quota_of_pages;
    if errors.len() == before && plain && !standard {
        errors.push(field::invalid(field, resource, "must be a standard resource type or fully qualified"));
    }
    match holder {
        ResourceHolder::Container if plain => {
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
            if errors.len() == before && !is_pod_level_resource(resource) {
                errors.push(field::not_supported(field, resource, &["cpu", HUGE_PAGES_PREFIX, "memory"]));
            }
        }
    }
}

/// The containers have room: what they ask for together is within what the pod asks for, and no limit is beyond the pod's. Huge pages
/// cannot be promised twice, so their limits must have room together.
fn validate_containers_fit_pod(spec: &Value, resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let own = |which: &str, resource: &str| {
        amounts(Some(resources), which).find(|(name, _)| *name == resource).map(|(_, amount)| amount)
    };
    let (containers, init) = (object::list(spec, &["containers"]), object::list(spec, &["initContainers"]));
    for which in ["requests", "limits"] {
        let counted = aggregate_container_resources(containers, init, which).into_iter();
        for (resource, needed) in counted.filter(|(resource, _)| which == "requests" || is_huge_page(resource)) {
            if let Some(given) = own(which, resource).filter(|given| needed > *given) {
                let detail = format!("must be greater than or equal to aggregate container {which} of {needed}");
                errors.push(field::invalid(format!("{path}.{which}[{resource}]"), given.to_string(), detail));
            }
        }
    }
    for (place, container) in containers.iter().enumerate() {
        for (resource, limit) in amounts(container.get("resources"), "limits") {
            if let Some(most) = own("limits", resource).filter(|most| limit > *most) {
                let field = format!("{path}.containers[{place}][{resource}].limits");
                let detail = format!("must be less than or equal to pod limits of {most}");
                errors.push(field::invalid(field, limit.to_string(), detail));
            }
        }
    }
}
