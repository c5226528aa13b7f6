//! A LeaseCandidate: takes part in a coordinated election, which the API server decides.
//!
//! *Source*: KEP-4355; names, versions and times are those of `leasecandidate.go` in `client-go/tools/leaderelection`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::lease::time;
use crate::object::id::Kind;

/// Period in which a candidate renews its object without being asked. The API server removes candidates after 30
/// minutes.
pub const CANDIDATE_PERIOD: Duration = Duration::from_secs(300);

/// A LeaseCandidate of `coordination.k8s.io/v1beta1`. Unknown fields stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseCandidate(Value);

impl LeaseCandidate {
    /// The kind.
    pub fn kind() -> Kind {
        Kind::new("coordination.k8s.io", "v1beta1", "LeaseCandidate")
    }

    /// Creates a candidate that is not stored yet. `name`: the identity that the API server writes to the Lease;
    /// `kubernetes`: the version that the process emulates, `MAJOR.MINOR`.
    pub fn new(namespace: &str, name: &str, lease: &str, kubernetes: &str, now: Timestamp) -> Self {
        let version = format!("{kubernetes}.0");
        Self(json!({
            "apiVersion": "coordination.k8s.io/v1beta1",
            "kind": "LeaseCandidate",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {
                "leaseName": lease, "strategy": "OldestEmulationVersion",
                "binaryVersion": version, "emulationVersion": version, "renewTime": time(now),
            },
        }))
    }

    /// Parses an object from the API server.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, String> {
        let object: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
        if object.is_object() { Ok(Self(object)) } else { Err("not an object".to_owned()) }
    }

    /// The resourceVersion; empty if it is not stored yet.
    pub fn version(&self) -> &str {
        self.0["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }

    /// Whether the API server requests a renewal.
    pub fn is_asked(&self) -> bool {
        let at = |field: &str| self.0["spec"][field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        at("pingTime").is_some_and(|asked| at("renewTime").is_none_or(|renewed| asked > renewed))
    }

    /// The object after a renewal.
    pub fn renewed(mut self, now: Timestamp) -> Self {
        if !self.0["spec"].is_object() {
            self.0["spec"] = json!({});
        }
        self.0["spec"]["renewTime"] = time(now);
        self
    }

    /// The object as JSON text.
    pub fn text(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_answers_each_question_of_the_api_server_once() {
        let now = Timestamp::UNIX_EPOCH;
        let new = LeaseCandidate::new("kube-system", "host_1", "pintle", "1.37", now);
        assert_eq!(new.0["spec"]["emulationVersion"], "1.37.0");
        assert!(!new.is_asked() && new.version().is_empty());
        let mut asked = new.0.clone();
        asked["spec"]["pingTime"] = "1970-01-01T00:00:01.000000Z".into();
        asked["metadata"]["resourceVersion"] = "7".into();
        let asked = LeaseCandidate::parse(&asked.to_string()).unwrap();
        assert!(asked.is_asked());
        let renewed = asked.renewed(now + Duration::from_secs(2));
        assert!(!renewed.is_asked());
        assert_eq!(renewed.version(), "7");
    }

    #[test]
    fn what_users_can_store_is_read_without_a_panic() {
        for text in ["{}", r#"{"spec":null}"#, r#"{"spec":{"pingTime":7,"renewTime":"soon"}}"#] {
            let candidate = LeaseCandidate::parse(text).unwrap();
            assert!(!candidate.is_asked(), "{text}");
            assert!(candidate.renewed(Timestamp::UNIX_EPOCH).text().contains("renewTime"));
        }
        assert!(LeaseCandidate::parse("[]").is_err() && LeaseCandidate::parse("x").is_err());
    }
}
