//! Tests of the facts about the cluster against the EKS in memory and the sandbox's API server.

use kerf_sandbox::{ApiServer, ApiServerConfig};
use kube::api::PostParams;
use serde_json::json;

use super::*;
use crate::memory::testing::aws;
use crate::memory::{AwsFault, AwsFaultRule, MemoryAws};

fn discovery(aws: &MemoryAws, change: impl FnOnce(&mut AwsSettings)) -> (ClusterDiscovery, Client, ApiServer) {
    let mut settings = AwsSettings::new("demo");
    settings.eks_control_plane = true;
    change(&mut settings);
    let server = ApiServer::new(ApiServerConfig::new(aws.clock(), 7));
    let client = server.client_as("test");
    (ClusterDiscovery::new(aws.ports(), settings, client.clone(), aws.clock()), client, server)
}

async fn set_dns_service(client: &Client, cluster_ip: &str) {
    let services: Api<Service> = Api::namespaced(client.clone(), "kube-system");
    let service = json!({"metadata": {"name": "kube-dns"}, "spec": {"clusterIP": cluster_ip, "ports": [{"port": 53}]}});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn facts_come_from_eks_and_the_api_server() {
    let aws = aws();
    let (discovery, client, _server) = discovery(&aws, |settings| {
        settings.cluster_ca_bundle = Some("Y2E=".to_owned());
    });
    set_dns_service(&client, "10.100.0.10").await;
    assert_eq!(discovery.facts().get().region, "us-west-2");
    discovery.load().await.unwrap();
    let facts = discovery.facts().get();
    assert!(facts.endpoint.starts_with("https://0123456789ABCDEF"), "{}", facts.endpoint);
    assert_eq!(facts.dns_address.unwrap().to_string(), "10.100.0.10");
    assert_eq!((facts.kubernetes_version.as_str(), facts.ca_bundle.as_deref()), ("1.34", Some("Y2E=")));
    assert_eq!((facts.service_cidr.clone(), facts.is_ipv6()), (None, false));
}

#[tokio::test(start_paused = true)]
async fn without_eks_the_settings_and_the_api_server_decide() {
    let aws = aws();
    let (discovery, _client, _server) = discovery(&aws, |settings| {
        settings.eks_control_plane = false;
        settings.cluster_endpoint = Some("https://example.com".to_owned());
    });
    discovery.load().await.unwrap();
    let facts = discovery.facts().get();
    assert_eq!((facts.endpoint.as_str(), facts.dns_address), ("https://example.com", None));
    assert!(facts.kubernetes_version.starts_with("1."), "{}", facts.kubernetes_version);
    assert!(aws.calls().is_empty(), "EKS is not needed");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_cluster_is_an_error_that_names_it() {
    let (discovery, _client, _server) = discovery(&aws(), |settings| settings.cluster_name = "missing".to_owned());
    let text = discovery.load().await.unwrap_err().to_string();
    assert!(text.starts_with("describing cluster missing, operation error EKS: DescribeCluster"), "{text}");
}

// spec 05 §6: custom DNS set-ups
#[tokio::test(start_paused = true)]
async fn a_dns_service_without_an_address_is_no_error() {
    let aws = aws();
    let (discovery, client, _server) = discovery(&aws, |_| {});
    set_dns_service(&client, "None").await;
    discovery.load().await.unwrap();
    assert_eq!(discovery.facts().get().dns_address, None);
}

// spec 06 #59, #60
#[tokio::test(start_paused = true)]
async fn the_service_cidr_is_read_once() {
    let aws = aws();
    let (discovery, _client, _server) = discovery(&aws, |_| {});
    let unavailable = AwsFault::Error { status: 503, code: "ServiceUnavailable".to_owned(), message: String::new() };
    aws.set_faults(vec![AwsFaultRule::once("DescribeCluster", unavailable)]);
    assert!(discovery.resolve_service_cidr().await.unwrap_err().is_server_fault());
    aws.change_account(|account| {
        let cluster = account.clusters.get_mut("demo").unwrap();
        cluster.service_ipv4_cidr = None;
    });
    let error = discovery.resolve_service_cidr().await.unwrap_err();
    assert_eq!(error.to_string(), "no CIDR found in DescribeCluster response");
    assert!(!error.is_server_fault());
    aws.change_account(|account| {
        account.clusters.get_mut("demo").unwrap().service_ipv6_cidr = Some("fd30::/108".to_owned());
    });
    aws.clear_calls();
    discovery.resolve_service_cidr().await.unwrap();
    discovery.resolve_service_cidr().await.unwrap();
    assert_eq!(discovery.facts().get().service_cidr.as_deref(), Some("fd30::/108"));
    assert_eq!(aws.calls().len(), 1);
}

// spec 06 §16.3
#[tokio::test(start_paused = true)]
async fn an_unsupported_version_is_used_and_reported_once_a_day() {
    let aws = aws();
    let (discovery, _client, _server) = discovery(&aws, |_| {});
    discovery.load().await.unwrap();
    let set_version = |version: &str| {
        aws.change_account(|account| account.clusters.get_mut("demo").unwrap().version = Some(version.to_owned()));
    };
    let refresh = VersionRefresh(Arc::new(discovery));
    let run = async || refresh.reconcile(&Str::new_static("")).await.map_err(|error| error.to_string());
    assert_eq!(run().await.unwrap(), ReconcileAction::RequeueAfter(Duration::from_mins(5)));
    set_version("1.30");
    let text = "updating version, validating kubernetes version, karpenter is not compatible with kubernetes version \
                (version=1.30)";
    assert_eq!(run().await.unwrap_err(), text);
    assert_eq!(refresh.0.facts().get().kubernetes_version, "1.30");
    assert!(run().await.is_ok());
    tokio::time::advance(Duration::from_hours(24)).await;
    assert_eq!(run().await.unwrap_err(), text);
    aws.set_faults(vec![AwsFaultRule::once("DescribeCluster", AwsFault::Throttled)]);
    set_version("1.37");
    assert!(run().await.is_err());
    assert_eq!(refresh.0.facts().get().kubernetes_version, "1.30", "a failed call keeps the old version");
    assert!(run().await.is_ok());
    assert_eq!(refresh.0.facts().get().kubernetes_minor(), 37);
}
