//! One run of an autoscaler.

use std::cmp::Ordering;
use std::time::Duration;

use pintle_sdk::{Error, Event, Key, Lister, Outcome, Resource, conditions, group_version};
use plugin_lib::state::Record;
use plugin_lib::status;

use crate::context::{ABLE, ACTIVE, Context, SCALED_TO_ZERO, Stop};
use crate::memory::{Memory, Recommendation};
use crate::overlap;
use crate::scale::Scale;
use crate::types::{HorizontalPodAutoscaler, Settings};
use crate::writes::Writes;

/// Computes the size of one autoscaler's target.
///
/// # Errors
/// If the configuration or an object does not fit its type. [`Error::Needs`] for the scale and the metrics.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let settings: Settings = lister.config()?;
    let period = Duration::from_millis(settings.sync_period);
    let record = Record::<Memory>::read(lister, key.object().state_name("memory"));
    let Some((hpa, document)) = lister.get_document::<HorizontalPodAutoscaler>(&key.namespace, &key.name)? else {
        return Ok(overlap::forget(lister, &key.object(), record.forget(Outcome::new())));
    };
    let mut run = Context {
        lister,
        hpa: &hpa,
        settings,
        now: lister.now()?,
        // In milliseconds, which keeps the texts short.
        uptime: (lister.uptime().as_secs_f64() * 1000.0).round() / 1000.0,
        memory: record.get().cloned().unwrap_or_default(),
        status: hpa.status.clone(),
        writes: Writes::default(),
    };
    let failures = lister.failures();
    match failures.iter().find(|failure| failure.subresource.as_deref() == Some("scale")) {
        Some(refused) => match run.memory.sent.take().filter(|sent| sent.uid == hpa.metadata.uid) {
            Some(sent) => run.repeat(refused, sent)?,
            // It was a change for an earlier object with this name.
            None => run.writes.pause(),
        },
        None => {
            run.memory.confirm();
            // The status write failed, which has its event.
            if failures.is_empty() { run.look()? } else { run.writes.pause() }
        }
    }
    if run.status != hpa.status {
        let failed = Event::warning(&HorizontalPodAutoscaler::KIND, &hpa.metadata, "FailedUpdateStatus", "{error}");
        run.writes.status = Some(status::replace::<HorizontalPodAutoscaler>(document, &run.status).on_failure(failed));
    }
    let Context { memory, writes, .. } = run;
    let desired = memory.sent.as_ref().map_or(memory.desired, |sent| Some(sent.to));
    Ok(record.keep(writes.outcome(&hpa.metadata, desired), &memory).requeue_after(period))
}

impl<L: Lister> Context<'_, L> {
    /// Reads the target and its metrics, decides, and sends the change.
    #[doc(alias = "reconcileAutoscaler")]
    fn look(&mut self) -> Result<(), Error> {
        let scale = match self.scale() {
            Ok(scale) => scale,
            Err(Stop::Run(Error::Needs(needs))) => return Err(Error::Needs([needs, self.foreseen()].concat())),
            Err(Stop::Run(error)) => return Err(error),
            Err(Stop::Failed { error, .. }) => {
                self.warn("FailedGetScale", &error);
                let message = format!("the HPA controller was unable to get the target's current scale: {error}");
                self.set(ABLE, false, "FailedGetScale", message);
                let is_malformed = group_version(&self.hpa.spec.scale_target_ref.api_version).is_err();
                self.writes.fault = Some(if is_malformed { "spec" } else { "internal" });
                return Ok(());
            }
        };
        self.set(ABLE, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale");
        // Before any recommendation of this time.
        let first = Recommendation(self.uptime - 0.001, scale.replicas);
        self.memory.recommendations.get_or_insert_with(|| vec![first]);
        // Where the API server counts no generations, upstream writes 0.
        self.status.observed_generation = self.settings.generation.then_some(self.hpa.metadata.generation);
        self.status.current_replicas = scale.replicas;
        self.status.current_metrics.clear();
        match self.desired(&scale) {
            Ok((desired, reason)) if desired != scale.replicas => self.rescale(scale, desired, reason),
            Ok((desired, _)) => {
                self.status.desired_replicas = desired;
                self.memory.desired = Some(desired);
            }
            Err(Stop::Run(error)) => return Err(error),
            Err(Stop::Failed { whole, .. }) => {
                self.writes.fault = Some("internal");
                self.warn("FailedComputeMetricsReplicas", &whole);
            }
        }
        Ok(())
    }

    /// The desired replicas, and the reason of a change.
    fn desired(&mut self, scale: &Scale) -> Result<(i32, String), Stop> {
        const BELOW: &str = "Current number of replicas below Spec.MinReplicas";
        let (current, least, most) = (scale.replicas, self.least(), self.hpa.spec.max_replicas);
        let was_zeroed = self.settings.scale_to_zero && conditions::is_true(&self.status.conditions, SCALED_TO_ZERO);
        if current == 0 && !(was_zeroed && (least != 0 || self.has_other_metrics())) {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.set(ACTIVE, false, "ScalingDisabled", message);
            if !self.settings.scale_to_zero {
                conditions::remove(&mut self.status.conditions, SCALED_TO_ZERO);
            }
            return Ok((current, String::new()));
        }
        if current != 0 && current > most {
            return Ok((most, "Current number of replicas above Spec.MaxReplicas".into()));
        }
        if current != 0 && current < least {
            return Ok((least, BELOW.into()));
        }
        let (proposed, name) = self.propose(scale)?;
        // Negative proposals, from negative metrics, count as zero.
        let proposed = proposed.max(0);
        let desired = self.normalize(current, proposed);
        let reason = match proposed.cmp(&current) {
            Ordering::Greater => format!("{name} above target"),
            Ordering::Less => "All metrics below target".into(),
            Ordering::Equal if current == 0 && desired < least => BELOW.into(),
            Ordering::Equal => String::new(),
        };
        Ok((if current == 0 { desired.max(least) } else { desired }, reason))
    }
}
