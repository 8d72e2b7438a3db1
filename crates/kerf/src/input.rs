//! From files, or from a live cluster, to objects: every object that some decision reads, each with the place that it came from.
//!
//! A manifest passes here what it would pass on its way into a cluster: the kinds of this API are admitted by the same schema, defaults and
//! rules as at an API server, the others are decoded strictly where a decision depends on them, and judged as `judged` says. All problems of all files are found
//! before any is reported, and the order of files and documents leaves no trace: objects come out by namespace and name.

mod admission;
mod decode;
mod documents;
mod field_reader;
mod kind;
mod live;
mod load;
mod objects;
mod plan_input;
mod pod_defaults;
mod runtime_class;
mod source;
mod validation;
mod workloads;

pub(crate) use live::SelectorKinds;
pub(crate) use load::{load, load_live, load_with_client};
pub(crate) use plan_input::PlanInput;
pub(crate) use validation::ValidationScope;
