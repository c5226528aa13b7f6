//! The events of a StatefulSet.

use pintle_sdk::{Error, Event, Mutation, Resource as _};

use crate::set::Set;
use crate::types::StatefulSet;

/// A verb in an event's reason and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    fn text(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }
}

impl Set {
    /// Event: a write of a Pod succeeded.
    pub(crate) fn pod_done(&self, verb: Verb, pod: &str) -> Event {
        let verb = verb.text();
        self.normal(format!("Successful{verb}"), format!("{verb} Pod {pod} in StatefulSet {} successful", self.name()))
    }

    /// Event: a step of a Pod write failed. `error` may be `{error}`, the message of the API server.
    pub(crate) fn pod_failed(&self, verb: Verb, pod: &str, error: &str) -> Event {
        let verb = verb.text();
        let message = format!("{verb} Pod {pod} in StatefulSet {} failed error: {error}", self.name());
        self.warning(format!("Failed{verb}"), message)
    }

    /// Both events of a write of a Pod.
    pub(crate) fn with_events(&self, write: Mutation, verb: Verb, pod: &str) -> Mutation {
        write.on_success(self.pod_done(verb, pod)).on_failure(self.pod_failed(verb, pod, "{error}"))
    }

    /// Both events of the creation of a claim.
    pub(crate) fn with_claim_events(&self, create: Mutation, claim: &str, pod: &str) -> Mutation {
        let set = self.name();
        let done = format!("Create Claim {claim} Pod {pod} in StatefulSet {set} success");
        let failed = format!("Create Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {{error}}");
        create
            .on_success(self.normal("SuccessfulCreate".into(), done))
            .on_failure(self.warning("FailedCreate".into(), failed))
    }

    /// Event: a claim has another controller.
    pub(crate) fn conflicting_controller(&self, claim: &str) -> Event {
        // The misspelling is upstream's.
        let message = format!(
            "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
        );
        self.warning("ConflictingController".into(), message)
    }

    /// The event and the error for a StatefulSet with the strategy `Recreate` while the feature is off.
    pub(crate) fn unknown_strategy(&self) -> (Mutation, Error) {
        let (namespace, name) = (self.namespace(), self.name());
        let error = format!(
            "statefulset {namespace}/{name} uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled"
        );
        (Mutation::event(self.warning("UnknownStrategy".into(), error.clone())), Error::retry(error))
    }

    fn normal(&self, reason: String, message: String) -> Event {
        Event::normal(&StatefulSet::KIND, &self.object.metadata, reason, message)
    }

    fn warning(&self, reason: String, message: String) -> Event {
        Event::warning(&StatefulSet::KIND, &self.object.metadata, reason, message)
    }
}
