//! Scales workloads by the metrics of their Pods, of other objects, and from outside of the cluster.
//!
//! *Flow*: the target's scale, and the metrics of the selector that it had before -> its selector and Pods -> what each metric asks for,
//! the most of which counts -> windows and limits -> the scale, then the status. A key runs once in a period, whatever happens.
//!
//! 1. What is decided is never outside of the limits of the object.
//! 2. A change is remembered as sent. The next run learns whether it was refused: a conflict is repeated at once with the present scale,
//!    at most five times, any other refusal is reported in the status. Only what was not refused counts for the policies.
//! 3. Nothing that users write ends a run with an error, so that the key goes on. Texts that could not be part of a path are not asked for.
//!
//! *Source*: Kubernetes' `pkg/controller/podautoscaler`.

mod autoscaler;
mod behavior;
mod compute;
mod memory;
mod metrics;
mod overlap;
mod pods;
mod replicas;
mod report;
mod run;
mod target;

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::document::Document;
use pintle_sdk::quantity::Quantity;
use pintle_sdk::{Error, Key, Lister, MutationFailure, Outcome, log};
use serde::Deserialize;

use autoscaler::Autoscaler;
use behavior::ABLE;
use memory::{Memory, Sent};
use report::{Fault, Report};
use run::Run;
use target::NoScale;

type Quantities = BTreeMap<String, Quantity>;

pintle_sdk::types!(
    "manifest.yaml",
    "autoscaling/v2/HorizontalPodAutoscaler" = _,
    "autoscaling/v2/HorizontalPodAutoscaler" as ListedAutoscaler: ["metadata.uid"],
    "v1/Pod": [
        "metadata.deletionTimestamp",
        "metadata.labels",
        "spec.containers.name",
        "spec.containers.resources.requests": Quantities,
        "spec.initContainers.name",
        "spec.initContainers.resources.requests": Quantities,
        "spec.initContainers.restartPolicy",
        "spec.overhead": Quantities,
        "spec.resources.requests": Quantities,
        "status.conditions.lastTransitionTime",
        "status.conditions.status",
        "status.conditions.type",
        "status.phase",
        "status.startTime",
    ],
);

/// How often a change is sent while the API server reports conflicts, as `retry.DefaultRetry` of client-go.
const MAX_ATTEMPTS: u32 = 5;

/// Durations are in milliseconds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    sync_period: u64,
    downscale_stabilization: u64,
    tolerance: f64,
    cpu_initialization_period: u64,
    initial_readiness_delay: u64,
    configurable_tolerance: bool,
    pod_level_resources: bool,
    scale_to_zero: bool,
}

impl Settings {
    fn sync_period(&self) -> Duration {
        Duration::from_millis(self.sync_period)
    }

    fn downscale_stabilization(&self) -> Duration {
        Duration::from_millis(self.downscale_stabilization)
    }

    fn cpu_initialization_period(&self) -> Duration {
        Duration::from_millis(self.cpu_initialization_period)
    }

    fn initial_readiness_delay(&self) -> Duration {
        Duration::from_millis(self.initial_readiness_delay)
    }
}

/// Says to which size the target of an autoscaler should be scaled.
///
/// # Errors
/// If the configuration or an object does not fit its type. [`Error::Needs`] for the scale and the metrics.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let settings: Settings = lister.config()?;
    let Some((hpa, document)) = lister.get_document::<Autoscaler>(&key.namespace, &key.name)? else {
        return Ok(overlap::forget_mark(lister, &key.namespace, Memory::forget(key)));
    };
    let old = Memory::read(lister, key);
    let mut run = Run {
        lister,
        hpa: &hpa,
        settings: &settings,
        now: lister.now()?,
        uptime: memory::seconds(lister.uptime()),
        memory: old.clone(),
        status: hpa.status.clone(),
        report: Report::default(),
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
            let outcome = report::gauges(&hpa.metadata, run.memory.desired, Outcome::new());
            let outcome = outcome.run_label("action", "none").run_label("error", "internal");
            return Ok(run.memory.keep(&old, key, outcome).requeue_after(settings.sync_period()));
        }
        _ => {
            run.memory.confirm();
            run.go(document)?;
        }
    }
    let Run { memory, report, .. } = run;
    let desired = memory.sent.as_ref().map_or(memory.desired, |sent| Some(sent.to));
    let outcome = report.outcome(lister, &hpa.metadata, desired);
    Ok(memory.keep(&old, key, outcome).requeue_after(settings.sync_period()))
}

impl<L: Lister> Run<'_, L> {
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
        self.report.fault = Some(Fault::Internal);
        self.report.write_status(self.hpa, &self.status, document);
        Ok(())
    }
}

pintle_sdk::export!(reconcile);
