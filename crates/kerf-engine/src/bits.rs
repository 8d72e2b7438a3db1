//! Sets of small integers as bit sets: instance types, offerings, nodes or claims that are still
//! possible.
//!
//! Combining sets of hundreds of instance types or thousands of claims takes a few AND operations
//! on words. A set grows on insert, and positions past its end are not members. So sets of
//! different lengths can be combined.

use smallvec::{SmallVec, smallvec};

/// A growable set of small integers. Values below 512 need no allocation.
#[derive(Debug, Default)]
pub(crate) struct Bits(SmallVec<[u64; 8]>);

impl Clone for Bits {
    /// Copies all words at once. The derived implementation would clone them one by one.
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl PartialEq for Bits {
    /// Ignores trailing zero words.
    fn eq(&self, other: &Self) -> bool {
        let n = self.0.len().max(other.0.len());
        (0..n).all(|i| self.word(i) == other.word(i))
    }
}

impl Eq for Bits {}

impl std::hash::Hash for Bits {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let end = self.0.iter().rposition(|w| *w != 0).map_or(0, |i| i + 1);
        self.0[..end].hash(state);
    }
}

impl Bits {
    pub(crate) fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Returns the set of all integers in `0..n`.
    pub(crate) fn full(n: usize) -> Self {
        let mut words: SmallVec<[u64; 8]> = smallvec![u64::MAX; n.div_ceil(64)];
        if !n.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last = (1 << (n % 64)) - 1;
        }
        Self(words)
    }

    pub(crate) fn word(&self, i: usize) -> u64 {
        self.0.get(i).copied().unwrap_or(0)
    }

    pub(crate) fn words(&self) -> usize {
        self.0.len()
    }

    /// Returns the size of the set on the heap, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        if self.0.spilled() { self.0.capacity() * size_of::<u64>() } else { 0 }
    }

    pub(crate) fn contains(&self, i: usize) -> bool {
        self.word(i / 64) >> (i % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, i: usize) {
        if self.0.len() <= i / 64 {
            self.0.resize(i / 64 + 1, 0);
        }
        self.0[i / 64] |= 1 << (i % 64);
    }

    pub(crate) fn remove(&mut self, i: usize) {
        if let Some(word) = self.0.get_mut(i / 64) {
            *word &= !(1 << (i % 64));
        }
    }

    pub(crate) fn set(&mut self, i: usize, member: bool) {
        if member { self.insert(i) } else { self.remove(i) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }

    pub(crate) fn and_with(&mut self, other: &Self) {
        for (i, word) in self.0.iter_mut().enumerate() {
            *word &= other.word(i);
        }
    }

    pub(crate) fn or_with(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    pub(crate) fn and_not_with(&mut self, other: &Self) {
        for (word, less) in self.0.iter_mut().zip(&other.0) {
            *word &= !less;
        }
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Returns the members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, word)| WordBits(*word).map(move |b| i * 64 + b))
    }

    /// Returns the members in descending order, for callers that need only the last few of many.
    pub(crate) fn descending(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().rev().flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let top = left.checked_ilog2()?;
                left &= !(1 << top);
                Some(i * 64 + top as usize)
            })
        })
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(members: I) -> Self {
        let mut bits = Self::new();
        for i in members {
            bits.insert(i);
        }
        bits
    }
}

/// Iterates over the set bits of one word in ascending order.
pub(crate) struct WordBits(pub(crate) u64);

impl Iterator for WordBits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_different_lengths_combine() {
        let mut a: Bits = [1, 64, 200].into_iter().collect();
        let b: Bits = [64].into_iter().collect();
        assert!(a.intersects(&b));
        a.and_with(&b);
        assert_eq!(a.iter().collect::<Vec<_>>(), [64]);
        assert_eq!(a, b);
        a.or_with(&Bits::full(3));
        assert_eq!(a.iter().collect::<Vec<_>>(), [0, 1, 2, 64]);
        a.and_not_with(&b);
        assert_eq!(a.iter().count(), 3);
        assert!(!a.contains(1000));
    }

    #[test]
    fn full_has_exactly_its_members() {
        for n in [0, 1, 63, 64, 65, 128, 130] {
            assert_eq!(Bits::full(n).iter().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
            assert_eq!(Bits::full(n).descending().collect::<Vec<_>>(), (0..n).rev().collect::<Vec<_>>());
        }
    }
}
