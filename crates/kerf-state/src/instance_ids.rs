//! Instance IDs inside provider IDs (spec 06 §1.4).

use kerf_api::slim::Str;

/// Returns the instance ID of a provider ID such as `aws:///us-west-2a/i-0123`. Returns `None` if
/// the provider ID has another form. The form is Karpenter's `.*:///.*/.*`.
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let (zone_part, id) = provider_id.rsplit_once('/')?;
    zone_part.contains(":///").then_some(id)
}

/// Returns the instance ID of a provider ID as an index key. Returns `None` for other forms and for
/// an empty instance ID, which are not indexed.
pub(crate) fn instance_key(provider_id: Option<&Str>) -> Option<Str> {
    provider_id.and_then(|id| instance_id(id)).filter(|id| !id.is_empty()).map(Str::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_id_is_the_last_part_of_a_provider_id() {
        assert_eq!(instance_id("aws:///us-west-2a/i-0123"), Some("i-0123"));
        assert_eq!(instance_id("aws:///us-west-2a/x/i-0123"), Some("i-0123"));
        assert_eq!(instance_id("aws:///us-west-2a/"), Some(""));
        for other in ["", "i-0123", "kwok://node", "aws:///i-0123", "aws://us-west-2a/i-0123"] {
            assert_eq!(instance_id(other), None, "{other}");
        }
    }
}
