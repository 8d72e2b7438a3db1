//! One kind of EC2 node from its pods to its termination.

use kerf_sandbox::SimulatedCloud as _;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_example_launches_registers_and_terminates_ec2_nodes() {
    let sandbox = AwsSandbox::start().await;
    sandbox.apply(GETTING_STARTED, |_| {}).await;
    sandbox.apply(INFLATE, |_| {}).await;
    sandbox.wait_until("five pods run", 120, async |sandbox| sandbox.running_pods().await == 5).await;

    let class = sandbox.get(NODE_CLASSES, "default").await;
    assert_eq!(condition(&class, "Ready"), ("True".to_owned(), String::new()));
    assert_eq!(class["status"]["subnets"].as_array().unwrap().len(), 3);
    assert_eq!(class["status"]["securityGroups"].as_array().unwrap().len(), 1);

    let (nodes, instances) = (sandbox.list(NODES).await, sandbox.live_instances());
    assert_eq!(nodes.len(), instances.len());
    for node in &nodes {
        let name = node["metadata"]["name"].as_str().unwrap();
        let address = node["status"]["addresses"][0]["address"].as_str().unwrap();
        assert_eq!(name, format!("ip-{}.us-west-2.compute.internal", address.replace('.', "-")));
        let id = node["spec"]["providerID"].as_str().unwrap();
        let launched = instances.iter().find(|launched| id.ends_with(&format!("/{}", launched.instance.id))).unwrap();
        let instance = &launched.instance;
        assert_eq!(id, format!("aws:///{}/{}", instance.zone, instance.id));
        assert_eq!(node["metadata"]["name"], instance.private_dns_name.as_str());
        let labels = &node["metadata"]["labels"];
        for (label, value) in [
            ("topology.kubernetes.io/zone", instance.zone.as_str()),
            ("topology.k8s.aws/zone-id", &instance.zone_id),
            ("node.kubernetes.io/instance-type", &instance.instance_type),
            ("karpenter.sh/capacity-type", "on-demand"),
            ("karpenter.sh/nodepool", "default"),
            ("karpenter.sh/registered", "true"),
            ("karpenter.sh/initialized", "true"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ] {
            assert_eq!(labels[label], value, "{label} of {labels:#}");
        }
        let (family, _) = instance.instance_type.split_once('.').unwrap();
        assert_eq!(labels["karpenter.k8s.aws/instance-family"], family);
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        assert_eq!(taints, Vec::<Value>::new());
        // The estimate of the claim must not exceed what the node has, or its pods would not fit.
        let claims = sandbox.list(NODE_CLAIMS).await;
        let claim = claims.iter().find(|claim| claim["status"]["providerID"] == id).unwrap();
        assert_eq!(claim["status"]["nodeName"], node["metadata"]["name"]);
        for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
            let read = |object: &Value| {
                let text = object["status"]["allocatable"][resource].as_str().unwrap_or("0").to_owned();
                text.parse::<kerf_api::quantity::Quantity>().unwrap().nanos()
            };
            assert!(read(node) >= read(claim), "{resource}: {} {}", node["status"], claim["status"]);
        }
    }

    sandbox.scale(0).await;
    sandbox
        .wait_until("no instance runs", 300, async |sandbox| {
            sandbox.live_instances().is_empty() && sandbox.list(NODE_CLAIMS).await.is_empty()
        })
        .await;
    assert_eq!(sandbox.list(NODES).await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_zone_get_a_node_there() {
    let sandbox = AwsSandbox::start().await;
    sandbox.apply(GETTING_STARTED, |_| {}).await;
    sandbox
        .apply(INFLATE, |object| {
            object["spec"]["template"]["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "us-west-2c"});
        })
        .await;
    sandbox.wait_until("five pods run", 120, async |sandbox| sandbox.running_pods().await == 5).await;
    let zones: Vec<String> = sandbox.live_instances().into_iter().map(|launched| launched.instance.zone).collect();
    assert!(zones.iter().all(|zone| zone == "us-west-2c") && !zones.is_empty(), "{zones:?}");
}

/// Changes the example so that its nodes are spot instances.
fn on_spot(object: &mut Value) {
    if object["kind"] == "NodePool" {
        object["spec"]["template"]["spec"]["requirements"][2]["values"] = json!(["spot"]);
    }
}

/// Waits until five pods run without the instance.
async fn wait_until_replaced(sandbox: &AwsSandbox, lost: &str) {
    sandbox
        .wait_until("five pods run again, without the lost instance", 600, async |sandbox| {
            let claims = sandbox.list(NODE_CLAIMS).await;
            let is_gone = !claims.iter().any(|claim| claim["status"]["providerID"].to_string().contains(lost));
            is_gone && sandbox.running_pods().await == 5
        })
        .await;
}

// spec 07 §13 I
#[tokio::test(start_paused = true)]
async fn an_interrupted_spot_instance_is_drained_within_its_notice() {
    let sandbox = AwsSandbox::start().await;
    sandbox.apply(GETTING_STARTED, on_spot).await;
    sandbox.apply(INFLATE, |_| {}).await;
    sandbox.wait_until("five pods run", 120, async |sandbox| sandbox.running_pods().await == 5).await;
    let lost = sandbox.live_instances().remove(0).instance;
    assert_eq!(lost.lifecycle.as_deref(), Some("spot"));
    let node = lost.private_dns_name.clone();
    sandbox.cluster.instances().terminate(&node);
    sandbox
        .wait_until("the node is deleted before the notice ends", 115, async |sandbox| {
            let nodes = sandbox.list(NODES).await;
            !nodes.iter().any(|own| own["metadata"]["name"] == node.as_str())
        })
        .await;
    wait_until_replaced(&sandbox, &lost.id).await;
    let events = sandbox.list(EVENTS).await;
    assert!(events.iter().any(|event| event["reason"] == "SpotInterrupted"), "{events:#?}");
    assert_eq!(sandbox.aws.queued_messages(SANDBOX_CLUSTER_NAME), [""; 0], "every message is deleted");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_lost_without_notice_is_replaced() {
    let sandbox = AwsSandbox::start().await;
    sandbox.apply(GETTING_STARTED, |_| {}).await;
    sandbox.apply(INFLATE, |_| {}).await;
    sandbox.wait_until("five pods run", 120, async |sandbox| sandbox.running_pods().await == 5).await;
    let lost = sandbox.live_instances().remove(0).instance.id;
    assert!(sandbox.aws.fail_instance(&lost, "Server.InternalError"));
    wait_until_replaced(&sandbox, &lost).await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_sandbox_affect_launches() {
    let sandbox = AwsSandbox::start().await;
    let out =
        CloudFaultRule { until: Some(Duration::from_mins(4)), ..CloudFaultRule::new(CloudFault::StockOut, 1_000_000) };
    let throttled =
        CloudFaultRule { until: Some(Duration::from_mins(2)), ..CloudFaultRule::new(CloudFault::Throttled, 1_000_000) };
    sandbox.cluster.cloud().set_faults(vec![out, throttled], 1);
    sandbox.apply(GETTING_STARTED, |_| {}).await;
    sandbox.apply(INFLATE, |_| {}).await;
    tokio::time::sleep(Duration::from_secs(235)).await;
    assert_eq!(sandbox.live_instances().len(), 0);
    let errors = |code: &str| {
        let fleets = sandbox.aws.calls().into_iter().filter(|call| call.operation == "CreateFleet");
        fleets.filter(|call| call.error.as_deref() == Some(code)).count()
    };
    assert!(errors("RequestLimitExceeded") > 0);
    let events = sandbox.list(EVENTS).await;
    assert!(events.iter().any(|event| event["reason"] == "InsufficientCapacityError"), "{events:#?}");
    sandbox.wait_until("five pods run", 600, async |sandbox| sandbox.running_pods().await == 5).await;
}

/// Changes the account by hand.
fn change(sandbox: &AwsSandbox, step: &str) -> Vec<String> {
    let cloud = sandbox.cluster.api().attached_cloud_as::<SimulatedEc2>().unwrap();
    cloud.perform(&serde_yaml_ng::from_str(step).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nodes_of_the_latest_images_drift_soon_after_images_are_published_by_hand() {
    let sandbox = AwsSandbox::start().await;
    sandbox
        .apply(GETTING_STARTED, |object| {
            if object["kind"] == "EC2NodeClass" {
                object["spec"]["amiSelectorTerms"] = json!([{"alias": "al2023@latest"}]);
            }
        })
        .await;
    sandbox.apply(INFLATE, |_| {}).await;
    sandbox.wait_until("five pods run", 120, async |sandbox| sandbox.running_pods().await == 5).await;
    let lost = sandbox.live_instances().remove(0).instance;
    change(&sandbox, "publishImages: {release: '20260115', bottlerocket: 1.53.0}");
    sandbox
        .wait_until("the node is replaced", 900, async |sandbox| {
            sandbox.live_instances().iter().all(|live| live.instance.image_id != lost.image_id)
        })
        .await;
}

// spec 06 #100
#[tokio::test(start_paused = true)]
async fn a_status_check_by_hand_fails_from_now_on() {
    let sandbox = AwsSandbox::start().await;
    sandbox.apply(GETTING_STARTED, |_| {}).await;
    sandbox.apply(INFLATE, |_| {}).await;
    sandbox.wait_until("five pods run", 120, async |sandbox| sandbox.running_pods().await == 5).await;
    let instance = sandbox.live_instances().remove(0).instance;
    let lines = change(&sandbox, "statusCheck: {instances: {}, fails: system}");
    assert!(lines.len() == 1 && lines[0].starts_with(&format!("statusCheck: {} (", instance.id)), "{lines:?}");
    let is_deleted = async |sandbox: &AwsSandbox| {
        let claims = sandbox.list(NODE_CLAIMS).await;
        claims.iter().any(|claim| !claim["metadata"]["deletionTimestamp"].is_null())
            || sandbox.live_instances().iter().all(|live| live.instance.id != instance.id)
    };
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert!(!is_deleted(&sandbox).await, "not before two minutes");
    sandbox.wait_until("the claim is deleted", 120, is_deleted).await;
}
