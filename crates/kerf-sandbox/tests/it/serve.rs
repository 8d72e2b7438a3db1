//! The server on a socket: TLS, the token, the loopback address.

use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig};
use kube::config::{KubeConfigOptions, Kubeconfig};

async fn client_of(kubeconfig: &str, change: impl FnOnce(&mut kube::Config)) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    change(&mut config);
    kube::Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_the_token_are_rejected() {
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 1));
    let serving = server.serve(0).await.unwrap();
    assert!(serving.address().ip().is_loopback());
    let client = client_of(serving.kubeconfig(), |_| {}).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    for token in [None, Some("wrong"), Some("")] {
        let unauthorized = client_of(serving.kubeconfig(), |config| {
            config.auth_info.token = token.map(|token| token.to_string().into());
        })
        .await;
        for path in ["/version", "/healthz", "/api/v1/nodes", "/nothing"] {
            let error =
                unauthorized.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap_err();
            assert!(matches!(&error, kube::Error::Api(status) if status.code == 401), "{path}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_port_that_is_in_use() {
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 1));
    let serving = server.serve(0).await.unwrap();
    let port = serving.address().port();
    let error = server.serve(port).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on 127.0.0.1:{port}"));
}
