//! Uids and generated names in the form of kube-apiserver.
//!
//! Invariant: nothing in this crate uses the operating system's randomness, except for the serving
//! key and the bearer token. These must not be guessable and are part of no recorded run.

use std::fmt::Write as _;

use kerf_runtime::Rng;

/// Alphabet of Kubernetes' generated names. It has no vowels and no look-alike characters, so that
/// no words are generated.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Draws identifiers from a random stream. Two runs with one seed generate the same identifiers.
pub(crate) trait GenerateIdentifiers {
    /// Returns a uid in Kubernetes' form (a version 4 UUID).
    fn uid(&mut self) -> String;

    /// Returns the five characters that the server appends to a `generateName`.
    fn name_suffix(&mut self) -> String;
}

impl GenerateIdentifiers for Rng {
    /// The fourth group takes other bits of the second number than [`Rng::uuid`], and recorded runs
    /// contain these uids.
    fn uid(&mut self) -> String {
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

    fn name_suffix(&mut self) -> String {
        (0..5).map(|_| char::from(NAME_LETTERS[self.below(NAME_LETTERS.len() as u64) as usize])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn suffixes_use_the_alphabet() {
        let mut rng = Rng::new(3);
        assert!((0..200).all(|_| rng.name_suffix().bytes().all(|letter| NAME_LETTERS.contains(&letter))));
    }

    #[test]
    fn identifiers_of_a_seed_are_fixed() {
        let mut rng = Rng::new(7).fork("api server");
        assert_eq!(rng.uid(), "e5695799-f51d-4bd8-aa54-60f2ba59d401");
        assert_eq!(rng.name_suffix(), "2xt98");
    }
}
