//! Creates the missing pods of workloads (spec 09 section 2.1): those that the workload controllers
//! would have created before the autoscaler runs. A pod counts once, for the workload that owns it
//! directly or through a ReplicaSet. Finished and terminating pods do not count, because their
//! controllers replace them. A StatefulSet replaces a terminating pod only after its deletion.

use std::collections::{BTreeMap, BTreeSet};

use kerf_api::slim::{
    LabelSelector, Labels, ObjectMeta, OwnerReference, PersistentVolumeClaim, Pod, PodPhase, PodTemplate, PodVolume,
    ReplicaOwner, Str, VolumeClaimSource,
};
use serde::Deserialize;

use super::documents::ObjectBody;
use super::field_reader::FieldReader;
use super::kind::InputKind;
use super::objects::{ReadObject, ReadResult, WithOrigin};
use super::pod_defaults::{PodDefaults, default_requests_to_limits};
use super::source::ObjectOrigin;

/// Label by which a Deployment distinguishes the pods of its ReplicaSets.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Maximum number of created pods; a larger number is a mistake in the input.
const PODS_MAX: usize = 1_000_000;

/// The workloads of the input by kind.
#[derive(Debug, Default)]
pub(crate) struct Workloads {
    pub(crate) deployments: Vec<WithOrigin<Workload>>,
    pub(crate) replica_sets: Vec<WithOrigin<Workload>>,
    pub(crate) stateful_sets: Vec<WithOrigin<Workload>>,
    pub(crate) replication_controllers: Vec<WithOrigin<Workload>>,
    pub(crate) jobs: Vec<WithOrigin<Workload>>,
}

/// A Deployment, ReplicaSet, StatefulSet, ReplicationController or Job. The list that contains it
/// determines the kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Workload {
    pub(super) metadata: ObjectMeta,
    selector: LabelSelector,
    pub(super) template: PodTemplate,
    replicas: u32,
    first_ordinal: u32,
    claim_templates: Vec<PersistentVolumeClaim>,
    job: JobDemand,
}

/// The fields of a Job that determine how many pods run at a time.
#[derive(Debug, Clone, Default)]
struct JobDemand {
    parallelism: u32,
    /// `None` for a work queue: its pods decide when it is complete.
    completions: Option<u32>,
    succeeded: u32,
    is_suspended: bool,
    is_finished: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobCondition {
    r#type: String,
    status: String,
}

/// Decodes a workload. The error lists every invalid field.
pub(super) fn read(kind: InputKind, body: &ObjectBody<'_>, defaults: &PodDefaults) -> ReadResult<Workload> {
    let mut reader = FieldReader::of(body)?;
    let findings = reader.change("/spec/template", |template| defaults.apply_defaults(template)).unwrap_or_default();
    let parallelism = reader.count("spec.parallelism");
    let completions = reader.count("spec.completions");
    let conditions: Vec<JobCondition> = reader.get("status.conditions");
    let is_end_condition = |condition: &JobCondition| {
        condition.status == "True" && matches!(condition.r#type.as_str(), "Complete" | "Failed" | "SuccessCriteriaMet")
    };
    let job = JobDemand {
        parallelism: parallelism.unwrap_or(1),
        // A Job with neither field is one pod that must succeed.
        completions: completions.or(if parallelism.is_none() { Some(1) } else { None }),
        succeeded: reader.count("status.succeeded").unwrap_or(0),
        is_suspended: reader.get("spec.suspend"),
        is_finished: conditions.iter().any(is_end_condition),
    };
    let mut template: PodTemplate = reader.get("spec.template");
    default_requests_to_limits(&mut template.spec);
    let workload = Workload {
        metadata: reader.get("metadata"),
        selector: if kind == InputKind::ReplicationController {
            LabelSelector { match_labels: reader.get("spec.selector"), ..LabelSelector::default() }
        } else {
            reader.get("spec.selector")
        },
        template,
        replicas: reader.count("spec.replicas").unwrap_or(1),
        first_ordinal: reader.count("spec.ordinals.start").unwrap_or(0),
        claim_templates: reader.get("spec.volumeClaimTemplates"),
        job,
    };
    Ok(ReadObject { object: reader.finish(workload)?, warnings: findings.into_template_warnings() })
}

impl Workloads {
    /// Returns the owners of the workloads' pods, with the kind and name to which pods refer.
    pub(super) fn replica_owners(&self) -> Vec<WithOrigin<ReplicaOwner>> {
        let lists = [
            (InputKind::Deployment, &self.deployments),
            (InputKind::ReplicaSet, &self.replica_sets),
            (InputKind::StatefulSet, &self.stateful_sets),
            (InputKind::ReplicationController, &self.replication_controllers),
        ];
        let owner = |kind: InputKind, workload: &WithOrigin<Workload>| {
            let Workload { metadata, selector, .. } = &workload.object;
            let (metadata, selector) = (metadata.clone(), selector.clone());
            let kind = Str::new_static(owner_kind(kind).name());
            WithOrigin { origin: workload.origin, object: ReplicaOwner { metadata, kind, selector } }
        };
        lists.into_iter().flat_map(|(kind, list)| list.iter().map(move |workload| owner(kind, workload))).collect()
    }
}

/// Returns the kind that owns the pods of a workload: for a Deployment its ReplicaSet. A ReplicaSet
/// that does not exist yet gets the name of its Deployment.
fn owner_kind(kind: InputKind) -> InputKind {
    if kind == InputKind::Deployment { InputKind::ReplicaSet } else { kind }
}

/// Objects that the workload controllers would have created.
#[derive(Debug, Default)]
pub(crate) struct CreatedObjects {
    pub(crate) pods: Vec<WithOrigin<Pod>>,
    /// PersistentVolumeClaims of the pods of StatefulSets.
    pub(crate) volume_claims: Vec<WithOrigin<PersistentVolumeClaim>>,
}

/// Creates the missing pods of all workloads, with the PersistentVolumeClaims that they need. The
/// error names the workload with which the number of pods exceeds [`PODS_MAX`].
pub(crate) fn create_missing_pods(
    workloads: &Workloads,
    pods: &[WithOrigin<Pod>],
    volume_claims: &[WithOrigin<PersistentVolumeClaim>],
) -> Result<CreatedObjects, (ObjectOrigin, String)> {
    let workload_index = WorkloadIndex::new(workloads);
    let mut pod_counts: BTreeMap<WorkloadKey, OwnedPodCounts> = BTreeMap::new();
    for pod in pods {
        if let Some(owner) = workload_index.workload_of_pod(&pod.object) {
            let kind = owner.kind;
            pod_counts.entry(owner).or_default().add_pod(&pod.object, kind);
        }
    }
    let mut pod_names: BTreeSet<(Str, Str)> = pods.iter().map(|pod| identity(&pod.object.metadata)).collect();
    let mut claim_names: BTreeSet<(Str, Str)> =
        volume_claims.iter().map(|claim| identity(&claim.object.metadata)).collect();

    let mut created = CreatedObjects::default();
    for (kind, workload) in workload_index.all() {
        if kind == InputKind::ReplicaSet && workload_index.deployment_of(&workload.object.metadata).is_some() {
            continue;
        }
        let owner = WorkloadKey::new(kind, &workload.object.metadata);
        let missing = workload.object.missing_pods(kind, pod_counts.get(&owner).copied().unwrap_or_default());
        if created.pods.len() + missing > PODS_MAX {
            let text = format!(
                "{} `{}` needs {missing} more pods; the input would then have more than {PODS_MAX}",
                kind.name(),
                workload.object.metadata.namespaced_name()
            );
            return Err((workload.origin, text));
        }
        workload.create_pods(kind, missing, &mut pod_names, &mut claim_names, &mut created);
    }
    Ok(created)
}

/// Kind, namespace and name of a workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct WorkloadKey {
    kind: InputKind,
    namespace: Str,
    name: Str,
}

impl WorkloadKey {
    fn new(kind: InputKind, metadata: &ObjectMeta) -> Self {
        Self { kind, namespace: metadata.namespace.clone(), name: metadata.name.clone() }
    }
}

/// Numbers of pods of a workload that are in the input.
#[derive(Debug, Clone, Copy, Default)]
struct OwnedPodCounts {
    /// Pods that the workload's controller counts.
    active: u32,
    succeeded: u32,
}

impl OwnedPodCounts {
    fn add_pod(&mut self, pod: &Pod, kind: InputKind) {
        // A StatefulSet reuses the names of its pods, so it waits until a terminating pod is
        // deleted.
        let is_replaced = pod.metadata.is_terminating() && kind != InputKind::StatefulSet;
        match pod.status.phase {
            PodPhase::Succeeded => self.succeeded += 1,
            PodPhase::Failed => {}
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown if is_replaced => {}
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => self.active += 1,
        }
    }
}

/// The workloads of the input by key.
struct WorkloadIndex<'w> {
    workloads: BTreeMap<WorkloadKey, &'w WithOrigin<Workload>>,
}

impl<'w> WorkloadIndex<'w> {
    fn new(workloads: &'w Workloads) -> Self {
        let lists = [
            (InputKind::Deployment, &workloads.deployments),
            (InputKind::ReplicaSet, &workloads.replica_sets),
            (InputKind::StatefulSet, &workloads.stateful_sets),
            (InputKind::ReplicationController, &workloads.replication_controllers),
            (InputKind::Job, &workloads.jobs),
        ];
        let entries = lists.into_iter().flat_map(|(kind, list)| {
            list.iter().map(move |workload| (WorkloadKey::new(kind, &workload.object.metadata), workload))
        });
        Self { workloads: entries.collect() }
    }

    /// Returns all workloads, sorted by kind, namespace and name.
    fn all(&self) -> impl Iterator<Item = (InputKind, &'w WithOrigin<Workload>)> {
        self.workloads.iter().map(|(owner, workload)| (owner.kind, *workload))
    }

    /// Returns the workload to which an owner reference in a namespace refers.
    fn get(&self, namespace: &Str, reference: &OwnerReference) -> Option<WorkloadKey> {
        let kind = InputKind::of(&reference.api_version, &reference.kind)?;
        self.find(WorkloadKey { kind, namespace: namespace.clone(), name: reference.name.clone() }, &reference.uid)
    }

    fn find(&self, owner: WorkloadKey, uid: &str) -> Option<WorkloadKey> {
        let known = &self.workloads.get(&owner)?.object.metadata.uid;
        // Manifests from a repository have no uid. If both sides have one, it distinguishes the
        // owner from another workload of the same name.
        (uid.is_empty() || known.is_empty() || known == uid).then_some(owner)
    }

    /// Returns the Deployment in the input that owns a ReplicaSet.
    fn deployment_of(&self, replica_set: &ObjectMeta) -> Option<WorkloadKey> {
        let mut owners = replica_set.owner_references.iter().filter(|owner| owner.kind == InputKind::Deployment.name());
        owners.find_map(|reference| self.get(&replica_set.namespace, reference))
    }

    /// Returns the workload in the input for which a pod counts.
    fn workload_of_pod(&self, pod: &Pod) -> Option<WorkloadKey> {
        pod.metadata.owner_references.iter().find_map(|reference| match self.get(&pod.metadata.namespace, reference) {
            Some(owner) if owner.kind == InputKind::ReplicaSet => {
                let replica_set = self.workloads.get(&owner)?;
                Some(self.deployment_of(&replica_set.object.metadata).unwrap_or(owner))
            }
            Some(owner) => Some(owner),
            None if reference.kind == InputKind::ReplicaSet.name() => self.deployment_by_hash(pod, &reference.name),
            None => None,
        })
    }

    /// Finds the Deployment of a ReplicaSet that is not in the input: the ReplicaSet's name is the
    /// Deployment's name, a dash and the template's hash.
    fn deployment_by_hash(&self, pod: &Pod, replica_set: &str) -> Option<WorkloadKey> {
        let hash = pod.metadata.labels.get(TEMPLATE_HASH)?;
        let deployment = replica_set.strip_suffix(hash)?.strip_suffix('-')?;
        let namespace = pod.metadata.namespace.clone();
        self.find(WorkloadKey { kind: InputKind::Deployment, namespace, name: Str::new(deployment) }, "")
    }
}

impl Workload {
    fn missing_pods(&self, kind: InputKind, pod_counts: OwnedPodCounts) -> usize {
        let desired = match kind {
            // The controller of a workload that is being deleted creates no pods.
            _ if self.metadata.is_terminating() => 0,
            InputKind::Job => self.job.desired_pods(pod_counts.succeeded),
            _ => self.replicas,
        };
        desired.saturating_sub(pod_counts.active) as usize
    }
}

impl JobDemand {
    /// Returns how many pods of the Job should be active now.
    fn desired_pods(&self, succeeded_in_input: u32) -> u32 {
        let succeeded = self.succeeded.max(succeeded_in_input);
        match self.completions {
            _ if self.is_suspended || self.is_finished => 0,
            Some(completions) => self.parallelism.min(completions.saturating_sub(succeeded)),
            None if succeeded > 0 => 0,
            None => self.parallelism,
        }
    }
}

impl WithOrigin<Workload> {
    fn create_pods(
        &self,
        kind: InputKind,
        missing: usize,
        pod_names: &mut BTreeSet<(Str, Str)>,
        claim_names: &mut BTreeSet<(Str, Str)>,
        created: &mut CreatedObjects,
    ) {
        let Workload { metadata, template, first_ordinal, claim_templates, .. } = &self.object;
        let owner = OwnerReference {
            api_version: Str::new_static(owner_kind(kind).api_version()),
            kind: Str::new_static(owner_kind(kind).name()),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            controller: true,
        };
        let mut ordinal = if kind == InputKind::StatefulSet { *first_ordinal } else { 0 };
        for _ in 0..missing {
            let name = loop {
                let name = Str::from(format!("{}-{ordinal}", metadata.name));
                ordinal += 1;
                if pod_names.insert((metadata.namespace.clone(), name.clone())) {
                    break name;
                }
            };
            let mut pod = Pod { spec: template.spec.clone(), ..Pod::default() };
            for claim_template in claim_templates {
                let claim = volume_claim_for_pod(claim_template, metadata, &name);
                pod.spec.volumes.retain(|volume| volume.name != claim_template.metadata.name);
                let source = VolumeClaimSource::Claim(claim.metadata.name.clone());
                pod.spec.volumes.push(PodVolume { name: claim_template.metadata.name.clone(), source });
                if claim_names.insert(identity(&claim.metadata)) {
                    created.volume_claims.push(WithOrigin { origin: self.origin, object: claim });
                }
            }
            pod.metadata = ObjectMeta {
                labels: labels_of_pod(kind, &template.metadata.labels, metadata, &name),
                annotations: template.metadata.annotations.clone(),
                namespace: metadata.namespace.clone(),
                owner_references: vec![owner.clone()],
                name,
                ..ObjectMeta::default()
            };
            created.pods.push(WithOrigin { origin: self.origin, object: pod });
        }
    }
}

/// Returns the PersistentVolumeClaim that a StatefulSet creates for one of its pods.
fn volume_claim_for_pod(template: &PersistentVolumeClaim, owner: &ObjectMeta, pod: &str) -> PersistentVolumeClaim {
    let metadata = ObjectMeta {
        name: Str::from(format!("{}-{pod}", template.metadata.name)),
        namespace: owner.namespace.clone(),
        ..template.metadata.clone()
    };
    PersistentVolumeClaim { metadata, ..template.clone() }
}

/// Returns the labels of the template and those that the controller adds.
fn labels_of_pod(kind: InputKind, template: &Labels, owner: &ObjectMeta, pod: &Str) -> Labels {
    let added: &[(&'static str, &Str)] = match kind {
        InputKind::Job => &[("batch.kubernetes.io/job-name", &owner.name), ("job-name", &owner.name)],
        InputKind::StatefulSet => &[("statefulset.kubernetes.io/pod-name", pod)],
        _ => return template.clone(),
    };
    let pairs = template.iter().map(|(key, value)| (key.clone(), value.clone()));
    pairs.chain(added.iter().map(|(key, value)| (Str::new_static(key), (*value).clone()))).collect()
}

fn identity(metadata: &ObjectMeta) -> (Str, Str) {
    (metadata.namespace.clone(), metadata.name.clone())
}

#[cfg(test)]
mod tests;
