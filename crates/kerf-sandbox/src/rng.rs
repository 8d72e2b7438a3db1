//! Random numbers of the sandbox: a small generator that is a pure function of its seed. Two runs
//! with one seed generate the same uids, name suffixes and faults.
//!
//! Invariant: nothing in this crate uses the operating system's randomness, except for the serving
//! key and the bearer token. These must not be guessable and are part of no recorded run.

use std::fmt::Write as _;

/// Alphabet of Kubernetes' generated names. It has no vowels and no look-alike characters, so that
/// no words are generated.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A stream of random numbers that depends only on its seed (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[must_use]
    /// Returns an independent stream for one purpose. The number of draws for one purpose does not
    /// change the numbers of another.
    pub fn fork(&self, purpose: &str) -> Self {
        let mut state = self.0 ^ 0x9e37_79b9_7f4a_7c15;
        for byte in purpose.bytes() {
            state = mix(state ^ u64::from(byte)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        Self(state)
    }

    /// Returns the next number, with all 64 bits random.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound`, or zero if `bound` is zero. The bias is less than 1 in 2^32
    /// for every bound that is used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with a probability of `parts_per_million`.
    pub fn happens_per_million(&mut self, parts_per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(parts_per_million)
    }

    /// Returns a uid in Kubernetes' form (a version 4 UUID).
    pub(crate) fn uid(&mut self) -> String {
        let high = (self.next_u64() & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (self.next_u64() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        let mut uid = String::with_capacity(36);
        let parts = [high >> 32, (high >> 16) & 0xffff, high & 0xffff, low >> 48];
        // Writing to a String cannot fail.
        let _ = write!(
            uid,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            parts[0],
            parts[1],
            parts[2],
            parts[3],
            low & 0xffff_ffff_ffff
        );
        uid
    }

    /// Returns the five characters that the server appends to a `generateName`.
    pub(crate) fn name_suffix(&mut self) -> String {
        (0..5).map(|_| char::from(NAME_LETTERS[self.below(NAME_LETTERS.len() as u64) as usize])).collect()
    }
}

fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_sequence() {
        let (mut one, mut two) = (Rng::new(7), Rng::new(7));
        assert_eq!(
            (0..100).map(|_| one.next_u64()).collect::<Vec<_>>(),
            (0..100).map(|_| two.next_u64()).collect::<Vec<_>>()
        );
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn a_fork_does_not_see_what_its_parent_draws() {
        let parent = Rng::new(7);
        let mut drawn = parent.clone();
        drawn.next_u64();
        assert_eq!(parent.fork("uid").next_u64(), Rng::new(7).fork("uid").next_u64());
        assert_ne!(parent.fork("uid").next_u64(), parent.fork("name").next_u64());
    }

    #[test]
    fn uids_are_version_four_uuids() {
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let uid = rng.uid();
            let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
            assert_eq!(uid.as_bytes()[14], b'4', "{uid}");
            assert!(b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
        }
    }

    #[test]
    fn suffixes_use_the_alphabet_and_rates_are_kept() {
        let mut rng = Rng::new(3);
        assert!((0..200).all(|_| rng.name_suffix().bytes().all(|letter| NAME_LETTERS.contains(&letter))));
        let hits = (0..100_000).filter(|_| rng.happens_per_million(250_000)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !rng.happens_per_million(0) && rng.happens_per_million(1_000_000)));
    }
}
