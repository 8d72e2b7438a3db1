//! Interned strings: each string becomes a small integer once, so that the solver compares and
//! hashes integers.

use kerf_api::slim::Str;
use rustc_hash::FxHashMap;

/// An interned string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sym(pub(crate) u32);

/// All interned strings of one cluster model.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interner {
    strings: Vec<Str>,
    index: FxHashMap<Str, Sym>,
}

impl Interner {
    pub(crate) fn intern(&mut self, text: &str) -> Sym {
        if let Some(sym) = self.index.get(text) {
            return *sym;
        }
        let sym = Sym(self.strings.len() as u32);
        let text = Str::new(text);
        self.strings.push(text.clone());
        self.index.insert(text, sym);
        sym
    }

    pub(crate) fn get(&self, text: &str) -> Option<Sym> {
        self.index.get(text).copied()
    }

    pub(crate) fn text(&self, sym: Sym) -> &Str {
        &self.strings[sym.0 as usize]
    }
}
