//! Limits the writes of one run.
//!
//! The number of writes is upstream's; the bytes bound the memory of a run, because users' objects may be large. The
//! next run, which follows as soon as the caches show these writes, does the rest. Controllers ignore the limits of an
//! outcome: the SDK keeps them.

use std::time::Duration;

use pintle_sdk::Mutation;

/// Most bytes of objects that one run creates: half of the default limit of an outcome.
const MAX_BYTES: usize = 4 << 20;

/// Delay before the next run when a run leaves work to it. It starts as soon as the caches show the writes.
pub const SOON: Duration = Duration::from_millis(5);

/// Remaining writes of a run.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    n_writes: usize,
    n_bytes: usize,
}

impl Budget {
    /// The budget of a run that makes at most `n_writes` writes.
    pub const fn new(n_writes: usize) -> Self {
        Self { n_writes, n_bytes: MAX_BYTES }
    }

    /// Number of writes left.
    pub fn n_left(&self) -> usize {
        self.n_writes
    }

    /// Whether no further write should be added.
    pub fn is_spent(&self) -> bool {
        self.n_writes == 0 || self.n_bytes == 0
    }

    /// Takes the room of a write, even if there is not enough.
    pub fn spend(&mut self, write: &Mutation) {
        self.n_writes = self.n_writes.saturating_sub(1);
        self.n_bytes = self.n_bytes.saturating_sub(write.n_bytes());
    }
}

/// The writes of one run.
#[derive(Debug)]
pub struct Batch {
    /// The writes.
    pub mutations: Vec<Mutation>,
    /// Whether some writes are left for another run.
    pub is_partial: bool,
    budget: Budget,
}

impl Default for Batch {
    /// A batch without a limit on the number of writes.
    fn default() -> Self {
        Self { mutations: Vec::new(), is_partial: false, budget: Budget::new(usize::MAX) }
    }
}

impl Batch {
    /// The first of these writes, at least one. `writes` is consumed lazily, up to the last write taken.
    pub fn of(most: usize, writes: impl IntoIterator<Item = Mutation>) -> Self {
        let mut batch = Self { budget: Budget::new(most), ..Self::default() };
        for write in writes {
            if !batch.add(write) {
                break;
            }
        }
        batch
    }

    /// Adds a write if there is room. The first one always fits.
    pub fn add(&mut self, write: Mutation) -> bool {
        let fits = self.budget.n_writes > 0 && write.n_bytes() <= self.budget.n_bytes;
        if fits || self.mutations.is_empty() {
            self.budget.spend(&write);
            self.mutations.push(write);
            return true;
        }
        self.is_partial = true;
        false
    }
}

#[cfg(test)]
mod tests {
    use pintle_sdk::Kind;

    use super::*;

    #[test]
    fn large_objects_are_written_in_several_runs() {
        const POD: Kind = Kind::new("", "v1", "Pod");
        for (number, n_bytes, expected) in [
            (500, 2_000, (500, false)),
            (501, 2_000, (500, true)),
            (500, 8_388, (500, false)),
            (500, 8_389, (499, true)),
            (500, 1 << 20, (4, true)),
            (500, 5 << 20, (1, true)),
            (3, 1 << 20, (3, false)),
        ] {
            let mut n_made = 0;
            let create = |_| {
                n_made += 1;
                Mutation::create(&POD, "ns", "x".repeat(n_bytes))
            };
            let batch = Batch::of(500, (0..number).map(create));
            assert_eq!((batch.mutations.len(), batch.is_partial), expected, "{number} of {n_bytes}");
            assert!(n_made <= expected.0 + 1, "{n_made}");
        }
    }
}
