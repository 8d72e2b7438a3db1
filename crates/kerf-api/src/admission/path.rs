//! The path of a value inside an object: a linked list on the stack that is formatted only when an
//! error needs it. Two spellings exist upstream and are kept: field paths write a map key as
//! `labels[app]`, schema validation as `labels.app`.

use std::fmt;

/// A path from the root to a value. `Path::ROOT` is the whole object, which the API server prints
/// as `<nil>`.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Root,
    Child(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub(crate) const ROOT: Path<'static> = Path { parent: None, step: PathStep::Root };

    /// Returns the path of a named field.
    pub(crate) fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: PathStep::Child(name) }
    }

    /// Returns the path of a list element.
    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: PathStep::Index(index) }
    }

    /// Returns the path of a map entry.
    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: PathStep::Key(key) }
    }

    pub(crate) fn is_root(&self) -> bool {
        matches!(self.step, PathStep::Root)
    }

    /// Returns the path as schema validation prints it inside a sentence: empty for the root, never
    /// `<nil>`.
    pub(crate) fn name(&self) -> String {
        if self.is_root() { String::new() } else { self.to_string() }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_start = self.parent.is_none_or(Path::is_root);
        if let Some(parent) = self.parent {
            parent.write(f)?;
        }
        match self.step {
            PathStep::Root => Ok(()),
            PathStep::Child(name) if at_start => f.write_str(name),
            PathStep::Child(name) => write!(f, ".{name}"),
            PathStep::Index(index) => write!(f, "[{index}]"),
            PathStep::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { f.write_str("<nil>") } else { self.write(f) }
    }
}
