//! The served resources: built-in ones from the start, custom ones as their CRDs are created and
//! deleted.
//!
//! Invariant: a request uses one immutable registry from beginning to end. A change creates a new
//! one.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use smol_str::SmolStr;

use super::custom::CustomKind;
use super::kinds::{self, BuiltInKind, StatusRule, SupportedVerbs};
use super::names::NameRule;
use super::object;
use super::schema::{Schema, definitions};
use super::status::GroupResource;
use super::storage::{ObjectStore, SelectorAttributes, StoredObject, TableIx};
use super::usage_metrics;

pub(crate) static BUILT_IN_KINDS: LazyLock<Vec<BuiltInKind>> = LazyLock::new(kinds::built_in_kinds);

/// The form in which a resource serves its stored objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedAs {
    /// The stored form.
    AsStored,
    /// Events, which are stored as `v1`, in the form of `events.k8s.io/v1`.
    EventsV1,
    /// HorizontalPodAutoscalers, which are stored as `v2`, in the form of `autoscaling/v1`.
    AutoscalingV1,
    /// Objects of another version of the same custom resource.
    OtherVersion,
}

/// The source of a resource's rules.
#[derive(Clone)]
pub(crate) enum ResourceOrigin {
    BuiltIn(&'static BuiltInKind),
    Custom(Arc<CustomKind>),
}

/// Paths of the numbers and the selector of a scale. `selector` is `None` if the object has a label
/// selector at `spec.selector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<SmolStr>,
    pub(crate) status_replicas: Vec<SmolStr>,
    pub(crate) selector: Option<Vec<SmolStr>>,
}

/// One served version of a resource.
pub(crate) struct Resource {
    pub(crate) group: SmolStr,
    pub(crate) version: SmolStr,
    pub(crate) kind: SmolStr,
    pub(crate) list_kind: SmolStr,
    pub(crate) plural: SmolStr,
    pub(crate) singular: SmolStr,
    pub(crate) short_names: Vec<SmolStr>,
    pub(crate) categories: Vec<SmolStr>,
    pub(crate) namespaced: bool,
    pub(crate) supported_verbs: SupportedVerbs,
    pub(crate) status: StatusRule,
    pub(crate) scale: Option<ScalePaths>,
    /// Subresources besides `status` and `scale`.
    pub(crate) subresources: Vec<SmolStr>,
    pub(crate) has_generation: bool,
    pub(crate) name_rule: NameRule,
    pub(crate) selectable: Vec<(SmolStr, SmolStr)>,
    pub(crate) schema: Schema,
    /// The name of the kind in OpenAPI documents.
    pub(crate) openapi_definition: SmolStr,
    pub(crate) table: TableIx,
    /// The store's revision when the CRD was last changed. 0 for built-in resources.
    pub(crate) revision: u64,
    pub(crate) served_as: ServedAs,
    /// The version in which objects are stored.
    pub(crate) storage_version: SmolStr,
    pub(crate) origin: ResourceOrigin,
}

impl Resource {
    pub(crate) fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.group, resource: &self.plural }
    }

    /// Returns `apps/v1`, or `v1` for the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the labels and the values of the selectable fields of an object in its stored form.
    pub(crate) fn selector_attributes(&self, object: &Value) -> SelectorAttributes {
        let attributes = object::selector_attributes(
            object,
            self.selectable.iter().map(|(path, missing)| (path.as_str(), missing.as_str())),
        );
        // Both API versions of Events select by the same values, under different names.
        let is_event = self.plural == "events" && !self.is_custom();
        if is_event {
            return SelectorAttributes { fields: kinds::selectable_values(object).collect(), ..attributes };
        }
        attributes
    }

    /// Returns the value of a selectable field of a stored object, or `None` if the field is not
    /// selectable.
    pub(crate) fn selector_attribute<'s>(&self, stored: &'s StoredObject, path: &str) -> Option<&'s str> {
        let index = self.selectable.iter().position(|(field, _)| field == path)?;
        stored.attributes.fields.get(index).map(SmolStr::as_str)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.status != StatusRule::None
    }

    /// Returns the OpenAPI schema of a custom resource, or `None` for a built-in one.
    pub(crate) fn openapi_schema(&self) -> Option<Value> {
        match &self.origin {
            ResourceOrigin::BuiltIn(_) => None,
            ResourceOrigin::Custom(kind) => Some(kind.openapi_schema()),
        }
    }

    pub(crate) fn is_custom(&self) -> bool {
        match self.origin {
            ResourceOrigin::BuiltIn(_) => false,
            ResourceOrigin::Custom(_) => true,
        }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}

/// Group, version and plural name of a resource.
pub(crate) type GroupVersionResource = (SmolStr, SmolStr, SmolStr);

/// All served resources.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    resources: BTreeMap<GroupVersionResource, Arc<Resource>>,
    /// Groups in the order in which they were added.
    groups: Vec<SmolStr>,
}

impl Registry {
    /// Returns the built-in resources, each with its own table. Both versions of Events share one,
    /// and so do both versions of HorizontalPodAutoscalers.
    pub(crate) fn built_in(storage: &ObjectStore) -> Self {
        let mut registry = Self::default();
        let events = storage.create_table();
        let autoscalers = storage.create_table();
        for kind in BUILT_IN_KINDS.iter() {
            let table = match kind.plural {
                "events" => events,
                "horizontalpodautoscalers" => autoscalers,
                _ => storage.create_table(),
            };
            let served_as = match (kind.group, kind.version) {
                ("events.k8s.io", _) => ServedAs::EventsV1,
                ("autoscaling", "v1") => ServedAs::AutoscalingV1,
                _ => ServedAs::AsStored,
            };
            registry.insert(Resource::built_in(kind, table, served_as));
        }
        registry
    }

    pub(crate) fn insert(&mut self, resource: Resource) {
        if !self.groups.contains(&resource.group) {
            self.groups.push(resource.group.clone());
        }
        let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.resources.insert(key, Arc::new(resource));
    }

    /// Removes all versions of a resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.resources.retain(|_, resource| !resource.is(group, plural));
        self.groups.retain(|group| self.resources.keys().any(|(other, _, _)| other == group));
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.into(), version.into(), plural.into()))
    }

    /// Returns true if an API version such as `apps/v1` has the kind.
    pub(crate) fn has_kind(&self, api_version: &str, kind: &str) -> bool {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.resources_in(group, version).any(|resource| resource.kind == kind)
    }

    /// Returns true if the group is served in any version.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|other| other == group)
    }

    /// Returns true if the group is that of a metrics server and no CRD defines it: the server then
    /// lists it without resources.
    pub(crate) fn is_usage_metrics(&self, group: &str) -> bool {
        group == usage_metrics::GROUP && !self.has_group(group)
    }

    /// Returns every version of every resource whose objects are stored.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().filter(|resource| resource.supported_verbs != SupportedVerbs::CreateOnly)
    }

    /// Returns a resource in any of its versions.
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.values().find(|resource| resource.is(group, plural))
    }

    /// Returns the groups with their versions, the preferred version first.
    pub(crate) fn groups(&self) -> Vec<(SmolStr, Vec<SmolStr>)> {
        let versions = |group: &SmolStr| {
            let mut versions: Vec<SmolStr> = self
                .resources
                .keys()
                .filter(|(other, _, _)| other == group)
                .map(|(_, version, _)| version.clone())
                .collect();
            versions.dedup();
            versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
            versions
        };
        self.groups.iter().map(|group| (group.clone(), versions(group))).collect()
    }

    /// Returns the resources of one version of a group, sorted by name.
    pub(crate) fn resources_in(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().filter(move |resource| resource.group == group && resource.version == version)
    }
}

impl Resource {
    fn built_in(kind: &'static BuiltInKind, table: TableIx, served_as: ServedAs) -> Self {
        let scale = kind.subresources.contains(&"scale").then(|| ScalePaths {
            spec_replicas: vec!["spec".into(), "replicas".into()],
            status_replicas: vec!["status".into(), "replicas".into()],
            selector: None,
        });
        Self {
            group: kind.group.into(),
            version: kind.version.into(),
            kind: kind.kind.into(),
            list_kind: smol_str::format_smolstr!("{}List", kind.kind),
            plural: kind.plural.into(),
            singular: kind.kind.to_lowercase().into(),
            short_names: kind.short_names.iter().map(|name| SmolStr::from(*name)).collect(),
            categories: kind.categories.iter().map(|name| SmolStr::from(*name)).collect(),
            namespaced: kind.namespaced,
            supported_verbs: kind.supported_verbs,
            status: kind.status,
            scale,
            subresources: kind
                .subresources
                .iter()
                .filter(|name| **name != "scale")
                .map(|name| SmolStr::from(*name))
                .collect(),
            has_generation: kind.has_generation,
            name_rule: kind.name_rule,
            selectable: kind
                .selectable
                .iter()
                .map(|(path, missing)| (SmolStr::from(*path), SmolStr::from(*missing)))
                .collect(),
            schema: definitions().schema(&kind.openapi_definition),
            openapi_definition: kind.openapi_definition.as_str().into(),
            table,
            revision: 0,
            served_as,
            storage_version: kind.version.into(),
            origin: ResourceOrigin::BuiltIn(kind),
        }
    }
}

/// Returns a key for Kubernetes' order of versions: `v2 > v1 > v1beta2 > v1beta1 > v1alpha1`, and
/// all other names below.
fn version_priority(version: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (major, stage) = rest.split_at(digits);
        let major = major.parse().ok()?;
        match stage {
            "" => Some((3, major, 0)),
            _ => {
                let (rank, minor) = stage
                    .strip_prefix("beta")
                    .map(|minor| (2, minor))
                    .or_else(|| Some((1, stage.strip_prefix("alpha")?)))?;
                Some((rank, major, minor.parse().ok()?))
            }
        }
    };
    parse().unwrap_or_default()
}
