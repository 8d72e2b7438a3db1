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
async fn nothing_is_answered_without_the_token() {
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 1));
    let serving = server.serve(0).await.unwrap();
    assert!(serving.address().ip().is_loopback());
    let client = client_of(serving.kubeconfig(), |_| {}).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    for token in [None, Some("wrong"), Some("")] {
        let stranger = client_of(serving.kubeconfig(), |config| {
            config.auth_info.token = token.map(|token| token.to_string().into());
        })
        .await;
        for path in ["/version", "/healthz", "/api/v1/nodes", "/nothing"] {
            let refused = stranger.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap_err();
            assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{path}: {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named() {
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 1));
    let serving = server.serve(0).await.unwrap();
    let port = serving.address().port();
    let refused = server.serve(port).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("cannot listen on 127.0.0.1:{port}"));
}
