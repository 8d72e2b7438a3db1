//! The connection to the API server: the current context of the kubeconfig, or the pod in which
//! this process runs. Proxies are those of Kubernetes' client in Go where kube differs.

use std::io::ErrorKind;

use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{KubeConfigOptions, KubeconfigError};

use crate::exit::Problem;

/// Returns how to connect to the cluster of the current kubeconfig context, or of the pod in which
/// this process runs. If there is neither, the error is `no_cluster`. If the kubeconfig cannot be
/// used, the error is the reason, with `hint`.
pub(crate) async fn cluster_config(no_cluster: Problem, hint: &str) -> Result<Config, Problem> {
    let Ok(mut config) = Config::infer().await else {
        return Err(missing_cluster_problem(no_cluster, hint).await);
    };
    let variable =
        |names: [&str; 2]| names.iter().find_map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    config.proxy_url = config.proxy_url.take().and_then(|proxy| {
        let environment = ProxyVariables {
            https_proxy: variable(["HTTPS_PROXY", "https_proxy"]).unwrap_or_default(),
            no_proxy: variable(["NO_PROXY", "no_proxy"]).unwrap_or_default(),
        };
        environment.choose_proxy(&config.cluster_url, proxy)
    });
    Ok(config)
}

/// Values of the environment variables for proxies; empty if a variable is not set.
struct ProxyVariables {
    /// `HTTPS_PROXY` or `https_proxy`.
    https_proxy: String,
    /// `NO_PROXY` or `no_proxy`.
    no_proxy: String,
}

impl ProxyVariables {
    /// Returns the proxy of the connection to `server`, or `None` for a direct connection. `found`
    /// is the proxy that kube found in the kubeconfig or in `HTTPS_PROXY`. kube compares `NO_PROXY`
    /// with the address of the proxy instead of the server's, and knows no loopback addresses.
    fn choose_proxy(&self, server: &http::Uri, found: http::Uri) -> Option<http::Uri> {
        if !self.https_proxy.parse::<http::Uri>().is_ok_and(|proxy| proxy == found) {
            // `proxy-url` of the kubeconfig, which applies to any address.
            return Some(found);
        }
        if server.host().is_none_or(is_loopback) {
            return None;
        }
        // The matcher would drop an address with an unknown scheme, which kube reports.
        Matcher::builder().https("http://proxy").no(self.no_proxy.as_str()).build().intercept(server)?;
        // An address without a scheme is that of a proxy over HTTP.
        if found.scheme().is_some() { Some(found) } else { format!("http://{}", self.https_proxy).parse().ok() }
    }
}

/// Returns true for `localhost` and for loopback addresses, which never have a proxy.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the value of `KUBECONFIG`, or `None` if it is unset or empty.
pub(super) fn kubeconfig_variable() -> Option<String> {
    std::env::var("KUBECONFIG").ok().filter(|paths| !paths.is_empty())
}

/// Returns the reason why the kubeconfig leads to no cluster: `no_cluster` if there is none, or
/// the reason why it cannot be used, with `hint`.
async fn missing_cluster_problem(no_cluster: Problem, hint: &str) -> Problem {
    let kubeconfig_paths = kubeconfig_variable();
    let kubeconfig = Config::from_kubeconfig(&KubeConfigOptions::default()).await;
    let message = match kubeconfig.err() {
        Some(KubeconfigError::ReadConfig(cause, path))
            if kubeconfig_paths.is_some() || cause.kind() != ErrorKind::NotFound =>
        {
            format!("{}: cannot be read: {cause}", path.display())
        }
        None | Some(KubeconfigError::FindPath | KubeconfigError::ReadConfig(..)) => return no_cluster,
        Some(KubeconfigError::ParseProxyUrl(cause)) => {
            return Problem::new(format!("the address of the API server's proxy cannot be used: {cause}")).with_hint(
                "set HTTPS_PROXY, or proxy-url of the cluster in the kubeconfig, to an address such as \
                 http://proxy.example.com:3128",
            );
        }
        Some(KubeconfigError::ParseNoProxy(cause)) => {
            return Problem::new(format!("the value of NO_PROXY cannot be used: {cause}")).with_hint(
                "NO_PROXY lists names, addresses and ranges with commas between them, for example \
                 localhost,10.0.0.0/8,.svc",
            );
        }
        Some(cause) => {
            let paths = kubeconfig_paths.as_deref().unwrap_or("~/.kube/config");
            // After its first line a parser's message quotes the file, which may contain secrets.
            let cause = cause.to_string();
            format!("{paths}: cannot be used: {}", cause.lines().next().unwrap_or_default())
        }
    };
    Problem::new(message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    const PROXY: &str = "http://proxy.example.com:3128";

    /// Returns the proxy for a server if `found` is the proxy that kube found.
    fn proxy(server: &str, found: &str, https_proxy: &str, no_proxy: &str) -> Option<String> {
        let environment = ProxyVariables { https_proxy: https_proxy.to_owned(), no_proxy: no_proxy.to_owned() };
        let proxy = environment.choose_proxy(&server.parse().unwrap(), found.parse().unwrap());
        proxy.map(|proxy| proxy.to_string().trim_end_matches('/').to_owned())
    }

    #[test]
    fn the_proxy_of_the_environment_is_used_unless_no_proxy_has_the_server() {
        let environment = |server: &str, no_proxy: &str| proxy(server, PROXY, PROXY, no_proxy).is_some();
        let eks = "https://0123.gr7.us-west-2.eks.amazonaws.com";
        assert!(environment(eks, "") && environment(eks, "localhost,.svc,10.0.0.0/8"));
        assert!(
            !environment(eks, ".eks.amazonaws.com") && !environment(eks, "a, 0123.gr7.us-west-2.eks.amazonaws.com")
        );
        assert!(!environment(eks, "*"));
        assert!(
            !environment("https://172.20.0.1:443", "172.20.0.0/16")
                && environment("https://172.21.0.1", "172.20.0.0/16")
        );
        // The address of the proxy itself says nothing about the server.
        assert!(environment(eks, "proxy.example.com"));
    }

    #[test]
    fn a_loopback_address_has_no_proxy() {
        for server in ["https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443", "http://127.1.2.3"] {
            assert_eq!(proxy(server, PROXY, PROXY, ""), None, "{server}");
        }
    }

    #[test]
    fn the_proxy_of_the_kubeconfig_is_used_for_any_server() {
        let of_kubeconfig = |server: &str| proxy(server, "http://10.0.0.7:80", PROXY, "*");
        assert_eq!(of_kubeconfig("https://127.0.0.1:6443").as_deref(), Some("http://10.0.0.7:80"));
        assert_eq!(of_kubeconfig("https://api.example.com").as_deref(), Some("http://10.0.0.7:80"));
    }

    #[test]
    fn a_proxy_without_a_scheme_is_one_over_http_and_credentials_are_kept() {
        let of = |address: &str| proxy("https://api.example.com", address, address, "");
        assert_eq!(of("proxy:3128").as_deref(), Some("http://proxy:3128"));
        assert_eq!(of("http://user:secret@proxy:3128").as_deref(), Some("http://user:secret@proxy:3128"));
        assert_eq!(of("ftp://proxy").as_deref(), Some("ftp://proxy"), "kube rejects it");
        assert_eq!(of("socks5://proxy:1080").as_deref(), Some("socks5://proxy:1080"));
    }
}
