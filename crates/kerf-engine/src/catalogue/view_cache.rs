//! Cached [`RowView`]s, shared by all requirement sets that the catalogue cannot tell apart.
//!
//! Pods may select values that no instance type and no offering knows, such as the names of teams.
//! Thousands of such sets share one view: a view is identified by the types and offerings that
//! match, not by the requirements. The cache never holds much more than its limit; entries can be
//! dropped at any time, because they are computed again when they are needed.

use rustc_hash::FxHashMap;

use super::compiled::{CompiledCatalogue, Matches, RowView};
use crate::requirement_table::{RequirementIx, RequirementSetIx, RequirementTable};

/// Approximate size of an entry of a hash map with small keys and values, in bytes.
const ENTRY_BYTES: usize = 32;
/// The cache is emptied when it exceeds this size, in bytes.
const VIEW_CACHE_BYTES_MAX: usize = 48 << 20;

/// Views of all catalogues of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct ViewCache {
    /// Index into `views` by catalogue and requirement set.
    by_set: FxHashMap<(usize, RequirementSetIx), usize>,
    /// The types and offerings that satisfy a requirement, by catalogue and requirement. Only for
    /// labels that the catalogue defines.
    matches: FxHashMap<(usize, RequirementIx), Matches>,
    /// Index into `views` by catalogue and matching types and offerings.
    by_matches: FxHashMap<(usize, Matches), usize>,
    views: Vec<RowView>,
    bytes: usize,
}

impl ViewCache {
    /// Returns the rows and offerings that satisfy the set. `catalogue_ix` identifies the
    /// catalogue.
    pub(crate) fn view(
        &mut self,
        catalogue_ix: usize,
        catalogue: &CompiledCatalogue,
        set: RequirementSetIx,
        table: &mut RequirementTable,
    ) -> &RowView {
        if let Some(view) = self.by_set.get(&(catalogue_ix, set)) {
            return &self.views[*view];
        }
        if self.bytes > VIEW_CACHE_BYTES_MAX {
            self.clear();
        }
        let (cached_matches, bytes) = (&mut self.matches, &mut self.bytes);
        let matches = catalogue.matches_of_set(set, table, |requirement_ix, matches, table| {
            let cached = cached_matches.entry((catalogue_ix, requirement_ix)).or_insert_with(|| {
                let computed = catalogue.matches_of_requirement(requirement_ix, table);
                *bytes += ENTRY_BYTES + computed.bytes();
                computed
            });
            matches.and_with(cached);
        });
        let view = match self.by_matches.get(&(catalogue_ix, matches.clone())) {
            Some(view) => *view,
            None => {
                let view = catalogue.view_of_matches(&matches);
                self.bytes += ENTRY_BYTES + view.bytes() + matches.bytes();
                self.views.push(view);
                self.by_matches.insert((catalogue_ix, matches), self.views.len() - 1);
                self.views.len() - 1
            }
        };
        self.by_set.insert((catalogue_ix, set), view);
        self.bytes += ENTRY_BYTES;
        &self.views[view]
    }

    /// Returns the approximate size of the cache in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
