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
    PoolPreferNoSchedule: "A pool with a soft taint.",
    PoolStartupTaint: "A pool with a startup taint.",
    PoolLimit: "A pool with a limit.",
    PoolNodeLimit: "A pool with a limit on its nodes.",
    PoolMinValues: "A pool with minValues.",
    PoolCustomLabel: "A pool that gives its nodes a label of its own.",
    UnavailableOffering: "An offering that cannot be bought.",
    ExtendedResource: "A type with an extended resource.",
    ManagedNode: "A node with a NodeClaim.",
    LaunchedClaim: "A NodeClaim with a machine and no Node yet.",
    StartingNode: "A registered node that is not initialized.",
    DeletingNode: "A node that is going away.",
    UnmanagedNode: "A node without a NodeClaim.",
    CordonedNode: "A cordoned node.",
    BoundPod: "A pod that runs.",
    TerminatingPod: "A pod that is being deleted.",
    DaemonSet: "A daemon set.",
    Deployment: "A deployment.",
    NodeSelector: "A pod with a node selector.",
    NodeAffinity: "A pod with required node affinity.",
    NodeAffinityOr: "A pod with alternatives in its node affinity.",
    NodePreference: "A pod with preferred node affinity.",
    Toleration: "A pod with a toleration.",
    ZoneSpread: "A pod that must be spread over zones.",
    HostSpread: "A pod that must be spread over hosts.",
    SoftSpread: "A pod with a soft spread.",
    MinDomains: "A spread with minDomains.",
    SpreadPolicy: "A spread with a node inclusion policy.",
    MatchLabelKeys: "A spread with matchLabelKeys.",
    PodAffinity: "A pod with required affinity.",
    PodAntiAffinity: "A pod with required anti-affinity.",
    ZoneAntiAffinity: "A pod with required anti-affinity over zones.",
    PodPreference: "A pod with preferred affinity or anti-affinity.",
    OtherNamespaces: "A term about other namespaces.",
    HostPort: "A pod with a host port.",
    BoundVolume: "A bound volume in certain zones.",
    WaitingVolume: "A claim that waits for its first consumer.",
    VolumeLimit: "A node with a limit on its volumes.",
    MissingClaim: "A pod whose claim does not exist.",
    InitContainer: "A pod with an init container.",
    Overhead: "A pod with overhead.",
    PodLevelResources: "A pod with requests of its own.",
    HugePod: "A pod that fits nowhere.",
}

impl GeneratedCluster {
    /// Returns the features of this cluster.
    pub fn features(&self) -> BTreeSet<Feature> {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let manifests = read(&self.manifests);
        let objects = manifests["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut found = BTreeSet::new();
        let pools = objects.iter().filter(|object| object["kind"] == "NodePool").count();
        found.extend((pools > 1).then_some(Feature::SeveralPools));
        let claim_names: BTreeSet<&str> = object_names(objects, "PersistentVolumeClaim");
        for object in objects {
            match object["kind"].as_str().unwrap_or_default() {
                "NodePool" => add_pool_features(object, &mut found),
                "Node" => add_node_features(object, &mut found),
                "NodeClaim" => add_claim_features(object, objects, &mut found),
                "DaemonSet" => drop(found.insert(Feature::DaemonSet)),
                "CSINode" => drop(found.insert(Feature::VolumeLimit)),
                "PersistentVolume" => drop(found.insert(Feature::BoundVolume)),
                "StorageClass" => drop(found.insert(Feature::WaitingVolume)),
                "Deployment" => {
                    found.insert(Feature::Deployment);
                    add_pod_features(&object["spec"]["template"], &claim_names, &mut found);
                }
                "Pod" => add_pod_features(object, &claim_names, &mut found),
                _ => {}
            }
        }
        let types = read(&self.types);
        for entry in types.as_array().into_iter().flatten() {
            let offerings = entry["offerings"].as_array().map(Vec::as_slice).unwrap_or_default();
            let sold_out = offerings.iter().any(|offering| offering["Available"] == false);
            found.extend(sold_out.then_some(Feature::UnavailableOffering));
            let extended = !entry["resources"][super::instance_types::GPU].is_null();
            found.extend(extended.then_some(Feature::ExtendedResource));
        }
        found
    }
}

fn object_names<'a>(objects: &'a [Value], kind: &str) -> BTreeSet<&'a str> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind)
        .filter_map(|object| object["metadata"]["name"].as_str())
        .collect()
}

fn add_pool_features(object: &Value, found: &mut BTreeSet<Feature>) {
    let spec = &object["spec"];
    let template = &spec["template"]["spec"];
    let effects: Vec<&Value> =
        template["taints"].as_array().into_iter().flatten().map(|taint| &taint["effect"]).collect();
    let mut note = |is: bool, feature| found.extend(is.then_some(feature));
    note(!spec["weight"].is_null(), Feature::PoolWeight);
    note(effects.iter().any(|effect| **effect != "PreferNoSchedule"), Feature::PoolTaint);
    note(effects.iter().any(|effect| **effect == "PreferNoSchedule"), Feature::PoolPreferNoSchedule);
    note(!template["startupTaints"].is_null(), Feature::PoolStartupTaint);
    note(!spec["limits"]["cpu"].is_null() || !spec["limits"]["memory"].is_null(), Feature::PoolLimit);
    note(!spec["limits"]["nodes"].is_null(), Feature::PoolNodeLimit);
    let requirements = template["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    note(requirements.iter().any(|r| !r["minValues"].is_null()), Feature::PoolMinValues);
    note(requirements.iter().any(|r| r["key"] == super::pools::TIER), Feature::PoolCustomLabel);
}

fn add_node_features(object: &Value, found: &mut BTreeSet<Feature>) {
    let labels = &object["metadata"]["labels"];
    let managed = !labels["karpenter.sh/nodepool"].is_null();
    found.insert(if managed { Feature::ManagedNode } else { Feature::UnmanagedNode });
    found.extend((managed && labels["karpenter.sh/initialized"].is_null()).then_some(Feature::StartingNode));
    found.extend((object["spec"]["unschedulable"] == true).then_some(Feature::CordonedNode));
}

fn add_claim_features(object: &Value, objects: &[Value], found: &mut BTreeSet<Feature>) {
    let id = &object["status"]["providerID"];
    let joined = objects.iter().any(|other| other["kind"] == "Node" && other["spec"]["providerID"] == *id);
    found.extend((!joined).then_some(Feature::LaunchedClaim));
    found.extend((!object["metadata"]["deletionTimestamp"].is_null()).then_some(Feature::DeletingNode));
}

fn add_pod_features(object: &Value, claims: &BTreeSet<&str>, found: &mut BTreeSet<Feature>) {
    let spec = &object["spec"];
    if !spec["nodeName"].is_null() {
        found.insert(Feature::BoundPod);
        found.extend((!object["metadata"]["deletionTimestamp"].is_null()).then_some(Feature::TerminatingPod));
        return;
    }
    let mut note = |is: bool, feature| found.extend(is.then_some(feature));
    note(!spec["nodeSelector"].is_null(), Feature::NodeSelector);
    note(!spec["tolerations"].is_null(), Feature::Toleration);
    note(!spec["initContainers"].is_null(), Feature::InitContainer);
    note(!spec["overhead"].is_null(), Feature::Overhead);
    note(!spec["resources"].is_null(), Feature::PodLevelResources);
    let affinity = &spec["affinity"];
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"].as_array().map_or(0, Vec::len);
    note(terms > 0, Feature::NodeAffinity);
    note(terms > 1, Feature::NodeAffinityOr);
    note(!affinity["nodeAffinity"][PREFERRED].is_null(), Feature::NodePreference);
    note(!affinity["podAffinity"][REQUIRED].is_null(), Feature::PodAffinity);
    note(!affinity["podAntiAffinity"][REQUIRED].is_null(), Feature::PodAntiAffinity);
    let away = &affinity["podAntiAffinity"][REQUIRED][0];
    note(away["topologyKey"] == "topology.kubernetes.io/zone", Feature::ZoneAntiAffinity);
    let soft = !affinity["podAffinity"][PREFERRED].is_null() || !affinity["podAntiAffinity"][PREFERRED].is_null();
    note(soft, Feature::PodPreference);
    let near = &affinity["podAffinity"][REQUIRED][0];
    let far = [near, away].iter().any(|term| !term["namespaces"].is_null() || !term["namespaceSelector"].is_null());
    note(far, Feature::OtherNamespaces);
    for constraint in spec["topologySpreadConstraints"].as_array().into_iter().flatten() {
        let hard = constraint["whenUnsatisfiable"] == "DoNotSchedule";
        note(!hard, Feature::SoftSpread);
        note(hard && constraint["topologyKey"] == "topology.kubernetes.io/zone", Feature::ZoneSpread);
        note(hard && constraint["topologyKey"] == "kubernetes.io/hostname", Feature::HostSpread);
        note(!constraint["minDomains"].is_null(), Feature::MinDomains);
        note(!constraint["matchLabelKeys"].is_null(), Feature::MatchLabelKeys);
        let policy = !constraint["nodeAffinityPolicy"].is_null() || !constraint["nodeTaintsPolicy"].is_null();
        note(policy, Feature::SpreadPolicy);
    }
    let container = &spec["containers"][0];
    note(!container["ports"].is_null(), Feature::HostPort);
    note(container["resources"]["requests"]["cpu"] == "500", Feature::HugePod);
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        let name = volume["persistentVolumeClaim"]["claimName"].as_str().unwrap_or_default();
        note(!claims.contains(name), Feature::MissingClaim);
    }
}
