//! The three patch formats that do not state ownership: JSON patch (a list of operations), merge
//! patch (an object merged into another) and strategic merge patch (a merge patch that merges lists
//! by key).

mod json;
mod merge;
mod strategic;

pub(crate) use json::apply as apply_json_patch;
pub(crate) use merge::apply as apply_merge_patch;
pub(crate) use strategic::apply as apply_strategic_patch;
