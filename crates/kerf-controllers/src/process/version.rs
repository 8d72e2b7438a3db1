//! Checks the version of Kubernetes (spec 07 §11). A version with which Kerf was not tested is
//! logged as an error, once per version. Nothing else happens: clusters are upgraded while
//! controllers run, and that usually works.

use std::ops::RangeInclusive;
use std::time::Duration;

use kerf_runtime::Causes;
use kube::Client;
use tracing::{debug, error};

/// Minor versions of Kubernetes 1 that Kerf supports.
const SUPPORTED_MINORS: RangeInclusive<u32> = 26..=36;
/// Time between two requests for the version.
const VERSION_CHECK_INTERVAL: Duration = Duration::from_mins(5);

/// Polls the version of the API server and logs changes. Never returns.
pub(super) async fn poll_version(client: Client) {
    let mut known = String::new();
    loop {
        match client.apiserver_version().await {
            Ok(info) => {
                // Some providers append `+` to the minor version of their builds.
                let version = format!("{}.{}", info.major, info.minor.trim_end_matches('+'));
                if version != known {
                    log_version(&version);
                    known = version;
                }
            }
            Err(cause) => debug!(error = %Causes(&cause), "failed reading the version of kubernetes"),
        }
        tokio::time::sleep(VERSION_CHECK_INTERVAL).await;
    }
}

fn log_version(version: &str) {
    debug!(version, "discovered kubernetes version");
    if !is_supported(version) {
        let supported = format!("1.{} to 1.{}", SUPPORTED_MINORS.start(), SUPPORTED_MINORS.end());
        error!(version, supported, "karpenter is not compatible with kubernetes version");
    }
}

fn is_supported(version: &str) -> bool {
    let minor = version.strip_prefix("1.").and_then(|minor| minor.parse().ok());
    minor.is_some_and(|minor| SUPPORTED_MINORS.contains(&minor))
}

#[cfg(test)]
mod tests {

    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use http_body_util::Full;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use kerf_operator::logs::capturing_subscriber;
    use kerf_operator::logs::{Level, LineFormat};

    /// Returns a client of an API server that reports the next version at each request. It repeats
    /// the last one.
    fn upgrading_server(minors: &'static [&'static str]) -> Client {
        let request_count = Arc::new(Mutex::new(0));
        let service = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(request.uri().path(), "/version");
            let mut request_count = request_count.lock().unwrap();
            let minor = minors[(*request_count).min(minors.len() - 1)];
            *request_count += 1;
            let version = json!({"major": "1", "minor": minor, "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
            let status = if minor.is_empty() { 503 } else { 200 };
            let response = Response::builder().status(status).body(Full::from(version.to_string())).unwrap();
            std::future::ready(Ok::<_, std::convert::Infallible>(response))
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn spec_07_67_one_error_per_version_change() {
        let (subscriber, lines) = capturing_subscriber(Level::Debug, LineFormat::Json);
        let _log = tracing::subscriber::set_default(subscriber);
        let polling = poll_version(upgrading_server(&["36", "36+", "37", "", "37", "37", "38", "25", "26"]));
        let _ = tokio::time::timeout(Duration::from_hours(1), polling).await;
        let text = lines.text();
        let parsed: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let versions = |level: &str, message: &str| {
            let matching = parsed.iter().filter(|line| line["level"] == level && line["message"] == message);
            matching.map(|line| line["version"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let incompatible = "karpenter is not compatible with kubernetes version";
        assert_eq!(versions("ERROR", incompatible), ["1.37", "1.38", "1.25"], "{text}");
        assert_eq!(versions("DEBUG", "discovered kubernetes version"), ["1.36", "1.37", "1.38", "1.25", "1.26"]);
        assert_eq!(parsed.len(), 3 + 5 + 1, "{text}");
    }

    #[test]
    fn invalid_versions_are_not_supported() {
        assert!(is_supported("1.26") && is_supported("1.36"));
        for version in ["1.25", "1.37", "2.30", "1.", "1.x", ""] {
            assert!(!is_supported(version), "{version}");
        }
    }
}
