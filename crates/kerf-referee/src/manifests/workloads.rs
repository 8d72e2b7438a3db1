//! The pods that workloads still lack: replicas less the pods in the input that they own (spec 09
//! §2.1).

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use super::{ManifestError, decode};
use crate::placement::namespace;

/// Returns the pods that the workloads lack, named `<workload>-<n>` with the lowest free numbers.
pub(super) fn missing_pods(workloads: &[&Value], pods: &[Pod]) -> Result<Vec<Pod>, ManifestError> {
    let mut missing = Vec::new();
    for &workload in workloads {
        if is_owned_by_another(workload, workloads) {
            continue;
        }
        let own_namespace = workload["metadata"]["namespace"].as_str().unwrap_or("default");
        let name = workload["metadata"]["name"].as_str().unwrap_or_default();
        let owned_count =
            pods.iter().filter(|pod| namespace(pod) == own_namespace && owns_pod(workload, workloads, pod)).count();
        let template: PodTemplateSpec = decode(&workload["spec"]["template"])?;
        let is_name_used = |candidate: &String| {
            pods.iter().any(|pod| namespace(pod) == own_namespace && pod.metadata.name.as_ref() == Some(candidate))
        };
        let names = (0..).map(|n| format!("{name}-{n}")).filter(|candidate| !is_name_used(candidate));
        for name in names.take(desired_pods(workload).saturating_sub(owned_count)) {
            missing.push(pod_from_template(&template, workload, own_namespace, name));
        }
    }
    Ok(missing)
}

/// Returns the number of pods that the workload runs at once.
fn desired_pods(workload: &Value) -> usize {
    let spec = &workload["spec"];
    let number = |key: &str| spec[key].as_u64();
    let count = if workload["kind"] == "Job" {
        let finished = workload["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|c| (c["type"] == "Complete" || c["type"] == "Failed") && c["status"] == "True")
        });
        let idle = finished || spec["suspend"] == true;
        let parallel = number("parallelism").unwrap_or(1);
        if idle { 0 } else { parallel.min(number("completions").unwrap_or(parallel)) }
    } else {
        number("replicas").unwrap_or(1)
    };
    usize::try_from(count).unwrap_or(0)
}

/// Returns true if another workload of the input owns this one, so that a Deployment's ReplicaSet
/// does not count twice.
fn is_owned_by_another(workload: &Value, workloads: &[&Value]) -> bool {
    let owners = workload["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| {
        owners.iter().any(|owner| {
            workloads.iter().any(|other| {
                other["kind"] == owner["kind"]
                    && other["metadata"]["name"] == owner["name"]
                    && other["metadata"]["namespace"] == workload["metadata"]["namespace"]
            })
        })
    })
}

/// Returns true if the workload owns the pod, directly or through one of its ReplicaSets.
fn owns_pod(workload: &Value, workloads: &[&Value], pod: &Pod) -> bool {
    let is = |object: &Value, owner: &OwnerReference| {
        object["kind"].as_str() == Some(&owner.kind) && object["metadata"]["name"].as_str() == Some(&owner.name)
    };
    let children: Vec<&&Value> = workloads
        .iter()
        .filter(|child| {
            child["metadata"]["namespace"] == workload["metadata"]["namespace"]
                && child["metadata"]["ownerReferences"].as_array().is_some_and(|owners| {
                    owners.iter().any(|o| o["kind"] == workload["kind"] && o["name"] == workload["metadata"]["name"])
                })
        })
        .collect();
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| is(workload, owner) || children.iter().any(|child| is(child, owner)))
}

fn pod_from_template(template: &PodTemplateSpec, workload: &Value, own_namespace: &str, name: String) -> Pod {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(own_namespace.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: text(&workload["apiVersion"]),
                kind: text(&workload["kind"]),
                name: text(&workload["metadata"]["name"]),
                controller: Some(true),
                ..OwnerReference::default()
            }]),
            ..metadata
        },
        spec: template.spec.clone(),
        status: None,
    }
}
