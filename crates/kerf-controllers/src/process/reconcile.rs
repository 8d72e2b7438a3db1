//! Wraps reconciles in a span, times and counts them, and logs failures.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_runtime::ReconcileAction;
use tracing::{Instrument as _, error};

use crate::context::Context;
use crate::error::Error;
use crate::logs::{self, ObjectKind};

tokio::task_local! {
    /// The controller whose reconcile is running in this task.
    static CONTROLLER: &'static str;
}

/// Returns the name of the controller whose reconcile is running; empty outside of a reconcile.
pub(crate) fn current_controller() -> &'static str {
    CONTROLLER.try_with(|name| *name).unwrap_or_default()
}

/// Returns the kind that a controller's keys name. Returns `None` for controllers with a single
/// key.
pub(crate) fn kind_of(controller: &str) -> Option<ObjectKind> {
    match controller {
        "nodeclaim.garbagecollection" | "provisioner" | "disruption" => None,
        "provisioner.trigger.pod" | "eviction-queue" => Some(ObjectKind::of::<Pod>()),
        "provisioner.trigger.node" | "nodeclaim.podevents" | "operatorpkg.node.status" => {
            Some(ObjectKind::of::<Node>())
        }
        "state.nodeclaimgc" | "operatorpkg.nodeclaim.status" => Some(ObjectKind::of::<NodeClaim>()),
        "metrics.nodepool" | "operatorpkg.nodepool.status" => Some(ObjectKind::of::<NodePool>()),
        other => match other.split_once('.') {
            Some(("node", _)) => Some(ObjectKind::of::<Node>()),
            Some(("nodeclaim", _)) => Some(ObjectKind::of::<NodeClaim>()),
            Some(("nodepool" | "static", _)) => Some(ObjectKind::of::<NodePool>()),
            Some(_) | None => None,
        },
    }
}

/// Runs an event handler, and counts and times it as a reconcile of the controller that does this
/// work in Karpenter.
pub(crate) fn instrument_event(ctx: &Context, name: &'static str, work: impl FnOnce()) {
    let started = ctx.clock.elapsed();
    work();
    let took = ctx.clock.elapsed().saturating_sub(started).as_secs_f64();
    ctx.metrics.reconcile_time.observe(&[name], took);
    ctx.metrics.reconcile_total.inc(&[name, "success"]);
}

/// Runs a reconcile and returns when to run it again. An error or a panic is logged and retried
/// with back-off.
pub(crate) async fn instrument_reconcile(
    ctx: &Context,
    name: &'static str,
    key: &Str,
    reconcile_id: &str,
    work: impl Future<Output = Result<ReconcileAction, Error>>,
) -> ReconcileAction {
    let metrics = &ctx.metrics;
    metrics.active_workers.add(&[name], 1.0);
    let started = ctx.clock.elapsed();
    let span = logs::span(name, kind_of(name), key, reconcile_id);
    let work = CONTROLLER.scope(name, work.instrument(span.clone()));
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    let took = ctx.clock.elapsed().saturating_sub(started).as_secs_f64();
    metrics.reconcile_time.observe(&[name], took);
    metrics.queues.work_duration.observe(&[name, name], took);
    metrics.active_workers.add(&[name], -1.0);
    let (next, result) = match outcome {
        Ok(Ok(ReconcileAction::Done)) => (ReconcileAction::Done, "success"),
        Ok(Ok(ReconcileAction::RequeueAfter(delay))) => (ReconcileAction::RequeueAfter(delay), "requeue_after"),
        Ok(Ok(ReconcileAction::RequeueWithBackoff)) => (ReconcileAction::RequeueWithBackoff, "requeue"),
        Ok(Err(cause)) => {
            metrics.reconcile_errors.inc(&[name]);
            span.in_scope(|| error!(error = %cause, "Reconciler error"));
            (ReconcileAction::RequeueWithBackoff, "error")
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
