#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use kerf_aws::ports::Eks as _;
use kerf_sandbox::{ApiServer, ApiServerConfig};

use super::*;

fn options(cluster_name: &str) -> AccountOptions<'_> {
    AccountOptions {
        cluster_name,
        kubernetes_version: SANDBOX_KUBERNETES_VERSION,
        endpoint: None,
        is_instant: false,
        seed: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn the_sandbox_account_has_what_the_getting_started_guide_sets_up() {
    let aws = memory_aws(Clock::system(), &options("demo"));
    aws.change_account(|account| {
        let tagged =
            |tags: &kerf_aws::ports::Tags| tags.get("karpenter.sh/discovery").is_some_and(|name| name == "demo");
        let zones: Vec<&str> =
            account.subnets.values().filter(|subnet| tagged(&subnet.tags)).map(|subnet| subnet.zone.as_str()).collect();
        assert_eq!(zones, ["us-west-2a", "us-west-2b", "us-west-2c"]);
        assert_eq!(account.security_groups.values().filter(|group| tagged(&group.tags)).count(), 1);
        assert!(account.roles.contains("KarpenterNodeRole-demo"));
    });
    let cluster = aws.describe_cluster("demo").await.unwrap();
    assert_eq!(cluster.version.as_deref(), Some(SANDBOX_KUBERNETES_VERSION));
}

#[tokio::test(start_paused = true)]
async fn the_version_of_the_account_is_that_of_the_sandbox() {
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 0));
    let version = server.client().apiserver_version().await.unwrap();
    assert_eq!(format!("{}.{}", version.major, version.minor), SANDBOX_KUBERNETES_VERSION);
}

#[test]
fn a_class_without_subnets_is_planned_in_all_zones() {
    let mut class = EC2NodeClass::new("default", kerf_api::ec2nodeclass::EC2NodeClassSpec::default());
    assert_eq!(subnets(&planned_class(&class)).len(), 4);
    let own = Subnet { id: "subnet-1".into(), zone: "eu-west-1a".into(), zone_id: None };
    class.status = Some(EC2NodeClassStatus { subnets: Some(vec![own.clone()]), ..EC2NodeClassStatus::default() });
    assert_eq!(subnets(&planned_class(&class)), [own]);
    assert_eq!(foreign_zone(&class), Some("eu-west-1a"));
}
