//! What the fields of an object are: one description of types that serves strict decoding, strategic merge patches and
//! server-side apply, so that the three never disagree about what a list is.
//!
//! Built-in kinds get theirs from the schemas that `k8s-openapi` carries ([`builtin`]) and a small table of merge keys
//! ([`merge_keys`]); custom resources from their definition ([`custom`]).
//! Invariant: a type refers to others by their place in one arena, because some types contain themselves.

mod annotate;
mod builtin;
mod custom;
mod decode;
mod merge_keys;
mod mismatches;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

pub(crate) use annotate::annotate;
pub(crate) use builtin::{Describe, REFERENCE, definitions, describe};
pub(crate) use decode::{decode, decode_changed};
pub(crate) use mismatches::{misfits, undeclared};

/// The place of a type in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeIx(u32);

/// Types that refer to each other.
#[derive(Debug, Default)]
pub(crate) struct Types(Vec<Type>);

#[derive(Debug)]
pub(crate) enum Type {
    Scalar(Scalar),
    Struct(Struct),
    /// Keys that the user chooses. An atomic map has one owner.
    Map {
        value: TypeIx,
        atomic: bool,
    },
    List {
        item: TypeIx,
        kind: ListKind,
    },
    /// Anything at all, kept as it is and owned by the keys that happen to be there.
    Any,
    /// A type of the built-in kinds, inside a custom one. Never seen through [`At`], which steps over it.
    BuiltIn(TypeIx),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    String,
    Boolean,
    Int32,
    Int64,
    Number,
    /// An amount such as `1500m`, kept in canonical form.
    Quantity,
    IntOrString,
    /// To the second.
    Time,
    /// To the microsecond.
    MicroTime,
    /// Base64.
    Bytes,
}

#[derive(Debug, Default)]
pub(crate) struct Struct {
    /// The name that error messages use.
    pub(crate) name: SmolStr,
    pub(crate) fields: BTreeMap<SmolStr, Field>,
    /// Owned as a whole.
    pub(crate) atomic: bool,
    /// Keeps fields that it does not know.
    pub(crate) open: bool,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) ty: TypeIx,
    pub(crate) patch: Patch,
    /// Set where the field, and not its type, says whether the value has one owner.
    pub(crate) atomic: Option<bool>,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    /// Lists are merged, by this key if their items are objects, and not replaced.
    pub(crate) merge: Option<MergeKey>,
    /// Keys that the patch does not name are dropped, so that one of several alternatives remains.
    pub(crate) retain_keys: bool,
    /// Replaced as a whole even if it is an object.
    pub(crate) replace: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeKey {
    /// A list of scalars is merged as a set.
    Itself,
    Field(SmolStr),
}

/// What identifies an item of a list across versions of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ListKind {
    /// Nothing: the list has one owner.
    Atomic,
    /// Its value.
    Set,
    /// The values of these fields, with what they mean when they are missing.
    Map(Box<[ListKey]>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListKey {
    pub(crate) name: SmolStr,
    pub(crate) default: Option<Value>,
}

/// The type of one kind: an arena and where to begin.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    types: Arc<Types>,
    root: TypeIx,
}

impl Schema {
    /// The schema of a version of a custom resource.
    pub(crate) fn custom(open_api: Option<&Value>) -> Self {
        custom::compile(open_api)
    }

    /// Where to begin.
    pub(crate) fn root(&self) -> At<'_> {
        At { types: &self.types, ix: self.root, atomic: None }
    }
}

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    types: &'a Types,
    ix: TypeIx,
    atomic: Option<bool>,
}

impl<'a> At<'a> {
    pub(crate) fn ty(self) -> &'a Type {
        &self.types.0[self.ix.0 as usize]
    }

    /// The type at `ix`, which must be of the same arena.
    fn go(self, ix: TypeIx, atomic: Option<bool>) -> Self {
        match self.types.0[ix.0 as usize] {
            Type::BuiltIn(ix) => At { types: definitions().types(), ix, atomic },
            _ => Self { types: self.types, ix, atomic },
        }
    }

    /// Whether the value here has one owner.
    pub(crate) fn is_atomic(self) -> bool {
        match self.ty() {
            Type::Scalar(_) => true,
            Type::Struct(inner) => self.atomic.unwrap_or(inner.atomic),
            Type::Map { atomic, .. } => self.atomic.unwrap_or(*atomic),
            Type::List { kind, .. } => *kind == ListKind::Atomic,
            Type::Any | Type::BuiltIn(_) => false,
        }
    }

    /// The value under `key`: a field, the value of a map, or anything.
    pub(crate) fn key(self, key: &str) -> Self {
        match self.ty() {
            Type::Struct(inner) => {
                inner.fields.get(key).map_or_else(|| self.any(), |field| self.go(field.ty, field.atomic))
            }
            Type::Map { value, .. } => self.go(*value, None),
            Type::Scalar(_) | Type::List { .. } | Type::Any | Type::BuiltIn(_) => self.any(),
        }
    }

    /// Whether `key` is a field of a struct and not the key of a map.
    pub(crate) fn has_field(self, key: &str) -> bool {
        matches!(self.ty(), Type::Struct(inner) if inner.fields.contains_key(key))
    }

    /// How a strategic merge patch treats what stands under `key`.
    pub(crate) fn patch(self, key: &str) -> Option<&'a Patch> {
        match self.ty() {
            Type::Struct(inner) => inner.fields.get(key).map(|field| &field.patch),
            Type::Scalar(_) | Type::Map { .. } | Type::List { .. } | Type::Any | Type::BuiltIn(_) => None,
        }
    }

    /// The items of a list.
    pub(crate) fn item(self) -> Self {
        match self.ty() {
            Type::List { item, .. } => self.go(*item, None),
            Type::Scalar(_) | Type::Struct(_) | Type::Map { .. } | Type::Any | Type::BuiltIn(_) => self.any(),
        }
    }

    /// What identifies the items of a list; a list of unknown type has one owner.
    pub(crate) fn list_kind(self) -> &'a ListKind {
        match self.ty() {
            Type::List { kind, .. } => kind,
            Type::Scalar(_) | Type::Struct(_) | Type::Map { .. } | Type::Any | Type::BuiltIn(_) => &ListKind::Atomic,
        }
    }

    /// The arena's type for anything, which is always its first.
    fn any(self) -> Self {
        self.go(Types::ANY, None)
    }
}

impl Types {
    /// The first type of every arena.
    const ANY: TypeIx = TypeIx(0);

    /// An arena that knows of anything, and nothing else yet.
    fn new() -> Self {
        Self(vec![Type::Any])
    }

    fn add(&mut self, ty: Type) -> TypeIx {
        self.0.push(ty);
        TypeIx(self.0.len() as u32 - 1)
    }

    /// A place to be filled later: how a type can contain itself.
    fn reserve(&mut self) -> TypeIx {
        self.add(Type::Any)
    }

    fn fill(&mut self, ix: TypeIx, ty: Type) {
        self.0[ix.0 as usize] = ty;
    }
}
