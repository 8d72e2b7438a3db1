//! Topology keys, the node labels that rules between pods refer to, and the domains of each key.

use kerf_api::slim::Str;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::requirement::Requirement;
use crate::requirement_table::{KeyIx, RequirementIx, RequirementTable};
use crate::seeded_hash;

/// Index of a topology key. The hostname has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TopologyKeyIx(pub(crate) usize);

/// All topology keys of a problem, with their domains.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopologyKeys {
    keys: Vec<TopologyKeyDomains>,
    index: FxHashMap<Str, TopologyKeyIx>,
    /// Approximate size in bytes of the caches of all keys.
    cache_bytes: usize,
}

/// Approximate size in bytes of a cache entry, without what its sets allocate.
const CACHE_ENTRY_BYTES: usize = 120;

#[derive(Debug, Clone)]
struct TopologyKeyDomains {
    key: KeyIx,
    text: Str,
    values: Vec<Str>,
    /// Hash of each domain's name, to decide ties.
    tie_breaks: Vec<u64>,
    index: FxHashMap<Str, usize>,
    /// Pools that can launch each domain. Empty if only nodes have it.
    offered_by: Vec<Vec<usize>>,
    /// Number of nodes in each domain.
    nodes: Vec<u32>,
    /// Domains that pools can launch or nodes have.
    existing: Bits,
    /// Cache of `domains_accepted_by`. Cleared when a domain is added.
    accepted: FxHashMap<RequirementIx, Bits>,
    /// Cache of `requirement_for_domains`.
    narrowed: FxHashMap<Bits, RequirementIx>,
}

impl TopologyKeys {
    pub(crate) fn get_or_add_key(&mut self, text: &Str, table: &mut RequirementTable) -> TopologyKeyIx {
        if let Some(ix) = self.index.get(text) {
            return *ix;
        }
        let ix = TopologyKeyIx(self.keys.len());
        self.keys.push(TopologyKeyDomains {
            key: table.intern_key(text),
            text: text.clone(),
            values: Vec::new(),
            tie_breaks: Vec::new(),
            index: FxHashMap::default(),
            offered_by: Vec::new(),
            nodes: Vec::new(),
            existing: Bits::new(),
            accepted: FxHashMap::default(),
            narrowed: FxHashMap::default(),
        });
        self.index.insert(text.clone(), ix);
        ix
    }

    /// Returns the approximate size of the caches in bytes.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }

    /// Empties the caches. Must be called when learned requirements are dropped, to which the
    /// caches refer.
    pub(crate) fn clear_caches(&mut self) {
        for domains in &mut self.keys {
            domains.accepted = FxHashMap::default();
            domains.narrowed = FxHashMap::default();
        }
        self.cache_bytes = 0;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TopologyKeyIx> + use<> {
        (0..self.keys.len()).map(TopologyKeyIx)
    }

    pub(crate) fn label_key(&self, ix: TopologyKeyIx) -> KeyIx {
        self.keys[ix.0].key
    }

    pub(crate) fn text(&self, ix: TopologyKeyIx) -> &Str {
        &self.keys[ix.0].text
    }

    /// Records that a pool can launch this domain.
    pub(crate) fn add_offered_domain(&mut self, ix: TopologyKeyIx, value: &Str, pool: usize) {
        let domains = &mut self.keys[ix.0];
        let at = domains.get_or_add(value);
        if !domains.offered_by[at].contains(&pool) {
            domains.offered_by[at].push(pool);
        }
        domains.existing.insert(at);
    }

    /// Records that a node has this domain. Returns the index of the domain.
    pub(crate) fn add_node_domain(&mut self, ix: TopologyKeyIx, value: &Str) -> u32 {
        let domains = &mut self.keys[ix.0];
        let at = domains.get_or_add(value);
        domains.nodes[at] += 1;
        domains.existing.insert(at);
        at as u32
    }

    /// Records that a node with this domain was removed.
    pub(crate) fn remove_node_domain(&mut self, ix: TopologyKeyIx, domain: u32) {
        let (domains, at) = (&mut self.keys[ix.0], domain as usize);
        domains.nodes[at] -= 1;
        domains.existing.set(at, domains.nodes[at] > 0 || !domains.offered_by[at].is_empty());
    }

    /// Returns the domains that exist. Other domains existed once and keep their index.
    pub(crate) fn existing_domains(&self, ix: TopologyKeyIx) -> &Bits {
        &self.keys[ix.0].existing
    }

    pub(crate) fn domain(&self, ix: TopologyKeyIx, value: &str) -> Option<usize> {
        self.keys[ix.0].index.get(value).copied()
    }

    pub(crate) fn domain_text(&self, ix: TopologyKeyIx, domain: usize) -> &Str {
        &self.keys[ix.0].values[domain]
    }

    pub(crate) fn tie_break(&self, ix: TopologyKeyIx, domain: usize) -> u64 {
        self.keys[ix.0].tie_breaks[domain]
    }

    pub(crate) fn domain_count(&self, ix: TopologyKeyIx) -> usize {
        self.keys[ix.0].values.len()
    }

    pub(crate) fn offered_by(&self, ix: TopologyKeyIx, domain: usize) -> &[usize] {
        &self.keys[ix.0].offered_by[domain]
    }

    /// Returns the domains that a requirement accepts. Without a requirement these are all domains.
    pub(crate) fn domains_accepted_by(
        &mut self,
        ix: TopologyKeyIx,
        requirement_ix: Option<RequirementIx>,
        table: &RequirementTable,
    ) -> &Bits {
        let domains = &mut self.keys[ix.0];
        // `NONE` is u32::MAX, which is never the index of a requirement.
        let slot = requirement_ix.unwrap_or(RequirementIx::NONE);
        let (values, cache_bytes) = (&domains.values, &mut self.cache_bytes);
        domains.accepted.entry(slot).or_insert_with(|| {
            let accepted: Bits = match requirement_ix {
                None => Bits::full(values.len()),
                Some(requirement_ix) => {
                    let requirement = table.requirement(requirement_ix);
                    (0..values.len()).filter(|d| requirement.has(&values[*d])).collect()
                }
            };
            *cache_bytes += CACHE_ENTRY_BYTES + accepted.heap_bytes();
            accepted
        })
    }

    /// Returns the requirement that the label has one of these values.
    pub(crate) fn requirement_for_domains(
        &mut self,
        ix: TopologyKeyIx,
        allowed: &Bits,
        table: &mut RequirementTable,
    ) -> RequirementIx {
        let domains = &mut self.keys[ix.0];
        if let Some(cached) = domains.narrowed.get(allowed) {
            return *cached;
        }
        let values: Vec<Str> = allowed.iter().map(|d| domains.values[d].clone()).collect();
        let requirement_ix = table.intern_requirement(Requirement::one_of(domains.text.clone(), values));
        domains.narrowed.insert(allowed.clone(), requirement_ix);
        self.cache_bytes += CACHE_ENTRY_BYTES + allowed.heap_bytes();
        requirement_ix
    }
}

impl TopologyKeyDomains {
    fn get_or_add(&mut self, value: &Str) -> usize {
        if let Some(at) = self.index.get(value) {
            return *at;
        }
        self.index.insert(value.clone(), self.values.len());
        self.values.push(value.clone());
        self.tie_breaks.push(seeded_hash::hash_name(0, value));
        self.offered_by.push(Vec::new());
        self.nodes.push(0);
        self.accepted.clear();
        self.values.len() - 1
    }
}
