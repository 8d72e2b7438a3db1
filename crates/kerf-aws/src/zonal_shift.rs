//! `zonalshift`: reads the zonal shifts of the cluster and publishes Events on the NodePools that
//! lose or regain a zone (spec 06 §15).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_api::ec2nodeclass::{EC2NodeClass, Subnet};
use kerf_api::labels::{self, LabelRules, aws};
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_engine::requirement::{Requirement, Requirements};
use kerf_operator::events::pool_reference;
use kerf_operator::{Concurrency, Event, EventType, Reconcile, ReconcileError};
use kerf_runtime::ReconcileAction;

use crate::context::AwsContext;
use crate::node_classes::NodeClassReadError;
use crate::ports::AwsError;

/// Time between two refreshes.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// The controller.
pub(crate) struct ZonalShiftRefresh {
    context: Arc<AwsContext>,
    /// IDs of the zones that the last complete publication counted as shifted.
    published: Mutex<BTreeSet<String>>,
}

/// Reason why a refresh failed. The shifts that are known stay in force until they end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ZonalShiftError {
    #[error("updating zonal shifts, {0}")]
    Refresh(#[source] AwsError),
    #[error("publishing zonal shifts, {0}")]
    NodeClass(#[source] NodeClassReadError),
}

impl ReconcileError for ZonalShiftError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        match self {
            Self::Refresh(cause) => cause.log_fields(),
            Self::NodeClass(_) => Vec::new(),
        }
    }
}

impl ZonalShiftRefresh {
    /// Adds the controller, unless zonal shifts are not honoured.
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        if !context.zonal_shifts.is_enabled() {
            return;
        }
        let settings = Concurrency { cores: 1 }.single_worker();
        setup.set.add_singleton::<Self>("zonalshift", Self::new(context), settings);
    }

    pub(crate) fn new(context: Arc<AwsContext>) -> Self {
        Self { context, published: Mutex::default() }
    }

    /// Publishes the difference to the zones that were published last. Nothing is remembered unless
    /// all NodePools could be read.
    async fn publish_changes(&self, shifted: BTreeSet<String>) -> Result<(), ZonalShiftError> {
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if published == shifted {
            return Ok(());
        }
        let pools: Vec<Arc<NodePool>> = self.context.cluster.lock().all::<NodePool>().values().cloned().collect();
        let mut events = Vec::new();
        for pool in &pools {
            let class = match self.context.node_classes.get(&pool.spec.template.spec.node_class_ref.name).await {
                Ok(class) => class,
                // Karpenter gives up here; the other NodePools lose their Events.
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(ZonalShiftError::NodeClass(error)),
            };
            let changed = shifted.symmetric_difference(&published);
            let affected = changed.filter_map(|id| Some((id, zone_of(&class, pool, id, &self.context.label_rules)?)));
            events.extend(affected.map(|(id, zone)| event(pool, &zone, id, shifted.contains(id))));
        }
        for event in events {
            self.context.events.publish(event);
        }
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = shifted;
        Ok(())
    }
}

impl Reconcile for ZonalShiftRefresh {
    type Error = ZonalShiftError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, ZonalShiftError> {
        self.context.zonal_shifts.refresh().await.map_err(ZonalShiftError::Refresh)?;
        self.publish_changes(self.context.zonal_shifts.zones().now()).await?;
        Ok(ReconcileAction::RequeueAfter(REFRESH_INTERVAL))
    }
}

/// Returns the name of a zone in which nodes of a pool may run. Returns `None` if the class has no
/// subnet there or the pool's requirements exclude the zone.
fn zone_of(class: &EC2NodeClass, pool: &NodePool, zone_id: &str, rules: &LabelRules) -> Option<String> {
    let subnets: &[Subnet] = class.status.as_ref()?.subnets.as_deref().unwrap_or_default();
    let zone = &subnets.iter().find(|subnet| subnet.zone_id.as_deref() == Some(zone_id))?.zone;
    let mut requirements = Requirements::default();
    for entry in &pool.spec.template.spec.requirements {
        let values: Vec<Str> = entry.values.iter().flatten().map(Str::from).collect();
        // An invalid requirement excludes nothing here; validation reports it.
        if let Ok(requirement) = Requirement::new(rules, &entry.key, &entry.operator, &values, None) {
            requirements.add(requirement);
        }
    }
    let admits = |key: &str, value: &str| requirements.get(key).is_none_or(|requirement| requirement.has(value));
    (admits(labels::ZONE, zone) && admits(aws::ZONE_ID, zone_id)).then(|| zone.clone())
}

fn event(pool: &NodePool, zone: &str, zone_id: &str, is_shifted: bool) -> Event {
    let (event_type, reason, message) = if is_shifted {
        let message =
            format!("Zonal shift detected: offerings in zone {zone} ({zone_id}) are unavailable for this NodePool");
        (EventType::Warning, "ZonalShiftActive", message)
    } else {
        let message =
            format!("Zonal shift cleared: offerings in zone {zone} ({zone_id}) are restored for this NodePool");
        (EventType::Normal, "ZonalShiftCleared", message)
    };
    Event::new(pool_reference(pool), event_type, reason, message)
        .with_dedupe_values([pool.metadata.uid.clone().unwrap_or_default(), zone_id.to_owned()])
}

#[cfg(test)]
mod tests;
