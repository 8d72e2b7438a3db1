//! Enumerations that decode any text: an unknown value becomes `Unsupported` and is named in the
//! error that rejects it.
//!
//! The schema lists the supported values, so the API server rejects all others. But a list of
//! objects is decoded as a whole. One object that was stored under the schema of another release
//! must not make all other objects unreadable.

/// Declares an enumeration with the JSON texts of its values, in the order of the schema.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// Text that is not a supported value. The error that rejects the object contains it.
            Unsupported(::smol_str::SmolStr),
        }

        impl $name {
            /// Texts of all supported values, in the order of the schema.
            pub const SUPPORTED: &'static [&'static str] = &[$($text),+];

            /// Returns the value as it appears in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unsupported(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    _ => Self::Unsupported(text.into()),
                }
            }
        }

        impl From<::smol_str::SmolStr> for $name {
            fn from(text: ::smol_str::SmolStr) -> Self {
                Self::from(text.as_str())
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <::smol_str::SmolStr as ::serde::Deserialize>::deserialize(deserializer).map(Self::from)
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({ "type": "string", "enum": Self::SUPPORTED })
            }
        }
    };
}

pub(crate) use open_enum;
