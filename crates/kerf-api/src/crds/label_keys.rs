//! CEL rules that reject restricted label keys (spec 01 §10.2).
//!
//! The rules match domains as text suffixes: they reject `mykarpenter.sh/x` as well as
//! `a.karpenter.sh/x`. Karpenter's rules do too, and Kerf must reject the same objects.

use serde_json::{Value, json};

use super::CrdVariant;
use crate::labels::{self, aws, kwok};
use crate::schema::{CelRule, LabelKeys, rule};

/// Inserts the variant's rules at all label keys that the types have marked.
pub(super) fn with_label_key_rules(mut schema: Value, variant: CrdVariant) -> Value {
    insert_label_key_rules(&mut schema, variant);
    schema
}

fn insert_label_key_rules(schema: &mut Value, variant: CrdVariant) {
    match schema {
        Value::Object(object) => {
            if let Some(marker) = object.remove(LabelKeys::MARKER)
                && let Ok(keys) = serde_json::from_value(marker)
            {
                object.insert("x-kubernetes-validations".into(), json!(rules(keys, variant)));
            }
            object.values_mut().for_each(|inner| insert_label_key_rules(inner, variant));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|inner| insert_label_key_rules(inner, variant)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn rules(keys: LabelKeys, variant: CrdVariant) -> Vec<CelRule> {
    let mut rules = vec![domain_rule(labels::KARPENTER_DOMAIN, &[labels::CAPACITY_TYPE, labels::NODEPOOL])];
    match keys {
        LabelKeys::TemplateLabels | LabelKeys::NodePool => {
            rules.push(rule("self != 'karpenter.sh/nodepool'", r#"label "karpenter.sh/nodepool" is restricted"#));
        }
        LabelKeys::NodeClaim | LabelKeys::NodeOverlay => {}
    }
    rules.push(rule("self != 'kubernetes.io/hostname'", r#"label "kubernetes.io/hostname" is restricted"#));
    rules.extend(provider_rule(keys, variant));
    match keys {
        LabelKeys::TemplateLabels => rules.into_iter().map(for_each_key).collect(),
        LabelKeys::NodePool | LabelKeys::NodeClaim | LabelKeys::NodeOverlay => rules,
    }
}

fn provider_rule(keys: LabelKeys, variant: CrdVariant) -> Option<CelRule> {
    match (variant, keys) {
        (CrdVariant::Aws, LabelKeys::NodeOverlay) => {
            let allowed: Vec<&str> =
                aws::ALLOWED.into_iter().filter(|key| !aws::DISALLOWED_FOR_OVERLAYS.contains(key)).collect();
            Some(domain_rule(aws::DOMAIN, &allowed))
        }
        (CrdVariant::Aws, LabelKeys::TemplateLabels | LabelKeys::NodePool | LabelKeys::NodeClaim) => {
            Some(domain_rule(aws::DOMAIN, &aws::ALLOWED))
        }
        (CrdVariant::Kwok, LabelKeys::NodePool | LabelKeys::NodeClaim) => {
            Some(domain_rule(kwok::DOMAIN, &kwok::ALLOWED))
        }
        (CrdVariant::Kwok, LabelKeys::TemplateLabels | LabelKeys::NodeOverlay) => None,
    }
}

/// Returns the rule that a key is in `allowed`, or the part before its first slash does not end
/// with `domain`.
fn domain_rule(domain: &str, allowed: &[&str]) -> CelRule {
    let allowed: Vec<String> = allowed.iter().map(|key| format!("'{key}'")).collect();
    let escaped = domain.replace('.', "[.]");
    CelRule {
        rule: format!("self in [{}] || !self.matches('^[^/]*{escaped}(/|$)')", allowed.join(", ")).into(),
        message: format!("label domain \"{domain}\" is restricted").into(),
    }
}

/// Returns the rule that `key_rule` holds for every key of a map.
fn for_each_key(key_rule: CelRule) -> CelRule {
    CelRule {
        rule: format!("self.all(key, {})", key_rule.rule.replace("self", "key")).into(),
        message: key_rule.message,
    }
}
