//! The types of an object's fields, for strict decoding, strategic merge patches and server-side
//! apply. All three use one description, so that they agree on how a list is merged.
//!
//! Built-in kinds: from the schemas of `k8s-openapi` ([`builtin`]) and a small table of merge keys
//! ([`merge_keys`]). Custom resources: from their CRD ([`custom`]).
//!
//! Invariant: types refer to each other by index in one arena, because some types contain
//! themselves.

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

/// The index of a type in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeIx(u32);

/// Types that refer to each other by index.
#[derive(Debug, Default)]
pub(crate) struct TypeArena(Vec<FieldType>);

#[derive(Debug)]
pub(crate) enum FieldType {
    Scalar(ScalarType),
    Struct(StructType),
    /// A map with keys that the user chooses. An atomic map has one owner.
    Map {
        value: TypeIx,
        atomic: bool,
    },
    List {
        item: TypeIx,
        kind: ListMergeType,
    },
    /// Any value, kept unchanged. Each key that is present is owned separately.
    Any,
    /// A built-in type inside a custom resource. [`SchemaCursor`] resolves it, so its users never
    /// see this variant.
    BuiltIn(TypeIx),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarType {
    String,
    Boolean,
    Int32,
    Int64,
    Number,
    /// An amount such as `1500m`, stored in canonical form.
    Quantity,
    IntOrString,
    /// A time in seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    Bytes,
}

#[derive(Debug, Default)]
pub(crate) struct StructType {
    /// The name in error messages.
    pub(crate) name: SmolStr,
    pub(crate) fields: BTreeMap<SmolStr, StructField>,
    /// True if the value has one owner for all its fields.
    pub(crate) atomic: bool,
    /// True if fields without a declaration are kept.
    pub(crate) preserves_unknown_fields: bool,
}

#[derive(Debug)]
pub(crate) struct StructField {
    pub(crate) ty: TypeIx,
    pub(crate) patch: PatchStrategy,
    /// Overrides the `atomic` of the field's type. `None`: the type decides.
    pub(crate) atomic: Option<bool>,
}

/// The way a strategic merge patch changes a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatchStrategy {
    /// Merge lists, by this key if the items are objects. `None`: replace the list.
    pub(crate) merge: Option<MergeKey>,
    /// Drop keys that the patch does not name, so that one of several alternatives remains.
    pub(crate) retain_keys: bool,
    /// Replace the whole value, even if it is an object.
    pub(crate) replace: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeKey {
    /// A list of scalars, merged as a set.
    WholeItem,
    Field(SmolStr),
}

/// The identity of a list's items across versions of the list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ListMergeType {
    /// None: the list has one owner.
    Atomic,
    /// The value of the item.
    Set,
    /// The values of these fields, with the defaults of missing ones.
    Map(Box<[ListKey]>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListKey {
    pub(crate) name: SmolStr,
    pub(crate) default: Option<Value>,
}

/// The type of one kind: an arena and the index of the root type.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    types: Arc<TypeArena>,
    root: TypeIx,
}

impl Schema {
    /// Compiles the schema of one version of a custom resource.
    pub(crate) fn custom(open_api: Option<&Value>) -> Self {
        custom::compile(open_api)
    }

    pub(crate) fn root(&self) -> SchemaCursor<'_> {
        SchemaCursor { types: &self.types, ix: self.root, atomic: None }
    }
}

/// A position in a schema.
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

    /// Returns the cursor at the type `ix` of this arena.
    fn at_type(self, ix: TypeIx, atomic: Option<bool>) -> Self {
        match self.types.0[ix.0 as usize] {
            FieldType::BuiltIn(ix) => SchemaCursor { types: definitions().types(), ix, atomic },
            _ => Self { types: self.types, ix, atomic },
        }
    }

    /// Returns true if the value at this position has one owner.
    pub(crate) fn is_atomic(self) -> bool {
        match self.ty() {
            FieldType::Scalar(_) => true,
            FieldType::Struct(inner) => self.atomic.unwrap_or(inner.atomic),
            FieldType::Map { atomic, .. } => self.atomic.unwrap_or(*atomic),
            FieldType::List { kind, .. } => *kind == ListMergeType::Atomic,
            FieldType::Any | FieldType::BuiltIn(_) => false,
        }
    }

    /// Returns the cursor at `key`: a field of a struct, the value of a map, or any value.
    pub(crate) fn at_key(self, key: &str) -> Self {
        match self.ty() {
            FieldType::Struct(inner) => {
                inner.fields.get(key).map_or_else(|| self.at_any(), |field| self.at_type(field.ty, field.atomic))
            }
            FieldType::Map { value, .. } => self.at_type(*value, None),
            FieldType::Scalar(_) | FieldType::List { .. } | FieldType::Any | FieldType::BuiltIn(_) => self.at_any(),
        }
    }

    /// Returns true if `key` is a field of a struct and not the key of a map.
    pub(crate) fn has_field(self, key: &str) -> bool {
        matches!(self.ty(), FieldType::Struct(inner) if inner.fields.contains_key(key))
    }

    /// Returns how a strategic merge patch changes the field `key`. `None` if `key` is not a
    /// declared field.
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

    /// Returns the cursor at the items of a list.
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

    /// Returns the identity of the items of a list. A list of unknown type is atomic.
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

    /// Returns the cursor at [`TypeArena::ANY`].
    fn at_any(self) -> Self {
        self.at_type(TypeArena::ANY, None)
    }
}

impl TypeArena {
    /// The type of any value. It is the first type of every arena.
    const ANY: TypeIx = TypeIx(0);

    /// Returns an arena that contains only [`TypeArena::ANY`].
    fn new() -> Self {
        Self(vec![FieldType::Any])
    }

    fn add(&mut self, ty: FieldType) -> TypeIx {
        self.0.push(ty);
        TypeIx(self.0.len() as u32 - 1)
    }

    /// Returns an index whose type [`TypeArena::fill`] sets later. Types that contain themselves
    /// need it.
    fn reserve(&mut self) -> TypeIx {
        self.add(FieldType::Any)
    }

    fn fill(&mut self, ix: TypeIx, ty: FieldType) {
        self.0[ix.0 as usize] = ty;
    }
}
