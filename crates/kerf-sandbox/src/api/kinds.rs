//! The kinds that the server has from the start: one row each, with what is particular to it. Everything that a row does not
//! say works alike for all kinds, custom ones included.
//!
//! A kind's own conduct (defaults, what happens when it is created or updated, what is forbidden) lives in the file of its
//! family; the handlers know no kind by name.

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
    apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization,
    autoscaling::v1 as autoscaling, batch::v1 as batch, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events_v1, networking::v1 as networking, node::v1 as node_v1,
    policy::v1 as policy_v1, rbac::v1 as rbac, resource::v1 as dra, scheduling::v1 as scheduling,
    storage::v1 as storage_v1,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::JsonSchema;
use serde_json::Value;

use super::field::FieldError;
use super::names::NameRule;
use super::schema::RegisterSchema;
use super::schema::describe;

pub(crate) use events::{from_core, to_core};

/// What a client may do with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupportedVerbs {
    /// Everything.
    All,
    /// Everything but deleting many at once (namespaces).
    NoDeleteCollection,
    /// A question that is answered and not kept (reviews, bindings).
    CreateOnly,
}

/// What becomes of `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusRule {
    /// The kind has none, or it is a field like any other.
    None,
    /// Written through the subresource alone; what a creation says of it is dropped.
    Subresource,
    /// As before, but a creation may set it: nodes are created with theirs.
    KeptOnCreate,
}

/// What a kind may ask of the world when an object is written: the time, and numbers that nobody else gets.
pub(crate) struct WriteContext<'a> {
    pub(crate) now: Timestamp,
    pub(crate) serials: &'a AtomicU64,
}

impl WriteContext<'_> {
    /// The next number; each is given once.
    fn serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a kind does of its own accord at one moment of an object's life.
pub(crate) struct KindStrategy {
    /// Fills in what was left out, when an object is read.
    pub(crate) default: fn(&mut Value),
    /// Prepares a new object, after defaults, before it is judged.
    pub(crate) on_create: fn(&mut Value, &mut WriteContext<'_>),
    /// Prepares a new version of an object (the new one, the old one).
    pub(crate) on_update: fn(&mut Value, &Value, &mut WriteContext<'_>),
    /// Prepares a new version that comes through the status subresource.
    pub(crate) on_status: fn(&mut Value, &Value, &mut WriteContext<'_>),
    /// Judges an object, and the change if there was one before.
    pub(crate) judge: fn(&Value, Option<&Value>, &mut Vec<FieldError>),
}

/// The conduct of a kind that has none of its own.
const NO_OP_STRATEGY: KindStrategy = KindStrategy {
    default: |_| {},
    on_create: |_, _| {},
    on_update: |_, _, _| {},
    on_status: |_, _, _| {},
    judge: |_, _, _| {},
};

/// One kind.
#[allow(clippy::struct_field_names, reason = "a kind has a `kind`: the word of the API")]
pub(crate) struct BuiltInKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) definition: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) access: SupportedVerbs,
    pub(crate) status: StatusRule,
    /// Subresources besides `status`.
    pub(crate) subresources: &'static [&'static str],
    /// Whether `metadata.generation` counts changes of the spec.
    pub(crate) generation: bool,
    pub(crate) names: NameRule,
    /// The fields that a field selector may name, with what stands for a missing one.
    pub(crate) selectable: &'static [(&'static str, &'static str)],
    pub(crate) conduct: KindStrategy,
    describe: RegisterSchema,
}

/// A row for the kind `T`, with nothing particular.
fn kind<T>(short_names: &'static [&'static str]) -> BuiltInKind
where
    T: k8s_openapi::Resource + JsonSchema,
    T::Scope: ScopeNamespaced,
{
    BuiltInKind {
        group: T::GROUP,
        version: T::VERSION,
        kind: T::KIND,
        plural: T::URL_PATH_SEGMENT,
        definition: T::schema_name().into_owned(),
        namespaced: T::Scope::NAMESPACED,
        short_names,
        categories: &[],
        access: SupportedVerbs::All,
        status: StatusRule::None,
        subresources: &[],
        generation: false,
        names: NameRule::Subdomain,
        selectable: &[],
        conduct: NO_OP_STRATEGY,
        describe: describe::<T>,
    }
}

/// Where the objects of a kind live.
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
    fn in_all(self) -> Self {
        Self { categories: &["all"], ..self }
    }

    fn with_status(self) -> Self {
        Self { status: StatusRule::Subresource, ..self }
    }

    fn with_generation(self) -> Self {
        Self { generation: true, ..self }
    }

    fn create_only(self) -> Self {
        Self { access: SupportedVerbs::CreateOnly, ..self }
    }

    fn conduct(self, conduct: KindStrategy) -> Self {
        Self { conduct, ..self }
    }

    fn selectable(self, selectable: &'static [(&'static str, &'static str)]) -> Self {
        Self { selectable, ..self }
    }

    fn subresources(self, subresources: &'static [&'static str]) -> Self {
        Self { subresources, ..self }
    }

    fn names(self, names: NameRule) -> Self {
        Self { names, ..self }
    }
}

/// All rows, in the order in which discovery lists them.
pub(crate) fn kinds() -> Vec<BuiltInKind> {
    let mut kinds = core_kinds();
    kinds.extend(workload_kinds());
    kinds.extend(cluster_kinds());
    kinds.extend(storage_kinds());
    kinds
}

fn core_kinds() -> Vec<BuiltInKind> {
    vec![
        BuiltInKind { plural: "bindings", ..kind::<core::Binding>(&[]).create_only() },
        kind::<core::ConfigMap>(&["cm"]).conduct(small_kinds::CONFIG_MAP),
        kind::<core::Endpoints>(&["ep"]),
        kind::<core::Event>(&["ev"]).selectable(events::CORE_FIELDS).conduct(events::CORE_EVENT),
        kind::<core::LimitRange>(&["limits"]).conduct(policy::LIMIT_RANGE),
        BuiltInKind { access: SupportedVerbs::NoDeleteCollection, ..kind::<core::Namespace>(&["ns"]) }
            .with_status()
            .names(NameRule::Label)
            .subresources(&["finalize"])
            .selectable(&[("status.phase", "")])
            .conduct(namespace::NAMESPACE),
        BuiltInKind { status: StatusRule::KeptOnCreate, ..kind::<core::Node>(&["no"]) }
            .selectable(&[("spec.unschedulable", "false")])
            .conduct(node::NODE),
        kind::<core::PersistentVolumeClaim>(&["pvc"]).with_status().conduct(storage::PERSISTENT_VOLUME_CLAIM),
        kind::<core::PersistentVolume>(&["pv"]).with_status().conduct(storage::PERSISTENT_VOLUME),
        kind::<core::Pod>(&["po"])
            .in_all()
            .with_status()
            .with_generation()
            .subresources(&["binding", "ephemeralcontainers", "eviction", "resize"])
            .selectable(pod::SELECTABLE_FIELDS)
            .conduct(pod::POD),
        kind::<core::PodTemplate>(&[]).with_generation().conduct(workload::POD_TEMPLATE),
        kind::<core::ReplicationController>(&["rc"])
            .in_all()
            .with_status()
            .with_generation()
            .subresources(&["scale"])
            .selectable(&[("status.replicas", "0")])
            .conduct(workload::REPLICATION_CONTROLLER),
        kind::<core::ResourceQuota>(&["quota"]).with_status().conduct(policy::QUOTA),
        kind::<core::Secret>(&[]).selectable(&[("type", "")]).conduct(small_kinds::SECRET),
        kind::<core::ServiceAccount>(&["sa"]),
        kind::<core::Service>(&["svc"])
            .in_all()
            .with_status()
            .names(NameRule::Label)
            .selectable(&[("spec.clusterIP", ""), ("spec.type", "")])
            .conduct(service::SERVICE),
    ]
}

fn workload_kinds() -> Vec<BuiltInKind> {
    vec![
        kind::<apps::ControllerRevision>(&[]),
        kind::<apps::DaemonSet>(&["ds"]).in_all().with_status().with_generation().conduct(workload::DAEMON_SET),
        kind::<apps::Deployment>(&["deploy"])
            .in_all()
            .with_status()
            .with_generation()
            .subresources(&["scale"])
            .conduct(workload::DEPLOYMENT),
        kind::<apps::ReplicaSet>(&["rs"])
            .in_all()
            .with_status()
            .with_generation()
            .subresources(&["scale"])
            .selectable(&[("status.replicas", "0")])
            .conduct(workload::REPLICA_SET),
        kind::<apps::StatefulSet>(&["sts"])
            .in_all()
            .with_status()
            .with_generation()
            .subresources(&["scale"])
            .conduct(workload::STATEFUL_SET),
        kind::<batch::CronJob>(&["cj"]).in_all().with_status().with_generation().conduct(workload::CRON_JOB),
        kind::<batch::Job>(&[])
            .in_all()
            .with_status()
            .with_generation()
            .selectable(&[("status.successful", "0")])
            .conduct(workload::JOB),
        kind::<policy_v1::PodDisruptionBudget>(&["pdb"])
            .with_status()
            .with_generation()
            .conduct(policy::DISRUPTION_BUDGET),
    ]
}

fn cluster_kinds() -> Vec<BuiltInKind> {
    vec![
        kind::<apiextensions::CustomResourceDefinition>(&["crd", "crds"])
            .with_status()
            .with_generation()
            .conduct(crd::CUSTOM_RESOURCE_DEFINITION),
        kind::<authentication::SelfSubjectReview>(&[]).create_only(),
        kind::<authorization::LocalSubjectAccessReview>(&[]).create_only(),
        kind::<authorization::SelfSubjectAccessReview>(&[]).create_only(),
        kind::<authorization::SelfSubjectRulesReview>(&[]).create_only(),
        kind::<authorization::SubjectAccessReview>(&[]).create_only(),
        kind::<coordination::Lease>(&[]).conduct(small_kinds::LEASE),
        kind::<discovery::EndpointSlice>(&[]).with_generation(),
        kind::<events_v1::Event>(&["ev"]).selectable(events::EVENTS_V1_FIELDS).conduct(events::EVENTS_V1_EVENT),
        kind::<networking::IngressClass>(&[]).with_generation(),
        kind::<networking::Ingress>(&["ing"]).with_status().with_generation().conduct(small_kinds::INGRESS),
        kind::<networking::NetworkPolicy>(&["netpol"]).with_generation(),
        kind::<node_v1::RuntimeClass>(&[]).conduct(policy::RUNTIME_CLASS),
        kind::<rbac::ClusterRoleBinding>(&[]).names(NameRule::PathSegment).conduct(small_kinds::ROLE_BINDING),
        kind::<rbac::ClusterRole>(&[]).names(NameRule::PathSegment),
        kind::<rbac::RoleBinding>(&[]).names(NameRule::PathSegment).conduct(small_kinds::ROLE_BINDING),
        kind::<rbac::Role>(&[]).names(NameRule::PathSegment),
        kind::<dra::DeviceClass>(&[]).with_generation(),
        kind::<dra::ResourceClaim>(&[]).with_status(),
        kind::<dra::ResourceClaimTemplate>(&[]),
        kind::<dra::ResourceSlice>(&[]).with_generation().selectable(&[("spec.driver", ""), ("spec.nodeName", "")]),
        kind::<scheduling::PriorityClass>(&["pc"]).with_generation().conduct(policy::PRIORITY_CLASS),
    ]
}

fn storage_kinds() -> Vec<BuiltInKind> {
    vec![
        kind::<storage_v1::CSIDriver>(&[]).conduct(storage::CSI_DRIVER),
        kind::<storage_v1::CSINode>(&[]),
        kind::<storage_v1::CSIStorageCapacity>(&[]),
        kind::<storage_v1::StorageClass>(&["sc"]).conduct(storage::STORAGE_CLASS),
        kind::<storage_v1::VolumeAttachment>(&[]).with_status().conduct(storage::ATTACHMENT),
    ]
}

/// How every type that a document may mention makes itself known: the kinds, and what travels in their subresources.
pub(crate) fn descriptions() -> Vec<RegisterSchema> {
    let mut descriptions: Vec<RegisterSchema> = kinds().iter().map(|kind| kind.describe).collect();
    descriptions.extend([
        describe::<policy_v1::Eviction> as RegisterSchema,
        describe::<autoscaling::Scale>,
        describe::<meta::DeleteOptions>,
        describe::<meta::Status>,
    ]);
    descriptions
}
