//! Requirements and sets of requirements under small indices, with cached intersections.
//!
//! Placing pods intersects a few requirement sets over and over: a pool's set with that of a pod
//! class, then with a zone. Here every requirement and every set is stored once, and the result of
//! each intersection is cached. So the solver's inner loop reads a hash table instead of comparing
//! strings. The rules are those of [`crate::requirement`].
//!
//! Requirements and sets are stored in one of two arenas. What the cluster, the pools and the pods
//! define is *lasting*. What a placement pass derives from it is *learned*: a pool that accepts any
//! value of some labels, and pods that select many values, give a new combination with almost every
//! check. [`RequirementTable::forget_learned`] drops all learned entries but those that are still
//! in use.
//!
//! The hostname is never part of a set. It identifies a node or claim and is checked where these
//! are known.

use std::sync::Arc;

use kerf_api::slim::Str;
use rustc_hash::FxHashMap;

use crate::intern::{Interner, Sym};
use crate::requirement::{Requirement, Requirements};

/// An interned label key.
pub(crate) type KeyIx = Sym;

/// Index of a requirement on one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RequirementIx(u32);

impl RequirementIx {
    /// Stands for no requirement; never the index of a requirement.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// Index of a set of requirements with at most one requirement per key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RequirementSetIx(u32);

impl RequirementSetIx {
    /// The set without requirements.
    pub(crate) const EMPTY: Self = Self(0);
}

/// Treatment of a key that is required and that the other side does not define.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UndefinedKeys {
    /// Well-known labels may be undefined: the provider sets them on a new node.
    AllowWellKnown,
    /// The label must be defined, because the node exists already.
    Reject,
}

/// This bit is set in the indices of learned requirements and sets.
const LEARNED: u32 = 1 << 31;
/// Approximate size of a requirement without its values, in bytes.
const REQUIREMENT_BYTES: usize = 160;
/// Approximate size of a set without its pairs, in bytes.
const SET_BYTES: usize = 96;
/// Approximate size of a cached intersection, in bytes.
const INTERSECTION_BYTES: usize = 40;

/// All requirements and sets of one cluster model, and their cached intersections.
#[derive(Debug, Clone)]
pub(crate) struct RequirementTable {
    keys: Interner,
    key_is_well_known: Vec<bool>,
    lasting: Arena,
    learned: Arena,
    /// True if new entries are learned, not lasting.
    is_learning: bool,
    /// Incremented whenever learned entries are dropped. The index of a learned set identifies it
    /// only together with the generation.
    generation: u64,
    requirement_intersections: FxHashMap<(RequirementIx, RequirementIx), (RequirementIx, bool)>,
    set_intersections: FxHashMap<(RequirementSetIx, RequirementSetIx, UndefinedKeys), Option<RequirementSetIx>>,
    well_known_keys: Vec<Str>,
}

/// Requirements and sets that are dropped together.
#[derive(Debug, Clone, Default)]
struct Arena {
    requirements: Vec<Requirement>,
    requirement_index: FxHashMap<Requirement, RequirementIx>,
    sets: Vec<Arc<[(KeyIx, RequirementIx)]>>,
    set_index: FxHashMap<Arc<[(KeyIx, RequirementIx)]>, RequirementSetIx>,
    /// Approximate size in bytes.
    bytes: usize,
}

impl Arena {
    fn add_requirement(&mut self, requirement: Requirement, flag: u32) -> RequirementIx {
        self.bytes += REQUIREMENT_BYTES + size_of_val(requirement.values());
        let ix = RequirementIx(self.requirements.len() as u32 | flag);
        self.requirements.push(requirement.clone());
        self.requirement_index.insert(requirement, ix);
        ix
    }

    fn add_set(&mut self, pairs: &[(KeyIx, RequirementIx)], flag: u32) -> RequirementSetIx {
        self.bytes += SET_BYTES + size_of_val(pairs);
        let ix = RequirementSetIx(self.sets.len() as u32 | flag);
        let pairs: Arc<[(KeyIx, RequirementIx)]> = pairs.into();
        self.sets.push(pairs.clone());
        self.set_index.insert(pairs, ix);
        ix
    }
}

impl RequirementTable {
    /// Creates a table with these well-known labels.
    pub(crate) fn new(well_known: impl IntoIterator<Item = Str>) -> Self {
        let mut well_known_keys: Vec<Str> = well_known.into_iter().collect();
        well_known_keys.sort_unstable();
        well_known_keys.dedup();
        let mut table = Self {
            keys: Interner::default(),
            key_is_well_known: Vec::new(),
            lasting: Arena::default(),
            learned: Arena::default(),
            is_learning: false,
            generation: 0,
            requirement_intersections: FxHashMap::default(),
            set_intersections: FxHashMap::default(),
            well_known_keys,
        };
        let empty = table.intern_pairs(Vec::new());
        debug_assert_eq!(empty, RequirementSetIx::EMPTY);
        table
    }

    /// Returns the approximate size of learned entries and cached intersections, in bytes.
    pub(crate) fn cache_bytes(&self) -> usize {
        let intersections = self.requirement_intersections.len() + self.set_intersections.len();
        self.learned.bytes + intersections * INTERSECTION_BYTES
    }

    /// Returns the approximate size of lasting entries in bytes.
    pub(crate) fn lasting_bytes(&self) -> usize {
        self.lasting.bytes
    }

    /// Sets whether new entries are learned. Entries that outlive a pass must not be.
    pub(crate) fn set_learning(&mut self, is_learning: bool) {
        self.is_learning = is_learning;
    }

    /// Returns a number that changes whenever learned entries are dropped.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Drops cached intersections and all learned entries except the sets in `used`, whose indices
    /// are updated.
    pub(crate) fn forget_learned<'s>(&mut self, used: impl Iterator<Item = &'s mut RequirementSetIx>) {
        let old = std::mem::take(&mut self.learned);
        self.requirement_intersections = FxHashMap::default();
        self.set_intersections = FxHashMap::default();
        self.generation += 1;
        let was_learning = std::mem::replace(&mut self.is_learning, true);
        for set in used.filter(|set| set.0 & LEARNED != 0) {
            let pairs = old.sets[(set.0 & !LEARNED) as usize].iter().map(|(key, requirement_ix)| {
                let is_learned = requirement_ix.0 & LEARNED != 0;
                let requirement = is_learned.then(|| old.requirements[(requirement_ix.0 & !LEARNED) as usize].clone());
                (*key, requirement.map_or(*requirement_ix, |requirement| self.intern_requirement(requirement)))
            });
            let pairs = pairs.collect();
            *set = self.intern_pairs(pairs);
        }
        self.is_learning = was_learning;
    }

    pub(crate) fn intern_key(&mut self, key: &str) -> KeyIx {
        let ix = self.keys.intern(key);
        while self.key_is_well_known.len() <= ix.0 as usize {
            let text = self.keys.text(Sym(self.key_is_well_known.len() as u32));
            self.key_is_well_known.push(self.well_known_keys.binary_search(text).is_ok());
        }
        ix
    }

    pub(crate) fn known_key(&self, key: &str) -> Option<KeyIx> {
        self.keys.get(key)
    }

    pub(crate) fn key_text(&self, key: KeyIx) -> &Str {
        self.keys.text(key)
    }

    pub(crate) fn is_well_known(&self, key: KeyIx) -> bool {
        self.key_is_well_known[key.0 as usize]
    }

    pub(crate) fn intern_requirement(&mut self, requirement: Requirement) -> RequirementIx {
        if let Some(ix) = self.lasting.requirement_index.get(&requirement) {
            return *ix;
        }
        if !self.is_learning {
            return self.lasting.add_requirement(requirement, 0);
        }
        match self.learned.requirement_index.get(&requirement) {
            Some(ix) => *ix,
            None => self.learned.add_requirement(requirement, LEARNED),
        }
    }

    pub(crate) fn requirement(&self, ix: RequirementIx) -> &Requirement {
        let arena = if ix.0 & LEARNED == 0 { &self.lasting } else { &self.learned };
        &arena.requirements[(ix.0 & !LEARNED) as usize]
    }

    pub(crate) fn intern(&mut self, requirements: &Requirements) -> RequirementSetIx {
        let pairs =
            requirements.iter().map(|r| (self.intern_key(r.key()), self.intern_requirement(r.clone()))).collect();
        self.intern_pairs(pairs)
    }

    fn intern_pairs(&mut self, mut pairs: Vec<(KeyIx, RequirementIx)>) -> RequirementSetIx {
        if !self.is_learning {
            // A cached intersection may be learned. A lasting set refers to lasting requirements
            // only.
            for (_, requirement_ix) in pairs.iter_mut().filter(|(_, requirement_ix)| requirement_ix.0 & LEARNED != 0) {
                let requirement = self.requirement(*requirement_ix).clone();
                *requirement_ix = self.intern_requirement(requirement);
            }
        }
        pairs.sort_unstable();
        if let Some(ix) = self.lasting.set_index.get(&*pairs) {
            return *ix;
        }
        if !self.is_learning {
            return self.lasting.add_set(&pairs, 0);
        }
        match self.learned.set_index.get(&*pairs) {
            Some(ix) => *ix,
            None => self.learned.add_set(&pairs, LEARNED),
        }
    }

    pub(crate) fn pairs(&self, set: RequirementSetIx) -> &[(KeyIx, RequirementIx)] {
        let arena = if set.0 & LEARNED == 0 { &self.lasting } else { &self.learned };
        &arena.sets[(set.0 & !LEARNED) as usize]
    }

    pub(crate) fn get(&self, set: RequirementSetIx, key: KeyIx) -> Option<RequirementIx> {
        let pairs = self.pairs(set);
        pairs.binary_search_by_key(&key, |p| p.0).ok().map(|i| pairs[i].1)
    }

    /// Returns the set as [`Requirements`], for messages and API objects.
    pub(crate) fn requirements(&self, set: RequirementSetIx) -> Requirements {
        self.pairs(set).iter().map(|(_, requirement_ix)| self.requirement(*requirement_ix).clone()).collect()
    }

    pub(crate) fn has_min_values(&self, set: RequirementSetIx) -> bool {
        self.pairs(set).iter().any(|(_, requirement_ix)| self.requirement(*requirement_ix).min_values().is_some())
    }

    /// Returns the intersection of both requirements, and true if something can satisfy it. Two
    /// requirements that both allow the label to be absent agree on absence (spec 02 §3.4).
    pub(crate) fn intersect_requirements(&mut self, a: RequirementIx, b: RequirementIx) -> (RequirementIx, bool) {
        if let Some(cached) = self.requirement_intersections.get(&(a, b)) {
            return *cached;
        }
        let (left, right) = (self.requirement(a), self.requirement(b));
        let agree = left.has_intersection(right) || (left.may_be_absent() && right.may_be_absent());
        let joined = left.intersection(right);
        let joined = self.intern_requirement(joined);
        self.requirement_intersections.insert((a, b), (joined, agree));
        (joined, agree)
    }

    /// Returns `offered` restricted by `required`, or `None` if they are not compatible (spec 02
    /// §3.4).
    pub(crate) fn intersect_sets(
        &mut self,
        offered: RequirementSetIx,
        required: RequirementSetIx,
        undefined: UndefinedKeys,
    ) -> Option<RequirementSetIx> {
        if required == RequirementSetIx::EMPTY || offered == required {
            return Some(offered);
        }
        if let Some(cached) = self.set_intersections.get(&(offered, required, undefined)) {
            return *cached;
        }
        let result = self.intersect_pairs(offered, required, undefined);
        self.set_intersections.insert((offered, required, undefined), result);
        result
    }

    fn intersect_pairs(
        &mut self,
        offered: RequirementSetIx,
        required: RequirementSetIx,
        undefined: UndefinedKeys,
    ) -> Option<RequirementSetIx> {
        let required_pairs = self.pairs(required).to_vec();
        let mut pairs = self.pairs(offered).to_vec();
        for (key, requirement_ix) in required_pairs {
            match pairs.iter().position(|p| p.0 == key) {
                Some(position) => {
                    let (joined, agree) = self.intersect_requirements(pairs[position].1, requirement_ix);
                    if !agree {
                        return None;
                    }
                    pairs[position].1 = joined;
                }
                None => {
                    let is_allowed = undefined == UndefinedKeys::AllowWellKnown && self.is_well_known(key);
                    if !is_allowed && !self.requirement(requirement_ix).may_be_absent() {
                        return None;
                    }
                    pairs.push((key, requirement_ix));
                }
            }
        }
        Some(self.intern_pairs(pairs))
    }

    /// Returns the set with the requirement on this key replaced or added.
    pub(crate) fn replace(&mut self, set: RequirementSetIx, requirement: Requirement) -> RequirementSetIx {
        let key = self.intern_key(requirement.key());
        let requirement_ix = self.intern_requirement(requirement);
        let mut pairs: Vec<_> = self.pairs(set).iter().copied().filter(|p| p.0 != key).collect();
        pairs.push((key, requirement_ix));
        self.intern_pairs(pairs)
    }

    /// Returns the set restricted to the given keys, which must be sorted.
    pub(crate) fn project(&mut self, set: RequirementSetIx, keys: &[KeyIx]) -> RequirementSetIx {
        let pairs =
            keys.iter().filter_map(|key| self.get(set, *key).map(|requirement_ix| (*key, requirement_ix))).collect();
        self.intern_pairs(pairs)
    }

    /// Returns the set with only this requirement.
    pub(crate) fn single_requirement_set(&mut self, key: KeyIx, requirement_ix: RequirementIx) -> RequirementSetIx {
        self.intern_pairs(vec![(key, requirement_ix)])
    }
}
