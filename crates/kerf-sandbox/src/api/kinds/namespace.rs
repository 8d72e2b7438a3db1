//! Namespaces: `Active` until deletion, then `Terminating` until the namespace controller has
//! emptied `spec.finalizers` through the `finalize` subresource.

use serde_json::{Value, json};

use super::{KindStrategy, NO_OP_STRATEGY, WriteContext};
use crate::api::object;

/// The finalizer that every namespace has from its creation.
const FINALIZER: &str = "kubernetes";

pub(super) const NAMESPACE: KindStrategy = KindStrategy {
    default: |namespace| {
        let name = object::name(namespace).to_string();
        if !name.is_empty() {
            object::ensure_object(namespace, &["metadata", "labels"])
                .insert("kubernetes.io/metadata.name".into(), name.into());
        }
    },
    prepare_for_create: |namespace, _| {
        object::ensure_object(namespace, &[]).insert("status".into(), json!({"phase": "Active"}));
        let finalizers = object::ensure_object(namespace, &["spec"]).entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && !finalizers.iter().any(|finalizer| finalizer == FINALIZER)
        {
            finalizers.push(FINALIZER.into());
        }
    },
    prepare_for_update: keep_finalizers,
    ..NO_OP_STRATEGY
};

/// Restores the stored `spec.finalizers`: only the `finalize` subresource may remove them.
fn keep_finalizers(namespace: &mut Value, old: &Value, _: &mut WriteContext<'_>) {
    match object::at(old, &["spec", "finalizers"]) {
        Some(finalizers) => {
            drop(object::ensure_object(namespace, &["spec"]).insert("finalizers".into(), finalizers.clone()));
        }
        None => drop(object::remove(namespace, &["spec", "finalizers"])),
    }
}
