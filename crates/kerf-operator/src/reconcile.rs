//! Wraps reconciles in a span, times and counts them, and logs failures.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use kerf_api::slim::Str;
use kerf_runtime::{Clock, ReconcileAction};
use serde_json::{Map, Value};
use tracing::{Instrument as _, error};

use crate::controller::{ControllerName, ReconcileError};
use crate::logs;
use crate::metrics::ControllerMetrics;

tokio::task_local! {
    /// The controller whose reconcile is running in this task.
    static CONTROLLER: &'static str;
}

/// Returns the name of the controller whose reconcile is running; empty outside of a reconcile.
pub fn current_controller() -> &'static str {
    CONTROLLER.try_with(|name| *name).unwrap_or_default()
}

/// Runs an event handler, and counts and times it as a reconcile of the controller that does this
/// work in Karpenter.
pub fn instrument_event(metrics: &ControllerMetrics, clock: Clock, name: &'static str, work: impl FnOnce()) {
    let started = clock.elapsed();
    work();
    let took = clock.elapsed().saturating_sub(started).as_secs_f64();
    metrics.reconcile_time.observe(&[name], took);
    metrics.reconcile_total.inc(&[name, "success"]);
}

/// Runs a reconcile and returns when to run it again. An error or a panic is logged and retried
/// with back-off. A terminal error is logged and not retried.
pub async fn instrument_reconcile<E: ReconcileError>(
    metrics: &ControllerMetrics,
    clock: Clock,
    controller: ControllerName,
    key: &Str,
    reconcile_id: &str,
    work: impl Future<Output = Result<ReconcileAction, E>>,
) -> ReconcileAction {
    let name = controller.name;
    metrics.active_workers.add(&[name], 1.0);
    let started = clock.elapsed();
    let span = logs::span(controller, key, reconcile_id);
    let work = CONTROLLER.scope(name, work.instrument(span.clone()));
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    let took = clock.elapsed().saturating_sub(started).as_secs_f64();
    metrics.reconcile_time.observe(&[name], took);
    metrics.queues.work_duration.observe(&[name, name], took);
    metrics.active_workers.add(&[name], -1.0);
    let (next, result) = match outcome {
        Ok(Ok(ReconcileAction::Done)) => (ReconcileAction::Done, "success"),
        Ok(Ok(ReconcileAction::RequeueAfter(delay))) => (ReconcileAction::RequeueAfter(delay), "requeue_after"),
        Ok(Ok(ReconcileAction::RequeueWithBackoff)) => (ReconcileAction::RequeueWithBackoff, "requeue"),
        Ok(Err(cause)) => {
            metrics.reconcile_errors.inc(&[name]);
            span.in_scope(|| log_failure(&cause));
            if cause.is_terminal() {
                metrics.terminal_reconcile_errors.inc(&[name]);
                (ReconcileAction::Done, "error")
            } else {
                (ReconcileAction::RequeueWithBackoff, "error")
            }
        }
        Err(panic) => {
            metrics.reconcile_errors.inc(&[name]);
            metrics.reconcile_panics.inc(&[name]);
            let message = panic.downcast_ref::<&str>().map(ToString::to_string);
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            span.in_scope(|| error!(error = format!("panic: {message} [recovered]"), "Reconciler error"));
            (ReconcileAction::RequeueWithBackoff, "error")
        }
    };
    metrics.reconcile_total.inc(&[name, result]);
    next
}

/// Logs a failed reconcile with the fields of its error.
fn log_failure(cause: &impl ReconcileError) {
    let fields: Map<String, Value> = cause.log_fields().into_iter().collect();
    if fields.is_empty() {
        error!(error = %cause, "Reconciler error");
    } else {
        error!(error = %cause, { logs::EXTRA_FIELDS } = %logs::json(fields), "Reconciler error");
    }
}
