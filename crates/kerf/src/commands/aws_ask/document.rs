//! The document of a question (spec 11 §1): settings, the contents of AWS and of the cluster, and
//! the subject of the question. Absent and `null` members have the documented defaults.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::conditions::dependents::EC2NODECLASS_WITH_RESERVATIONS;
use kerf_api::conditions::{Condition, ConditionStatus, READY};
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Node;
use kerf_aws::data::ShippedCatalogue;
use kerf_aws::ports::Tags;
use kerf_aws::ports::ec2::{InstanceTypeInfo, InstanceTypeOffering, PlacementGroup};
use kerf_aws::{AwsSettings, ClusterFacts};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::QuestionError;

/// The members of a document that the questions read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Document {
    pub(super) options: Option<Options>,
    /// Names or descriptions; `None` for the whole catalogue.
    instance_types: Option<Vec<Value>>,
    offerings: Option<Vec<OfferingEntry>>,
    pub(super) prices: Option<Prices>,
    pub(super) subnets: Option<Vec<Value>>,
    pub(super) security_groups: Option<Vec<Value>>,
    pub(super) images: Option<Vec<Value>>,
    pub(super) capacity_reservations: Option<Vec<Value>>,
    pub(super) instances: Option<Vec<Value>>,
    pub(super) cached_instances: Option<Vec<Value>>,
    pub(super) placement_groups: Option<Vec<PlacementGroupEntry>>,
    /// IDs of zones.
    pub(super) shifted_zones: Option<Vec<String>>,
    /// Parameters of Systems Manager by name.
    pub(super) parameters: Option<BTreeMap<String, String>>,
    /// Role by instance profile.
    pub(super) profiles: Option<BTreeMap<String, Option<String>>>,
    /// Scripted failures by operation.
    pub(super) fail: Option<FailureScript>,
    /// Overrides that fleets cannot launch.
    pub(super) ice: Option<Vec<FleetRule>>,
    pub(super) unavailable: Option<Vec<Mark>>,
    /// Free slots by ID of the reservation.
    pub(super) reservations: Option<BTreeMap<String, i32>>,
    /// Free addresses by ID of the subnet, as the last refresh found them.
    #[serde(rename = "freeIPs")]
    pub(super) free_ips: Option<BTreeMap<String, i32>>,
    node_pools: Option<Vec<Value>>,
    nodes: Option<Vec<Value>>,
    node_claims: Option<Vec<Value>>,
    node_class: Option<Value>,
    node_claim: Option<Value>,
    pub(super) max_pods: Option<i64>,
    capacity_type: Option<String>,
    /// The question `launch`.
    pub(super) steps: Option<Vec<Step>>,
    /// The question `interruption`: texts are bodies, other values are bodies as they are written.
    pub(super) messages: Option<Vec<Box<RawValue>>>,
}

/// One step of the question `launch`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    /// Replaces the rules in force.
    pub(super) ice: Option<Vec<FleetRule>>,
    /// Replaces the scripted failures in force.
    pub(super) fail: Option<FailureScript>,
    pub(super) unavailable: Option<Vec<Mark>>,
    launch: Option<Vec<Value>>,
    delete: Option<Value>,
    /// A provider ID.
    pub(super) get: Option<String>,
    pub(super) list: Option<bool>,
}

impl Step {
    /// Returns the claims that are launched at the same moment. Each is a claim of its own, with a
    /// UID made from `number`, the number of claims that earlier steps launched.
    pub(super) fn launch(&self, number: usize) -> Result<Vec<NodeClaim>, QuestionError> {
        let claims = self.launch.iter().flatten().zip(number..).map(|(claim, number)| {
            let mut claim = complete_claim(Some(claim))?;
            claim.metadata.uid = Some(format!("nodeclaim-uid-{number}"));
            Ok(claim)
        });
        claims
            .collect::<Result<_, serde_json::Error>>()
            .map_err(|error| QuestionError::other(format!("launch: {error}")))
    }

    /// Returns the claim whose instance is deleted.
    pub(super) fn delete(&self) -> Result<Option<NodeClaim>, QuestionError> {
        let claim = self.delete.as_ref().map(|claim| complete_claim(Some(claim))).transpose();
        claim.map_err(|error| QuestionError::other(format!("delete: {error}")))
    }
}

/// Makes fleets fail to launch the overrides that match all selectors which are not empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FleetRule {
    pub(super) capacity_type: Option<String>,
    pub(super) instance_type: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) subnet: Option<String>,
    pub(super) reservation: Option<String>,
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
}

/// Settings of the provider and facts about the cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Options {
    region: Option<String>,
    #[serde(rename = "accountID")]
    account_id: Option<String>,
    cluster_name: Option<String>,
    cluster_endpoint: Option<String>,
    #[serde(rename = "clusterCABundle")]
    cluster_ca_bundle: Option<String>,
    #[serde(rename = "clusterCIDR")]
    cluster_cidr: Option<String>,
    #[serde(rename = "clusterDNS")]
    cluster_dns: Option<String>,
    kubernetes_version: Option<String>,
    vm_memory_overhead_percent: Option<f64>,
    #[serde(rename = "reservedENIs")]
    reserved_enis: Option<u32>,
    #[serde(rename = "isolatedVPC")]
    isolated_vpc: Option<bool>,
    disable_dry_run: Option<bool>,
    feature_gates: Option<BTreeMap<String, bool>>,
    min_values_policy: Option<String>,
    now: Option<Timestamp>,
}

/// Prices as successful updates brought them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Prices {
    pub(super) on_demand: Option<BTreeMap<String, f64>>,
    /// By type and zone; `None` if there was no update yet.
    pub(super) spot: Option<BTreeMap<String, BTreeMap<String, f64>>>,
}

/// A mark of missing capacity: a pool, a whole capacity type, or a subnet. Absent members are
/// empty.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Mark {
    pub(super) capacity_type: String,
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) placement_group: String,
    pub(super) partition: String,
    pub(super) subnet: String,
}

/// A scripted failure of one call.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScriptedFailure {
    pub(super) code: String,
    pub(super) message: Option<String>,
    pub(super) server: Option<bool>,
}

/// Failures by operation; `None` lets a call through.
pub(super) type FailureScript = BTreeMap<String, Option<Vec<Option<ScriptedFailure>>>>;

/// A placement group as EC2 describes it. Without a state it is available.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct PlacementGroupEntry {
    group_id: String,
    group_name: String,
    state: Option<String>,
    strategy: String,
    partition_count: Option<i32>,
    spread_level: Option<String>,
}

impl PlacementGroupEntry {
    pub(super) fn to_group(&self) -> PlacementGroup {
        PlacementGroup {
            id: self.group_id.clone(),
            name: self.group_name.clone(),
            state: text_or(self.state.as_ref(), "available").to_owned(),
            strategy: self.strategy.clone(),
            partition_count: self.partition_count,
            spread_level: self.spread_level.clone(),
            tags: Tags::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfferingEntry {
    instance_type: String,
    location: String,
}

impl Options {
    pub(super) fn region(&self) -> &str {
        text_or(self.region.as_ref(), "us-west-2")
    }

    /// Returns the account that `self` means as the owner of an image.
    pub(super) fn account_id(&self) -> &str {
        text_or(self.account_id.as_ref(), "123456789012")
    }

    /// Returns the time at which the clock stands.
    pub(super) fn now(&self) -> Result<Timestamp, QuestionError> {
        match self.now {
            Some(now) => Ok(now),
            None => "2026-08-01T12:00:00Z".parse().map_err(QuestionError::other),
        }
    }

    /// Returns the CA bundle of the nodes; empty if none is known.
    pub(super) fn ca_bundle(&self) -> &str {
        self.cluster_ca_bundle.as_deref().unwrap_or("Y2EtYnVuZGxlCg==")
    }

    pub(super) fn settings(&self) -> AwsSettings {
        let mut settings = AwsSettings::new(text_or(self.cluster_name.as_ref(), "test-cluster"));
        settings.cluster_endpoint = Some(self.endpoint().to_owned());
        settings.cluster_ca_bundle = non_empty(self.ca_bundle());
        settings.isolated_vpc = self.isolated_vpc.unwrap_or(false);
        settings.vm_memory_overhead_percent = self.vm_memory_overhead_percent.unwrap_or(0.075);
        settings.reserved_enis = self.reserved_enis.unwrap_or(0);
        settings.disable_dry_run = self.disable_dry_run.unwrap_or(false);
        settings.reserved_capacity = self.gate("ReservedCapacity").unwrap_or(true);
        settings.node_class_cel = self.gate("NodeClassCEL").unwrap_or(false);
        settings.min_values_best_effort = self.min_values_policy.as_deref() == Some("BestEffort");
        settings
    }

    pub(super) fn cluster_facts(&self) -> ClusterFacts {
        ClusterFacts {
            region: self.region().to_owned(),
            endpoint: self.endpoint().to_owned(),
            ca_bundle: non_empty(self.ca_bundle()),
            dns_address: self.cluster_dns.as_deref().unwrap_or("10.100.0.10").parse().ok(),
            kubernetes_version: text_or(self.kubernetes_version.as_ref(), "1.34").to_owned(),
            service_cidr: non_empty(self.cluster_cidr.as_deref().unwrap_or("10.100.0.0/16")),
        }
    }

    fn endpoint(&self) -> &str {
        text_or(self.cluster_endpoint.as_ref(), "https://test-cluster")
    }

    fn gate(&self, name: &str) -> Option<bool> {
        let gates = self.feature_gates.as_ref()?;
        gates.iter().find(|(gate, _)| gate.eq_ignore_ascii_case(name)).map(|(_, is_on)| *is_on)
    }
}

impl Document {
    pub(super) fn options(&self) -> Options {
        self.options.clone().unwrap_or_default()
    }

    pub(super) fn capacity_type(&self) -> &str {
        text_or(self.capacity_type.as_ref(), "on-demand")
    }

    /// Returns the node class of the question, with the defaults of spec 11 §1.3.
    pub(super) fn node_class(&self) -> Result<EC2NodeClass, QuestionError> {
        let Some(Value::Object(class)) = &self.node_class else {
            return Err(QuestionError::other("the document has no nodeClass"));
        };
        let mut class = class.clone();
        fill_metadata(&mut class, "default", "nodeclass-uid");
        let spec = class.entry("spec").or_insert_with(|| json!({}));
        if let Value::Object(spec) = spec {
            for terms in ["amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms"] {
                spec.entry(terms).or_insert_with(|| json!([]));
            }
        }
        serde_json::from_value(Value::Object(class))
            .map_err(|error| QuestionError::other(format!("nodeClass: {error}")))
    }

    /// Returns true if the document has a node class.
    pub(super) fn has_node_class(&self) -> bool {
        self.node_class.is_some()
    }

    /// Returns the node class of the question, which is ready unless the document has conditions.
    pub(super) fn ready_node_class(&self) -> Result<EC2NodeClass, QuestionError> {
        let mut class = self.node_class()?;
        // A class comes from a store that leaves out empty lists (spec 11 §1.3).
        if let Some(spec) = &mut class.spec {
            spec.network_interfaces = spec.network_interfaces.take().filter(|list| !list.is_empty());
        }
        let observed_generation = class.metadata.generation;
        let last_transition_time = Time(self.options().now()?);
        let conditions = &mut class.status.get_or_insert_default().conditions;
        if conditions.is_empty() {
            let true_condition = |kind: &&str| Condition {
                condition_type: (*kind).to_owned(),
                status: ConditionStatus::True,
                reason: (*kind).to_owned(),
                message: String::new(),
                last_transition_time: last_transition_time.clone(),
                observed_generation,
            };
            conditions.extend(EC2NODECLASS_WITH_RESERVATIONS.iter().chain(&[READY]).map(true_condition));
        }
        Ok(class)
    }

    /// Returns the claim of the question, with the defaults of spec 11 §1.3.
    pub(super) fn node_claim(&self) -> Result<NodeClaim, QuestionError> {
        complete_claim(self.node_claim.as_ref()).map_err(|error| QuestionError::other(format!("nodeClaim: {error}")))
    }

    /// Returns the claims in the cluster.
    pub(super) fn node_claims(&self) -> Result<Vec<NodeClaim>, QuestionError> {
        let claims = self.node_claims.iter().flatten().map(|claim| complete_claim(Some(claim)));
        claims.collect::<Result<_, _>>().map_err(|error| QuestionError::other(format!("nodeClaims: {error}")))
    }

    /// Returns true if the document says which claim is in question.
    pub(super) fn has_node_claim(&self) -> bool {
        self.node_claim.is_some()
    }

    /// Returns true if the document says which pools are in the cluster.
    pub(super) fn has_node_pools(&self) -> bool {
        self.node_pools.is_some()
    }

    /// Returns a pool of this name with the node class of a claim.
    pub(super) fn node_pool_of(name: &str, claim: &NodeClaim) -> Result<NodePool, QuestionError> {
        let class = json!({ "nodeClassRef": claim.spec.node_class_ref, "requirements": [] });
        let pool = json!({ "metadata": { "name": name }, "spec": { "template": { "spec": class } } });
        serde_json::from_value(pool).map_err(QuestionError::other)
    }

    /// Returns the nodes in the cluster.
    pub(super) fn nodes(&self) -> Result<Vec<Node>, QuestionError> {
        let nodes = self.nodes.iter().flatten().map(Node::deserialize);
        nodes.collect::<Result<_, _>>().map_err(|error| QuestionError::other(format!("nodes: {error}")))
    }

    /// Returns the pools in the cluster.
    pub(super) fn node_pools(&self) -> Result<Vec<NodePool>, QuestionError> {
        let pools = self.node_pools.iter().flatten().map(|pool| {
            let mut pool = pool.as_object().cloned().unwrap_or_default();
            fill_metadata(&mut pool, "default", "nodepool-uid");
            let mut spec = pool.entry("spec").or_insert_with(|| json!({}));
            for member in ["template", "spec"] {
                let Value::Object(members) = spec else { break };
                spec = members.entry(member).or_insert_with(|| json!({}));
            }
            fill_claim_spec(spec);
            serde_json::from_value(Value::Object(pool))
        });
        pools.collect::<Result<_, _>>().map_err(|error| QuestionError::other(format!("nodePools: {error}")))
    }

    /// Returns the instance types of the document, completed from the catalogue, and their zones.
    pub(super) fn catalogue(
        &self,
        common: &ShippedCatalogue,
        class: Option<&EC2NodeClass>,
    ) -> Result<ShippedCatalogue, QuestionError> {
        let own_offerings = self.offerings.as_ref().map(|offerings| {
            let offerings = offerings.iter();
            offerings
                .map(|entry| InstanceTypeOffering {
                    instance_type: entry.instance_type.clone(),
                    zone: entry.location.clone(),
                })
                .collect()
        });
        let Some(items) = &self.instance_types else {
            return Ok(ShippedCatalogue {
                instance_types: common.instance_types.clone(),
                offerings: own_offerings.unwrap_or_else(|| common.offerings.clone()),
            });
        };
        let mut instance_types = Vec::with_capacity(items.len());
        for item in items {
            instance_types.push(instance_type(item, common)?);
        }
        let zones = self.zones(class);
        let offerings = own_offerings.unwrap_or_else(|| {
            let types = instance_types.iter();
            types
                .flat_map(|info| {
                    zones
                        .iter()
                        .map(|zone| InstanceTypeOffering { instance_type: info.name.clone(), zone: zone.clone() })
                })
                .collect()
        });
        Ok(ShippedCatalogue { instance_types, offerings })
    }

    /// Returns the zones of the class's status and of the document's subnets; none without a class.
    fn zones(&self, class: Option<&EC2NodeClass>) -> Vec<String> {
        let Some(class) = class else { return Vec::new() };
        let status = class.status.as_ref().and_then(|status| status.subnets.as_deref()).unwrap_or_default();
        let described = self.subnets.iter().flatten();
        let described = described.filter_map(|subnet| subnet["AvailabilityZone"].as_str());
        let mut zones: Vec<String> = Vec::new();
        for zone in status.iter().map(|subnet| subnet.zone.as_str()).chain(described) {
            if !zones.iter().any(|known| known == zone) {
                zones.push(zone.to_owned());
            }
        }
        zones
    }
}

/// Returns a type that is described in full, or the one of this name in the catalogue.
fn instance_type(item: &Value, common: &ShippedCatalogue) -> Result<InstanceTypeInfo, QuestionError> {
    let name = item.as_str().or_else(|| item["InstanceType"].as_str()).unwrap_or_default();
    if item.get("VCpuInfo").is_none()
        && let Some(known) = common.instance_types.iter().find(|info| info.name == name)
    {
        return Ok(known.clone());
    }
    if item.is_string() {
        return Ok(InstanceTypeInfo { name: name.to_owned(), ..InstanceTypeInfo::default() });
    }
    InstanceTypeInfo::deserialize(item).map_err(|error| QuestionError::other(format!("instanceTypes: {name}: {error}")))
}

fn complete_claim(claim: Option<&Value>) -> Result<NodeClaim, serde_json::Error> {
    let mut claim = claim.and_then(Value::as_object).cloned().unwrap_or_default();
    fill_metadata(&mut claim, "claim", "nodeclaim-uid");
    fill_claim_spec(claim.entry("spec").or_insert_with(|| json!({})));
    serde_json::from_value(Value::Object(claim))
}

/// Adds the members that the spec of a claim, and of the template of a pool, must have.
fn fill_claim_spec(spec: &mut Value) {
    let Value::Object(spec) = spec else { return };
    spec.entry("requirements").or_insert_with(|| json!([]));
    let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
    spec.entry("nodeClassRef").or_insert(class);
}

fn fill_metadata(object: &mut Map<String, Value>, name: &str, uid: &str) {
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        metadata.entry("name").or_insert_with(|| json!(name));
        metadata.entry("uid").or_insert_with(|| json!(uid));
        metadata.entry("generation").or_insert_with(|| json!(1));
    }
}

/// Returns the text, or the default if it is absent or empty.
fn text_or<'a>(text: Option<&'a String>, default: &'a str) -> &'a str {
    match text {
        Some(text) if !text.is_empty() => text,
        Some(_) | None => default,
    }
}

fn non_empty(text: &str) -> Option<String> {
    if text.is_empty() { None } else { Some(text.to_owned()) }
}
