//! The scale of the target: its kind by discovery, its scale from the API server, and changes of it.
//!
//! *Source*: `scaleForResourceMappings` of upstream's `horizontal.go`, and `scale/client.go` of client-go. Upstream
//! tries each version of a kind, but always requests the version that the server prefers; this sends one request for
//! each resource of the kind.

use pintle_sdk::document::Document;
use pintle_sdk::{
    ApiError, ApiResource, Error, Event, Kind, Lister, Mutation, MutationFailure, Need, Resource, conditions,
    group_version, log,
};
use plugin_lib::selector::Selector;

use crate::context::{ABLE, Context, SCALED_TO_ZERO, Stop, Within};
use crate::memory::Sent;
use crate::metrics::refusal;
use crate::types::HorizontalPodAutoscaler;
use crate::writes::action;

/// Most attempts of a change while the API server reports conflicts, as `retry.DefaultRetry` of client-go.
const MAX_ATTEMPTS: u32 = 5;

/// The scale of an object.
pub(crate) struct Scale {
    pub(crate) kind: Kind,
    pub(crate) replicas: i32,
    pub(crate) status_replicas: i32,
    /// As text, and parsed; `None` if the scale has none.
    pub(crate) selector: Option<(String, Selector)>,
    document: Document,
}

/// The resources of a kind, each in the version that the API server prefers. There is at least one.
///
/// # Errors
/// Upstream's error text.
pub(crate) fn resources(lister: &impl Lister, group: &str, kind: &str) -> Result<Vec<ApiResource>, Stop> {
    let mut found: Vec<ApiResource> = Vec::new();
    for resource in lister.resources_of(group, kind) {
        match found.iter_mut().find(|one| one.plural == resource.plural) {
            Some(one) if resource.preferred => *one = resource,
            Some(_) => {}
            None => found.push(resource),
        }
    }
    if found.is_empty() { Err(format!("no matches for kind {kind:?} in group {group:?}").into()) } else { Ok(found) }
}

impl<L: Lister> Context<'_, L> {
    /// Reads the scale of the target.
    #[doc(alias = "scaleForResourceMappings")]
    pub(crate) fn scale(&self) -> Result<Scale, Stop> {
        let target = &self.hpa.spec.scale_target_ref;
        let (group, _) = group_version(&target.api_version)?;
        let mut first_error = None;
        for ApiResource { kind, plural, namespaced, .. } in resources(self.lister, group, &target.kind)? {
            // A scale without a namespace has no path.
            let scale = match namespaced {
                true => self.read_scale(&kind, &plural),
                false => Err(refusal(&ApiError { code: 404, ..ApiError::default() }, &plural, "", &target.name).into()),
            };
            match scale {
                Err(error @ Stop::Failed { .. }) => first_error = first_error.or(Some(error)),
                other => return other,
            }
        }
        Err(first_error.unwrap_or_else(|| "unrecognized resource".to_owned().into()))
    }

    /// Reads the scale of the target with a resolved kind.
    fn read_scale(&self, kind: &Kind, plural: &str) -> Result<Scale, Stop> {
        let name = &self.hpa.spec.scale_target_ref.name;
        let need = Need::live_object(kind, &self.hpa.metadata.namespace, name).subresource("scale");
        let text = self.lister.ask(need)?.map_err(|error| refusal(&error, plural, "", name))?;
        let document = Document::parse(&text).map_err(|error| format!("decode the scale: {error}"))?;
        let number = |path| document.get::<i32>(path).unwrap_or_default();
        let text: String = document.get(&["status", "selector"]).unwrap_or_default();
        // As client-go, which converts each scale to its internal type.
        let selector = (!text.is_empty()).then(|| Selector::parse(&text)).transpose().within(format_args!(
            "received an object from a /scale endpoint which was not convertible to autoscaling Scale: \
             failed to parse target selector: couldn't parse the selector string \"{text}\""
        ))?;
        Ok(Scale {
            kind: kind.clone(),
            replicas: number(&["spec", "replicas"]),
            status_replicas: number(&["status", "replicas"]),
            selector: selector.map(|selector| (text, selector)),
            document,
        })
    }

    /// Decides on a change.
    pub(crate) fn rescale(&mut self, scale: Scale, to: i32, reason: String) {
        let behavior = self.hpa.spec.behavior.as_ref();
        let sent = Sent {
            uid: self.hpa.metadata.uid.clone(),
            kind: scale.kind.clone(),
            from: scale.replicas,
            to,
            reason,
            at: self.uptime,
            period: behavior.map(|behavior| behavior.longest_period(to > scale.replicas)),
            with_error: self.writes.fault.is_some(),
            status: self.status.clone(),
        };
        self.send(scale, sent);
    }

    /// Sends a change, with the resulting status.
    fn send(&mut self, scale: Scale, sent: Sent) {
        let Sent { from, to, ref reason, .. } = sent;
        self.status = sent.status.clone();
        let message = format!("the HPA controller was able to update the target scale to {to}");
        self.set(ABLE, true, "SucceededRescale", message);
        if !self.settings.scale_to_zero {
            conditions::remove(&mut self.status.conditions, SCALED_TO_ZERO);
        } else if from > 0 && to == 0 && self.least() == 0 && self.has_other_metrics() {
            self.set(SCALED_TO_ZERO, true, "ScaledToZero", "the HPA controller scaled the workload to zero");
        } else {
            let message = "the HPA controller did not scale the workload to zero";
            self.set(SCALED_TO_ZERO, false, "NotScaledToZero", message);
        }
        // The decided number, which a conflict does not change.
        self.status.desired_replicas = to;
        self.status.last_scale_time = Some(self.now.truncate());
        let event = format!("New size: {to}; reason: {reason}");
        let event = Event::normal(&HorizontalPodAutoscaler::KIND, &self.hpa.metadata, "SuccessfulRescale", event);
        let mut document = scale.document;
        document.set(&["spec", "replicas"], &to);
        let update = Mutation::update(&scale.kind, document).subresource("scale");
        self.writes.fault = sent.with_error.then_some("internal");
        self.writes.scale = Some((action(from, to), update.on_success(event)));
        self.memory.sent = Some(sent);
    }

    /// Handles a failed change: sends it again if the scale has changed since, else reports it.
    pub(crate) fn repeat(&mut self, refused: &MutationFailure, mut sent: Sent) -> Result<(), Error> {
        if refused.code == 409 && self.lister.attempt() < MAX_ATTEMPTS {
            match self.read_scale(&sent.kind, "") {
                Ok(scale) => {
                    sent.at = self.uptime;
                    self.send(scale, sent);
                    return Ok(());
                }
                Err(Stop::Run(error)) => return Err(error),
                Err(Stop::Failed { error, .. }) => {
                    log::warn(&format!("read the scale again after a conflict: {error}"))
                }
            }
        }
        let error = &refused.message;
        self.warn("FailedRescale", &format!("New size: {}; reason: {}; error: {error}", sent.to, sent.reason));
        self.status = sent.status;
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        self.set(ABLE, false, "FailedUpdateScale", message);
        self.writes.fault = Some("internal");
        Ok(())
    }
}
