//! The writes of a run, in order.
//!
//! Replicas are processed in batches: one replica at a time if they are ordered, otherwise 1, 2, 4, ... of them, so
//! that a write that the API server rejects is not repeated a thousand times. Within a batch, claims come before the
//! Pods that need them. A failed batch is the last.
//!
//! If a claim cannot be created, the Pods of its batch are not created in that run. The next run creates the missing
//! claims apart from the batch, and no Pod that needs them, so that the other replicas do not wait.

use pintle_sdk::{Mutation, Order, Step};
use plugin_lib::batch::Budget;

/// Most writes of one run. The host runs the key again when the caches show them.
const MAX_WRITES: usize = 500;

/// The steps of a run.
pub(crate) struct Writes {
    pub(crate) steps: Vec<Step>,
    batch: Batch,
    is_apart: bool,
    budget: Budget,
}

impl Default for Writes {
    fn default() -> Self {
        Self { steps: Vec::new(), batch: Batch::default(), is_apart: false, budget: Budget::new(MAX_WRITES) }
    }
}

/// Writes that are independent except for the order of these fields.
#[derive(Default)]
struct Batch {
    first: Vec<Mutation>,
    claims: Vec<Mutation>,
    then: Vec<Mutation>,
    apart: Vec<Mutation>,
}

impl Writes {
    /// Adds a write that does not depend on another one of the batch.
    pub(crate) fn first(&mut self, write: Mutation) {
        self.budget.spend(&write);
        self.batch.first.push(write);
    }

    /// Adds creates of claims.
    pub(crate) fn claims(&mut self, writes: Vec<Mutation>) {
        writes.iter().for_each(|write| self.budget.spend(write));
        self.batch.claims.extend(writes);
    }

    /// Adds creates of claims that nothing else waits for.
    pub(crate) fn apart(&mut self, writes: Vec<Mutation>) {
        writes.iter().for_each(|write| self.budget.spend(write));
        self.batch.apart.extend(writes);
    }

    /// Adds a write that comes after the creates of claims.
    pub(crate) fn then(&mut self, write: Mutation) {
        self.budget.spend(&write);
        self.batch.then.push(write);
    }

    /// Ends the batch.
    pub(crate) fn end_batch(&mut self, order: Order) {
        let Batch { mut first, claims, then, apart } = std::mem::take(&mut self.batch);
        if order == Order::Parallel {
            // All are tried: replicas do not depend on each other.
            self.push(Order::Parallel, claims);
            first.extend(then);
            self.push(order, first);
        } else {
            self.push(order, first);
            self.push(Order::Parallel, claims);
            self.push(order, then);
        }
        if !apart.is_empty() {
            self.is_apart = true;
            self.steps.push(Step::parallel(apart).always());
        }
    }

    /// Whether claims were created apart. The next batch does not start without them.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// Adds a step of writes that are not counted yet, up to the limit.
    pub(crate) fn add(&mut self, order: Order, mut mutations: Vec<Mutation>) {
        mutations.truncate(self.room());
        mutations.iter().for_each(|write| self.budget.spend(write));
        self.push(order, mutations);
    }

    /// Adds a step, unless it is empty.
    fn push(&mut self, order: Order, mutations: Vec<Mutation>) {
        match self.steps.last_mut() {
            _ if mutations.is_empty() => {}
            Some(last) if order == Order::Sequential && last.order == order => last.mutations.extend(mutations),
            _ => self.steps.push(Step { order, mutations, always: false }),
        }
    }

    /// Number of writes that still fit.
    pub(crate) fn room(&self) -> usize {
        self.budget.n_left()
    }

    /// Whether the rest is left to another run.
    pub(crate) fn is_full(&self) -> bool {
        self.budget.is_spent()
    }
}
