//! The outcome of a run.

use pintle_sdk::{Error, Event, Moment, Mutation, Outcome, Place, Resource, Step};
use plugin_lib::slices::{Changes, Slice, Write, push};
use plugin_lib::trigger_time::ANNOTATION;

use crate::topology::has_hints;
use crate::traffic;
use crate::types::Service;

const ADDED: &str = "endpoint_slice_controller_endpoints_added_per_sync";
const REMOVED: &str = "endpoint_slice_controller_endpoints_removed_per_sync";
const DESIRED: &str = "endpoint_slice_controller_endpoints_desired";
const SLICES: &str = "endpoint_slice_controller_num_endpoint_slices";
const DESIRED_SLICES: &str = "endpoint_slice_controller_desired_endpoint_slices";
const CHANGES: &str = "endpoint_slice_controller_changes";
const CHANGED: &str = "endpoint_slice_controller_endpointslices_changed_per_sync";
const BY_DISTRIBUTION: &str = "endpoint_slice_controller_services_count_by_traffic_distribution";

/// The writes for a Service, and its samples of metrics.
pub(crate) struct Writes<'a> {
    service: &'a Service,
    last_change: Option<String>,
    families: Vec<Family>,
    obsolete: Vec<Write>,
    /// Errors about Pods that are left out, each once.
    missing: Vec<String>,
    samples: Outcome,
    n_endpoints: usize,
    n_slices: usize,
    n_desired_slices: usize,
}

/// The writes for one address type.
struct Family {
    writes: Vec<Write>,
    events: Vec<Event>,
    n_changed: usize,
}

impl<'a> Writes<'a> {
    pub(crate) fn new(service: &'a Service, last_change: Option<String>) -> Self {
        Self {
            service,
            last_change,
            families: Vec::new(),
            obsolete: Vec::new(),
            missing: Vec::new(),
            samples: Outcome::new(),
            n_endpoints: 0,
            n_slices: 0,
            n_desired_slices: 0,
        }
    }

    /// Counts the desired endpoints of one address type: a number for each set of ports.
    pub(crate) fn count(&mut self, endpoints: impl Iterator<Item = usize>, most: usize) {
        let mut n_slices = 0;
        for n in endpoints {
            self.n_endpoints += n;
            n_slices += n.div_ceil(most.max(1));
        }
        // At least the placeholder.
        self.n_desired_slices += n_slices.max(1);
    }

    /// Counts the changes of one address type, before slices are reused.
    pub(crate) fn observe(&mut self, changes: &Changes) {
        self.n_slices += changes.n_slices();
        let samples = std::mem::take(&mut self.samples);
        let samples = samples.observe(ADDED, Vec::new(), number(changes.n_added));
        self.samples = samples.observe(REMOVED, Vec::new(), number(changes.n_removed));
    }

    /// Adds the writes for one address type.
    ///
    /// # Errors
    /// If a text of the cache is not an object.
    pub(crate) fn family(
        &mut self,
        mut changes: Changes,
        missing: Vec<String>,
        events: Vec<Event>,
    ) -> Result<(), Error> {
        let n_changed = changes.n_writes();
        if self.service.metadata.deletion_timestamp.is_some() {
            // The garbage collector deletes slices of the Service.
            changes.create.clear();
        }
        changes.create.iter_mut().chain(&mut changes.update).for_each(|slice| self.annotate(slice));
        let writes = changes.writes(&self.service.metadata.namespace)?;
        self.families.push(Family { writes, events, n_changed });
        for error in missing {
            if !self.missing.contains(&error) {
                self.missing.push(error);
            }
        }
        Ok(())
    }

    /// Deletes the slices of address types that the Service no longer has.
    ///
    /// # Errors
    /// If a text of the cache is not an object.
    pub(crate) fn delete(&mut self, delete: Vec<Slice>) -> Result<(), Error> {
        self.obsolete = Changes { delete, ..Changes::default() }.writes(&self.service.metadata.namespace)?;
        Ok(())
    }

    #[doc(alias = "addTriggerTimeAnnotation")]
    fn annotate(&self, slice: &mut Slice) {
        let annotations = &mut slice.object.metadata.annotations;
        match &self.last_change {
            Some(time) => annotations.insert(ANNOTATION.to_owned(), time.clone()),
            None => annotations.remove(ANNOTATION),
        };
    }

    /// The outcome: failures for one address type do not affect the others.
    pub(crate) fn outcome(mut self) -> Outcome {
        let mut outcome = std::mem::take(&mut self.samples);
        let families = std::mem::take(&mut self.families);
        let n_families = families.len();
        for (i, Family { writes, events, n_changed }) in families.into_iter().enumerate() {
            let last = writes.len().checked_sub(1).and_then(|last| place(&outcome, last));
            let operations: Vec<&str> = writes.iter().map(|write| write.operation).collect();
            let mut mutations: Vec<Mutation> = writes.into_iter().map(|write| self.reported(write)).collect();
            if i + 1 == n_families && !self.missing.is_empty() {
                // Skipped after a failure, whose event contains it too.
                mutations.push(self.failure(&self.missing).into());
            }
            outcome = push(outcome, Step::sequential(mutations).always(), &operations, CHANGES);
            outcome.push(Step::sequential(events.into_iter().map(Mutation::from)).always());
            let at = last.map_or(Moment::Now, Moment::Done);
            outcome = outcome.observe_at(at, CHANGED, self.kinds_of_hints(), number(n_changed));
        }
        let obsolete = std::mem::take(&mut self.obsolete);
        let operations: Vec<&str> = obsolete.iter().map(|write| write.operation).collect();
        let (namespace, name) = (&self.service.metadata.namespace, &self.service.metadata.name);
        let delete = |write: Write| {
            let error =
                format!("error deleting {} EndpointSlice for Service {namespace}/{name}: {{error}}", write.name);
            write.mutation.on_failure(self.failure(&[error]))
        };
        let step = Step::parallel(obsolete.into_iter().map(delete)).always();
        outcome = push(outcome, step, &operations, CHANGES);
        outcome = outcome
            .observe(DESIRED, Vec::new(), number(self.n_endpoints))
            .observe(SLICES, Vec::new(), number(self.n_slices))
            .observe(DESIRED_SLICES, Vec::new(), number(self.n_desired_slices));
        if let Some(distribution) = traffic::distribution(self.service) {
            outcome = outcome.observe(BY_DISTRIBUTION, vec![distribution.to_owned()], 1.0);
        }
        if self.missing.is_empty() { outcome } else { outcome.fail(Error::retry(aggregate(&self.missing))) }
    }

    /// Labels of a metric.
    fn kinds_of_hints(&self) -> Vec<String> {
        let topology = if has_hints(self.service) { "Auto" } else { "Disabled" };
        vec![topology.to_owned(), traffic::distribution(self.service).unwrap_or_default().to_owned()]
    }

    /// The write with the event that reports its failure.
    fn reported(&self, write: Write) -> Mutation {
        let Write { operation, name, mutation } = write;
        let of = &self.service.metadata;
        let name = if name.is_empty() { name } else { format!("{name} ") };
        let error =
            format!("failed to {operation} {name}EndpointSlice for Service {}/{}: {{error}}", of.namespace, of.name);
        let errors: Vec<String> = self.missing.iter().cloned().chain([error]).collect();
        mutation.on_failure(self.failure(&errors))
    }

    fn failure(&self, errors: &[String]) -> Event {
        let metadata = &self.service.metadata;
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        let message = format!("Error updating Endpoint Slices for Service {namespace}/{name}: {}", aggregate(errors));
        Event::warning(&Service::KIND, metadata, "FailedToUpdateEndpointSlices", message)
    }
}

/// The place of a mutation in the next step.
fn place(outcome: &Outcome, position: usize) -> Option<Place> {
    Some(Place { step: u32::try_from(outcome.steps.len()).ok()?, position: u32::try_from(position).ok()? })
}

/// The text of several errors.
#[doc(alias = "NewAggregate")]
fn aggregate(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

#[allow(clippy::cast_precision_loss, reason = "numbers of endpoints and slices have less than 53 bits")]
fn number(n: usize) -> f64 {
    n as f64
}
