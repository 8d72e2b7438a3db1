//! The world of a document for the controllers of node classes: the account, the cluster with its
//! objects, and the Events that are published.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kerf_api::conditions::Condition;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_aws::data::ShippedCatalogue;
use kerf_aws::ports::AwsPorts;
use kerf_aws::{AwsParts, ProviderTrial};
use kerf_operator::{Event, EventType, Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kerf_state::{NodeClass, TrackedClaim};
use serde_json::{Value, json};

use super::QuestionError;
use super::account::DocumentAccount;
use super::controller_memory::{apply_mark, merge_prices};
use super::document::Document;
use super::resources::DescribedResources;
use super::resources::instances;
use super::stored_objects::{NODE_CLAIMS, NODE_CLASSES, StoredObjects};

/// The world of a document.
pub(super) struct World {
    pub(super) account: Arc<DocumentAccount>,
    pub(super) stored: StoredObjects,
    pub(super) cluster: SharedCluster,
    pub(super) events: Arc<RecordedEvents>,
    pub(super) trial: ProviderTrial,
}

/// Events in the order in which they were published.
#[derive(Default)]
pub(super) struct RecordedEvents(Mutex<Vec<Event>>);

impl Publish for RecordedEvents {
    fn publish(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl RecordedEvents {
    /// Returns the Events since the last time as answers print them, sorted by text.
    pub(super) fn take(&self) -> Vec<Value> {
        let events = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let describe = |event: &Event| {
            json!({
                "kind": event.involved_object.kind,
                "name": event.involved_object.name,
                "type": type_name(event.event_type),
                "reason": event.reason,
                "message": event.message,
            })
        };
        let mut described: Vec<Value> = events.iter().map(describe).collect();
        described.sort_by_cached_key(Value::to_string);
        described
    }
}

fn type_name(event_type: EventType) -> &'static str {
    match event_type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

impl World {
    /// Builds the world around a node class, with the instance types of `catalogue`. Without a
    /// class, none is in the cluster.
    pub(super) async fn new(
        document: &Document,
        class: Option<&EC2NodeClass>,
        catalogue: ShippedCatalogue,
    ) -> Result<Self, QuestionError> {
        let options = document.options();
        let resources = DescribedResources::of(document)?;
        let account = Arc::new(DocumentAccount::new(resources, document.fail.clone().unwrap_or_default()));
        account.start(&options.settings().cluster_name).await.map_err(QuestionError::other)?;
        account.set_fleet_rules(document.ice.clone().unwrap_or_default());
        let events = Arc::<RecordedEvents>::default();
        let cluster = SharedCluster::default();
        let stored = StoredObjects::new(cluster.clone());
        {
            let mut classes = Vec::new();
            if let Some(class) = class {
                stored.insert(NODE_CLASSES, json!(class));
                let object: NodeClass = serde_json::from_value(json!(class)).map_err(QuestionError::other)?;
                classes.push(object.with_kind("karpenter.k8s.aws", "v1", "EC2NodeClass"));
            }
            let claims = document.node_claims()?;
            for claim in &claims {
                stored.insert(NODE_CLAIMS, json!(claim));
            }
            let mut state = cluster.lock();
            state.reset_node_classes("karpenter.k8s.aws", "EC2NodeClass", classes);
            state.reset(document.node_pools()?);
            state.reset(claims.into_iter().map(TrackedClaim::from).collect());
            state.reset(document.nodes()?);
        }
        let parts = AwsParts {
            ports: AwsPorts {
                region: options.region().to_owned(),
                ec2: account.clone(),
                ssm: account.clone(),
                iam: account.clone(),
                eks: account.clone(),
                zonal_shift: account.clone(),
                price_list: account.clone(),
                sqs: account.clone(),
            },
            settings: options.settings(),
            client: stored.client(options.now()?.to_string()),
            cluster: cluster.clone(),
            clock: Clock::starting_at(options.now()?),
            events: events.clone(),
            registry: Arc::new(Registry::default()),
        };
        let trial = ProviderTrial::new(parts, options.cluster_facts(), catalogue.instance_types, catalogue.offerings);
        let world = Self { account, stored, cluster, events, trial };
        world.remember(document)?;
        Ok(world)
    }

    /// Puts into memory what earlier work of the controllers left there (spec 11 §1.3).
    fn remember(&self, document: &Document) -> Result<(), QuestionError> {
        let trial = &self.trial;
        merge_prices(trial.pricing(), document)?;
        let free = document.reservations.iter().flatten();
        trial.reservation_slots().set_free(free.map(|(id, free)| (id.clone(), *free)));
        for (subnet, count) in document.free_ips.iter().flatten() {
            trial.set_free_addresses(subnet, *count);
        }
        let shifted = document.shifted_zones.iter().flatten();
        trial.shifted_zones().replace(shifted.map(|id| (id.clone(), Timestamp::MAX)));
        for instance in instances("cachedInstances", document.cached_instances.as_deref())? {
            trial.remember_instance(instance);
        }
        for mark in document.unavailable.iter().flatten() {
            apply_mark(trial.unavailable(), mark);
        }
        Ok(())
    }

    /// Returns the free slots of the document's reservations.
    pub(super) fn free_slots(&self, document: &Document) -> BTreeMap<String, i32> {
        let slots = self.trial.reservation_slots();
        document.reservations.iter().flatten().map(|(id, _)| (id.clone(), slots.free(id))).collect()
    }
}

/// Answers a question on a runtime whose clock stands still. A world needs a runtime around it.
pub(super) fn run(answer: impl Future<Output = Result<Value, QuestionError>>) -> Result<Value, QuestionError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.map_err(QuestionError::other)?.block_on(answer)
}

/// Returns the entries of `status.amis`. Those of one image are sorted by text.
pub(super) fn describe_amis(class: &EC2NodeClass) -> Vec<Value> {
    let amis = class.status.as_ref().and_then(|status| status.amis.as_deref()).unwrap_or_default();
    let mut position = BTreeMap::new();
    for (index, ami) in amis.iter().enumerate() {
        position.entry(ami.id.as_str()).or_insert(index);
    }
    let mut entries: Vec<_> = amis.iter().map(|ami| (position[ami.id.as_str()], json!(ami))).collect();
    entries.sort_by_cached_key(|(position, entry)| (*position, entry.to_string()));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Reasons of conditions that Karpenter leaves as they are (spec 06 §3.1).
const OWN_REASONS: [&str; 5] =
    ["AliasNotFound", "RoleNotFound", "InvalidBlockDeviceMappings", "InvalidUserData", "NoCompatibleAMI"];

/// Returns true if Karpenter would not have set the condition yet.
fn is_unset_in_karpenter(condition: &Condition) -> bool {
    OWN_REASONS.contains(&condition.reason.as_str())
}

/// Returns the conditions of a class, sorted by type. The message of `Ready` depends on the order
/// of transitions and is left out. A condition that only Kerf sets is printed as not set yet.
pub(super) fn describe_conditions(class: &EC2NodeClass) -> Vec<Value> {
    let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut described: Vec<(&str, Value)> = conditions
        .iter()
        .map(|condition| {
            let kind = condition.condition_type.as_str();
            if is_unset_in_karpenter(condition) {
                let entry = json!({
                    "type": kind, "status": "Unknown", "reason": "AwaitingReconciliation",
                    "message": "object is awaiting reconciliation",
                });
                return (kind, entry);
            }
            let mut entry = json!({ "type": kind, "status": condition.status.as_str() });
            if !condition.reason.is_empty() {
                entry["reason"] = json!(condition.reason);
            }
            if !condition.message.is_empty() && kind != "Ready" {
                entry["message"] = json!(condition.message);
            }
            (kind, entry)
        })
        .collect();
    described.sort_by_key(|(kind, _)| *kind);
    described.into_iter().map(|(_, entry)| entry).collect()
}
