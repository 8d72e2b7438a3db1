//! The features of a generated cluster, read from its manifests and not from the generator's code.
//! So a test can check that the generator still produces every feature.

use std::collections::BTreeSet;

use serde_json::Value;

use super::GeneratedCluster;

macro_rules! features {
    ($($name:ident: $doc:literal,)*) => {
        /// A feature that a generated cluster may have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $(#[doc = $doc] $name,)*
        }

        impl Feature {
            /// All features.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

features! {
    SeveralPools: "More than one pool.",
    PoolWeight: "A pool with a weight.",
    PoolTaint: "A pool with a taint.",
    PoolPreferNoSchedule: "A pool with a `PreferNoSchedule` taint.",
    PoolStartupTaint: "A pool with a startup taint.",
    PoolLimit: "A pool with a limit.",
    PoolNodeLimit: "A pool with a limit on the number of its nodes.",
    PoolMinValues: "A pool with minValues.",
    PoolCustomLabel: "A pool with a requirement on a custom label.",
    UnavailableOffering: "An unavailable offering.",
    ExtendedResource: "A type with an extended resource.",
    ManagedNode: "A node with a NodeClaim.",
    LaunchedClaim: "A launched NodeClaim without a Node.",
    StartingNode: "A registered node that is not initialized.",
    DeletingNode: "A node that is being deleted.",
    UnmanagedNode: "A node without a NodeClaim.",
    CordonedNode: "A cordoned node.",
    BoundPod: "A bound pod.",
    TerminatingPod: "A pod that is being deleted.",
    DaemonSet: "A DaemonSet.",
    Deployment: "A Deployment.",
    NodeSelector: "A pod with a node selector.",
    NodeAffinity: "A pod with required node affinity.",
    NodeAffinityOr: "A pod with several node affinity terms.",
    NodePreference: "A pod with preferred node affinity.",
    Toleration: "A pod with a toleration.",
    ZoneSpread: "A pod with a required spread over zones.",
    HostSpread: "A pod with a required spread over hosts.",
    SoftSpread: "A pod with a `ScheduleAnyway` spread.",
    MinDomains: "A spread with minDomains.",
    SpreadPolicy: "A spread with a node inclusion policy.",
    MatchLabelKeys: "A spread with matchLabelKeys.",
    PodAffinity: "A pod with required pod affinity.",
    PodAntiAffinity: "A pod with required pod anti-affinity.",
    ZoneAntiAffinity: "A pod with required anti-affinity over zones.",
    PodPreference: "A pod with preferred pod affinity or anti-affinity.",
    OtherNamespaces: "An affinity term that selects other namespaces.",
    HostPort: "A pod with a host port.",
    BoundVolume: "A bound volume in certain zones.",
    WaitingVolume: "A claim that waits for its first consumer.",
    VolumeLimit: "A node with a limit on its volumes.",
    MissingClaim: "A pod whose claim does not exist.",
    InitContainer: "A pod with an init container.",
    Overhead: "A pod with overhead.",
    PodLevelResources: "A pod with requests at pod level.",
    HugePod: "A pod that fits on no node.",
}

impl GeneratedCluster {
    /// Returns the features of this cluster.
    pub fn features(&self) -> BTreeSet<Feature> {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let manifests = read(&self.manifests);
        let objects = manifests["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut features = BTreeSet::new();
        let pools = objects.iter().filter(|object| object["kind"] == "NodePool").count();
        features.extend((pools > 1).then_some(Feature::SeveralPools));
        let claim_names: BTreeSet<&str> = object_names(objects, "PersistentVolumeClaim");
        for object in objects {
            match object["kind"].as_str().unwrap_or_default() {
                "NodePool" => add_pool_features(object, &mut features),
                "Node" => add_node_features(object, &mut features),
                "NodeClaim" => add_claim_features(object, objects, &mut features),
                "DaemonSet" => drop(features.insert(Feature::DaemonSet)),
                "CSINode" => drop(features.insert(Feature::VolumeLimit)),
                "PersistentVolume" => drop(features.insert(Feature::BoundVolume)),
                "StorageClass" => drop(features.insert(Feature::WaitingVolume)),
                "Deployment" => {
                    features.insert(Feature::Deployment);
                    add_pod_features(&object["spec"]["template"], &claim_names, &mut features);
                }
                "Pod" => add_pod_features(object, &claim_names, &mut features),
                _ => {}
            }
        }
        let types = read(&self.types);
        for entry in types.as_array().into_iter().flatten() {
            let offerings = entry["offerings"].as_array().map(Vec::as_slice).unwrap_or_default();
            let has_unavailable = offerings.iter().any(|offering| offering["Available"] == false);
            features.extend(has_unavailable.then_some(Feature::UnavailableOffering));
            let extended = !entry["resources"][super::instance_types::GPU].is_null();
            features.extend(extended.then_some(Feature::ExtendedResource));
        }
        features
    }
}

fn object_names<'a>(objects: &'a [Value], kind: &str) -> BTreeSet<&'a str> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind)
        .filter_map(|object| object["metadata"]["name"].as_str())
        .collect()
}

fn add_pool_features(object: &Value, features: &mut BTreeSet<Feature>) {
    let spec = &object["spec"];
    let template = &spec["template"]["spec"];
    let effects: Vec<&Value> =
        template["taints"].as_array().into_iter().flatten().map(|taint| &taint["effect"]).collect();
    let mut add_if = |is: bool, feature| features.extend(is.then_some(feature));
    add_if(!spec["weight"].is_null(), Feature::PoolWeight);
    add_if(effects.iter().any(|effect| **effect != "PreferNoSchedule"), Feature::PoolTaint);
    add_if(effects.iter().any(|effect| **effect == "PreferNoSchedule"), Feature::PoolPreferNoSchedule);
    add_if(!template["startupTaints"].is_null(), Feature::PoolStartupTaint);
    add_if(!spec["limits"]["cpu"].is_null() || !spec["limits"]["memory"].is_null(), Feature::PoolLimit);
    add_if(!spec["limits"]["nodes"].is_null(), Feature::PoolNodeLimit);
    let requirements = template["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    add_if(requirements.iter().any(|r| !r["minValues"].is_null()), Feature::PoolMinValues);
    add_if(requirements.iter().any(|r| r["key"] == super::pools::TIER), Feature::PoolCustomLabel);
}

fn add_node_features(object: &Value, features: &mut BTreeSet<Feature>) {
    let labels = &object["metadata"]["labels"];
    let managed = !labels["karpenter.sh/nodepool"].is_null();
    features.insert(if managed { Feature::ManagedNode } else { Feature::UnmanagedNode });
    features.extend((managed && labels["karpenter.sh/initialized"].is_null()).then_some(Feature::StartingNode));
    features.extend((object["spec"]["unschedulable"] == true).then_some(Feature::CordonedNode));
}

fn add_claim_features(object: &Value, objects: &[Value], features: &mut BTreeSet<Feature>) {
    let id = &object["status"]["providerID"];
    let joined = objects.iter().any(|other| other["kind"] == "Node" && other["spec"]["providerID"] == *id);
    features.extend((!joined).then_some(Feature::LaunchedClaim));
    features.extend((!object["metadata"]["deletionTimestamp"].is_null()).then_some(Feature::DeletingNode));
}

fn add_pod_features(object: &Value, claims: &BTreeSet<&str>, features: &mut BTreeSet<Feature>) {
    let spec = &object["spec"];
    if !spec["nodeName"].is_null() {
        features.insert(Feature::BoundPod);
        features.extend((!object["metadata"]["deletionTimestamp"].is_null()).then_some(Feature::TerminatingPod));
        return;
    }
    let mut add_if = |is: bool, feature| features.extend(is.then_some(feature));
    add_if(!spec["nodeSelector"].is_null(), Feature::NodeSelector);
    add_if(!spec["tolerations"].is_null(), Feature::Toleration);
    add_if(!spec["initContainers"].is_null(), Feature::InitContainer);
    add_if(!spec["overhead"].is_null(), Feature::Overhead);
    add_if(!spec["resources"].is_null(), Feature::PodLevelResources);
    let affinity = &spec["affinity"];
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"].as_array().map_or(0, Vec::len);
    add_if(terms > 0, Feature::NodeAffinity);
    add_if(terms > 1, Feature::NodeAffinityOr);
    add_if(!affinity["nodeAffinity"][PREFERRED].is_null(), Feature::NodePreference);
    add_if(!affinity["podAffinity"][REQUIRED].is_null(), Feature::PodAffinity);
    add_if(!affinity["podAntiAffinity"][REQUIRED].is_null(), Feature::PodAntiAffinity);
    let anti_affinity_term = &affinity["podAntiAffinity"][REQUIRED][0];
    add_if(anti_affinity_term["topologyKey"] == "topology.kubernetes.io/zone", Feature::ZoneAntiAffinity);
    let has_preference =
        !affinity["podAffinity"][PREFERRED].is_null() || !affinity["podAntiAffinity"][PREFERRED].is_null();
    add_if(has_preference, Feature::PodPreference);
    let affinity_term = &affinity["podAffinity"][REQUIRED][0];
    let other_namespaces = [affinity_term, anti_affinity_term]
        .iter()
        .any(|term| !term["namespaces"].is_null() || !term["namespaceSelector"].is_null());
    add_if(other_namespaces, Feature::OtherNamespaces);
    for constraint in spec["topologySpreadConstraints"].as_array().into_iter().flatten() {
        let is_required = constraint["whenUnsatisfiable"] == "DoNotSchedule";
        add_if(!is_required, Feature::SoftSpread);
        add_if(is_required && constraint["topologyKey"] == "topology.kubernetes.io/zone", Feature::ZoneSpread);
        add_if(is_required && constraint["topologyKey"] == "kubernetes.io/hostname", Feature::HostSpread);
        add_if(!constraint["minDomains"].is_null(), Feature::MinDomains);
        add_if(!constraint["matchLabelKeys"].is_null(), Feature::MatchLabelKeys);
        let policy = !constraint["nodeAffinityPolicy"].is_null() || !constraint["nodeTaintsPolicy"].is_null();
        add_if(policy, Feature::SpreadPolicy);
    }
    let container = &spec["containers"][0];
    add_if(!container["ports"].is_null(), Feature::HostPort);
    add_if(container["resources"]["requests"]["cpu"] == "500", Feature::HugePod);
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        let name = volume["persistentVolumeClaim"]["claimName"].as_str().unwrap_or_default();
        add_if(!claims.contains(name), Feature::MissingClaim);
    }
}
