//! Decodes workloads, services, namespaces and pod disruption budgets.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Unexpected, Visitor};

use super::super::meta::Labels;
use super::super::pod::LabelSelector;
use super::super::workload::{
    DaemonSet, IntOrPercent, Namespace, PodDisruptionBudget, PodTemplate, ReplicaOwner, Service,
};
use super::{FieldNameSeed, List, SharedText, Str, decode_object, prefix_error_path, text};

decode_object!(PodTemplate(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => out.spec = field.get()?,
});

decode_object!(DaemonSet(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => out.template = field.get::<DaemonSetSpec>()?.template,
});

#[derive(Default)]
struct DaemonSetSpec {
    template: PodTemplate,
}

decode_object!(DaemonSetSpec(out, field) {
    "template" => out.template = field.get()?,
});

decode_object!(ReplicaOwner(out, field) {
    "kind" => out.kind = field.text()?,
    "metadata" => out.metadata = field.get()?,
    "spec" => out.selector = field.get::<ReplicaOwnerSpec>()?.selector.0,
});

#[derive(Default)]
struct ReplicaOwnerSpec {
    selector: OwnerSelector,
}

decode_object!(ReplicaOwnerSpec(out, field) {
    "selector" => out.selector = field.get()?,
});

/// Label selector, or the plain labels that a `ReplicationController` has instead. Items of a list
/// do not name their kind, so the form decides: the values of plain labels are strings.
#[derive(Default)]
struct OwnerSelector(LabelSelector);

impl<'de> Deserialize<'de> for OwnerSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OwnerSelectorVisitor)
    }
}

struct OwnerSelectorVisitor;

impl<'de> Visitor<'de> for OwnerSelectorVisitor {
    type Value = OwnerSelector;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a label selector or labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OwnerSelector, A::Error> {
        let mut selector = LabelSelector::default();
        let mut plain: Vec<(Str, Str)> = Vec::new();
        while let Some(key) = map.next_key_seed(FieldNameSeed(text::shared_text))? {
            let located = |error| prefix_error_path(format_args!(".{key}"), &error);
            match key.as_str() {
                "matchLabels" => match map.next_value::<Option<TextOr<Labels>>>().map_err(located)? {
                    Some(TextOr::Other(labels)) => selector.match_labels = labels,
                    Some(TextOr::Text(value)) => plain.push((key, value)),
                    None => {}
                },
                "matchExpressions" => {
                    let list = map.next_value::<Option<List<_>>>().map_err(located)?;
                    selector.match_expressions = list.map(|list| list.0).unwrap_or_default();
                }
                _ => {
                    if let Some(value) = map.next_value::<Option<SharedText>>().map_err(located)? {
                        plain.push((key, value.0));
                    }
                }
            }
        }
        if !plain.is_empty() {
            selector.match_labels = plain.into_iter().collect();
        }
        Ok(OwnerSelector(selector))
    }
}

decode_object!(Service(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => out.selector = field.get::<ServiceSpec>()?.selector,
});

#[derive(Default)]
struct ServiceSpec {
    selector: Option<Labels>,
}

decode_object!(ServiceSpec(out, field) {
    "selector" => out.selector = field.optional()?,
});

decode_object!(Namespace(out, field) {
    "metadata" => out.metadata = field.get()?,
});

decode_object!(PodDisruptionBudget(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => {
        let spec = field.get::<BudgetSpec>()?;
        out.selector = spec.selector;
        out.min_available = spec.min_available;
        out.max_unavailable = spec.max_unavailable;
        out.always_allow_unhealthy = spec.always_allow_unhealthy;
    },
    "status" => {
        let status = field.get::<BudgetStatus>()?;
        out.disruptions_allowed = status.disruptions_allowed;
        out.disrupted_pods = status.disrupted_pods;
    },
});

#[derive(Default)]
struct BudgetSpec {
    selector: Option<LabelSelector>,
    min_available: Option<IntOrPercent>,
    max_unavailable: Option<IntOrPercent>,
    always_allow_unhealthy: bool,
}

decode_object!(BudgetSpec(out, field) {
    "selector" => out.selector = field.optional()?,
    "minAvailable" => out.min_available = field.optional()?,
    "maxUnavailable" => out.max_unavailable = field.optional()?,
    "unhealthyPodEvictionPolicy" => out.always_allow_unhealthy = field.text()? == "AlwaysAllow",
});

#[derive(Default)]
struct BudgetStatus {
    disruptions_allowed: Option<i32>,
    disrupted_pods: Vec<Str>,
}

decode_object!(BudgetStatus(out, field) {
    "disruptionsAllowed" => out.disruptions_allowed = field.optional()?,
    "disruptedPods" => {
        let times: Option<BTreeMap<String, IgnoredAny>> = field.optional()?;
        out.disrupted_pods = times.unwrap_or_default().into_keys().map(Str::from).collect();
    },
});

impl<'de> Deserialize<'de> for IntOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IntOrPercentVisitor)
    }
}

struct IntOrPercentVisitor;

impl Visitor<'_> for IntOrPercentVisitor {
    type Value = IntOrPercent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a 32-bit integer or a percentage")
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<IntOrPercent, E> {
        i32::try_from(count).map(IntOrPercent::Int).map_err(|_| E::invalid_value(Unexpected::Signed(count), &self))
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<IntOrPercent, E> {
        i32::try_from(count).map(IntOrPercent::Int).map_err(|_| E::invalid_value(Unexpected::Unsigned(count), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<IntOrPercent, E> {
        let percent = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let percent = percent.and_then(|digits| digits.parse().ok()).map(IntOrPercent::Percent);
        Ok(percent.unwrap_or_else(|| IntOrPercent::Invalid(Str::new(text))))
    }
}

/// String, or a value decoded from an object.
enum TextOr<T> {
    Text(Str),
    Other(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrVisitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrVisitor<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an object")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(Str::new(text)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
                T::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(TextOr::Other)
            }
        }

        deserializer.deserialize_any(TextOrVisitor(std::marker::PhantomData))
    }
}
