//! Amounts of resources by name, and the requests of a pod.
//!
//! The arithmetic follows spec 02 §4.3. Effective requests follow §4.2, which is Kubernetes' own
//! rule. Amounts are exact, in nano-units. A quantity that cannot be parsed is skipped: the API
//! server rejects such objects.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use kerf_api::quantity::Quantity;

/// The resource that counts pods.
pub const PODS: &str = "pods";

/// Amounts by resource name. An absent name counts as zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources(BTreeMap<String, Quantity>);

impl Resources {
    /// Creates an empty list of resources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses a resource map of an API object. Quantities that cannot be parsed are skipped.
    pub fn from_quantities(map: Option<&BTreeMap<String, WireQuantity>>) -> Self {
        let amounts = map.into_iter().flatten().filter_map(|(name, text)| Some((name.clone(), text.0.parse().ok()?)));
        Self(amounts.collect())
    }

    /// Parses a resource map of plain strings. Quantities that cannot be parsed are skipped.
    pub fn parse<'a>(map: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        Self(map.into_iter().filter_map(|(name, text)| Some((name.clone(), text.parse().ok()?))).collect())
    }

    /// Returns the amount of a resource, zero if it is absent.
    pub fn get(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or(Quantity::ZERO)
    }

    /// Returns true if the resource is present, even with amount zero.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets the amount of a resource.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        self.0.insert(name.to_owned(), amount);
    }

    /// Iterates over all resources with their amounts, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Returns the element-wise sum over the union of names.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (name, amount) in &other.0 {
            sum.set(name, sum.get(name) + *amount);
        }
        sum
    }

    /// Returns the element-wise difference over the names of `self`. Amounts may be negative.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(self.0.iter().map(|(name, amount)| (name.clone(), *amount - other.get(name))).collect())
    }

    /// Returns the element-wise maximum over the union of names.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        let mut most = self.clone();
        for (name, amount) in &other.0 {
            if !most.contains(name) || most.get(name) < *amount {
                most.set(name, *amount);
            }
        }
        most
    }

    /// Returns the element-wise minimum over the names that both have.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        let both = self.0.iter().filter(|(name, _)| other.contains(name));
        Self(both.map(|(name, amount)| (name.clone(), (*amount).min(other.get(name)))).collect())
    }

    /// Returns these amounts with every negative amount raised to zero.
    #[must_use]
    pub fn clamped_to_zero(&self) -> Self {
        Self(self.0.iter().map(|(name, amount)| (name.clone(), (*amount).max(Quantity::ZERO))).collect())
    }

    /// Returns the resources of which `available` has less than `self` requests; empty if `self`
    /// fits. A negative amount in `available` is always a shortage, even if `self` requests nothing
    /// of it: a node whose capacity is exceeded in any resource accepts no pod.
    pub fn shortages_in(&self, available: &Self) -> Vec<ResourceShortage> {
        let short = self.iter().filter(|(name, amount)| *amount > available.get(name));
        let mut shortages: Vec<ResourceShortage> = short
            .map(|(name, requested)| ResourceShortage {
                resource: name.to_owned(),
                requested,
                available: available.get(name),
            })
            .collect();
        for (name, amount) in available.iter().filter(|(_, amount)| *amount < Quantity::ZERO) {
            if !shortages.iter().any(|shortage| shortage.resource == name) {
                shortages.push(ResourceShortage {
                    resource: name.to_owned(),
                    requested: self.get(name),
                    available: amount,
                });
            }
        }
        shortages
    }

    /// Returns true if `self` fits into `available`.
    pub fn fits_into(&self, available: &Self) -> bool {
        self.shortages_in(available).is_empty()
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, amount)) in self.iter().enumerate() {
            write!(f, "{}{name}: {amount}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}

/// A resource of which less is available than requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceShortage {
    /// Name of the resource.
    pub resource: String,
    /// Requested amount.
    pub requested: Quantity,
    /// Available amount; may be negative.
    pub available: Quantity,
}

impl fmt::Display for ResourceShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} requested, {} available", self.resource, self.requested, self.available)
    }
}

/// Returns the effective requests of the pod, with 1 of the resource `pods` (spec 02 §4.2).
pub fn pod_requests(pod: &Pod) -> Resources {
    let Some(spec) = &pod.spec else { return one_pod() };
    let status = pod.status.as_ref();
    let infeasible = status.and_then(|s| s.conditions.as_ref()).is_some_and(|conditions| {
        conditions.iter().any(|c| c.type_ == "PodResizePending" && c.reason.as_deref() == Some("Infeasible"))
    });
    let statuses = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let init_statuses = status.and_then(|s| s.init_container_statuses.as_deref()).unwrap_or_default();

    let mut running = Resources::new();
    for container in &spec.containers {
        running = running.plus(&container_requests(container, statuses, infeasible));
    }
    let mut sidecars = Resources::new();
    let mut starting = Resources::new();
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.plus(&container_requests(container, init_statuses, infeasible));
            starting = starting.max(&sidecars);
        } else {
            // A plain init container runs together with the sidecars that were started before it.
            starting = starting.max(&requests_of(container.resources.as_ref()).plus(&sidecars));
        }
    }
    let mut requests = running.plus(&sidecars).max(&starting);
    for (name, amount) in requests_of(spec.resources.as_ref()).iter() {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            requests.set(name, amount);
        }
    }
    requests.plus(&Resources::from_quantities(spec.overhead.as_ref())).plus(&one_pod())
}

/// Returns the sum of the pods' requests. It contains `pods` even if there are no pods.
pub fn sum_of_requests<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Resources {
    let mut none = Resources::new();
    none.set(PODS, Quantity::ZERO);
    pods.into_iter().fold(none, |sum, pod| sum.plus(&pod_requests(pod)))
}

fn one_pod() -> Resources {
    let mut one = Resources::new();
    one.set(PODS, Quantity::from_units(1));
    one
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Resources {
    Resources::from_quantities(resources.and_then(|r| r.requests.as_ref()))
}

/// Returns a container's requests. During a resize it is the maximum of the requests in the spec,
/// in the status and allocated. If the resize is infeasible, the spec does not count.
fn container_requests(container: &Container, statuses: &[ContainerStatus], infeasible: bool) -> Resources {
    let desired = requests_of(container.resources.as_ref());
    let status = statuses.iter().find(|s| s.name == container.name);
    let Some((status, actual)) = status.and_then(|s| Some((s, s.resources.as_ref()?))) else { return desired };
    let current = requests_of(Some(actual)).max(&Resources::from_quantities(status.allocated_resources.as_ref()));
    if infeasible { current } else { current.max(&desired) }
}

#[cfg(test)]
mod tests;
