//! Amazon Application Recovery Controller: zones that traffic is shifted away from.

use jiff::Timestamp;

use super::AwsFuture;

/// The calls of ARC zonal shift.
pub trait ZonalShift: Send + Sync {
    /// `GetManagedResource` for the ARN of an EKS cluster. A cluster that is not enabled for zonal
    /// shift fails with `ResourceNotFoundException`.
    fn get_managed_resource<'a>(&'a self, arn: &'a str) -> AwsFuture<'a, ManagedResource>;
}

/// A resource that is enabled for zonal shift.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedResource {
    /// ARN of the resource; empty if missing.
    pub arn: String,
    /// Name of the resource; empty if missing.
    pub name: String,
    /// All shifts of the resource that have not ended, applied or not.
    pub zonal_shifts: Vec<ZonalShiftRecord>,
}

/// One shift of a resource away from a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZonalShiftRecord {
    /// ID of the shift.
    pub id: String,
    /// ID of the availability zone, for example `usw2-az1`.
    pub away_from: String,
    /// `APPLIED` or `NOT_APPLIED`.
    pub applied_status: String,
    /// Time at which the shift began; `None` if missing.
    pub started_at: Option<Timestamp>,
    /// Time at which the shift ends; `None` if missing.
    pub expires_at: Option<Timestamp>,
}
