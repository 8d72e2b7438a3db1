//! Provider IDs of EC2 instances (spec 06 §1.4).

/// A provider ID that is not of the form `aws:///<zone>/<instance ID>`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("provider id does not match known format (provider-id={0})")]
pub(crate) struct ProviderIdError(String);

/// Returns the provider ID of an instance.
pub(crate) fn provider_id(zone: &str, id: &str) -> String {
    format!("aws:///{zone}/{id}")
}

/// Returns the instance ID of a provider ID.
pub(crate) fn parse_provider_id(provider_id: &str) -> Result<&str, ProviderIdError> {
    let id = kerf_state::instance_id(provider_id).filter(|id| !id.is_empty());
    id.ok_or_else(|| ProviderIdError(provider_id.to_owned()))
}
