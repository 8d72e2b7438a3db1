//! HTTP endpoints: metrics, liveness and readiness, and debug endpoints (spec 07 §3 and §4).
//! Readiness does not depend on leadership: a standby is ready.

use std::sync::Arc;

use kerf_runtime::{WatchHandle, WatchPhase};
use tokio::task::JoinSet;
use tracing::warn;

use super::http_server::{HttpResponse, serve};
use super::status::ProcessStatus;
use super::{ProcessSettings, REQUIRED_KINDS, RunError, freshness};
use crate::context::Context;

/// Content type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Opens the addresses of the settings. The endpoints are served until `tasks` is dropped.
pub(super) async fn start(
    ctx: &Context,
    status: &Arc<ProcessStatus>,
    settings: &ProcessSettings,
    tasks: &mut JoinSet<()>,
) -> Result<(), RunError> {
    if let Some(address) = settings.metrics {
        let (ctx, metrics_status) = (ctx.clone(), status.clone());
        let debug_status = (settings.debug == Some(address)).then(|| status.clone());
        serve(address, tasks, move |path, _| match (path, &debug_status) {
            ("/metrics", _) => (200, METRICS_TYPE, ctx.metrics_text() + &metrics_status.metrics_text()),
            (_, Some(status)) => debug_response(path, status),
            (_, None) => not_found(),
        })
        .await
        .map_err(|cause| RunError::Listen { address, cause })?;
    }
    if let Some(address) = settings.debug.filter(|address| settings.metrics != Some(*address)) {
        let status = status.clone();
        // Without debug endpoints the controllers still work, for example beside another process on
        // the default address.
        if let Err(error) = serve(address, tasks, move |path, _| debug_response(path, &status)).await {
            warn!(%address, %error, "the debug endpoints are not served");
        }
    }
    if let Some(address) = settings.health_probes {
        let status = status.clone();
        serve(address, tasks, move |path, query| {
            let (code, text) = probe(path, query, HealthChecks::of(&status));
            (code, "text/plain; charset=utf-8", text)
        })
        .await
        .map_err(|cause| RunError::Listen { address, cause })?;
    }
    Ok(())
}

/// Returns the response of a debug endpoint. They show names of pods and nodes, so they are not
/// served on the addresses of metrics and probes.
fn debug_response(path: &str, status: &ProcessStatus) -> HttpResponse {
    match path {
        "/decisions" => (200, "application/json", status.history().json().to_string()),
        _ => not_found(),
    }
}

fn not_found() -> HttpResponse {
    (404, "text/plain", "404 page not found\n".to_owned())
}

/// Results of the checks.
#[derive(Clone, Copy, Debug)]
struct HealthChecks {
    /// True if the main loop runs.
    ping: bool,
    /// True if every watched kind is listed and no kind is stale. A kind that is not installed or
    /// forbidden does not count, unless it is required.
    manager: bool,
    /// True if the API server knows all [`REQUIRED_KINDS`].
    crd: bool,
}

impl HealthChecks {
    fn of(status: &ProcessStatus) -> Self {
        let watches = status.watches();
        let is_known =
            |watch: &WatchHandle| watch.progress().is_synced && watch.progress().phase != WatchPhase::NotInstalled;
        let is_required = |watch: &&WatchHandle| REQUIRED_KINDS.contains(&watch.kind().name);
        Self {
            ping: status.is_alive(),
            manager: !watches.is_empty()
                && watches.iter().all(|watch| watch.progress().is_answered())
                && watches.iter().filter(is_required).all(|watch| watch.progress().is_synced)
                && freshness::stale_kind(&watches).is_none(),
            crd: watches.iter().filter(is_required).all(is_known),
        }
    }

    fn all(self) -> [(&'static str, bool); 3] {
        [("manager", self.manager), ("crd", self.crd), ("readyz", true)]
    }
}

/// Returns status code and text of the response to a probe.
fn probe(path: &str, query: &str, checks: HealthChecks) -> (u16, String) {
    let mut parts = path.trim_matches('/').splitn(2, '/');
    let checked: Vec<(&str, bool)> = match (parts.next(), parts.next()) {
        (Some("healthz"), None) => vec![("ping", checks.ping)],
        (Some("readyz"), None) => {
            let excluded: Vec<&str> = query.split('&').filter_map(|pair| pair.strip_prefix("exclude=")).collect();
            checks.all().into_iter().filter(|(name, _)| !excluded.contains(name)).collect()
        }
        (Some("readyz"), Some(name)) => checks.all().into_iter().filter(|(known, _)| *known == name).collect(),
        _ => Vec::new(),
    };
    if checked.is_empty() {
        return (404, "404 page not found\n".to_owned());
    }
    let is_healthy = checked.iter().all(|(_, is_healthy)| *is_healthy);
    let is_verbose = query.split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    if is_healthy && !is_verbose {
        return (200, "ok".to_owned());
    }
    let line = |(name, is_healthy): &(&str, bool)| {
        if *is_healthy { format!("[+]{name} ok\n") } else { format!("[-]{name} failed: reason withheld\n") }
    };
    let mut text: String = checked.iter().map(line).collect();
    let endpoint = path.trim_matches('/').split('/').next().unwrap_or_default();
    text += endpoint;
    text += if is_healthy { " check passed\n" } else { " check failed\n" };
    (if is_healthy { 200 } else { 500 }, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_what_is_missing() {
        let ready = HealthChecks { ping: true, manager: true, crd: true };
        let waiting = HealthChecks { ping: true, manager: false, crd: false };
        assert_eq!(probe("/healthz", "", waiting), (200, "ok".to_owned()));
        assert_eq!(probe("/readyz", "", ready), (200, "ok".to_owned()));
        let (code, text) = probe("/readyz", "", waiting);
        assert_eq!(code, 500);
        assert!(
            text.contains("[-]crd failed") && text.contains("[+]readyz ok") && text.ends_with("readyz check failed\n")
        );
        assert_eq!(probe("/readyz/readyz", "", waiting).0, 200);
        assert_eq!(probe("/readyz/crd", "", waiting).0, 500);
        assert_eq!(probe("/readyz", "exclude=crd&exclude=manager", waiting).0, 200);
        assert!(probe("/readyz", "verbose", ready).1.contains("[+]manager ok"));
        let stuck = HealthChecks { ping: false, ..ready };
        assert_eq!(probe("/healthz", "", stuck).0, 500, "the main loop does not run");
    }

    // spec 07 #20: profiling is not served.
    #[test]
    fn other_paths_are_not_found() {
        for path in ["/", "/debug/pprof/", "/readyz/nothing", "/healthz/x"] {
            assert_eq!(probe(path, "", HealthChecks { ping: true, manager: true, crd: true }).0, 404, "{path}");
        }
    }
}
