//! A Lease as stored by the API server.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::handover::LAST_WRITES;
use super::share::{RESERVED_FOR, WANTED_BY};

/// Annotation: identity of the last Pintle host that took the Lease. It is not the holder if another program has taken
/// the Lease since.
pub const HOLDER: &str = "pintle.dev/holder";

/// A Lease object of `coordination.k8s.io/v1`. Unknown fields stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease(Value);

impl Lease {
    /// Parses an object from the API server.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, String> {
        let object: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
        if object.is_object() { Ok(Self(object)) } else { Err("not an object".to_owned()) }
    }

    /// Creates a Lease without a holder.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {},
        }))
    }

    /// Identity of the holder; empty if it is free.
    pub fn holder(&self) -> &str {
        self.0["spec"]["holderIdentity"].as_str().unwrap_or_default()
    }

    /// Time for which the holder keeps it after a renewal. Zero if it is not set.
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.0["spec"]["leaseDurationSeconds"].as_u64().unwrap_or_default().min(u32::MAX.into()))
    }

    /// Number of changes of the holder.
    pub fn transitions(&self) -> u64 {
        self.0["spec"]["leaseTransitions"].as_u64().unwrap_or_default()
    }

    /// The resourceVersion; empty if it is not stored yet.
    pub fn version(&self) -> &str {
        self.0["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }

    /// The uid; empty if it is not stored yet.
    pub fn uid(&self) -> &str {
        self.0["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// An annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.0["metadata"]["annotations"][name].as_str()
    }

    /// Whether the holder is a Pintle host.
    pub fn is_of_pintle(&self) -> bool {
        !self.holder().is_empty() && self.annotation(HOLDER) == Some(self.holder())
    }

    /// Whether its holder has released it: client-go's releases leave a duration of one second.
    pub fn is_released(&self) -> bool {
        self.holder().is_empty() && self.duration() <= Duration::from_secs(1)
    }

    /// Whether the API server requests that its holder ends the term, because another candidate is preferred.
    pub(super) fn is_end_of_term(&self) -> bool {
        self.0["spec"]["preferredHolder"].as_str().is_some_and(|preferred| !preferred.is_empty())
    }

    /// The part that the election compares: everything but the metadata.
    pub(in crate::policy) fn spec(&self) -> &Value {
        &self.0["spec"]
    }

    /// The object as JSON text.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// The Lease after this holder has taken or renewed it.
    pub(super) fn held_by(&self, holder: &str, duration: Duration, now: Timestamp) -> Self {
        let mut next = self.clone();
        let (is_renewal, transitions) = (self.holder() == holder, self.transitions());
        let is_new = self.version().is_empty();
        next.set_spec("holderIdentity", json!(holder));
        next.set_spec("leaseDurationSeconds", json!(duration.as_secs().max(1)));
        next.set_spec("renewTime", time(now));
        if !is_renewal {
            next.set_spec("acquireTime", time(now));
            next.set_spec("leaseTransitions", json!(if is_new { 0 } else { transitions + 1 }));
        }
        next.annotate(HOLDER, Some(holder));
        for of_others in [LAST_WRITES, WANTED_BY, RESERVED_FOR] {
            next.annotate(of_others, None);
        }
        next
    }

    /// The Lease after another candidate has asked for it.
    pub(super) fn wanted_by(&self, candidate: &str) -> Self {
        let mut next = self.clone();
        next.annotate(WANTED_BY, Some(candidate));
        next
    }

    /// The Lease after its holder has released it.
    pub(super) fn released(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.set_spec("holderIdentity", json!(""));
        next.set_spec("leaseDurationSeconds", json!(1));
        next.set_spec("renewTime", time(now));
        next.set_spec("acquireTime", time(now));
        for of_holder in [HOLDER, WANTED_BY] {
            next.annotate(of_holder, None);
        }
        next
    }

    /// Sets or removes an annotation.
    pub fn annotate(&mut self, name: &str, value: Option<&str>) {
        let annotations = &mut self.0["metadata"]["annotations"];
        match value {
            Some(value) => annotations[name] = value.into(),
            None => {
                annotations.as_object_mut().map(|annotations| annotations.remove(name));
            }
        }
    }

    /// Records the version after a write.
    pub(super) fn stored(mut self, version: &str, uid: &str) -> Self {
        self.0["metadata"]["resourceVersion"] = version.into();
        if !uid.is_empty() {
            self.0["metadata"]["uid"] = uid.into();
        }
        self
    }

    fn set_spec(&mut self, field: &str, value: Value) {
        if !self.0["spec"].is_object() {
            self.0["spec"] = json!({});
        }
        self.0["spec"][field] = value;
    }
}

/// Formats a `MicroTime`.
pub(super) fn time(at: Timestamp) -> Value {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_keeps_what_this_program_does_not_know() {
        let text = r#"{"metadata":{"name":"a","resourceVersion":"7","labels":{"x":"y"}},"spec":{"holderIdentity":"kcm","leaseTransitions":3,"strategy":"OldestEmulationVersion"}}"#;
        let lease = Lease::parse(text).unwrap();
        let taken = lease.held_by("me", Duration::from_secs(15), Timestamp::UNIX_EPOCH);
        let expected = json!({
            "metadata": {"name": "a", "resourceVersion": "7", "labels": {"x": "y"}, "annotations": {HOLDER: "me"}},
            "spec": {
                "holderIdentity": "me", "leaseTransitions": 4, "strategy": "OldestEmulationVersion", "leaseDurationSeconds": 15,
                "renewTime": "1970-01-01T00:00:00.000000Z", "acquireTime": "1970-01-01T00:00:00.000000Z",
            },
        });
        assert_eq!(taken.0, expected);
        assert!(taken.is_of_pintle() && !lease.is_of_pintle());
        let released = taken.released(Timestamp::UNIX_EPOCH);
        assert!(released.is_released() && !released.is_of_pintle());
        assert_eq!((released.transitions(), released.0["metadata"]["annotations"].clone()), (4, json!({})));
    }

    #[test]
    fn what_users_can_store_in_a_lease_is_read_without_a_panic() {
        for text in ["{}", r#"{"spec":null}"#, r#"{"spec":{"holderIdentity":null,"leaseDurationSeconds":-5}}"#] {
            let lease = Lease::parse(text).unwrap();
            assert_eq!((lease.holder(), lease.duration(), lease.transitions()), ("", Duration::ZERO, 0), "{text}");
            let taken = lease.held_by("me", Duration::from_secs(15), Timestamp::UNIX_EPOCH);
            assert_eq!(taken.holder(), "me", "{text}");
        }
        let long = Lease::parse(r#"{"spec":{"leaseDurationSeconds":9223372036854775807}}"#).unwrap();
        assert_eq!(long.duration(), Duration::from_secs(u32::MAX.into()));
        assert!(Lease::parse("[]").is_err() && Lease::parse("garbage").is_err());
    }
}
