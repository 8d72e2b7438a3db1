//! How expressions are compiled, kept and evaluated.

use serde_json::{Value, json};

use super::*;

const M5_LARGE: InstanceTypeVariables<'static> = InstanceTypeVariables {
    vcpus: 2,
    memory_mib: 8_192,
    default_enis: 3,
    ips_per_eni: 10,
    max_pods: 0,
    instance_type: "m5.large",
};

fn compiler() -> KubeletCompiler {
    KubeletCompiler::new(KubeletExpressions::Evaluate, Clock::starting_at(jiff::Timestamp::UNIX_EPOCH))
}

fn settings(kubelet: &Value) -> KubeletSettings {
    KubeletSettings::parse(kubelet.as_object()).unwrap()
}

/// Resolves settings for a type whose default number of pods is 29.
fn resolved(kubelet: &Value, unusable: UnusableEntry) -> Result<ResolvedKubelet, String> {
    let compiled = compiler().compile(settings(kubelet)).map_err(|error| error.to_string())?;
    let pods = |kubelet: &ResolvedKubelet| kubelet.max_pods.unwrap_or(29);
    compiled.resolve(M5_LARGE, pods, unusable).map_err(|error| error.to_string())
}

// spec 05 #40, #41, #42
#[test]
fn reservations_read_the_resolved_number_of_pods() {
    let kubelet = json!({
        "maxPods": "min(110, max_pods - 13)",
        "kubeReserved": { "cpu": "vcpus * 30", "memory": "max_pods * 11", "ephemeral-storage": "3Gi" },
        "systemReserved": { "cpu": "70 + vcpus", "memory": "vcpus - 2", "pid": "1001 + vcpus", "ephemeral-storage": "vcpus" },
    });
    let resolved = resolved(&kubelet, UnusableEntry::Fail).unwrap();
    assert_eq!(resolved.max_pods, Some(16));
    let kube_reserved = json!({ "cpu": "60m", "memory": "176Mi", "ephemeral-storage": "3Gi" });
    assert_eq!(json!(resolved.settings().kube_reserved), kube_reserved);
    let system_reserved = json!({ "cpu": "80m", "memory": "0Mi", "pid": "1003", "ephemeral-storage": "2Gi" });
    assert_eq!(json!(resolved.settings().system_reserved), system_reserved);
}

// spec 05 #43
#[test]
fn a_number_of_pods_out_of_range_fails_the_resolution() {
    for (expression, problem) in [
        ("0 - 1", "result -1 is negative"),
        ("2147483647 + 1", "result 2147483648 is greater than 2147483647"),
        ("1 / (vcpus - 2)", "evaluating expression: division by zero"),
    ] {
        let error = resolved(&json!({ "maxPods": expression }), UnusableEntry::Drop).unwrap_err();
        let prefix = "resolving maxPods, evaluating spec.kubelet.maxPods for instance type m5.large, ";
        assert_eq!(error, format!("{prefix}{problem}"));
    }
    assert_eq!(
        resolved(&json!({ "maxPods": "2147483647" }), UnusableEntry::Drop).unwrap().max_pods,
        Some(2_147_483_647)
    );
}

// spec 06 §17.2
#[test]
fn an_unusable_reservation_is_dropped_or_an_error() {
    let kubelet = json!({ "kubeReserved": { "cpu": "1 / (vcpus - 2)", "memory": "vcpus - 3", "pid": "vcpus" } });
    let kept = resolved(&kubelet, UnusableEntry::Drop).unwrap();
    assert_eq!(json!(kept.settings().kube_reserved), json!({ "pid": "2" }));
    let error = resolved(&kubelet, UnusableEntry::Fail).unwrap_err();
    let expected = "evaluating spec.kubelet.kubeReserved[cpu] for instance type m5.large, evaluating expression: \
                    division by zero";
    assert_eq!(error, expected);
}

#[test]
fn a_mistake_names_its_field() {
    let error = resolved(&json!({ "kubeReserved": { "cpu": "cores * 2" } }), UnusableEntry::Drop).unwrap_err();
    assert!(
        error.starts_with("compiling expression \"cores * 2\": ERROR: <input>:1:1: undeclared reference"),
        "{error}"
    );
    assert!(error.ends_with(" (field=spec.kubelet.kubeReserved[cpu])"), "{error}");
    let error = resolved(&json!({ "maxPods": "'a'" }), UnusableEntry::Drop).unwrap_err();
    assert_eq!(error, "expression \"'a'\" must return int or double, got string (field=spec.kubelet.maxPods)");
}

#[tokio::test(start_paused = true)]
async fn compiled_expressions_are_kept_for_12_hours_after_their_last_use() {
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let compiler = KubeletCompiler::new(KubeletExpressions::Evaluate, clock);
    let kubelet = json!({ "maxPods": "vcpus * 8", "kubeReserved": { "cpu": "vcpus * 8" } });
    let kept = || compiler.compiled.get("vcpus * 8");
    compiler.compile(settings(&kubelet)).unwrap();
    assert_eq!(compiler.compiled.entries().len(), 1, "one text is compiled once");
    let first = kept().unwrap();
    for _ in 0..2 {
        tokio::time::advance(Duration::from_hours(8)).await;
        compiler.compile(settings(&kubelet)).unwrap();
        assert!(Arc::ptr_eq(&first, &kept().unwrap()));
    }
    tokio::time::advance(Duration::from_hours(13)).await;
    assert!(kept().is_none());
    compiler.compile(settings(&json!({ "maxPods": "cores" }))).unwrap_err();
    assert_eq!(compiler.compiled.entries().len(), 0, "a mistake is not kept");
}

// spec 05 #44
#[test]
fn expressions_count_as_not_set_while_their_gate_is_off() {
    let compiler = KubeletCompiler::new(KubeletExpressions::Ignore, Clock::starting_at(jiff::Timestamp::UNIX_EPOCH));
    let kubelet = json!({ "maxPods": "no expression", "kubeReserved": { "cpu": "100m", "memory": "max_pods * 11" } });
    let compiled = compiler.compile(settings(&kubelet)).unwrap();
    assert!(!compiled.has_expressions());
    assert_eq!(compiled.fixed().max_pods, None);
    assert_eq!(json!(compiled.fixed().settings().kube_reserved), json!({ "cpu": "100m" }));
}
