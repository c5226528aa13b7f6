//! Computes the changes of a StatefulSet's Pods and claims.
//!
//! ```text
//! each wanted replica: ended? -> delete | missing? -> claims, Pod | pending? -> claims | not available? -> wait | owners, labels
//! -> the claims of replicas that are not wanted -> those replicas -> rolling update
//! ```
//!
//! In an ordered StatefulSet the first unavailable replica ends the run; a parallel one processes all replicas.
//!
//! *Source*: `updateStatefulSet`, `processReplica` and `processCondemned`.

use pintle_sdk::{Action, Error, Lister, Mutation, Order};
use plugin_lib::pods;

use crate::claims::Claims;
use crate::context::Context;
use crate::events::Verb;
use crate::identity::{has_storage, pod_name};
use crate::pod_control;
use crate::status::{is_running_and_ready, is_unavailable};
use crate::types::Pod;

/// Largest batch of a parallel StatefulSet.
const LARGEST_BATCH: i64 = 500;

/// Whether the next steps may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Stop,
}

impl<L: Lister> Context<'_, L> {
    /// Plans everything except the rolling update.
    ///
    /// # Errors
    /// Terminal, if an object does not fit its type.
    pub(crate) fn scale(&mut self) -> Result<Flow, Error> {
        let flow = if self.set.is_ordered() { self.replicas_in_order()? } else { self.replicas_in_batches()? };
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
        }
        self.claims_of_condemned()?;
        Ok(self.condemned())
    }

    fn replicas_in_order(&mut self) -> Result<Flow, Error> {
        for ordinal in self.set.start..self.set.start + self.set.replicas {
            let flow = self.replica(ordinal)?;
            self.writes.end_batch(Order::Sequential);
            if flow == Flow::Stop || self.writes.is_full() || self.writes.is_apart() {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    fn replicas_in_batches(&mut self) -> Result<Flow, Error> {
        let end = self.set.start + self.set.replicas;
        let (mut begin, mut size) = (self.set.start, 1);
        while begin < end {
            for ordinal in begin..end.min(begin + size) {
                self.replica(ordinal)?;
                if self.writes.is_full() {
                    self.writes.end_batch(Order::Parallel);
                    return Ok(Flow::Stop);
                }
            }
            self.writes.end_batch(Order::Parallel);
            if self.writes.is_apart() {
                return Ok(Flow::Stop);
            }
            begin += size;
            size = LARGEST_BATCH.min(2 * size);
        }
        Ok(Flow::Continue)
    }

    /// One desired replica.
    fn replica(&mut self, ordinal: i64) -> Result<Flow, Error> {
        let Some(pod) = self.replicas.wanted.get(&ordinal).copied() else { return self.create(ordinal) };
        if pods::is_terminal(pod) {
            // It is created again once it is deleted.
            if !pod.metadata.is_deleting() {
                self.writes.first(pod_control::delete(self.set, pod));
            }
            return Ok(Flow::Stop);
        }
        let is_pending = pod.status.phase == "Pending";
        if is_pending {
            let claims = Claims::read(self.lister, self.set, &pod.metadata.name, &pod.metadata.uid, ordinal)?;
            self.claims(&claims, false);
            claims.updates(true)?.into_iter().for_each(|update| self.writes.then(update));
        }
        let is_available = pods::is_available(pod, self.set.min_ready_seconds(), self.now);
        if self.set.is_ordered() && (pod.metadata.is_deleting() || !is_running_and_ready(pod) || !is_available) {
            return Ok(Flow::Stop);
        }
        self.restore(pod, ordinal, is_pending)?;
        Ok(Flow::Continue)
    }

    fn create(&mut self, ordinal: i64) -> Result<Flow, Error> {
        let set = self.set;
        let name = pod_name(set.name(), ordinal);
        let claims = Claims::read(self.lister, set, &name, "", ordinal)?;
        if claims.are_stale() {
            return Ok(Flow::Stop);
        }
        if let Some(refused) = claims.refused(self.failures) {
            self.writes.first(refused);
        }
        if !self.claims(&claims, true) {
            return Ok(Flow::Stop);
        }
        let keeps = set.keeps_revision(ordinal);
        let revision = if keeps { &self.revisions.current } else { &self.revisions.update };
        let create = pod_control::create(set, revision.template()?, revision.name(), ordinal)?;
        // No event if a Pod of another owner has this name.
        let is_taken = self.lister.get::<Pod>(set.namespace(), &name)?.is_some();
        self.writes.then(match is_taken {
            true => create.on_success(set.pod_done(Verb::Create, &name)),
            false => set.with_events(create, Verb::Create, &name),
        });
        claims.updates(true)?.into_iter().for_each(|update| self.writes.then(update));
        Ok(Flow::Stop)
    }

    /// Creates the missing claims of a replica. Returns whether it can be written with them: not if a claim is being
    /// deleted, or is missing after claim creates failed.
    fn claims(&mut self, claims: &Claims<'_, L>, is_for_create: bool) -> bool {
        let creates = claims.creates(is_for_create);
        let is_hindered = !self.set.is_ordered() && claims.are_hindered(self.failures);
        if is_hindered {
            self.writes.apart(creates)
        } else {
            self.writes.claims(creates)
        }
        !is_hindered
    }

    /// Restores a replica and its claims.
    fn restore(&mut self, pod: &Pod, ordinal: i64, are_claims_done: bool) -> Result<(), Error> {
        let restore = pod_control::restore(self.set, pod, ordinal);
        if !are_claims_done {
            self.restore_claims(pod, ordinal, restore.is_some())?;
        }
        restore.into_iter().for_each(|restore| self.writes.then(restore));
        Ok(())
    }

    fn restore_claims(&mut self, pod: &Pod, ordinal: i64, is_pod_written: bool) -> Result<(), Error> {
        // The labels do not wait for a claim.
        let is_stored_elsewhere = !has_storage(self.set, pod, ordinal);
        let (name, uid) = (&pod.metadata.name, &pod.metadata.uid);
        let claims = Claims::read(self.lister, self.set, name, uid, ordinal)?;
        if is_stored_elsewhere {
            self.claims(&claims, false);
        }
        if claims.match_policy() {
            return Ok(());
        }
        let mut updates = claims.updates(true)?;
        // Upstream then writes the Pod without a change; only the event of that write is kept here.
        let last = updates.iter_mut().rfind(|write| matches!(write.action, Action::Update { .. }));
        if let Some(last) = last.filter(|_| !is_pod_written) {
            last.on_success = Some(self.set.pod_done(Verb::Update, name));
        }
        updates.into_iter().for_each(|update| self.writes.then(update));
        Ok(())
    }

    /// Sets the Pod as owner of the claims of condemned replicas, by the policy.
    fn claims_of_condemned(&mut self) -> Result<(), Error> {
        for (ordinal, pod) in &self.replicas.condemned {
            if self.writes.is_full() {
                break;
            }
            let claims = Claims::read(self.lister, self.set, &pod.metadata.name, &pod.metadata.uid, *ordinal)?;
            if !claims.match_policy() {
                claims.updates(false)?.into_iter().for_each(|update| self.writes.first(update));
            }
        }
        self.writes.end_batch(if self.set.is_ordered() { Order::Sequential } else { Order::SlowStart });
        Ok(())
    }

    /// The condemned replicas.
    fn condemned(&mut self) -> Flow {
        if self.writes.is_full() {
            return Flow::Stop;
        }
        let Some((_, highest)) = self.replicas.condemned.first() else { return Flow::Continue };
        if self.set.is_ordered() {
            let min_ready = self.set.min_ready_seconds();
            // The lowest unavailable replica may be deleted although it is unavailable, and it comes last.
            let first_unavailable =
                self.replicas.condemned.iter().rfind(|(_, pod)| is_unavailable(pod, min_ready, self.now));
            let is_healthy = is_running_and_ready(highest) && pods::is_available(*highest, min_ready, self.now);
            let is_first = first_unavailable.is_some_and(|(_, pod)| pod.metadata.uid == highest.metadata.uid);
            if !highest.metadata.is_deleting() && (is_healthy || is_first) {
                self.writes.add(Order::Sequential, vec![pod_control::delete(self.set, highest)]);
            }
            return Flow::Stop;
        }
        let live = self.replicas.condemned.iter().filter(|(_, pod)| !pod.metadata.is_deleting());
        let deletes: Vec<Mutation> =
            live.take(LARGEST_BATCH as usize).map(|(_, pod)| pod_control::delete(self.set, pod)).collect();
        self.writes.add(Order::SlowStart, deletes);
        Flow::Continue
    }
}
