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
pub(crate) use builtin::{RegisterSchema, SCHEMA_REF_PREFIX, definitions, register_schema};
pub(crate) use decode::{decode, decode_changed};
pub(crate) use mismatches::{schema_mismatches, undeclared_fields};

/// The place of a type in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeIx(u32);

/// Types that refer to each other.
#[derive(Debug, Default)]
pub(crate) struct TypeArena(Vec<FieldType>);

#[derive(Debug)]
pub(crate) enum FieldType {
    Scalar(ScalarType),
    Struct(StructType),
    /// Keys that the user chooses. An atomic map has one owner.
    Map {
        value: TypeIx,
        atomic: bool,
    },
    List {
        item: TypeIx,
        kind: ListMergeType,
    },
    /// Anything at all, kept as it is and owned by the keys that happen to be there.
    Any,
    /// A type of the built-in kinds, inside a custom one. Never seen through [`At`], which steps over it.
    BuiltIn(TypeIx),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarType {
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
pub(crate) struct StructType {
    /// The name that error messages use.
    pub(crate) name: SmolStr,
    pub(crate) fields: BTreeMap<SmolStr, StructField>,
    /// Owned as a whole.
    pub(crate) atomic: bool,
    /// Keeps fields that it does not know.
    pub(crate) preserves_unknown_fields: bool,
}

#[derive(Debug)]
pub(crate) struct StructField {
    pub(crate) ty: TypeIx,
    pub(crate) patch: PatchStrategy,
    /// Set where the field, and not its type, says whether the value has one owner.
    pub(crate) atomic: Option<bool>,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatchStrategy {
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
    WholeItem,
    Field(SmolStr),
}

/// What identifies an item of a list across versions of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ListMergeType {
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
    types: Arc<TypeArena>,
    root: TypeIx,
}

impl Schema {
    /// The schema of a version of a custom resource.
    pub(crate) fn custom(open_api: Option<&Value>) -> Self {
        custom::compile(open_api)
    }

    /// Where to begin.
    pub(crate) fn root(&self) -> SchemaCursor<'_> {
        SchemaCursor { types: &self.types, ix: self.root, atomic: None }
    }
}

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaCursor<'a> {
    types: &'a TypeArena,
    ix: TypeIx,
    atomic: Option<bool>,
}

impl<'a> SchemaCursor<'a> {
    pub(crate) fn ty(self) -> &'a FieldType {
        &self.types.0[self.ix.0 as usize]
    }

    /// The type at `ix`, which must be of the same arena.
    fn at_type(self, ix: TypeIx, atomic: Option<bool>) -> Self {
        match self.types.0[ix.0 as usize] {
            FieldType::BuiltIn(ix) => SchemaCursor { types: definitions().types(), ix, atomic },
            _ => Self { types: self.types, ix, atomic },
        }
    }

    /// Whether the value here has one owner.
    pub(crate) fn is_atomic(self) -> bool {
        match self.ty() {
            FieldType::Scalar(_) => true,
            FieldType::Struct(inner) => self.atomic.unwrap_or(inner.atomic),
            FieldType::Map { atomic, .. } => self.atomic.unwrap_or(*atomic),
            FieldType::List { kind, .. } => *kind == ListMergeType::Atomic,
            FieldType::Any | FieldType::BuiltIn(_) => false,
        }
    }

    /// The value under `key`: a field, the value of a map, or anything.
    pub(crate) fn at_key(self, key: &str) -> Self {
        match self.ty() {
            FieldType::Struct(inner) => {
                inner.fields.get(key).map_or_else(|| self.at_any(), |field| self.at_type(field.ty, field.atomic))
            }
            FieldType::Map { value, .. } => self.at_type(*value, None),
            FieldType::Scalar(_) | FieldType::List { .. } | FieldType::Any | FieldType::BuiltIn(_) => self.at_any(),
        }
    }

    /// Whether `key` is a field of a struct and not the key of a map.
    pub(crate) fn has_field(self, key: &str) -> bool {
        matches!(self.ty(), FieldType::Struct(inner) if inner.fields.contains_key(key))
    }

    /// How a strategic merge patch treats what stands under `key`.
    pub(crate) fn patch_strategy(self, key: &str) -> Option<&'a PatchStrategy> {
        match self.ty() {
            FieldType::Struct(inner) => inner.fields.get(key).map(|field| &field.patch),
            FieldType::Scalar(_)
            | FieldType::Map { .. }
            | FieldType::List { .. }
            | FieldType::Any
            | FieldType::BuiltIn(_) => None,
        }
    }

    /// The items of a list.
    pub(crate) fn at_item(self) -> Self {
        match self.ty() {
            FieldType::List { item, .. } => self.at_type(*item, None),
            FieldType::Scalar(_)
            | FieldType::Struct(_)
            | FieldType::Map { .. }
            | FieldType::Any
            | FieldType::BuiltIn(_) => self.at_any(),
        }
    }

    /// What identifies the items of a list; a list of unknown type has one owner.
    pub(crate) fn list_merge_type(self) -> &'a ListMergeType {
        match self.ty() {
            FieldType::List { kind, .. } => kind,
            FieldType::Scalar(_)
            | FieldType::Struct(_)
            | FieldType::Map { .. }
            | FieldType::Any
            | FieldType::BuiltIn(_) => &ListMergeType::Atomic,
        }
    }

    /// The arena's type for anything, which is always its first.
    fn at_any(self) -> Self {
        self.at_type(TypeArena::ANY, None)
    }
}

impl TypeArena {
    /// The first type of every arena.
    const ANY: TypeIx = TypeIx(0);

    /// An arena that knows of anything, and nothing else yet.
    fn new() -> Self {
        Self(vec![FieldType::Any])
    }

    fn add(&mut self, ty: FieldType) -> TypeIx {
        self.0.push(ty);
        TypeIx(self.0.len() as u32 - 1)
    }

    /// A place to be filled later: how a type can contain itself.
    fn reserve(&mut self) -> TypeIx {
        self.add(FieldType::Any)
    }

    fn fill(&mut self, ix: TypeIx, ty: FieldType) {
        self.0[ix.0 as usize] = ty;
    }
}
