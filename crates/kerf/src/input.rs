//! Reads files or a live cluster into objects: every object that some decision reads, each with its
//! origin (file, document, line).
//!
//! A manifest is treated as on its way into a cluster. The kinds of Kerf's CRDs pass the schema,
//! defaults and rules of an API server. Other kinds are decoded strictly where a decision depends
//! on them, and validated as `validation` describes. All problems of all files are collected before
//! any is reported. The order of files and documents does not matter: objects are sorted by
//! namespace and name.

mod admission;
mod cluster_config;
mod decode;
mod decode_objects;
mod documents;
mod field_lines;
mod field_reader;
mod kind;
mod live;
mod load;
mod objects;
mod pod_defaults;
mod runtime_class;
mod similar_name;
mod skipped_files;
mod source;
mod suggestion;
mod validation;
mod workloads;

pub(crate) use cluster_config::cluster_config;
pub(crate) use live::SelectorKinds;
#[cfg(test)]
pub(crate) use load::load_text;
pub(crate) use load::{load, load_live, load_with_client};
pub(crate) use objects::{Objects, WithOrigin};
pub(crate) use validation::ValidationScope;
