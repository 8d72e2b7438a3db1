//! Types of CEL expressions, and how a schema declares them. An object has exactly its declared
//! fields, a map has values of one type, an int-or-string is dynamic, and time formats are types of
//! their own. Type parameters are solved by unification.

use std::fmt;
use std::sync::{Arc, LazyLock};

use super::super::schema::{Schema, SchemaType};
use super::escape;

/// A CEL type. `'s` is the lifetime of the schemas.
#[derive(Clone, Debug)]
pub(super) enum Type<'s> {
    /// A type that is known only when the rule runs.
    Dyn,
    /// The type of an expression with a type error. It matches every type, so that one mistake is
    /// reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type<'s>>),
    Map(Arc<(Type<'s>, Type<'s>)>),
    Optional(Arc<Type<'s>>),
    /// The type of a type.
    Meta(Arc<Type<'s>>),
    Object(ObjectType<'s>),
    Opaque(OpaqueType),
    /// A type parameter, to be solved.
    Param(usize),
}

/// An object with declared fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectType<'s> {
    pub(super) schema: &'s Schema,
    /// True for a resource, whose kind, apiVersion and name can be read even if the schema does not
    /// declare them.
    pub(super) is_resource: bool,
}

/// The types that Kubernetes adds to CEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpaqueType {
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
}

impl OpaqueType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quantity => "kubernetes.Quantity",
            Self::Url => "kubernetes.URL",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
            Self::Semver => "kubernetes.Semver",
            Self::Format => "kubernetes.NamedFormat",
        }
    }
}

impl<'s> Type<'s> {
    pub(super) fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(super) fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// Returns the type that a schema declares; `None` if rules cannot read such values.
    pub(super) fn from_schema(schema: &'s Schema, is_resource: bool) -> Option<Self> {
        if schema.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match schema.type_? {
            SchemaType::Array => {
                let items = schema.items.as_deref()?;
                Self::list(Self::from_schema(items, items.is_embedded_resource)?)
            }
            SchemaType::Object => match schema.map_values() {
                Some(values) => Self::map(Self::String, Self::from_schema(values, values.is_embedded_resource)?),
                None => Self::Object(ObjectType { schema, is_resource }),
            },
            SchemaType::String => match schema.format_name.as_str() {
                "byte" => Self::Bytes,
                "duration" => Self::Duration,
                "date" | "date-time" => Self::Timestamp,
                _ => Self::String,
            },
            SchemaType::Boolean => Self::Bool,
            SchemaType::Number => Self::Double,
            SchemaType::Integer => Self::Int,
        })
    }

    /// Returns the inner type and true for an optional, otherwise the type itself and false.
    pub(super) fn unwrap_optional(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }

    /// Returns true if null is allowed where this type is expected.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Object(_) | Self::Opaque(_) | Self::Optional(_) | Self::Duration | Self::Timestamp
        )
    }

    /// Returns the type with its parameters renumbered by an offset: a fresh instance of a
    /// signature.
    pub(super) fn with_param_offset(&self, offset: usize) -> Self {
        self.replace_params(&|param| Some(Self::Param(param + offset)))
    }

    fn replace_params(&self, solve: &dyn Fn(usize) -> Option<Self>) -> Self {
        match self {
            Self::Param(param) => solve(*param).unwrap_or_else(|| self.clone()),
            Self::List(element) => Self::list(element.replace_params(solve)),
            Self::Map(entry) => Self::map(entry.0.replace_params(solve), entry.1.replace_params(solve)),
            Self::Optional(inner) => Self::optional(inner.replace_params(solve)),
            Self::Meta(inner) => Self::Meta(Arc::new(inner.replace_params(solve))),
            other => other.clone(),
        }
    }

    fn contains_param(&self, param: usize) -> bool {
        match self {
            Self::Param(other) => *other == param,
            Self::List(inner) | Self::Optional(inner) | Self::Meta(inner) => inner.contains_param(param),
            Self::Map(entry) => entry.0.contains_param(param) || entry.1.contains_param(param),
            _ => false,
        }
    }

    /// Returns true if two types are equal. Parameters are compared by number.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b))
            | (Self::Optional(a), Self::Optional(b))
            | (Self::Meta(a), Self::Meta(b)) => a.is_same(b),
            (Self::Map(a), Self::Map(b)) => a.0.is_same(&b.0) && a.1.is_same(&b.1),
            (Self::Object(a), Self::Object(b)) => std::ptr::eq(a.schema, b.schema),
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::Param(a), Self::Param(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// Returns true if this type matches `other` and is equally or less specific.
    fn is_no_more_specific(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Param(_), _) => true,
            (_, Self::Dyn | Self::Param(_)) => false,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.is_no_more_specific(b),
            (Self::Map(a), Self::Map(b)) => a.0.is_no_more_specific(&b.0) && a.1.is_no_more_specific(&b.1),
            (Self::Meta(_), Self::Meta(_)) => true,
            (a, b) => a.is_same(b),
        }
    }

    /// Returns the more general of two types that match.
    pub(super) fn most_general(self, other: Self) -> Self {
        if self.is_no_more_specific(&other) { self } else { other }
    }
}

impl<'s> ObjectType<'s> {
    /// Returns the type of the field that an identifier names; `None` if there is no such field.
    pub(super) fn field(self, identifier: &str) -> Option<Type<'s>> {
        let name = escape::unescape(identifier)?;
        let schema = self.property(&name)?;
        if escape::escape(&name).as_deref() != Some(identifier) {
            return None;
        }
        Type::from_schema(schema, schema.is_embedded_resource)
    }

    /// Returns the schema of a property; `None` if it is not declared. A resource always has kind,
    /// apiVersion and metadata.
    pub(super) fn property(self, name: &str) -> Option<&'s Schema> {
        if self.is_resource && !declares_metadata(self.schema) {
            match name {
                "kind" | "apiVersion" => return Some(&TEXT_SCHEMA),
                "metadata" => return Some(&METADATA_SCHEMA),
                _ => {}
            }
        }
        self.schema.properties.get(name)
    }
}

static TEXT_SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema { type_: Some(SchemaType::String), ..Schema::default() });

/// The part of metadata that rules can read.
static METADATA_SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = || Schema { type_: Some(SchemaType::String), ..Schema::default() };
    Schema {
        type_: Some(SchemaType::Object),
        properties: [("name".to_owned(), text()), ("generateName".to_owned(), text())].into(),
        ..Schema::default()
    }
});

fn declares_metadata(schema: &Schema) -> bool {
    let has_type = |schema: Option<&Schema>, type_| schema.is_some_and(|schema| schema.type_ == Some(type_));
    let metadata = schema.properties.get("metadata");
    has_type(schema.properties.get("kind"), SchemaType::String)
        && has_type(schema.properties.get("apiVersion"), SchemaType::String)
        && has_type(metadata, SchemaType::Object)
        && metadata.is_some_and(|metadata| {
            has_type(metadata.properties.get("name"), SchemaType::String)
                && has_type(metadata.properties.get("generateName"), SchemaType::String)
        })
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Meta(inner) => write!(f, "type({inner})"),
            Self::Object(_) => f.write_str("object"),
            Self::Opaque(opaque) => f.write_str(opaque.name()),
            Self::Param(param) => write!(f, "_var{param}"),
        }
    }
}

/// Returns the type that an identifier names.
pub(super) fn type_identifier<'s>(name: &str) -> Option<(&'static str, Type<'s>)> {
    let dynamic = || Type::Dyn;
    Some(match name {
        "bool" => ("bool", Type::Bool),
        "int" => ("int", Type::Int),
        "uint" => ("uint", Type::Uint),
        "double" => ("double", Type::Double),
        "string" => ("string", Type::String),
        "bytes" => ("bytes", Type::Bytes),
        "null_type" => ("null_type", Type::Null),
        "list" => ("list", Type::list(dynamic())),
        "map" => ("map", Type::map(dynamic(), dynamic())),
        "type" => ("type", Type::Meta(Arc::new(dynamic()))),
        "google.protobuf.Timestamp" => ("google.protobuf.Timestamp", Type::Timestamp),
        "google.protobuf.Duration" => ("google.protobuf.Duration", Type::Duration),
        "optional_type" => ("optional_type", Type::optional(dynamic())),
        "net.IP" => ("net.IP", Type::Opaque(OpaqueType::Ip)),
        "net.CIDR" => ("net.CIDR", Type::Opaque(OpaqueType::Cidr)),
        "kubernetes.Quantity" => ("kubernetes.Quantity", Type::Opaque(OpaqueType::Quantity)),
        "kubernetes.URL" => ("kubernetes.URL", Type::Opaque(OpaqueType::Url)),
        "kubernetes.Semver" => ("kubernetes.Semver", Type::Opaque(OpaqueType::Semver)),
        _ => return None,
    })
}

/// The types found so far for type parameters; `None` for a parameter that is still unknown.
#[derive(Clone, Default)]
pub(super) struct TypeSubstitution<'s> {
    params: Vec<Option<Type<'s>>>,
}

impl<'s> TypeSubstitution<'s> {
    /// Returns a new unknown parameter.
    pub(super) fn fresh(&mut self) -> Type<'s> {
        Type::Param(self.reserve(1))
    }

    /// Adds `count` new parameters and returns the number of the first.
    pub(super) fn reserve(&mut self, count: usize) -> usize {
        let first = self.params.len();
        self.params.resize(first + count, None);
        first
    }

    /// Returns the type with all known parameters replaced.
    pub(super) fn resolve(&self, type_: &Type<'s>) -> Type<'s> {
        type_.replace_params(&|param| self.params.get(param)?.as_ref().map(|solved| self.resolve(solved)))
    }

    /// Returns the type with known parameters replaced and unknown parameters as `Dyn`.
    pub(super) fn resolve_or_dyn(&self, type_: &Type<'s>) -> Type<'s> {
        self.resolve(type_).replace_params(&|_| Some(Type::Dyn))
    }

    /// Returns true if a value of type `from` is allowed where `to` is expected, and then records
    /// the parameter types that follow from it.
    pub(super) fn assign(&mut self, from: &Type<'s>, to: &Type<'s>) -> bool {
        self.assign_all([(from, to)])
    }

    /// Assigns several types at once. If one assignment fails, no parameter changes.
    pub(super) fn assign_all<'t>(&mut self, pairs: impl IntoIterator<Item = (&'t Type<'s>, &'t Type<'s>)>) -> bool
    where
        's: 't,
    {
        let mut trial = self.clone();
        if pairs.into_iter().all(|(from, to)| trial.unify(from, to)) {
            *self = trial;
            return true;
        }
        false
    }

    fn unify(&mut self, a: &Type<'s>, b: &Type<'s>) -> bool {
        if let Type::Param(param) = b {
            match self.substitute(a, *param) {
                SubstitutionResult::Substituted => return true,
                SubstitutionResult::Contradicts => return false,
                SubstitutionResult::Occurs => {}
            }
        }
        if let Type::Param(param) = a {
            return matches!(self.substitute(b, *param), SubstitutionResult::Substituted);
        }
        match (a, b) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.unify(a, b),
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (a, b) => a.is_same(b),
        }
    }

    fn substitute(&mut self, type_: &Type<'s>, param: usize) -> SubstitutionResult {
        if matches!(type_, Type::Param(same) if *same == param) {
            return SubstitutionResult::Substituted;
        }
        if let Some(solved) = self.params[param].clone() {
            if !type_.is_same(&solved) {
                if !self.unify(type_, &solved) {
                    return SubstitutionResult::Contradicts;
                }
                let general = type_.clone().most_general(solved);
                if !self.resolve(&general).contains_param(param) {
                    self.params[param] = Some(general);
                }
            }
            return SubstitutionResult::Substituted;
        }
        if self.resolve(type_).contains_param(param) {
            return SubstitutionResult::Occurs;
        }
        self.params[param] = Some(type_.clone());
        SubstitutionResult::Substituted
    }
}

enum SubstitutionResult {
    Substituted,
    Contradicts,
    Occurs,
}
