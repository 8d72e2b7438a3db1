//! Volumes (spec 02 §9.1 and §9.2): whether a pod's claims can be used, where the pod must
//! therefore run, and which attachments it needs.

use kerf_api::labels::{self, LabelRules};
use kerf_api::slim::{
    PersistentVolume, PersistentVolumeClaim, Pod, PodVolume, StorageClass, Str, VolumeBindingMode, VolumeClaimSource,
};
use rustc_hash::FxHashMap;

use crate::cluster::input::UnsupportedStorage;
use crate::pod::requirements::{NodeRequirements, expression_requirement, term_requirements};
use crate::requirement::Requirements;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// All storage objects by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct StorageObjects {
    claims: FxHashMap<(Str, Str), PersistentVolumeClaim>,
    volumes: FxHashMap<Str, PersistentVolume>,
    classes: FxHashMap<Str, StorageClass>,
    unsupported: UnsupportedStorage,
}

/// A PersistentVolumeClaim that counts against a driver's attach limit on a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Attachment {
    pub(crate) driver: Str,
    /// `namespace/name` of the PersistentVolumeClaim.
    pub(crate) claim: Str,
}

impl StorageObjects {
    pub(crate) fn new(
        claims: &[PersistentVolumeClaim],
        volumes: &[PersistentVolume],
        classes: &[StorageClass],
        unsupported: &UnsupportedStorage,
    ) -> Self {
        Self {
            claims: claims
                .iter()
                .map(|c| ((c.metadata.namespace.clone(), c.metadata.name.clone()), c.clone()))
                .collect(),
            volumes: volumes.iter().map(|v| (v.metadata.name.clone(), v.clone())).collect(),
            classes: classes.iter().map(|c| (c.metadata.name.clone(), c.clone())).collect(),
            unsupported: unsupported.clone(),
        }
    }

    fn claim(&self, namespace: &Str, name: &Str) -> Option<&PersistentVolumeClaim> {
        self.claims.get(&(namespace.clone(), name.clone()))
    }

    /// Returns the first problem with a pending pod's claims, in the words of spec 02 §9.1.
    pub(crate) fn first_claim_error(&self, pod: &Pod) -> Option<String> {
        pod.spec.volumes.iter().find_map(|volume| self.claim_problem(pod, volume))
    }

    fn claim_problem(&self, pod: &Pod, volume: &PodVolume) -> Option<String> {
        let namespace = &pod.metadata.namespace;
        let name = claim_name(pod, volume);
        let Some(claim) = self.claim(namespace, &name) else {
            return Some(format!(
                "getting persistent volume claim, {} (PersistentVolumeClaim={name})",
                no_claim(&name)
            ));
        };
        let full = format!("PersistentVolumeClaim={namespace}/{name}");
        if claim.metadata.is_terminating() {
            return Some(format!("persistentvolumeclaim is being deleted ({full})"));
        }
        if claim.phase == "Lost" {
            return Some(format!(
                "persistentvolumeclaim bound to non-existent persistentvolume (PersistentVolume={}, {full})",
                claim.volume_name
            ));
        }
        let binding = if claim.volume_name.is_empty() {
            self.unbound_problem(claim, &full)
        } else {
            self.bound_problem(claim, &full)
        };
        binding.or_else(|| {
            let driver = self.driver(claim)?;
            let class = claim.storage_class_name.as_ref().map_or("", Str::as_str);
            self.unsupported.provisioners.contains(&driver).then(|| {
                format!(
                    "failed to validate pvc, provisioner is not supported ({full}, Provisioner={driver}, StorageClass={class})"
                )
            })
        })
    }

    fn bound_problem(&self, claim: &PersistentVolumeClaim, full: &str) -> Option<String> {
        let volume = &claim.volume_name;
        let class = claim.storage_class_name.as_ref().map_or("", Str::as_str);
        let failed = |why: &str| {
            Some(format!("failed to validate pvc, {why} (PersistentVolume={volume}, {full}, StorageClass={class})"))
        };
        match self.volumes.get(volume) {
            None => failed(&no_volume(volume)),
            Some(pv) if pv.metadata.is_terminating() => failed("persistentvolume is being deleted"),
            Some(_) if claim.metadata.annotations.get(BIND_COMPLETED).is_none() => Some(format!(
                "pvc is considered unbound because it does not contain annotation (PersistentVolume={volume}, {full}, \
                 annotation={BIND_COMPLETED})"
            )),
            Some(_) => None,
        }
    }

    fn unbound_problem(&self, claim: &PersistentVolumeClaim, full: &str) -> Option<String> {
        let Some(name) = claim.storage_class_name.as_ref().filter(|n| !n.is_empty()) else {
            return Some(format!("unbound pvc must define a storage class ({full}, StorageClass=)"));
        };
        let failed_with = |why: &str, further: &str| {
            Some(format!("failed to validate pvc, {why} ({full}, StorageClass={name}{further})"))
        };
        let failed = |why: &str| failed_with(why, "");
        let Some(class) = self.classes.get(name) else {
            return failed(&format!("failed to get storage class, {}", no_class(name)));
        };
        if class.volume_binding_mode == VolumeBindingMode::Immediate {
            return failed("pvc with immediate volume binding mode must be bound");
        }
        let mut keys = class.allowed_topologies.iter().flatten().map(|e| &e.key);
        let key = keys.find(|key| self.unsupported.topology_keys.contains(key))?;
        failed_with("storage class uses unsupported topology key", &format!(", TopologyKey={key}"))
    }

    /// Returns an error if the topology of the pod's volumes cannot be determined (spec 02 §9.2,
    /// Q16). Pending pods have passed the stricter [`Self::first_claim_error`] already.
    pub(crate) fn topology_error(&self, pod: &Pod) -> Option<String> {
        let missing = |volume: &PodVolume| {
            let name = claim_name(pod, volume);
            let Some(claim) = self.claim(&pod.metadata.namespace, &name) else { return Some(no_claim(&name)) };
            if !claim.volume_name.is_empty() {
                return (!self.volumes.contains_key(&claim.volume_name)).then(|| no_volume(&claim.volume_name));
            }
            let class = claim.storage_class_name.as_ref().filter(|n| !n.is_empty())?;
            (!self.classes.contains_key(class)).then(|| no_class(class))
        };
        let missing = pod.spec.volumes.iter().find_map(missing)?;
        Some(format!("failed getting volume topology requirements, {missing}"))
    }

    /// Returns the alternatives of node requirements that the pod's volumes allow. Empty if the pod
    /// can run anywhere.
    pub(crate) fn topology_alternatives(&self, pod: &Pod, rules: &LabelRules) -> Vec<NodeRequirements> {
        let mut combined: Vec<Requirements> = Vec::new();
        for volume in &pod.spec.volumes {
            let terms = self.volume_topology_terms(pod, volume, rules);
            if terms.is_empty() {
                continue;
            }
            combined = if combined.is_empty() { terms } else { combine_alternatives(&combined, &terms) };
        }
        combined.into_iter().map(NodeRequirements::from_requirements).collect()
    }

    fn volume_topology_terms(&self, pod: &Pod, volume: &PodVolume, rules: &LabelRules) -> Vec<Requirements> {
        let Some(claim) = self.claim(&pod.metadata.namespace, &claim_name(pod, volume)) else { return Vec::new() };
        if !claim.volume_name.is_empty() {
            let Some(pv) = self.volumes.get(&claim.volume_name) else { return Vec::new() };
            let skip = pv.is_local.then_some(labels::HOSTNAME);
            return pv
                .node_affinity
                .iter()
                .filter(|term| !term.match_expressions.is_empty())
                .map(|term| term_requirements(term, skip, rules))
                .collect();
        }
        let class = claim.storage_class_name.as_ref().and_then(|name| self.classes.get(name));
        class.map_or_else(Vec::new, |class| {
            class
                .allowed_topologies
                .iter()
                .filter(|term| !term.is_empty())
                .map(|term| term.iter().map(|e| expression_requirement(e, rules)).collect())
                .collect()
        })
    }

    /// Returns the pod's attachments, sorted, each once.
    pub(crate) fn attachments(&self, pod: &Pod) -> Vec<Attachment> {
        let mut all: Vec<Attachment> = pod
            .spec
            .volumes
            .iter()
            .filter_map(|volume| {
                let name = claim_name(pod, volume);
                let claim = self.claim(&pod.metadata.namespace, &name)?;
                let driver = self.driver(claim)?;
                Some(Attachment { driver, claim: Str::from(format!("{}/{name}", pod.metadata.namespace)) })
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn driver(&self, claim: &PersistentVolumeClaim) -> Option<Str> {
        if !claim.volume_name.is_empty() {
            return self.volumes.get(&claim.volume_name)?.driver.clone();
        }
        let class = self.classes.get(claim.storage_class_name.as_ref()?)?;
        Some(csi_name(&class.provisioner))
    }
}

fn no_claim(name: &str) -> String {
    format!("persistentvolumeclaims \"{name}\" not found")
}

fn no_volume(name: &str) -> String {
    format!("persistentvolumes \"{name}\" not found")
}

fn no_class(name: &str) -> String {
    format!("storageclasses.storage.k8s.io \"{name}\" not found")
}

fn claim_name(pod: &Pod, volume: &PodVolume) -> Str {
    match &volume.source {
        VolumeClaimSource::Claim(name) => name.clone(),
        VolumeClaimSource::Ephemeral => Str::from(format!("{}-{}", pod.metadata.name, volume.name)),
    }
}

/// Intersects every pair of alternatives and keeps those that can be satisfied. If none can, keeps
/// all of them, so that the pod is rejected with its real requirements.
fn combine_alternatives(left: &[Requirements], right: &[Requirements]) -> Vec<Requirements> {
    let pairs = || left.iter().flat_map(|l| right.iter().map(move |r| (l, r)));
    let join = |(l, r): (&Requirements, &Requirements)| {
        let mut both = l.clone();
        both.add_all(r);
        both
    };
    let agreeing: Vec<Requirements> = pairs().filter(|(l, r)| l.intersects(r).is_ok()).map(join).collect();
    if agreeing.is_empty() { pairs().map(join).collect() } else { agreeing }
}

/// Returns the CSI driver that replaces an in-tree provisioner.
fn csi_name(provisioner: &Str) -> Str {
    let name = match provisioner.as_str() {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/azure-file" => "file.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        "kubernetes.io/portworx-volume" => "pxd.portworx.com",
        _ => return provisioner.clone(),
    };
    Str::new_static(name)
}
