//! The size of the target of one autoscaler.

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Key, Lister, MutationFailure, Outcome, log};

use crate::behavior::ABLE;
use crate::context::Context;
use crate::memory::{self, Memory, Sent};
use crate::overlap;
use crate::settings::Settings;
use crate::target::{self, NoScale};
use crate::types::Autoscaler;
use crate::writes::{self, Fault, Writes};

/// How often a change is sent while the API server reports conflicts, as `retry.DefaultRetry` of client-go.
const MAX_ATTEMPTS: u32 = 5;

/// Computes the size of the target of one autoscaler.
///
/// # Errors
/// If the configuration or an object does not fit its type. [`Error::Needs`] for the scale and the metrics.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let settings: Settings = lister.config()?;
    let Some((hpa, document)) = lister.get_document::<Autoscaler>(&key.namespace, &key.name)? else {
        let forgotten = Memory::read(lister, key).forget(Outcome::new());
        return Ok(overlap::forget(lister, &key.object(), forgotten));
    };
    let record = Memory::read(lister, key);
    let mut run = Context {
        lister,
        hpa: &hpa,
        settings: &settings,
        now: lister.now()?,
        uptime: memory::seconds(lister.uptime()),
        memory: record.get().cloned().unwrap_or_default(),
        status: hpa.status.clone(),
        writes: Writes::default(),
    };
    let failures = lister.failures();
    let refused = failures.iter().find(|failure| failure.subresource.as_deref() == Some("scale"));
    let sent = run.memory.sent.clone().filter(|sent| sent.uid == hpa.metadata.uid);
    match (refused, sent) {
        (Some(refused), Some(sent)) => run.again(refused, sent, document)?,
        _ if !failures.is_empty() => {
            // The status was refused, which has its event. A change that was refused belongs to a former object.
            if refused.is_some() {
                run.memory.sent = None;
            }
            run.memory.confirm();
            let outcome = writes::gauges(&hpa.metadata, run.memory.desired, Outcome::new());
            let outcome = outcome.run_label("action", "none").run_label("error", "internal");
            return Ok(record.keep(outcome, &run.memory).requeue_after(settings.sync_period()));
        }
        _ => {
            run.memory.confirm();
            run.go(document)?;
        }
    }
    let Context { memory, writes, .. } = run;
    let desired = memory.sent.as_ref().map_or(memory.desired, |sent| Some(sent.to));
    let outcome = writes.outcome(lister, &hpa.metadata, desired);
    Ok(record.keep(outcome, &memory).requeue_after(settings.sync_period()))
}

impl<L: Lister> Context<'_, L> {
    /// A change was refused: sends it again if the scale has changed meanwhile, else reports it.
    fn again(&mut self, refused: &MutationFailure, mut sent: Sent, document: Document) -> Result<(), Error> {
        let target = &self.hpa.spec.scale_target_ref.name;
        let kind = sent.kind().filter(|_| refused.code == 409 && self.lister.attempt() < MAX_ATTEMPTS);
        if let Some(kind) = kind {
            match target::scale_of(self.lister, &kind, &self.hpa.metadata.namespace, target) {
                Ok(scale) => {
                    sent.at = self.uptime;
                    self.send(scale, sent, document);
                    return Ok(());
                }
                Err(NoScale::Needs(needs)) => return Err(Error::Needs(needs)),
                Err(NoScale::Reference(error) | NoScale::Kind(error) | NoScale::Refused(error)) => {
                    log::warn(&format!("read the scale again after a conflict: {error}"));
                }
            }
        }
        let error = &refused.message;
        self.memory.sent = None;
        let event = format!("New size: {}; reason: {}; error: {error}", sent.to, sent.reason);
        self.warn("FailedRescale", &event);
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        self.status = sent.status;
        self.status.set(ABLE, false, "FailedUpdateScale", message, self.now);
        self.writes.fault = Some(Fault::Internal);
        self.writes.write_status(self.hpa, &self.status, document);
        Ok(())
    }
}
