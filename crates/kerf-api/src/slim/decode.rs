//! Decodes slim objects from the API server's JSON.
//!
//! For every type here: `null` is equal to absent. Unknown fields, which are most of a pod, are
//! skipped without parsing. A value of the wrong type is an error with its path
//! (`.spec.containers[0].resources.requests[cpu]: invalid quantity …`), never a default. Serde's
//! derive provides none of these, so the macro below decodes objects, with one line per field.

mod interning;
mod meta;
mod node;
mod pod;
mod storage;
mod text;
mod workload;

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::meta::Str;
use text::SharedText;

/// Implements `Deserialize` for an object: `decode_object!(Type(out, field) { "jsonName" =>
/// out.name = field.get()?, … })`. Decoding starts from the type's default, or from the value after
/// `from`. The code after `finally` runs when all fields have been read.
macro_rules! decode_object {
    ($type:ident($out:ident, $field:ident) { $($wire:literal => $read:expr,)+ } $(finally $finish:expr)?) => {
        decode_object!($type($out, $field) from $type::default(); { $($wire => $read,)+ } $(finally $finish)?);
    };
    ($type:ident($out:ident, $field:ident) from $start:expr; { $($wire:literal => $read:expr,)+ } $(finally $finish:expr)?) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Object;

                impl<'de> serde::de::Visitor<'de> for Object {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$type, A::Error> {
                        use $crate::slim::decode::{FieldNameSeed, ObjectField};
                        let mut $out = $start;
                        let known = |key: &str| match key {
                            $($wire => Some($wire),)+
                            _ => None,
                        };
                        while let Some(name) = map.next_key_seed(FieldNameSeed(known))? {
                            match name {
                                $(Some($wire) => {
                                    let $field = ObjectField { name: $wire, map: &mut map };
                                    $read;
                                })+
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        $($finish;)?
                        Ok($out)
                    }
                }

                deserializer.deserialize_map(Object)
            }
        }
    };
}

pub(super) use decode_object;

/// Field of an object whose value is read next.
pub(super) struct ObjectField<'m, A> {
    pub(super) name: &'static str,
    pub(super) map: &'m mut A,
}

impl<'de, A: MapAccess<'de>> ObjectField<'_, A> {
    /// Reads the value. Returns `None` for `null`.
    fn optional<T: Deserialize<'de>>(self) -> Result<Option<T>, A::Error> {
        self.map.next_value().map_err(|error| prefix_error_path(format_args!(".{}", self.name), &error))
    }

    /// Reads the value. Returns the default for `null`.
    fn get<T: Deserialize<'de> + Default>(self) -> Result<T, A::Error> {
        Ok(self.optional()?.unwrap_or_default())
    }

    /// Reads a string, interned. Returns an empty string for `null`.
    fn text(self) -> Result<Str, A::Error> {
        Ok(self.optional::<SharedText>()?.unwrap_or_default().0)
    }

    /// Reads a string that occurs in no other object, such as a name. It is not interned.
    fn unique_text(self) -> Result<Str, A::Error> {
        self.get()
    }

    /// Reads a string. Returns `None` if it is empty.
    fn non_empty_text(self) -> Result<Option<Str>, A::Error> {
        Ok(Some(self.text()?).filter(|text| !text.is_empty()))
    }

    /// Reads a list. Returns an empty list for `null`.
    fn list<T: Deserialize<'de>>(self) -> Result<Vec<T>, A::Error> {
        Ok(self.optional::<List<T>>()?.map(|list| list.0).unwrap_or_default())
    }

    /// Reads a list of strings.
    fn text_list(self) -> Result<Vec<Str>, A::Error> {
        Ok(self.list::<SharedText>()?.into_iter().map(|text| text.0).collect())
    }

    /// Returns true if the value is not `null`.
    fn exists(self) -> Result<bool, A::Error> {
        Ok(self.optional::<IgnoredAny>()?.is_some())
    }

    /// Returns true if the value is a list that is not empty.
    fn has_items(self) -> Result<bool, A::Error> {
        Ok(!self.list::<IgnoredAny>()?.is_empty())
    }
}

/// Prepends a step of the path to an error. Messages start with a letter, paths with a dot or a
/// bracket.
#[cold]
fn prefix_error_path<E: Error>(step: fmt::Arguments<'_>, error: &E) -> E {
    let inner = error.to_string();
    if inner.starts_with(['.', '[']) {
        E::custom(format_args!("{step}{inner}"))
    } else {
        E::custom(format_args!("{step}: {inner}"))
    }
}

/// Reads a key and maps it with `F`, without keeping its text.
pub(super) struct FieldNameSeed<F>(pub(super) F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for FieldNameSeed<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for FieldNameSeed<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<T, E> {
        Ok((self.0)(key))
    }
}

/// List without spare capacity, whose errors contain the index of the item.
struct List<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) =
            seq.next_element().map_err(|error| prefix_error_path(format_args!("[{}]", items.len()), &error))?
        {
            items.push(item);
        }
        items.shrink_to_fit();
        Ok(List(items))
    }
}

/// Reads an object with arbitrary keys into pairs, without the keys that `keep` rejects.
struct EntriesVisitor<V> {
    keep: fn(&str) -> bool,
    value: PhantomData<V>,
}

impl<V> EntriesVisitor<V> {
    fn all() -> Self {
        Self::only(|_| true)
    }

    fn only(keep: fn(&str) -> bool) -> Self {
        Self { keep, value: PhantomData }
    }
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
    type Value = Vec<(Str, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) =
            map.next_key_seed(FieldNameSeed(|key: &str| (self.keep)(key).then(|| text::shared_text(key))))?
        {
            let Some(key) = key else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            match map.next_value::<Option<V>>() {
                Ok(Some(value)) => entries.push((key, value)),
                Ok(None) => {}
                Err(error) => return Err(prefix_error_path(format_args!("[{key}]"), &error)),
            }
        }
        Ok(entries)
    }
}
