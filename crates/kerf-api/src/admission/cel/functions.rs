//! What the functions of the library do, a file for each family. Arguments arrive evaluated and, but for dynamic ones, of a type that the
//! checker allowed; anything else is `no such overload`.

pub(super) mod conversion;
pub(super) mod format;
pub(super) mod lists;
pub(super) mod network;
pub(super) mod operators;
pub(super) mod optional;
pub(super) mod printf;
pub(super) mod quantity;
pub(super) mod regex;
pub(super) mod semver;
pub(super) mod sets;
pub(super) mod strings;
pub(super) mod times;
