//! One kind of EC2 node from its pods to its termination.

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

#[tokio::test(start_paused = true)]
async fn an_interrupted_instance_is_replaced() {
    let sandbox = AwsSandbox::start().await;
    sandbox.apply(GETTING_STARTED, |_| {}).await;
    sandbox.apply(INFLATE, |_| {}).await;
    sandbox.wait_until("five pods run", 120, async |sandbox| sandbox.running_pods().await == 5).await;
    let lost = sandbox.live_instances().remove(0).instance.id;
    assert!(sandbox.aws.fail_instance(&lost, "Server.SpotInstanceTermination"));
    sandbox
        .wait_until("five pods run again, without the lost instance", 600, async |sandbox| {
            let claims = sandbox.list(NODE_CLAIMS).await;
            let is_gone = !claims.iter().any(|claim| claim["status"]["providerID"].to_string().contains(&lost));
            is_gone && sandbox.running_pods().await == 5
        })
        .await;
}
