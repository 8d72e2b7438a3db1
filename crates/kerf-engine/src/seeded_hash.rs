//! Hashes that break ties. They depend on the seed and on names, never on an index. So neither the
//! order of the input nor unrelated objects in it change how a tie is broken.

/// Mixes the bits of a value (the finalizer of splitmix64).
pub(crate) fn splitmix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hashes a name, starting from the hash `before`.
pub(crate) fn hash_name(before: u64, text: &str) -> u64 {
    text.bytes().fold(splitmix64(before), |sum, byte| splitmix64(sum ^ u64::from(byte)))
}
