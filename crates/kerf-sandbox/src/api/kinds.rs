//! The built-in kinds: one [`BuiltInKind`] row each, with everything that is particular to the
//! kind. Everything that a row does not state works alike for all kinds, custom ones included.
//!
//! Defaults, preparation for writes and validation of a kind are a [`KindStrategy`] in the file of
//! the kind's family. The request handlers never test for a kind by name.

mod autoscaling;
mod container;
mod crd;
mod defaults;
mod events;
mod namespace;
mod node;
mod pod;
mod pod_spec;
mod pod_update;
mod policy;
mod resources;
mod service;
mod small_kinds;
mod storage;
mod workload;

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1 as apps,
    authentication::v1 as authentication,
    authorization::v1 as authorization,
    autoscaling::{v1 as autoscaling_v1, v2 as autoscaling_v2},
    batch::v1 as batch,
    coordination::v1 as coordination,
    core::v1 as core,
    discovery::v1 as discovery,
    events::v1 as events_v1,
    networking::v1 as networking,
    node::v1 as node_v1,
    policy::v1 as policy_v1,
    rbac::v1 as rbac,
    resource::v1 as dra,
    scheduling::v1 as scheduling,
    storage::v1 as storage_v1,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use serde_json::Value;

use super::field::FieldError;
use super::names::NameRule;
use super::schema::RegisterSchema;
use super::schema::register_schema;

pub(crate) use autoscaling::{autoscaler_to_v1, autoscaler_to_v2};
pub(crate) use events::{core_event_to_events_v1, events_v1_event_to_core, selectable_values};

/// The verbs that clients may use on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupportedVerbs {
    /// All verbs.
    All,
    /// All verbs except `deletecollection` (namespaces).
    NoDeleteCollection,
    /// Only `create`: the server answers the request and stores nothing (reviews, bindings).
    CreateOnly,
}

/// The rule by which `status` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusRule {
    /// The kind has no `status`, or `status` is an ordinary field.
    None,
    /// Only the status subresource writes `status`; create requests lose the `status` of their
    /// body.
    Subresource,
    /// Like [`StatusRule::Subresource`], but create requests may set `status`: kubelets create
    /// nodes with their status.
    WritableOnCreate,
}

/// The time of a write and a source of serial numbers, for a [`KindStrategy`] that prepares an
/// object.
pub(crate) struct WriteContext<'a> {
    pub(crate) now: Timestamp,
    pub(crate) serial_counter: &'a AtomicU64,
}

impl WriteContext<'_> {
    /// Returns the next serial number. No number is returned twice.
    fn next_serial(&self) -> u64 {
        self.serial_counter.fetch_add(1, Ordering::Relaxed)
    }
}

/// The particular behaviour of a kind on writes (Kubernetes' registry strategy).
pub(crate) struct KindStrategy {
    /// Sets defaults of omitted fields after an object was decoded.
    pub(crate) default: fn(&mut Value),
    /// Prepares a new object, after defaulting and before validation.
    pub(crate) prepare_for_create: fn(&mut Value, &mut WriteContext<'_>),
    /// Prepares the new version of an object. The second argument is the stored version.
    pub(crate) prepare_for_update: fn(&mut Value, &Value, &mut WriteContext<'_>),
    /// Prepares a new version that was written through the status subresource.
    pub(crate) prepare_for_status_update: fn(&mut Value, &Value, &mut WriteContext<'_>),
    /// Validates an object. The second argument is the stored version, or `None` on create.
    pub(crate) validate: fn(&Value, Option<&Value>, &mut Vec<FieldError>),
}

/// The strategy of a kind without particular behaviour.
const NO_OP_STRATEGY: KindStrategy = KindStrategy {
    default: |_| {},
    prepare_for_create: |_, _| {},
    prepare_for_update: |_, _, _| {},
    prepare_for_status_update: |_, _, _| {},
    validate: |_, _, _| {},
};

/// A kind that the server has without a CustomResourceDefinition.
#[allow(clippy::struct_field_names, reason = "a kind has a `kind`: the word of the API")]
pub(crate) struct BuiltInKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) openapi_definition: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) supported_verbs: SupportedVerbs,
    pub(crate) status: StatusRule,
    /// Subresources besides `status`.
    pub(crate) subresources: &'static [&'static str],
    /// True if `metadata.generation` counts changes of the spec.
    pub(crate) has_generation: bool,
    pub(crate) name_rule: NameRule,
    /// Field paths that field selectors may use, each with the value that replaces a missing field.
    pub(crate) selectable: &'static [(&'static str, &'static str)],
    pub(crate) strategy: KindStrategy,
    register_schema: RegisterSchema,
}

/// Returns the row of the kind `T` without any particular behaviour.
fn built_in_kind<T>(short_names: &'static [&'static str]) -> BuiltInKind
where
    T: k8s_openapi::Resource + JsonSchema,
    T::Scope: ScopeNamespaced,
{
    BuiltInKind {
        group: T::GROUP,
        version: T::VERSION,
        kind: T::KIND,
        plural: T::URL_PATH_SEGMENT,
        openapi_definition: T::schema_name().into_owned(),
        namespaced: T::Scope::NAMESPACED,
        short_names,
        categories: &[],
        supported_verbs: SupportedVerbs::All,
        status: StatusRule::None,
        subresources: &[],
        has_generation: false,
        name_rule: NameRule::Subdomain,
        selectable: &[],
        strategy: NO_OP_STRATEGY,
        register_schema: register_schema::<T>,
    }
}

/// Maps the scope types of `k8s-openapi` to a bool.
trait ScopeNamespaced {
    const NAMESPACED: bool;
}

impl ScopeNamespaced for k8s_openapi::NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl ScopeNamespaced for k8s_openapi::ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl BuiltInKind {
    fn in_category_all(self) -> Self {
        Self { categories: &["all"], ..self }
    }

    fn with_status(self) -> Self {
        Self { status: StatusRule::Subresource, ..self }
    }

    fn with_generation(self) -> Self {
        Self { has_generation: true, ..self }
    }

    fn create_only(self) -> Self {
        Self { supported_verbs: SupportedVerbs::CreateOnly, ..self }
    }

    fn with_strategy(self, strategy: KindStrategy) -> Self {
        Self { strategy, ..self }
    }

    fn selectable(self, selectable: &'static [(&'static str, &'static str)]) -> Self {
        Self { selectable, ..self }
    }

    fn subresources(self, subresources: &'static [&'static str]) -> Self {
        Self { subresources, ..self }
    }

    fn with_name_rule(self, name_rule: NameRule) -> Self {
        Self { name_rule, ..self }
    }
}

/// Returns all rows, in the order in which discovery lists them.
pub(crate) fn built_in_kinds() -> Vec<BuiltInKind> {
    let mut kinds = core_kinds();
    kinds.extend(workload_kinds());
    kinds.extend(cluster_kinds());
    kinds.extend(storage_kinds());
    kinds
}

fn core_kinds() -> Vec<BuiltInKind> {
    vec![
        BuiltInKind { plural: "bindings", ..built_in_kind::<core::Binding>(&[]).create_only() },
        built_in_kind::<core::ConfigMap>(&["cm"]).with_strategy(small_kinds::CONFIG_MAP),
        built_in_kind::<core::Endpoints>(&["ep"]),
        built_in_kind::<core::Event>(&["ev"]).selectable(events::CORE_FIELDS).with_strategy(events::CORE_EVENT),
        built_in_kind::<core::LimitRange>(&["limits"]).with_strategy(policy::LIMIT_RANGE),
        BuiltInKind {
            supported_verbs: SupportedVerbs::NoDeleteCollection,
            ..built_in_kind::<core::Namespace>(&["ns"])
        }
        .with_status()
        .with_name_rule(NameRule::Label)
        .subresources(&["finalize"])
        .selectable(&[("status.phase", "")])
        .with_strategy(namespace::NAMESPACE),
        BuiltInKind { status: StatusRule::WritableOnCreate, ..built_in_kind::<core::Node>(&["no"]) }
            .selectable(&[("spec.unschedulable", "false")])
            .with_strategy(node::NODE),
        built_in_kind::<core::PersistentVolumeClaim>(&["pvc"])
            .with_status()
            .with_strategy(storage::PERSISTENT_VOLUME_CLAIM),
        built_in_kind::<core::PersistentVolume>(&["pv"]).with_status().with_strategy(storage::PERSISTENT_VOLUME),
        built_in_kind::<core::Pod>(&["po"])
            .in_category_all()
            .with_status()
            .with_generation()
            .subresources(&["binding", "ephemeralcontainers", "eviction", "resize"])
            .selectable(pod::SELECTABLE_FIELDS)
            .with_strategy(pod::POD),
        built_in_kind::<core::PodTemplate>(&[]).with_generation().with_strategy(workload::POD_TEMPLATE),
        built_in_kind::<core::ReplicationController>(&["rc"])
            .in_category_all()
            .with_status()
            .with_generation()
            .subresources(&["scale"])
            .selectable(&[("status.replicas", "0")])
            .with_strategy(workload::REPLICATION_CONTROLLER),
        built_in_kind::<core::ResourceQuota>(&["quota"]).with_status().with_strategy(policy::QUOTA),
        built_in_kind::<core::Secret>(&[]).selectable(&[("type", "")]).with_strategy(small_kinds::SECRET),
        built_in_kind::<core::ServiceAccount>(&["sa"]).subresources(&["token"]),
        built_in_kind::<core::Service>(&["svc"])
            .in_category_all()
            .with_status()
            .with_name_rule(NameRule::Label)
            .selectable(&[("spec.clusterIP", ""), ("spec.type", "")])
            .with_strategy(service::SERVICE),
    ]
}

fn workload_kinds() -> Vec<BuiltInKind> {
    vec![
        built_in_kind::<apps::ControllerRevision>(&[]),
        built_in_kind::<apps::DaemonSet>(&["ds"])
            .in_category_all()
            .with_status()
            .with_generation()
            .with_strategy(workload::DAEMON_SET),
        built_in_kind::<apps::Deployment>(&["deploy"])
            .in_category_all()
            .with_status()
            .with_generation()
            .subresources(&["scale"])
            .with_strategy(workload::DEPLOYMENT),
        built_in_kind::<apps::ReplicaSet>(&["rs"])
            .in_category_all()
            .with_status()
            .with_generation()
            .subresources(&["scale"])
            .selectable(&[("status.replicas", "0")])
            .with_strategy(workload::REPLICA_SET),
        built_in_kind::<apps::StatefulSet>(&["sts"])
            .in_category_all()
            .with_status()
            .with_generation()
            .subresources(&["scale"])
            .with_strategy(workload::STATEFUL_SET),
        built_in_kind::<autoscaling_v1::HorizontalPodAutoscaler>(&["hpa"])
            .in_category_all()
            .with_status()
            .with_strategy(autoscaling::HORIZONTAL_POD_AUTOSCALER),
        built_in_kind::<autoscaling_v2::HorizontalPodAutoscaler>(&["hpa"])
            .in_category_all()
            .with_status()
            .with_strategy(autoscaling::HORIZONTAL_POD_AUTOSCALER),
        built_in_kind::<batch::CronJob>(&["cj"])
            .in_category_all()
            .with_status()
            .with_generation()
            .with_strategy(workload::CRON_JOB),
        built_in_kind::<batch::Job>(&[])
            .in_category_all()
            .with_status()
            .with_generation()
            .selectable(&[("status.successful", "0")])
            .with_strategy(workload::JOB),
        built_in_kind::<policy_v1::PodDisruptionBudget>(&["pdb"])
            .with_status()
            .with_generation()
            .with_strategy(policy::DISRUPTION_BUDGET),
    ]
}

fn cluster_kinds() -> Vec<BuiltInKind> {
    vec![
        built_in_kind::<apiextensions::CustomResourceDefinition>(&["crd", "crds"])
            .with_status()
            .with_generation()
            .with_strategy(crd::CUSTOM_RESOURCE_DEFINITION),
        built_in_kind::<authentication::SelfSubjectReview>(&[]).create_only(),
        built_in_kind::<authorization::LocalSubjectAccessReview>(&[]).create_only(),
        built_in_kind::<authorization::SelfSubjectAccessReview>(&[]).create_only(),
        built_in_kind::<authorization::SelfSubjectRulesReview>(&[]).create_only(),
        built_in_kind::<authorization::SubjectAccessReview>(&[]).create_only(),
        built_in_kind::<coordination::Lease>(&[]).with_strategy(small_kinds::LEASE),
        built_in_kind::<discovery::EndpointSlice>(&[]).with_generation(),
        built_in_kind::<events_v1::Event>(&["ev"])
            .selectable(events::EVENTS_V1_FIELDS)
            .with_strategy(events::EVENTS_V1_EVENT),
        built_in_kind::<networking::IngressClass>(&[]).with_generation(),
        built_in_kind::<networking::Ingress>(&["ing"])
            .with_status()
            .with_generation()
            .with_strategy(small_kinds::INGRESS),
        built_in_kind::<networking::NetworkPolicy>(&["netpol"]).with_generation(),
        built_in_kind::<node_v1::RuntimeClass>(&[]).with_strategy(policy::RUNTIME_CLASS),
        built_in_kind::<rbac::ClusterRoleBinding>(&[])
            .with_name_rule(NameRule::PathSegment)
            .with_strategy(small_kinds::ROLE_BINDING),
        built_in_kind::<rbac::ClusterRole>(&[]).with_name_rule(NameRule::PathSegment),
        built_in_kind::<rbac::RoleBinding>(&[])
            .with_name_rule(NameRule::PathSegment)
            .with_strategy(small_kinds::ROLE_BINDING),
        built_in_kind::<rbac::Role>(&[]).with_name_rule(NameRule::PathSegment),
        built_in_kind::<dra::DeviceClass>(&[]).with_generation(),
        built_in_kind::<dra::ResourceClaim>(&[]).with_status(),
        built_in_kind::<dra::ResourceClaimTemplate>(&[]),
        built_in_kind::<dra::ResourceSlice>(&[])
            .with_generation()
            .selectable(&[("spec.driver", ""), ("spec.nodeName", "")]),
        built_in_kind::<scheduling::PriorityClass>(&["pc"]).with_generation().with_strategy(policy::PRIORITY_CLASS),
    ]
}

fn storage_kinds() -> Vec<BuiltInKind> {
    vec![
        built_in_kind::<storage_v1::CSIDriver>(&[]).with_strategy(storage::CSI_DRIVER),
        built_in_kind::<storage_v1::CSINode>(&[]),
        built_in_kind::<storage_v1::CSIStorageCapacity>(&[]),
        built_in_kind::<storage_v1::StorageClass>(&["sc"]).with_strategy(storage::STORAGE_CLASS),
        built_in_kind::<storage_v1::VolumeAttachment>(&[]).with_status().with_strategy(storage::ATTACHMENT),
    ]
}

/// Returns the functions that register every type that an OpenAPI document may mention: the types
/// of the kinds and of the bodies of their subresources.
pub(crate) fn schema_registrations() -> Vec<RegisterSchema> {
    let mut registrations: Vec<RegisterSchema> = built_in_kinds().iter().map(|kind| kind.register_schema).collect();
    registrations.extend([
        register_schema::<policy_v1::Eviction> as RegisterSchema,
        register_schema::<authentication::TokenRequest>,
        register_schema::<autoscaling_v1::Scale>,
        register_schema::<meta::DeleteOptions>,
        register_schema::<meta::Status>,
    ]);
    registrations
}
