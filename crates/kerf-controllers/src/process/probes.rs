//! HTTP endpoints: metrics on one port, liveness and readiness on another (spec 07 §3 and §4).
//! Readiness does not depend on leadership: a standby is ready.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kerf_runtime::{WatchHandle, WatchPhase};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::status::ProcessStatus;
use super::{ProcessSettings, REQUIRED_KINDS, RunError, freshness};
use crate::context::Context;

/// Content type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Opens the ports of the settings. The endpoints are served until `tasks` is dropped.
pub(super) async fn start(
    ctx: &Context,
    status: &Arc<ProcessStatus>,
    settings: &ProcessSettings,
    tasks: &mut JoinSet<()>,
) -> Result<(), RunError> {
    if let Some(port) = settings.metrics_port {
        let (ctx, status) = (ctx.clone(), status.clone());
        serve(SocketAddr::new(settings.address, port), tasks, move |path, _| match path {
            "/metrics" => (200, METRICS_TYPE, ctx.metrics_text() + &status.metrics_text()),
            "/decisions" => (200, "application/json", status.history().json().to_string()),
            _ => (404, "text/plain", "404 page not found\n".to_owned()),
        })
        .await?;
    }
    if let Some(port) = settings.health_probe_port {
        let status = status.clone();
        serve(SocketAddr::new(settings.address, port), tasks, move |path, query| {
            let (code, text) = probe(path, query, HealthChecks::of(&status));
            (code, "text/plain; charset=utf-8", text)
        })
        .await?;
    }
    Ok(())
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

/// Serves HTTP GET requests. `handler` maps path and query to status code, content type and body.
async fn serve(
    address: SocketAddr,
    tasks: &mut JoinSet<()>,
    handler: impl Fn(&str, &str) -> (u16, &'static str, String) + Send + Sync + 'static,
) -> Result<(), RunError> {
    let listener =
        TcpListener::bind(address).await.map_err(|cause| RunError::Listen { port: address.port(), cause })?;
    let handler = Arc::new(handler);
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            // An accept error, such as too many open files, may be temporary.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            let handler = handler.clone();
            connections.spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let response = respond(&request, handler.as_ref());
                    async move { Ok::<_, Infallible>(response) }
                });
                // A client that closes the connection early is not an error.
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Ok(())
}

fn respond(
    request: &Request<Incoming>,
    handler: &(impl Fn(&str, &str) -> (u16, &'static str, String) + ?Sized),
) -> Response<Full<Bytes>> {
    let (code, content_type, text) = match *request.method() {
        Method::GET | Method::HEAD => handler(request.uri().path(), request.uri().query().unwrap_or_default()),
        _ => (405, "text/plain", "method not allowed\n".to_owned()),
    };
    let response = Response::builder().status(code).header("content-type", content_type).body(Full::from(text));
    response.unwrap_or_else(|_| Response::new(Full::default()))
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
