//! Mistakes in a node class and failures of EC2: a condition or an Event says what is wrong, and
//! nothing else stops working.

use kerf_aws::memory::{AwsFault, AwsFaultRule};

use super::*;

/// Applies the example with a changed class, beside a class `good` with a pool of its own, and
/// returns status and message of a condition of the changed class.
async fn class_condition(change: impl Fn(&mut Value), name: &str) -> (String, String) {
    let sandbox = AwsSandbox::start().await;
    sandbox
        .apply(GETTING_STARTED, |object| {
            if object["kind"] == "EC2NodeClass" {
                change(object);
            }
        })
        .await;
    sandbox
        .apply(GETTING_STARTED, |object| {
            object["metadata"]["name"] = json!("good");
            if object["kind"] == "NodePool" {
                object["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("good");
            }
        })
        .await;
    sandbox.apply(INFLATE, |_| {}).await;
    sandbox.wait_until("the pods run on the good pool", 180, async |sandbox| sandbox.running_pods().await == 5).await;
    let class = sandbox.get(NODE_CLASSES, "default").await;
    assert_ne!(condition(&class, "Ready").0, "True", "{class:#}");
    condition(&class, name)
}

#[tokio::test(start_paused = true)]
async fn a_class_without_subnets_says_so() {
    let (status, message) = class_condition(
        |class| class["spec"]["subnetSelectorTerms"] = json!([{"tags": {"karpenter.sh/discovery": "nothing"}}]),
        "SubnetsReady",
    )
    .await;
    assert_eq!(status, "False");
    assert!(message.contains("SubnetSelector did not match any Subnets"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_role_that_does_not_exist_is_named() {
    let (status, message) =
        class_condition(|class| class["spec"]["role"] = json!("NoSuchRole"), "InstanceProfileReady").await;
    assert_eq!((status.as_str(), message.as_str()), ("Unknown", "Role \"NoSuchRole\" does not exist"));
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_fails_is_an_event_and_is_tried_again() {
    let sandbox = AwsSandbox::start().await;
    let denied = AwsFault::Error {
        status: 403,
        code: "UnauthorizedOperation".to_owned(),
        message: "You are not authorized to perform this operation.".to_owned(),
    };
    sandbox.aws.set_faults(vec![AwsFaultRule::always("CreateFleet", denied)]);
    sandbox.apply(GETTING_STARTED, |_| {}).await;
    sandbox.apply(INFLATE, |_| {}).await;
    sandbox
        .wait_until("a claim says why it was not launched", 120, async |sandbox| {
            let claims = sandbox.list(NODE_CLAIMS).await;
            claims.iter().any(|claim| condition(claim, "Launched").1.contains("not authorized"))
        })
        .await;
    assert_eq!(sandbox.live_instances().len(), 0);
    sandbox.aws.set_faults(Vec::new());
    sandbox.wait_until("the pods run", 600, async |sandbox| sandbox.running_pods().await == 5).await;
}
