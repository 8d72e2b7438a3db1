//! Small fuzzer that mutates ordinary inputs and needs no special toolchain.
//!
//! It is deterministic: the same seed gives the same inputs on every machine. Accepted inputs are
//! added to the pool that mutations start from, so that a long run covers more. `KERF_FUZZ_ROUNDS`
//! sets the length of a run, `KERF_FUZZ_SEED` its seed.

/// Maximum number of inputs in the pool.
const POOL_INPUTS_MAX: usize = 256;

pub(crate) struct Mutator {
    state: u64,
    pool: Vec<Vec<u8>>,
    words: &'static [&'static str],
}

impl Mutator {
    /// Creates a mutator from ordinary inputs. `words` are tokens of the parser's syntax.
    pub(crate) fn new(inputs: impl IntoIterator<Item = Vec<u8>>, words: &'static [&'static str]) -> Self {
        let seed = from_environment("KERF_FUZZ_SEED").unwrap_or(1);
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, pool: inputs.into_iter().collect(), words }
    }

    /// Calls `check` with `rounds` inputs. `check` returns true if the parser accepted the input.
    pub(crate) fn run(&mut self, rounds: u64, mut check: impl FnMut(&[u8]) -> bool) {
        for _ in 0..from_environment("KERF_FUZZ_ROUNDS").unwrap_or(rounds) {
            let input = self.next();
            if check(&input) {
                self.add_to_pool(input);
            }
        }
    }

    fn next(&mut self) -> Vec<u8> {
        let mut input = self.pick().clone();
        for _ in 0..=self.below(3) {
            self.mutate(&mut input);
        }
        input
    }

    fn add_to_pool(&mut self, input: Vec<u8>) {
        if self.pool.len() < POOL_INPUTS_MAX {
            self.pool.push(input);
        } else {
            // The first half of the pool is never replaced.
            let index = POOL_INPUTS_MAX / 2 + self.below(POOL_INPUTS_MAX / 2);
            self.pool[index] = input;
        }
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let end = (at + 1 + self.below(8)).min(input.len());
        let at_byte = at.min(input.len().saturating_sub(1));
        match self.below(7) {
            0 if !input.is_empty() => input[at_byte] ^= 1 << self.below(8),
            1 if at < end => {
                input.drain(at..end);
            }
            2 if at < end => {
                let copy = input[at..end].to_vec();
                input.splice(at..at, copy);
            }
            3 => {
                let word = self.words[self.below(self.words.len())];
                input.splice(at..at, word.bytes());
            }
            4 if at < end => {
                let word = self.words[self.below(self.words.len())];
                input.splice(at..end, word.bytes());
            }
            5 => {
                let other = self.pick();
                let from = other.len() / 2;
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => input.insert(at, self.random() as u8),
        }
    }

    fn pick(&mut self) -> &Vec<u8> {
        let index = self.below(self.pool.len());
        &self.pool[index]
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random() % end.max(1) as u64) as usize
    }

    /// Returns the next number of xorshift64*.
    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}
