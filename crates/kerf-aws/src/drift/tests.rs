//! Reasons of drift, on an EC2 in memory.

use kerf_cloud::CloudProvider as _;
use kerf_cloud::Instance;
use serde_json::{Value, json};

use super::*;
use crate::memory::{AwsFault, AwsFaultRule};
use crate::ports::ec2::PlacementGroup;
use crate::testing::{ProviderEnv, claim, on_demand, require};

/// Launches an instance and returns its claim as the controllers write it.
async fn launched(env: &ProviderEnv) -> NodeClaim {
    let claim = claim("a", json!([on_demand(), require(labels::ARCH, &["amd64"])]));
    let instance = env.provider.create(&claim).await.unwrap();
    let Instance { provider_id, labels, annotations, image_id, .. } = instance;
    let mut claim = serde_json::to_value(claim).unwrap();
    claim["metadata"]["labels"] = json!(labels);
    claim["metadata"]["annotations"] = json!(annotations);
    claim["status"] = json!({ "providerID": provider_id, "imageID": image_id });
    let hash = annotations["karpenter.k8s.aws/ec2nodeclass-hash"].clone();
    env.change_class(|class| {
        class["metadata"]["annotations"] = json!({
            "karpenter.k8s.aws/ec2nodeclass-hash": hash,
            "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
        });
    });
    serde_json::from_value(claim).unwrap()
}

async fn drift(env: &ProviderEnv, claim: &NodeClaim) -> Result<Option<String>, String> {
    env.provider.drift(claim).await.map_err(|error| error.to_string())
}

#[allow(clippy::unnecessary_wraps, reason = "compared with the result of a check")]
fn reason(text: &str) -> Result<Option<String>, String> {
    Ok(Some(text.to_owned()))
}

fn changed(claim: &NodeClaim, change: impl FnOnce(&mut Value)) -> NodeClaim {
    let mut value = serde_json::to_value(claim).unwrap();
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_new_instance_has_not_drifted() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    assert_eq!(drift(&env, &claim).await, Ok(None));
}

// spec 06 #78, #79
#[tokio::test(start_paused = true)]
async fn another_hash_of_the_class_is_drift_and_is_reported_before_other_reasons() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    env.change_class(|class| class["metadata"]["annotations"]["karpenter.k8s.aws/ec2nodeclass-hash"] = json!("1"));
    env.aws.clear_calls();
    assert_eq!(drift(&env, &claim).await, reason("NodeClassDrift"));
    env.change_class(|class| {
        class["status"]["amis"][0]["id"] = json!("ami-other");
        class["status"]["securityGroups"] = json!([{ "id": "sg-other" }]);
        class["status"]["subnets"][0]["id"] = json!("subnet-other");
    });
    assert_eq!(drift(&env, &claim).await, reason("NodeClassDrift"));
    assert_eq!(env.operations(), Vec::<&str>::new(), "no call is needed");
    let without_hash = changed(&claim, |claim| {
        claim["metadata"]["annotations"].as_object_mut().unwrap().remove("karpenter.k8s.aws/ec2nodeclass-hash");
    });
    assert_eq!(drift(&env, &without_hash).await, reason("AMIDrift"));
    env.change_class(|class| {
        class["metadata"]["annotations"]["karpenter.k8s.aws/ec2nodeclass-hash-version"] = json!("v5");
    });
    assert_eq!(drift(&env, &claim).await, reason("AMIDrift"), "hashes of two versions are not compared");
}

// spec 06 #80
#[tokio::test(start_paused = true)]
async fn an_image_that_is_not_chosen_for_the_type_is_drift() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    let image = claim.status.as_ref().unwrap().image_id.clone().unwrap();
    env.change_class(|class| {
        let amis = class["status"]["amis"].as_array_mut().unwrap();
        amis[0]["id"] = json!("ami-new");
        // The image is still valid, but only for another architecture.
        amis[1]["id"] = json!(image);
    });
    assert_eq!(drift(&env, &claim).await, reason("AMIDrift"));
    env.change_class(|class| {
        class["status"]["amis"].as_array_mut().unwrap().remove(0);
    });
    assert_eq!(drift(&env, &claim).await, reason("AMIDrift"), "no image is left for the type");
}

// spec 06 #81
#[tokio::test(start_paused = true)]
async fn other_security_groups_or_subnets_are_drift() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    let original = json!({ "id": "sg-00000000000000002" });
    for groups in [json!([original, { "id": "sg-1" }]), json!([{ "id": "sg-1" }])] {
        env.change_class(|class| class["status"]["securityGroups"] = groups.clone());
        assert_eq!(drift(&env, &claim).await, reason("SecurityGroupDrift"), "{groups}");
    }
    env.change_class(|class| {
        class["status"]["securityGroups"] = json!([original]);
        let zone = &claim.metadata.labels.as_ref().unwrap()[labels::ZONE];
        let subnets = class["status"]["subnets"].as_array_mut().unwrap();
        subnets.iter_mut().find(|subnet| subnet["zone"] == json!(zone)).unwrap()["id"] = json!("subnet-1");
    });
    assert_eq!(drift(&env, &claim).await, reason("SubnetDrift"));
}

// spec 06 #82
#[tokio::test(start_paused = true)]
async fn an_empty_status_is_an_error_and_no_drift() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    let with_empty = async |field: &str| {
        let mut before = Value::Null;
        env.change_class(|class| before = class["status"][field].take());
        let result = drift(&env, &claim).await;
        env.change_class(|class| class["status"][field] = before);
        result.unwrap_err()
    };
    assert_eq!(with_empty("amis").await, "no amis exist given constraints");
    assert_eq!(with_empty("securityGroups").await, "no security groups are present in the status");
    // Without subnets there are no instance types, which are checked first.
    assert_eq!(with_empty("subnets").await, "getting instance types, no subnets found");
    assert_eq!(drift(&env, &claim).await, Ok(None));
}

// spec 06 #83
#[tokio::test(start_paused = true)]
async fn incomplete_claims_and_missing_instances_are_errors() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    let no_type = changed(&claim, |claim| {
        claim["metadata"]["labels"].as_object_mut().unwrap().remove(labels::INSTANCE_TYPE);
    });
    assert_eq!(drift(&env, &no_type).await.unwrap_err(), "finding node instance type (instance-type=)");
    let no_image = changed(&claim, |claim| claim["status"]["imageID"] = json!(""));
    assert_eq!(drift(&env, &no_image).await.unwrap_err(), "no ami ID found in nodeClaim status");
    let no_id = changed(&claim, |claim| claim["status"]["providerID"] = Value::Null);
    assert_eq!(drift(&env, &no_id).await.unwrap_err(), "provider id does not match known format (provider-id=)");
    let gone = changed(&claim, |claim| claim["status"]["providerID"] = json!("aws:///us-west-2a/i-0123456789abcdef0"));
    assert_eq!(drift(&env, &gone).await.unwrap_err(), "getting instance, instance i-0123456789abcdef0 not found");
}

// spec 06 #84
#[tokio::test(start_paused = true)]
async fn without_pool_or_class_there_is_no_drift() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    env.change_class(|class| class["status"]["amis"] = json!([]));
    let no_pool = changed(&claim, |claim| {
        claim["metadata"]["labels"].as_object_mut().unwrap().remove(labels::NODEPOOL);
    });
    assert_eq!(drift(&env, &no_pool).await, Ok(None));
    env.change_class(|class| class["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(drift(&env, &claim).await, Ok(None));
    assert_eq!(env.events.texts(), [r#"NodePool/default Warning "" Failed resolving NodeClass"#]);
}

// spec 06 §7, check 6
#[tokio::test(start_paused = true)]
async fn an_instance_in_a_group_that_its_class_no_longer_selects_has_drifted() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    let in_group = changed(&claim, |claim| {
        claim["metadata"]["labels"][aws::PLACEMENT_GROUP_ID] = json!("pg-1");
    });
    assert_eq!(drift(&env, &in_group).await, reason("PlacementGroupDrift"));
}

// spec 06 #85
#[tokio::test(start_paused = true)]
async fn an_instance_drifts_from_a_reservation_that_its_class_does_not_select_unless_it_left_it() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    let id = env.live_instances()[0].instance.id.clone();
    let set_reservation = |reservation: Option<&str>| {
        let mut state = env.aws.state();
        let instance = &mut state.instances.get_mut(&id).unwrap().instance;
        instance.capacity_reservation_id = reservation.map(str::to_owned);
        instance.capacity_reservation_preference = Some("capacity-reservations-only".into());
    };
    set_reservation(Some("cr-1"));
    assert_eq!(drift(&env, &claim).await, reason("CapacityReservationDrift"));
    env.change_class(|class| {
        class["status"]["capacityReservations"] = json!([{
            "availabilityZone": "us-west-2a", "id": "cr-1", "instanceMatchCriteria": "open",
            "instanceType": "m5.large", "ownerID": "111122223333",
        }]);
    });
    assert_eq!(drift(&env, &claim).await, Ok(None));
    env.change_class(|class| class["status"]["capacityReservations"] = json!([]));
    // The record in memory still has the reservation, EC2 does not.
    set_reservation(None);
    assert_eq!(drift(&env, &claim).await, Ok(None));
}

// spec 06 §7, check 6
#[tokio::test(start_paused = true)]
async fn a_claim_drifts_when_the_placement_group_of_its_class_is_another() {
    let env = ProviderEnv::new().await;
    let claim = launched(&env).await;
    let mut group = PlacementGroup { id: "pg-1".into(), name: "racks".into(), ..PlacementGroup::default() };
    (group.state, group.strategy) = ("available".into(), "cluster".into());
    env.aws.change_account(|account| account.placement_groups.insert("pg-1".into(), group));
    env.change_class(|class| class["spec"]["placementGroupSelector"] = json!({"name": "racks"}));
    env.aws.set_faults(vec![AwsFaultRule::always("DescribePlacementGroups", AwsFault::Throttled)]);
    let error = drift(&env, &claim).await.unwrap_err();
    assert!(error.starts_with("resolving placement group, operation error EC2: DescribePlacementGroups"), "{error}");
    env.aws.set_faults(Vec::new());
    assert_eq!(drift(&env, &claim).await, reason("PlacementGroupDrift"));
    let placed = changed(&claim, |claim| {
        claim["metadata"]["labels"]["karpenter.k8s.aws/placement-group-id"] = json!("pg-1");
    });
    assert_eq!(drift(&env, &placed).await, Ok(None));
    // spec 06 #23: an outage keeps the last known group.
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    env.aws.set_faults(vec![AwsFaultRule::always("DescribePlacementGroups", AwsFault::Throttled)]);
    assert_eq!(drift(&env, &placed).await, Ok(None));
    env.change_class(|class| class["spec"]["placementGroupSelector"] = json!(null));
    assert_eq!(drift(&env, &placed).await, reason("PlacementGroupDrift"));
}
