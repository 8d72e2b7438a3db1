//! Ties are broken by chance, and chance is a function of the seed and of names: never of an index, so that neither the order of
//! the input nor what else is in it decides how a tie falls.

/// A cheap mixing of bits (the finaliser of splitmix64).
pub(crate) fn splitmix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number for a name, on top of what came before it.
pub(crate) fn hash_name(before: u64, text: &str) -> u64 {
    text.bytes().fold(splitmix64(before), |sum, byte| splitmix64(sum ^ u64::from(byte)))
}
