//! The three kinds of patch that change an object without owning it: JSON patch (a list of operations), merge patch (an object
//! laid over another) and strategic merge patch (the same, with lists that know their items).

mod json;
mod merge;
mod strategic;

pub(crate) use json::apply as apply_json_patch;
pub(crate) use merge::apply as apply_merge_patch;
pub(crate) use strategic::apply as apply_strategic_patch;
