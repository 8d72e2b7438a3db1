//! The EC2 provider's calls over the AWS SDK: translation, no rules. The SDK takes longer to compile than the rest of Kerf
//! together, so it lives behind this crate, which nothing else depends on.
