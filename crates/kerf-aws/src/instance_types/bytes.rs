//! Amounts of memory and storage.

use kerf_api::quantity::{Quantity, QuantityFormat};

/// Bytes of a MiB.
pub(super) const MIB: i64 = 1 << 20;

pub(super) const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// Returns a number of bytes as a quantity in binary format.
pub(super) fn bytes(bytes: i64) -> Quantity {
    Quantity::from_nanos(i128::from(bytes) * NANOS_PER_UNIT, QuantityFormat::BinarySi)
}
