//! A client that counts, times and limits its requests (spec 07 §6.7). The process wraps its client
//! once, before it passes the client on: then every request is counted, and none twice.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Uri};
use kerf_runtime::Clock;
use kube::Client;
use kube::client::Body;

use crate::metrics::Metrics;

/// Time limit from sending a request to the head of its response. API servers answer or reject a
/// request within a minute.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);

/// A request without a response.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not respond within {} s", RESPONSE_TIMEOUT.as_secs())]
struct NoResponse;

/// Wraps a client so that its requests have a time limit and are counted and timed in `metrics`.
pub fn metered_client(client: Client, metrics: Arc<Metrics>, clock: Clock) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, metrics) = (client.clone(), metrics.clone());
        async move {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let started = clock.elapsed();
            let response = tokio::time::timeout(RESPONSE_TIMEOUT, client.send(request)).await;
            let response = response.unwrap_or_else(|_| Err(kube::Error::Service(Box::new(NoResponse))));
            let took = clock.elapsed().saturating_sub(started).as_secs_f64();
            let code = response
                .as_ref()
                .map_or_else(|_| "<error>".to_owned(), |response| response.status().as_str().to_owned());
            metrics.client_requests.inc(&[&code, method.as_str()]);
            let info = RequestInfo::of(&uri);
            let labels = [info.verb(&method), info.group, info.version, info.kind, info.subresource];
            metrics.client_request_duration.observe(&labels, took);
            response
        }
    });
    Client::new(service, namespace)
}

/// The resource that a request names, parsed from its URL path.
#[derive(Debug, Default, PartialEq, Eq)]
struct RequestInfo<'u> {
    group: &'u str,
    version: &'u str,
    kind: &'u str,
    name: &'u str,
    subresource: &'u str,
}

impl<'u> RequestInfo<'u> {
    fn of(uri: &'u Uri) -> Self {
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
        let mut info = Self::default();
        match parts.next() {
            Some("api") => info.version = parts.next().unwrap_or_default(),
            Some("apis") => {
                info.group = parts.next().unwrap_or_default();
                info.version = parts.next().unwrap_or_default();
            }
            Some(_) | None => return info,
        }
        let rest: Vec<&str> = parts.collect();
        // Skip the namespace, unless the path names the namespace itself.
        let rest = if rest.len() > 2 && rest[0] == "namespaces" { &rest[2..] } else { &rest[..] };
        let part = |n: usize| rest.get(n).copied().unwrap_or_default();
        (info.kind, info.name, info.subresource) = (part(0), part(1), part(2));
        info
    }

    fn verb(&self, method: &Method) -> &'static str {
        match *method {
            Method::GET if self.name.is_empty() => "LIST",
            Method::GET => "GET",
            Method::POST => "CREATE",
            Method::PUT => "UPDATE",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 07 §6.7
    #[test]
    fn a_path_is_parsed_into_group_version_kind_and_subresource() {
        let describe = |path: &'static str| {
            let uri = Uri::from_static(path);
            let info = RequestInfo::of(&uri);
            let (get, post) = (info.verb(&Method::GET), info.verb(&Method::POST));
            format!("{get}/{post} {} {} {} {}", info.group, info.version, info.kind, info.subresource)
        };
        assert_eq!(describe("/api/v1/pods?watch=true"), "LIST/CREATE  v1 pods ");
        assert_eq!(describe("/api/v1/namespaces/a/pods/p/eviction"), "GET/CREATE  v1 pods eviction");
        assert_eq!(describe("/api/v1/namespaces/a"), "GET/CREATE  v1 namespaces ");
        assert_eq!(
            describe("/apis/karpenter.sh/v1/nodeclaims/c/status"),
            "GET/CREATE karpenter.sh v1 nodeclaims status"
        );
        assert_eq!(describe("/version"), "LIST/CREATE    ");
    }
}
