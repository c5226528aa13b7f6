//! The writes of one outcome, one at a time, in the order of its steps.
//!
//! *Source*: the host's `writer`, which sends the writes of a batch in parallel.

use crate::outcome::{Mutation, MutationFailure, Order, Outcome};

/// A write with its position in the outcome.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) step: u32,
    pub(super) position: u32,
    pub(super) mutation: Mutation,
}

/// The remaining writes of an outcome. `None` ends it.
#[derive(Debug)]
pub(super) struct Execution {
    /// Last to first.
    steps: Vec<(Order, bool, Vec<Planned>)>,
    order: Order,
    /// The rest of the step after the batch, last to first.
    rest: Vec<Planned>,
    /// Writes in flight.
    batch: Vec<Planned>,
    batch_size: usize,
    n_failed_before: usize,
    /// Failures so far, in the order of the steps.
    pub(super) failures: Vec<MutationFailure>,
    pub(super) n_writes: usize,
}

impl Execution {
    pub(super) fn new(outcome: &Outcome) -> Self {
        let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let steps = outcome.steps.iter().enumerate().rev().map(|(step, own)| {
            let planned = own.mutations.iter().enumerate().rev().map(|(position, mutation)| Planned {
                step: place(step),
                position: place(position),
                mutation: mutation.clone(),
            });
            (own.order, own.always, planned.collect())
        });
        Self {
            steps: steps.collect(),
            order: Order::Sequential,
            rest: Vec::new(),
            batch: Vec::new(),
            batch_size: 0,
            n_failed_before: 0,
            failures: Vec::new(),
            n_writes: 0,
        }
    }

    /// The next write. `random` chooses among those in flight.
    pub(super) fn next(&mut self, random: &mut impl FnMut(u64) -> u64) -> Option<Planned> {
        while self.batch.is_empty() {
            let has_failed = self.failures.len() > self.n_failed_before;
            if has_failed && self.order != Order::Parallel {
                self.rest.clear();
            }
            if self.rest.is_empty() {
                let (order, always, planned) = self.steps.pop()?;
                if !always && !self.failures.is_empty() {
                    continue;
                }
                (self.order, self.rest, self.batch_size) = (order, planned, 0);
                self.n_failed_before = self.failures.len();
            }
            self.batch_size = match self.order {
                Order::Sequential => 1,
                Order::Parallel => usize::MAX,
                Order::SlowStart => (self.batch_size * 2).max(1),
            };
            let from = self.rest.len().saturating_sub(self.batch_size);
            self.batch = self.rest.split_off(from);
        }
        let chosen = usize::try_from(random(self.batch.len() as u64)).unwrap_or(0);
        Some(self.batch.swap_remove(chosen))
    }

    pub(super) fn fail(&mut self, failure: MutationFailure) {
        self.failures.push(failure);
        self.failures.sort_by_key(|failure| (failure.step, failure.position));
    }
}
