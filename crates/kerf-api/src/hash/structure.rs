//! The hash function: 64-bit FNV-1 over values, structs, lists and maps.
//!
//! Every function returns the hash of a value. `None` stands for a value that is not hashed.

const OFFSET_BASIS: u64 = 14_695_981_039_346_656_037;
const PRIME: u64 = 1_099_511_628_211;

pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

pub(super) fn hash_text(text: &str) -> u64 {
    hash_bytes(text.as_bytes())
}

pub(super) fn hash_bool(flag: bool) -> u64 {
    hash_bytes(&[u8::from(flag)])
}

pub(super) fn hash_i64(number: i64) -> u64 {
    hash_bytes(&number.to_le_bytes())
}

pub(super) fn hash_i32(number: i32) -> u64 {
    hash_bytes(&number.to_le_bytes())
}

/// Returns `None` for an empty string, which is not hashed.
pub(super) fn hash_non_empty(value: &str) -> Option<u64> {
    (!value.is_empty()).then(|| hash_text(value))
}

/// Hashes a list as a set: the order of its elements does not matter.
pub(super) fn hash_list(elements: impl IntoIterator<Item = u64>) -> u64 {
    elements.into_iter().fold(0, |all, element| all ^ element)
}

pub(super) fn hash_map<K: AsRef<str>, V: AsRef<str>>(entries: impl IntoIterator<Item = (K, V)>) -> u64 {
    hash_map_of(entries.into_iter().map(|(key, value)| (hash_text(key.as_ref()), hash_text(value.as_ref()))))
}

/// Hashes a map whose keys and values are hashed already.
pub(super) fn hash_map_of(entries: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    hash_u64(hash_list(entries.into_iter().map(|(key, value)| hash_pair(key, value))))
}

/// Hashes a struct: its name, then its fields in the order of their declaration.
pub(super) struct StructHasher(u64);

impl StructHasher {
    pub(super) fn named(name: &str) -> Self {
        Self(hash_text(name))
    }

    #[must_use]
    pub(super) fn field(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => Self(hash_u64(self.0 ^ hash_pair(hash_text(name), value))),
            None => self,
        }
    }

    pub(super) fn finish(self) -> u64 {
        self.0
    }
}

fn hash_pair(a: u64, b: u64) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&a.to_le_bytes());
    both[8..].copy_from_slice(&b.to_le_bytes());
    hash_bytes(&both)
}

fn hash_u64(a: u64) -> u64 {
    hash_bytes(&a.to_le_bytes())
}
