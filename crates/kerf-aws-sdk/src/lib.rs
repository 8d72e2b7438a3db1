//! The calls of the EC2 provider through the AWS SDK. This crate translates types and contains no
//! rules. The SDK takes longer to compile than the rest of Kerf together, so no other crate depends
//! on this one.
