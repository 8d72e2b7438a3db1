//! Metadata, the part of every object that no definition describes: decoded to Kubernetes' own shape (`decode`), then held to Kubernetes'
//! own rules (`rules`); and the same for objects embedded in others (`embedded`).

mod decode;
mod embedded;
mod rules;

pub(crate) use decode::decode;
pub(crate) use embedded::{coerce, validate as validate_embedded};
pub(crate) use rules::{NameRule, finalizer_warnings, validate, validate_update};
