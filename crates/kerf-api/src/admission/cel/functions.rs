//! Implementations of the library's functions, one file per family. Arguments are already evaluated
//! and have a type that the checker allowed, except dynamic ones. An unsupported argument type is
//! the error `no such overload`.

pub(super) mod conversion;
pub(super) mod format;
pub(super) mod lists;
pub(super) mod network;
pub(super) mod numbers;
pub(super) mod operators;
pub(super) mod optional;
pub(super) mod printf;
pub(super) mod quantity;
pub(super) mod regex;
pub(super) mod semver;
pub(super) mod sets;
pub(super) mod strings;
pub(super) mod times;
