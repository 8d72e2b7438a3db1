//! Object metadata, which no definition describes: decoding into Kubernetes' own form (`decode`),
//! validation by Kubernetes' own rules (`rules`), and both for objects embedded in other objects
//! (`embedded`).

mod decode;
mod embedded;
mod rules;

pub(crate) use decode::decode;
pub(crate) use embedded::{coerce, validate as validate_embedded};
pub(crate) use rules::{NameRule, finalizer_warnings, validate, validate_update};
