//! `interruption.instancestatus`: finds instances that fail EC2's status checks, or that EC2 has
//! scheduled an event for (spec 06 §10).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_operator::{Concurrency, Reconcile, ReconcileError};
use kerf_runtime::ReconcileAction;
use tracing::{error, info};

use super::handling::{HandlingError, Interruption, InterruptionHandler};
use super::message::InterruptionKind;
use super::metrics::InterruptionMetrics;
use crate::context::AwsContext;
use crate::ports::ec2::{InstanceStatus, StatusCheck};
use crate::ports::{AwsError, Filter, all_pages};

/// Time between two runs.
const POLL_INTERVAL: Duration = Duration::from_mins(1);
/// Time after which a missing permission is tried again.
const UNAUTHORIZED_INTERVAL: Duration = Duration::from_hours(1);
/// Time for which a check must have failed before it counts.
const IMPAIRED_FOR_MIN: Duration = Duration::from_mins(2);
/// Number of instances that are handled at the same time.
const CONCURRENT_INSTANCES_MAX: usize = 10;
/// Largest page of `DescribeInstanceStatus`.
const PAGE_SIZE: i32 = 1000;

/// Codes of scheduled events for which instances are described.
const EVENT_CODES: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

/// A part of an instance's status that can be unhealthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StatusCategory {
    Instance,
    System,
    Event,
}

impl StatusCategory {
    fn name(self) -> &'static str {
        match self {
            Self::Instance => "InstanceStatus",
            Self::System => "SystemStatus",
            Self::Event => "EventStatus",
        }
    }

    fn kind(self) -> InterruptionKind {
        match self {
            Self::Instance => InterruptionKind::InstanceStatus,
            Self::System => InterruptionKind::SystemStatus,
            Self::Event => InterruptionKind::EventStatus,
        }
    }
}

/// The controller.
pub(crate) struct InstanceStatusChecks {
    context: Arc<AwsContext>,
    handler: InterruptionHandler,
    metrics: InterruptionMetrics,
    state: Mutex<ChecksState>,
}

/// State that is kept from one run to the next.
#[derive(Debug, Default)]
struct ChecksState {
    /// Instances of this cluster, and their categories, that were unhealthy in the last run.
    unhealthy: BTreeSet<(String, StatusCategory)>,
    /// True if the missing permission was logged.
    is_unauthorized: bool,
}

/// Failure to describe or handle the status of instances.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusChecksError {
    #[error("describing instance status, {0}")]
    Describe(#[source] AwsError),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Handle(Vec<HandlingError>),
}

impl ReconcileError for StatusChecksError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        match self {
            Self::Describe(cause) => cause.log_fields(),
            Self::Handle(_) => Vec::new(),
        }
    }
}

impl InstanceStatusChecks {
    /// Adds the controller.
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        let settings = Concurrency { cores: 1 }.single_worker();
        setup.set.add_singleton::<Self>("interruption.instancestatus", Self::new(context), settings);
    }

    pub(super) fn new(context: Arc<AwsContext>) -> Self {
        let metrics = InterruptionMetrics::new(&context.registry);
        let handler = InterruptionHandler::new(context.clone(), metrics.clone());
        Self { context, handler, metrics, state: Mutex::default() }
    }

    /// Returns the instances that fail a check or have a scheduled event, each once.
    async fn describe(&self) -> Result<BTreeMap<String, InstanceStatus>, AwsError> {
        let filters = [
            Filter::new("instance-status.status", "impaired"),
            Filter::new("system-status.status", "impaired"),
            Filter::any_of("event.code", EVENT_CODES),
        ];
        let mut statuses = BTreeMap::new();
        for filter in filters {
            let describe = |page| self.context.ports.ec2.describe_instance_status(vec![filter.clone()], page);
            for status in all_pages(Some(PAGE_SIZE), describe).await? {
                statuses.entry(status.instance_id.clone()).or_insert(status);
            }
        }
        Ok(statuses)
    }

    /// Handles one instance. Returns the categories that were handled if it belongs to this
    /// cluster; an error ends the work on the instance.
    async fn handle(
        &self,
        instance_id: String,
        categories: BTreeSet<StatusCategory>,
    ) -> (BTreeSet<(String, StatusCategory)>, Option<HandlingError>) {
        let mut handled = BTreeSet::new();
        let instance_ids = std::slice::from_ref(&instance_id);
        for category in categories {
            match self.handler.handle(Interruption { kind: category.kind(), instance_ids, queue: "" }).await {
                Ok(0) => {}
                Ok(_) => {
                    self.report_unhealthy(&instance_id, category);
                    handled.insert((instance_id.clone(), category));
                }
                Err(error) => return (handled, Some(error)),
            }
        }
        (handled, None)
    }

    /// Logs and counts an instance that was not unhealthy in the last run.
    fn report_unhealthy(&self, instance_id: &str, category: StatusCategory) {
        let is_known = self.state().unhealthy.contains(&(instance_id.to_owned(), category));
        if !is_known {
            info!(instanceID = instance_id, category = category.name(), "detected unhealthy instance owned by cluster");
            self.metrics.unhealthy.inc(&[category.name()]);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ChecksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconcile for InstanceStatusChecks {
    type Error = StatusChecksError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, StatusChecksError> {
        let statuses = match self.describe().await {
            Ok(statuses) => statuses,
            Err(cause) if cause.is_unauthorized() => {
                let was_logged = std::mem::replace(&mut self.state().is_unauthorized, true);
                if !was_logged {
                    error!(
                        error = %cause,
                        "ec2:DescribeInstanceStatus permission is not allowed, update the IAM policy and restart the \
                         Karpenter deployment to enable instance status health checks"
                    );
                }
                return Ok(ReconcileAction::RequeueAfter(UNAUTHORIZED_INTERVAL));
            }
            Err(cause) => return Err(StatusChecksError::Describe(cause)),
        };
        self.state().is_unauthorized = false;
        let now = self.context.clock.now();
        let unhealthy = statuses.into_values().map(|status| {
            let categories = unhealthy_categories(&status, now);
            self.handle(status.instance_id, categories)
        });
        let results: Vec<_> =
            futures::stream::iter(unhealthy).buffer_unordered(CONCURRENT_INSTANCES_MAX).collect().await;
        let (mut handled, mut errors) = (BTreeSet::new(), Vec::new());
        for (pairs, error) in results {
            handled.extend(pairs);
            errors.extend(error);
        }
        if errors.is_empty() {
            self.state().unhealthy = handled;
            Ok(ReconcileAction::RequeueAfter(POLL_INTERVAL))
        } else {
            // The instances with errors are handled again soon and must not be reported twice.
            self.state().unhealthy.append(&mut handled);
            Err(StatusChecksError::Handle(errors))
        }
    }
}

/// Returns the categories in which an instance is unhealthy. Failed checks of volumes do not count.
fn unhealthy_categories(status: &InstanceStatus, now: Timestamp) -> BTreeSet<StatusCategory> {
    let is_impaired = |check: &StatusCheck| {
        let is_long = check
            .impaired_since
            .is_none_or(|since| Duration::try_from(now.duration_since(since)).unwrap_or_default() >= IMPAIRED_FOR_MIN);
        check.status == "failed" && is_long
    };
    // EC2 keeps events that are over in the answer for a week.
    let is_over = |description: &str| description.contains("[Completed]") || description.contains("[Canceled]");
    let checks = [
        (StatusCategory::Instance, status.instance_checks.iter().any(is_impaired)),
        (StatusCategory::System, status.system_checks.iter().any(is_impaired)),
        (StatusCategory::Event, status.events.iter().any(|event| !is_over(&event.description))),
    ];
    checks.into_iter().filter(|(_, is_unhealthy)| *is_unhealthy).map(|(category, _)| category).collect()
}
