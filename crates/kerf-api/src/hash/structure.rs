//! The hash function itself: 64-bit FNV-1 over values, and over records, lists and maps of them.
//!
//! Every function returns the hash of a value; `None` in place of one is a value that is left out.

const OFFSET_BASIS: u64 = 14_695_981_039_346_656_037;
const PRIME: u64 = 1_099_511_628_211;

pub(super) fn bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

pub(super) fn text(text: &str) -> u64 {
    bytes(text.as_bytes())
}

pub(super) fn flag(flag: bool) -> u64 {
    bytes(&[u8::from(flag)])
}

pub(super) fn int64(number: i64) -> u64 {
    bytes(&number.to_le_bytes())
}

pub(super) fn int32(number: i32) -> u64 {
    bytes(&number.to_le_bytes())
}

/// A string that is left out when it is empty.
pub(super) fn non_empty(value: &str) -> Option<u64> {
    (!value.is_empty()).then(|| text(value))
}

/// A list is a set: its order does not matter.
pub(super) fn list(elements: impl IntoIterator<Item = u64>) -> u64 {
    elements.into_iter().fold(0, |all, element| all ^ element)
}

pub(super) fn map<K: AsRef<str>, V: AsRef<str>>(entries: impl IntoIterator<Item = (K, V)>) -> u64 {
    seal(list(entries.into_iter().map(|(key, value)| pair(text(key.as_ref()), text(value.as_ref())))))
}

/// A record in the making: its name, then its fields in the order of their declaration.
pub(super) struct StructHasher(u64);

impl StructHasher {
    pub(super) fn named(name: &str) -> Self {
        Self(text(name))
    }

    #[must_use]
    pub(super) fn field(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => Self(seal(self.0 ^ pair(text(name), value))),
            None => self,
        }
    }

    pub(super) fn hash(self) -> u64 {
        self.0
    }
}

fn pair(a: u64, b: u64) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&a.to_le_bytes());
    both[8..].copy_from_slice(&b.to_le_bytes());
    bytes(&both)
}

fn seal(a: u64) -> u64 {
    bytes(&a.to_le_bytes())
}
