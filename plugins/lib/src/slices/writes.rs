//! The writes of slices.

use pintle_sdk::{Error, Moment, Mutation, Outcome, Place, Refusal, Resource, Step};

use super::{Changes, EndpointSlice};

/// The write of a slice.
#[derive(Clone, Debug)]
pub struct Write {
    /// `create`, `update` or `delete`.
    pub operation: &'static str,
    /// Name of the slice; empty for a new one.
    pub name: String,
    /// The write.
    pub mutation: Mutation,
}

impl Changes {
    /// The writes, in order. In a terminating namespace, no slice can be created, which is not an error.
    ///
    /// # Errors
    /// If a text of the cache is not an object.
    #[doc(alias = "finalize")]
    pub fn writes(&self, namespace: &str) -> Result<Vec<Write>, Error> {
        let kind = &EndpointSlice::KIND;
        let mut writes = Vec::with_capacity(self.n_writes());
        let mut add = |operation, name: &str, mutation| {
            writes.push(Write { operation, name: name.to_owned(), mutation });
        };
        for slice in &self.create {
            let create = Mutation::create(kind, namespace, slice.body()?).tolerate([Refusal::NamespaceTerminating]);
            add("create", "", create);
        }
        for slice in &self.update {
            add("update", &slice.object.metadata.name, Mutation::update(kind, slice.body()?));
        }
        for slice in &self.delete {
            let metadata = &slice.object.metadata;
            let delete = Mutation::delete(kind, namespace, &metadata.name).uid(&metadata.uid);
            add("delete", &metadata.name, delete);
        }
        Ok(writes)
    }
}

/// Adds a step whose first mutations are these operations. Each one is counted in `metric` when it is done.
#[must_use]
pub fn push(mut outcome: Outcome, step: Step, operations: &[&str], metric: &str) -> Outcome {
    let number = u32::try_from(outcome.steps.len()).unwrap_or(u32::MAX);
    outcome.push(step);
    for (position, operation) in (0_u32..).zip(operations) {
        let done = Moment::Done(Place { step: number, position });
        outcome = outcome.observe_at(done, metric, vec![(*operation).to_owned()], 1.0);
    }
    outcome
}
