//! Lists of instance types. What changes at runtime, the state of the offerings, is kept apart from
//! the types, so that a change of state copies no type.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::instance_type::{InstanceType, Offering};

/// The instance types that a provider offers to a NodePool, with the current state of their
/// offerings. A clone shares everything.
///
/// A provider makes one list per node class and keeps it. Types of two lists share the parts that
/// are equal, see [`InstanceType`]. As long as nothing changes, the provider returns clones of one
/// list: decisions that were prepared for it stay valid ([`Self::is_same`]).
#[derive(Clone, Default)]
pub struct InstanceTypes {
    types: Arc<[InstanceType]>,
    /// States that differ from the default, sorted by offering.
    states: Arc<[(OfferingIx, OfferingState)]>,
}

/// Position of an offering in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingIx {
    instance_type: u32,
    offering: u32,
}

/// The part of an offering that changes at runtime. By default an offering is available and has no
/// free slots of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferingState {
    /// False if the offering is known but cannot be launched now.
    pub is_available: bool,
    /// Number of free slots of a reservation; zero for other capacity types.
    pub reservation_capacity: i32,
}

/// An instance type of a list. Dereferences to the [`InstanceType`], whose field `offerings` has no
/// states; [`Self::offerings`] has.
#[derive(Clone, Copy)]
pub struct InstanceTypeRef<'a> {
    list: &'a InstanceTypes,
    instance_type: &'a InstanceType,
    ix: u32,
}

/// An offering of a list with its current state. Dereferences to the [`Offering`].
#[derive(Debug, Clone, Copy)]
pub struct OfferingRef<'a> {
    offering: &'a Offering,
    ix: OfferingIx,
    state: OfferingState,
}

impl Default for OfferingState {
    fn default() -> Self {
        Self { is_available: true, reservation_capacity: 0 }
    }
}

impl InstanceTypes {
    /// Returns the instance types, without the states of their offerings.
    pub fn types(&self) -> &[InstanceType] {
        &self.types
    }

    /// Returns the number of instance types.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Returns true if there is no instance type.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Returns all instance types in their order.
    pub fn iter(&self) -> impl Iterator<Item = InstanceTypeRef<'_>> {
        (0..).zip(self.types.iter()).map(|(ix, instance_type)| InstanceTypeRef { list: self, instance_type, ix })
    }

    /// Returns the instance type with this name. Searches the whole list.
    pub fn find(&self, name: &str) -> Option<InstanceTypeRef<'_>> {
        self.iter().find(|instance_type| instance_type.name == name)
    }

    /// Returns true if both lists have the same types, by identity, and equal states. Decisions
    /// that were prepared for one list are then valid for the other. False for equal types that
    /// were built twice.
    pub fn is_same(&self, other: &Self) -> bool {
        let have_same_states = Arc::ptr_eq(&self.states, &other.states) || self.states == other.states;
        Arc::ptr_eq(&self.types, &other.types) && have_same_states
    }

    /// Returns the list with another state for each offering. Copies no instance type. If no state
    /// changes, the result is the same list.
    #[must_use]
    pub fn with_states(&self, mut state: impl FnMut(&InstanceType, OfferingRef<'_>) -> OfferingState) -> Self {
        let states: Vec<(OfferingIx, OfferingState)> = self
            .iter()
            .flat_map(|instance_type| instance_type.offerings().map(move |offering| (instance_type, offering)))
            .map(|(instance_type, offering)| (offering.ix, state(&instance_type, offering)))
            .filter(|(_, state)| *state != OfferingState::default())
            .collect();
        if self.states[..] == states {
            return self.clone();
        }
        Self { types: self.types.clone(), states: states.into() }
    }

    /// Sets the state of one offering of this list. Copies no instance type. An offering that the
    /// list does not have is ignored.
    pub fn set_state(&mut self, ix: OfferingIx, state: OfferingState) {
        let instance_type = self.types.get(ix.instance_type as usize);
        if instance_type.is_none_or(|instance_type| instance_type.offerings.len() <= ix.offering as usize) {
            return;
        }
        let mut states = self.states.to_vec();
        match states.binary_search_by_key(&ix, |(known, _)| *known) {
            Ok(position) => states[position].1 = state,
            Err(position) => states.insert(position, (ix, state)),
        }
        states.retain(|(_, state)| *state != OfferingState::default());
        self.states = states.into();
    }
}

/// Shows the number of types and the states. All types would fill many pages.
impl fmt::Debug for InstanceTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceTypes")
            .field("types", &self.types.len())
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

/// Makes a list whose offerings have the default state.
impl FromIterator<InstanceType> for InstanceTypes {
    fn from_iter<I: IntoIterator<Item = InstanceType>>(types: I) -> Self {
        Self { types: types.into_iter().collect(), states: Arc::default() }
    }
}

/// Makes a list of types, each with the states of its offerings in their order. A missing state is
/// the default.
impl FromIterator<(InstanceType, Vec<OfferingState>)> for InstanceTypes {
    fn from_iter<I: IntoIterator<Item = (InstanceType, Vec<OfferingState>)>>(pairs: I) -> Self {
        let (types, states): (Vec<InstanceType>, Vec<Vec<OfferingState>>) = pairs.into_iter().unzip();
        let list: Self = types.into_iter().collect();
        list.with_states(|_, OfferingRef { ix, .. }| {
            states[ix.instance_type as usize].get(ix.offering as usize).copied().unwrap_or_default()
        })
    }
}

impl<'a> InstanceTypeRef<'a> {
    /// Returns the offerings with their current states.
    pub fn offerings(self) -> impl Iterator<Item = OfferingRef<'a>> {
        let states = &self.list.states[..];
        let start = states.partition_point(|(ix, _)| ix.instance_type < self.ix);
        let end = start + states[start..].partition_point(|(ix, _)| ix.instance_type == self.ix);
        let states = &states[start..end];
        (0..).zip(self.instance_type.offerings.iter()).map(move |(offering_ix, offering)| {
            let ix = OfferingIx { instance_type: self.ix, offering: offering_ix };
            let state = states.iter().find(|(known, _)| *known == ix).map(|(_, state)| *state).unwrap_or_default();
            OfferingRef { offering, ix, state }
        })
    }

    /// Returns the type and the states of its offerings, to build another list. Copies no part.
    pub fn to_pair(self) -> (InstanceType, Vec<OfferingState>) {
        (self.instance_type.clone(), self.offerings().map(OfferingRef::state).collect())
    }

    /// Returns the instance type, for as long as the list exists.
    pub fn instance_type(self) -> &'a InstanceType {
        self.instance_type
    }
}

impl Deref for InstanceTypeRef<'_> {
    type Target = InstanceType;

    fn deref(&self) -> &InstanceType {
        self.instance_type
    }
}

impl fmt::Debug for InstanceTypeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.instance_type.fmt(f)
    }
}

impl<'a> OfferingRef<'a> {
    /// Returns the position of the offering in its list.
    pub fn ix(self) -> OfferingIx {
        self.ix
    }

    /// Returns the current state.
    pub fn state(self) -> OfferingState {
        self.state
    }

    /// Returns true if the offering is not known to be unavailable.
    pub fn is_available(self) -> bool {
        self.state.is_available
    }

    /// Returns the number of free slots of a reservation; zero for other capacity types.
    pub fn reservation_capacity(self) -> i32 {
        self.state.reservation_capacity
    }

    /// Returns true if a node can be launched into the offering now: it is available, and if it is
    /// reserved, a slot is free (spec 10 §2.3).
    pub fn is_launchable(self) -> bool {
        self.state.is_available && !self.is_full()
    }

    /// Returns true if the offering is reserved, available, and has no free slot (spec 10 §2.3). A
    /// full offering counts for the fit of pods, not for prices.
    pub fn is_full(self) -> bool {
        self.state.is_available && self.offering.is_reserved() && self.state.reservation_capacity <= 0
    }

    /// Returns the offering, for as long as the list exists.
    pub fn offering(self) -> &'a Offering {
        self.offering
    }
}

impl Deref for OfferingRef<'_> {
    type Target = Offering;

    fn deref(&self) -> &Offering {
        self.offering
    }
}

#[cfg(test)]
mod tests;
