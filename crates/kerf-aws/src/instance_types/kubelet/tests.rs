//! How kubelet settings are read and resolved (spec 05 §4.9).

use serde_json::json;

use super::*;

fn parse(kubelet: Value) -> Result<KubeletSettings, KubeletError> {
    KubeletSettings::parse(kubelet.as_object())
}

// spec 05 #39
#[test]
fn a_field_of_the_wrong_type_is_an_error_that_names_it() {
    for (kubelet, text) in [
        (
            json!({ "clusterDNS": "10.0.0.10" }),
            "parsing spec.kubelet, spec.kubelet.clusterDNS: invalid type: string \"10.0.0.10\", expected a sequence",
        ),
        (
            json!({ "podsPerCore": "ten" }),
            "parsing spec.kubelet, spec.kubelet.podsPerCore: invalid type: string \"ten\", expected i32",
        ),
        (
            json!({ "kubeReserved": { "cpu": 2 } }),
            "parsing spec.kubelet, spec.kubelet.kubeReserved: invalid type: integer `2`, expected a string",
        ),
        (
            json!({ "evictionSoftGracePeriod": { "memory.available": "soon" } }),
            "parsing spec.kubelet, spec.kubelet.evictionSoftGracePeriod[memory.available]: \
             time: invalid duration \"soon\"",
        ),
    ] {
        assert_eq!(parse(kubelet).unwrap_err().to_string(), text);
    }
    assert_eq!(parse(json!({})), Ok(KubeletSettings::default()));
    assert_eq!(
        parse(json!({ "maxPods": null, "topologyManagerPolicy": "best-effort" })),
        Ok(KubeletSettings::default())
    );
}

// spec 05 #44
#[test]
fn expressions_are_removed_and_static_entries_stay() {
    let kubelet = json!({ "maxPods": "7", "kubeReserved": { "cpu": "100m", "memory": "max_pods * 11" } });
    let resolved = parse(kubelet).unwrap().without_expressions();
    assert_eq!(resolved.max_pods, None);
    assert_eq!(resolved.kube_reserved(), [("cpu", "100m")].try_into().unwrap());
}

// spec 05 #21
#[test]
fn eviction_thresholds_are_quantities_or_percentages() {
    let threshold = |text: &str| {
        let settings = parse(json!({ "evictionHard": { "memory.available": text } })).unwrap();
        let resolved = settings.without_expressions();
        resolved.eviction_threshold("memory.available", 1_001).map(|quantity| quantity.unwrap().to_string())
    };
    assert_eq!(threshold("10%").unwrap(), "101");
    assert_eq!(threshold("100%").unwrap(), "0");
    assert_eq!(threshold("500Mi").unwrap(), "500Mi");
    assert_eq!(
        threshold("x%").unwrap_err().to_string(),
        "parsing spec.kubelet, spec.kubelet.evictionHard[memory.available]: \
         expected a quantity or a percentage, found \"x%\""
    );
    assert!(threshold("many").is_err() && threshold("NaN%").is_err());
    assert_eq!(parse(json!({})).unwrap().without_expressions().eviction_threshold("a", 1), Ok(None));
}
