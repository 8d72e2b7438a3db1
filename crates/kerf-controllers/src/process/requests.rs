//! A client that counts and times its requests (spec 07 §6.7). The process wraps its client once,
//! before it passes the client on: then every request is counted, and none twice.

use std::sync::Arc;

use http::{Method, Request, Uri};
use kerf_runtime::Clock;
use kube::Client;
use kube::client::Body;

use crate::metrics::Metrics;

/// Wraps a client so that its requests are counted and timed in `metrics`.
pub fn metered_client(client: Client, metrics: Arc<Metrics>, clock: Clock) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, metrics) = (client.clone(), metrics.clone());
        async move {
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let started = clock.elapsed();
            let answer = client.send(request).await;
            let took = clock.elapsed().saturating_sub(started).as_secs_f64();
            let code =
                answer.as_ref().map_or_else(|_| "<error>".to_owned(), |answer| answer.status().as_str().to_owned());
            metrics.client_requests.inc(&[&code, method.as_str()]);
            let asked = RequestInfo::of(&uri);
            let labels = [asked.verb(&method), asked.group, asked.version, asked.kind, asked.subresource];
            metrics.client_request_duration.observe(&labels, took);
            answer
        }
    });
    Client::new(service, namespace)
}

/// What a request is for, parsed from its URL path.
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
        let mut asked = Self::default();
        match parts.next() {
            Some("api") => asked.version = parts.next().unwrap_or_default(),
            Some("apis") => {
                asked.group = parts.next().unwrap_or_default();
                asked.version = parts.next().unwrap_or_default();
            }
            Some(_) | None => return asked,
        }
        let rest: Vec<&str> = parts.collect();
        // Skip the namespace, unless the path names the namespace itself.
        let rest = if rest.len() > 2 && rest[0] == "namespaces" { &rest[2..] } else { &rest[..] };
        let part = |n: usize| rest.get(n).copied().unwrap_or_default();
        (asked.kind, asked.name, asked.subresource) = (part(0), part(1), part(2));
        asked
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
    fn a_path_says_what_is_asked_for() {
        let asked = |path: &'static str| {
            let uri = Uri::from_static(path);
            let asked = RequestInfo::of(&uri);
            let (get, post) = (asked.verb(&Method::GET), asked.verb(&Method::POST));
            format!("{get}/{post} {} {} {} {}", asked.group, asked.version, asked.kind, asked.subresource)
        };
        assert_eq!(asked("/api/v1/pods?watch=true"), "LIST/CREATE  v1 pods ");
        assert_eq!(asked("/api/v1/namespaces/a/pods/p/eviction"), "GET/CREATE  v1 pods eviction");
        assert_eq!(asked("/api/v1/namespaces/a"), "GET/CREATE  v1 namespaces ");
        assert_eq!(asked("/apis/karpenter.sh/v1/nodeclaims/c/status"), "GET/CREATE karpenter.sh v1 nodeclaims status");
        assert_eq!(asked("/version"), "LIST/CREATE    ");
    }
}
