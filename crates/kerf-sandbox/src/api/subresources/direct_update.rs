//! Changing a stored object without the ceremony of an update, for the server's own changes.

use serde_json::Value;

use crate::api::after_write;
use crate::api::call::{Call, parse};
use crate::api::encode::Encoded;
use crate::api::registry::Resource;
use crate::api::status::{Answer, Refusal};
use crate::api::storage::Key;

/// How often the change is tried again when somebody else was faster.
const ATTEMPTS: usize = 16;

/// Changes the object at `key` by `change`, and returns what it is then. Nothing is written in a dry run.
pub(crate) fn overwrite(
    call: &Call<'_>,
    resource: &Resource,
    key: &Key,
    name: &str,
    change: impl Fn(&mut Value) -> Answer<()>,
) -> Answer<Value> {
    for _ in 0..ATTEMPTS {
        let stored =
            call.server.storage.get(resource.table, key).ok_or_else(|| Refusal::not_found(resource.subject(), name))?;
        let old = parse(&stored)?;
        let mut object = old.clone();
        change(&mut object)?;
        if object == old || call.dry_run()? {
            return Ok(object);
        }
        let facets = resource.facets(&object);
        if let Ok(now) =
            call.server.storage.put(resource.table, key, Some(stored.revision), &Encoded::new(&object), facets)
        {
            after_write::updated(call, &object);
            return parse(&now);
        }
    }
    Err(Refusal::stale(resource.subject(), name))
}
