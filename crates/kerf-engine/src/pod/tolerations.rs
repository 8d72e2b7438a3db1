//! Taints and tolerations (spec 02 §9.4). A pod must tolerate every taint, also those with the
//! effect `PreferNoSchedule`, until relaxation adds a toleration for them.

use kerf_api::slim::{Taint, TaintEffect, Toleration, TolerationOperator};

/// Returns true if all taints are tolerated.
pub(crate) fn tolerates_all(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    taints.iter().all(|taint| tolerates(tolerations, taint))
}

pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|t| matches(t, taint))
}

fn matches(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.effect.as_ref().is_some_and(|effect| *effect != taint.effect) {
        return false;
    }
    if toleration.key.is_empty() {
        return toleration.operator == TolerationOperator::Exists;
    }
    if toleration.key != taint.key {
        return false;
    }
    let integers = || Some((taint.value.parse::<i64>().ok()?, toleration.value.parse::<i64>().ok()?));
    match &toleration.operator {
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Exists => true,
        TolerationOperator::Lt => integers().is_some_and(|(taint, toleration)| taint < toleration),
        TolerationOperator::Gt => integers().is_some_and(|(taint, toleration)| taint > toleration),
        TolerationOperator::Unsupported(_) => false,
    }
}

/// Returns `key=value:effect`, or `key:effect` for an empty value.
pub(crate) fn taint_text(taint: &Taint) -> String {
    let effect = taint.effect.as_str();
    if taint.value.is_empty() {
        format!("{}:{effect}", taint.key)
    } else {
        format!("{}={}:{effect}", taint.key, taint.value)
    }
}

/// Returns the toleration that relaxation adds (spec 02 §6.4, step 6) and that daemon pods always
/// have.
pub(crate) fn prefer_no_schedule() -> Toleration {
    Toleration {
        operator: TolerationOperator::Exists,
        effect: Some(TaintEffect::PreferNoSchedule),
        ..Toleration::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(text: &str) -> Taint {
        let (rest, effect) = text.rsplit_once(':').unwrap_or((text, "NoSchedule"));
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        Taint { key: key.into(), value: value.into(), effect: TaintEffect::from(kerf_api::slim::Str::from(effect)) }
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), ..Toleration::default() }
    }

    // spec 02 #60
    #[test]
    fn only_equal_exists_and_exists_without_a_key_tolerate() {
        let t = taint("k=v:NoSchedule");
        assert!(tolerates(&[toleration("k", TolerationOperator::Equal, "v")], &t));
        assert!(tolerates(&[toleration("k", TolerationOperator::Exists, "")], &t));
        assert!(tolerates(&[toleration("", TolerationOperator::Exists, "")], &t));
        assert!(!tolerates(&[], &t));
        assert!(!tolerates(&[toleration("other", TolerationOperator::Exists, "")], &t));
        assert!(!tolerates(&[toleration("k", TolerationOperator::Equal, "w")], &t));
        assert!(!tolerates(&[toleration("", TolerationOperator::Equal, "")], &t));
    }

    #[test]
    fn integer_comparison_needs_two_integers() {
        assert!(tolerates(&[toleration("k", TolerationOperator::Lt, "5")], &taint("k=4:NoSchedule")));
        assert!(!tolerates(&[toleration("k", TolerationOperator::Lt, "5")], &taint("k=5:NoSchedule")));
        assert!(tolerates(&[toleration("k", TolerationOperator::Gt, "5")], &taint("k=6:NoSchedule")));
        assert!(!tolerates(&[toleration("k", TolerationOperator::Gt, "x")], &taint("k=6:NoSchedule")));
    }
}
