//! Ranges of sizes and costs, with saturating arithmetic.

/// The minimum and maximum of a size or a cost. An unknown maximum is `u64::MAX`.
#[derive(Clone, Copy, Debug)]
pub(super) struct EstimateRange {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl EstimateRange {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    pub(super) const ZERO: Self = Self::fixed(0);

    pub(super) const fn fixed(n: u64) -> Self {
        Self { min: n, max: n }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn scale(self, factor: f64) -> Self {
        // The cast saturates, as required.
        Self { min: (self.min as f64 * factor).ceil() as u64, max: (self.max as f64 * factor).ceil() as u64 }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Sizes of the keys and values in a list or map.
#[derive(Clone, Copy)]
pub(super) struct EntrySizes {
    pub(super) is_list: bool,
    pub(super) key: EstimateRange,
    pub(super) value: EstimateRange,
}

impl EntrySizes {
    pub(super) fn union(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (a, b) = (a?, b?);
        Some(Self { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) })
    }
}
