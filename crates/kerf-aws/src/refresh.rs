//! Controllers that keep the provider's own data current: instance types (spec 05 §3), prices (spec
//! 06 §16.1) and launch templates (spec 05 §13.3).

mod pricing;

use std::sync::Arc;
use std::time::Duration;

use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_operator::{Concurrency, Reconcile, ReconcileError};
use kerf_runtime::ReconcileAction;

use crate::context::AwsContext;
use crate::ports::AwsError;
pub(crate) use pricing::PricingRefresh;

/// Time between two refreshes of the catalogue.
const CATALOGUE_REFRESH_INTERVAL: Duration = Duration::from_hours(12);
/// Time between two searches for launch templates that are no longer used.
const TEMPLATE_CLEANUP_INTERVAL: Duration = Duration::from_mins(1);

/// `providers.instancetype`: reads instance types and their zones from EC2.
pub(crate) struct InstanceTypeRefresh(Arc<AwsContext>);

/// The failed refresh of the catalogue.
#[derive(Debug, thiserror::Error)]
#[error("updating instance types, {0}")]
pub(crate) struct InstanceTypeRefreshError(#[source] AwsError);

impl ReconcileError for InstanceTypeRefreshError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        self.0.log_fields()
    }
}

impl InstanceTypeRefresh {
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        let settings = Concurrency { cores: 1 }.single_worker();
        setup.set.add_singleton::<Self>("providers.instancetype", Self(context), settings);
    }
}

impl Reconcile for InstanceTypeRefresh {
    type Error = InstanceTypeRefreshError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, InstanceTypeRefreshError> {
        let refreshed = self.0.instance_types.refresh(self.0.ports.ec2.as_ref()).await;
        refreshed.map_err(InstanceTypeRefreshError)?;
        Ok(ReconcileAction::RequeueAfter(CATALOGUE_REFRESH_INTERVAL))
    }
}

/// Deletes launch templates that no launch has used for a minute. Karpenter does this in the
/// eviction of a cache, without a controller.
pub(crate) struct LaunchTemplateCleanup(Arc<AwsContext>);

/// The clean-up logs its failures itself and never fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchTemplateCleanupError {}

impl ReconcileError for LaunchTemplateCleanupError {}

impl LaunchTemplateCleanup {
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        let settings = Concurrency { cores: 1 }.single_worker();
        setup.set.add_singleton::<Self>("providers.launchtemplate", Self(context), settings);
    }
}

impl Reconcile for LaunchTemplateCleanup {
    type Error = LaunchTemplateCleanupError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, LaunchTemplateCleanupError> {
        self.0.launch_templates.delete_unused().await;
        Ok(ReconcileAction::RequeueAfter(TEMPLATE_CLEANUP_INTERVAL))
    }
}
