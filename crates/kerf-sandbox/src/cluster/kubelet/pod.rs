//! The life of a pod on a simulated instance: created, running, perhaps completed, then stopped and
//! deleted. Each step depends only on the stored pod and on the time at which the kubelet first saw
//! it, so a restarted kubelet continues from the stored state.

use std::time::Duration;

use kerf_api::duration::Duration as GoDuration;
use tokio::time::Instant;

use super::PodRun;
use super::status::{ContainerStage, PodStatusInputs, pod_status};
use crate::api::object::rfc3339_seconds;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;
use crate::cluster::WorkItem;
use crate::cluster::control_plane::{ControlPlane, RunAgain};
use crate::cluster::events::{EventComponent, EventType};
use crate::cluster::kind::ControlPlaneKind;
use crate::cluster::objects::Pod;
use crate::cluster::timing::Delay;

/// KWOK's annotations by which a pod sets the durations of its stages.
const START_DELAY_ANNOTATION: &str = "pod-ready.stage.kwok.x-k8s.io/delay";
const COMPLETE_DELAY_ANNOTATION: &str = "pod-complete.stage.kwok.x-k8s.io/delay";
const STOP_DELAY_ANNOTATION: &str = "pod-delete.stage.kwok.x-k8s.io/delay";
/// Annotation with the exit code of a pod's containers; 0 if it is missing.
const EXIT_CODE: &str = "sandbox.kerf.sh/exit-code";
/// First and longest delay before a failed container is restarted.
const INITIAL_CRASH_BACKOFF: Duration = Duration::from_secs(10);
const MAX_CRASH_BACKOFF: Duration = Duration::from_mins(5);

/// Exit code of a container that ends after SIGTERM.
const SIGTERM_EXIT_CODE: i64 = 143;

/// Advances a pod by one step.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(pod) = plane.cache.pods.get(key) else {
        plane.kubelets.pod_runs.remove(key);
        return Ok(RunAgain::WhenChanged);
    };
    if !plane.kubelets.is_kubelet_running(&pod.spec.node_name) {
        return Ok(RunAgain::WhenChanged);
    }
    ensure_pod_run(plane, key, &pod);
    if pod.metadata.is_deleting() {
        return stop(plane, key, &pod);
    }
    match pod.status.phase.as_str() {
        "Succeeded" | "Failed" => Ok(RunAgain::WhenChanged),
        "Running" => run(plane, key, &pod),
        _ => start(plane, key, &pod),
    }
}

/// Records a pod that its kubelet has not seen before.
fn ensure_pod_run(plane: &mut ControlPlane, key: &ObjectKey, pod: &Pod) {
    if plane.kubelets.pod_runs.get(key).is_some_and(|run| run.uid == pod.metadata.uid) {
        return;
    }
    let delay = stage_delay(plane, pod, START_DELAY_ANNOTATION, plane.config.timing.pod_start);
    let run = PodRun {
        uid: pod.metadata.uid.clone(),
        starts_at: Instant::now() + delay,
        ends_at: None,
        stops_at: None,
        address: pod.status.pod_ip.parse().ok(),
        running_since: pod.status.start_time.filter(|_| pod.status.phase == "Running").map(rfc3339_seconds),
        restarts: pod.status.container_statuses.first().map_or(0, |status| status.restart_count as u32),
    };
    plane.kubelets.pod_runs.insert(key.clone(), run);
}

/// Returns the duration of a stage: the pod's annotation, or else a value drawn from
/// `default_delay`.
fn stage_delay(plane: &mut ControlPlane, pod: &Pod, annotation: &str, default_delay: Delay) -> Duration {
    match pod.metadata.annotations.get(annotation).and_then(|text| text.parse::<GoDuration>().ok()) {
        Some(delay) => delay.to_std().unwrap_or_default(),
        None => default_delay.draw(&mut plane.kubelets.rng),
    }
}

fn start(plane: &mut ControlPlane, key: &ObjectKey, pod: &Pod) -> ApiResult<RunAgain> {
    let now = Instant::now();
    let Some(starts_at) = plane.kubelets.pod_runs.get(key).map(|run| run.starts_at) else {
        return Ok(RunAgain::WhenChanged);
    };
    if starts_at > now {
        if pod.status.start_time.is_none() {
            write_status(plane, key, pod, ContainerStage::Creating)?;
        }
        return Ok(RunAgain::After(starts_at - now));
    }
    if !plane.are_volumes_attached(pod) {
        if pod.status.start_time.is_none() {
            write_status(plane, key, pod, ContainerStage::Creating)?;
        }
        return Ok(RunAgain::WhenChanged);
    }
    let address = if pod.spec.host_network {
        plane.kubelets.address_of(&pod.spec.node_name)
    } else {
        Some(plane.kubelets.ip_allocator.next_pod_ip())
    };
    let ends_at = if runs_to_completion(pod) {
        Some(now + stage_delay(plane, pod, COMPLETE_DELAY_ANNOTATION, plane.config.timing.job_run))
    } else {
        None
    };
    if let Some(run) = plane.kubelets.pod_runs.get_mut(key) {
        run.address = run.address.or(address);
        run.ends_at = ends_at;
        run.running_since = Some(rfc3339_seconds(plane.clock.now()));
    }
    write_status(plane, key, pod, ContainerStage::Running)?;
    publish_started_events(plane, pod);
    Ok(ends_at.map_or(RunAgain::WhenChanged, |ends_at| RunAgain::After(ends_at - now)))
}

/// Handles a running pod: it may reach its deadline, complete, or become ready through its
/// readiness gates.
fn run(plane: &mut ControlPlane, key: &ObjectKey, pod: &Pod) -> ApiResult<RunAgain> {
    let now = Instant::now();
    let deadline = pod
        .spec
        .active_deadline_seconds
        .and_then(|limit| pod.status.start_time?.checked_add(jiff::SignedDuration::from_secs(limit)).ok())
        .and_then(|at| plane.clock.instant_of(at));
    if deadline.is_some_and(|at| at <= now) {
        write_status(plane, key, pod, ContainerStage::Ended { exit_code: SIGTERM_EXIT_CODE })?;
        return Ok(RunAgain::WhenChanged);
    }
    if let Some(at) = deadline {
        plane.queue.add_at(WorkItem::RunPod(key.clone()), at);
    }
    let Some(ends_at) = plane.kubelets.pod_runs.get(key).and_then(|run| run.ends_at) else {
        if !pod.is_ready() {
            // A readiness gate may have changed, or the node controller marked the pod unready
            // while the node was unreachable.
            write_status(plane, key, pod, ContainerStage::Running)?;
        }
        return Ok(RunAgain::WhenChanged);
    };
    if ends_at > now {
        return Ok(RunAgain::After(ends_at - now));
    }
    let exit_code = pod.metadata.annotations.get(EXIT_CODE).and_then(|code| code.parse().ok()).unwrap_or(0);
    if exit_code != 0 && pod.spec.restart_policy != "Never" {
        return restart(plane, key, pod);
    }
    write_status(plane, key, pod, ContainerStage::Ended { exit_code })?;
    Ok(RunAgain::WhenChanged)
}

/// Restarts failed containers after a delay that grows with each restart.
fn restart(plane: &mut ControlPlane, key: &ObjectKey, pod: &Pod) -> ApiResult<RunAgain> {
    let delay = stage_delay(plane, pod, COMPLETE_DELAY_ANNOTATION, plane.config.timing.job_run);
    let Some(run) = plane.kubelets.pod_runs.get_mut(key) else { return Ok(RunAgain::WhenChanged) };
    let backoff = INITIAL_CRASH_BACKOFF.saturating_mul(1 << run.restarts.min(8)).min(MAX_CRASH_BACKOFF);
    run.restarts += 1;
    run.ends_at = Some(Instant::now() + backoff + delay);
    run.running_since = Some(rfc3339_seconds(plane.clock.now()));
    write_status(plane, key, pod, ContainerStage::Running)?;
    let message = "Back-off restarting failed container".to_string();
    plane.publish_event(
        EventComponent::Kubelet,
        (ControlPlaneKind::Pod, &pod.metadata),
        EventType::Warning,
        "BackOff",
        message,
    );
    Ok(RunAgain::After(backoff + delay))
}

/// Returns true if the pod's containers end without being stopped: pods of Jobs, and pods with the
/// annotation for a completion delay.
fn runs_to_completion(pod: &Pod) -> bool {
    pod.metadata.annotations.get(COMPLETE_DELAY_ANNOTATION).is_some()
        || pod.metadata.controller().is_some_and(|owner| owner.kind == "Job")
}

/// Stops a pod that is being deleted. Its containers take the stop delay, but at most the grace
/// period.
fn stop(plane: &mut ControlPlane, key: &ObjectKey, pod: &Pod) -> ApiResult<RunAgain> {
    let now = Instant::now();
    let is_first = plane.kubelets.pod_runs.get(key).is_none_or(|run| run.stops_at.is_none());
    if is_first {
        let delay = if pod.is_terminal() {
            Duration::ZERO
        } else {
            stage_delay(plane, pod, STOP_DELAY_ANNOTATION, plane.config.timing.pod_stop)
        };
        if let Some(run) = plane.kubelets.pod_runs.get_mut(key) {
            run.stops_at = Some(now + delay);
        }
        if !pod.is_terminal() {
            let names: Vec<&str> = pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
            let message = format!("Stopping container {}", names.join(", "));
            plane.publish_event(
                EventComponent::Kubelet,
                (ControlPlaneKind::Pod, &pod.metadata),
                EventType::Normal,
                "Killing",
                message,
            );
        }
    }
    let stops_at = plane.kubelets.pod_runs.get(key).and_then(|run| run.stops_at).unwrap_or(now);
    // The deletion timestamp is the end of the grace period.
    let grace_end = pod.metadata.deletion_timestamp.and_then(|at| plane.clock.instant_of(at)).unwrap_or(now);
    let terminated_at = stops_at.min(grace_end);
    if terminated_at > now {
        return Ok(RunAgain::After(terminated_at - now));
    }
    if !pod.metadata.finalizers.is_empty() && !pod.is_terminal() {
        // Finalizers keep the object, so its status has to show that the pod has ended.
        write_status(plane, key, pod, ContainerStage::Ended { exit_code: SIGTERM_EXIT_CODE })?;
    }
    plane.kubelet_client.force_delete_pod(key, &pod.metadata.uid)?;
    Ok(RunAgain::WhenChanged)
}

fn write_status(plane: &mut ControlPlane, key: &ObjectKey, pod: &Pod, stage: ContainerStage) -> ApiResult<()> {
    let now = rfc3339_seconds(plane.now());
    let started = pod.status.start_time.map_or_else(|| now.clone(), rfc3339_seconds);
    let host = plane.kubelets.address_of(&pod.spec.node_name).unwrap_or(std::net::Ipv4Addr::UNSPECIFIED);
    let run = plane.kubelets.pod_runs.get(key);
    let inputs = PodStatusInputs {
        now: &now,
        started: &started,
        host,
        address: run.and_then(|run| run.address),
        running_since: run.and_then(|run| run.running_since.as_deref()).unwrap_or(&now),
        restarts: run.map_or(0, |run| run.restarts),
    };
    plane.kubelet_client.patch_status(ControlPlaneKind::Pod, key, &pod_status(pod, stage, &inputs)).map(drop)
}

fn publish_started_events(plane: &mut ControlPlane, pod: &Pod) {
    for container in &pod.spec.containers {
        let pulled = format!("Container image \"{}\" already present on machine", container.image);
        plane.publish_event(
            EventComponent::Kubelet,
            (ControlPlaneKind::Pod, &pod.metadata),
            EventType::Normal,
            "Pulled",
            pulled,
        );
        let started = format!("Started container {}", container.name);
        plane.publish_event(
            EventComponent::Kubelet,
            (ControlPlaneKind::Pod, &pod.metadata),
            EventType::Normal,
            "Started",
            started,
        );
    }
}
