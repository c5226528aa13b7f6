//! Components that ran before the host started without a bound on their deletions: a restart does not make them new
//! versions.
//!
//! ```text
//! status and generation of the resource ──first sight──> Proven ──when the component is applied──> Manager
//! ```
//!
//! *Invariant*: only a status written by an earlier host counts, and only for its spec and digest.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::spec::ControllerPlugin;

/// Digests by resource name; `None` if the deletions were bounded, or nothing ran.
#[derive(Default)]
pub(super) struct Proven(Mutex<BTreeMap<String, Option<String>>>);

impl Proven {
    /// Records the state in the status. Only the first call for a resource counts.
    pub(super) fn seen(&self, plugin: &ControllerPlugin) {
        self.0.lock().entry(plugin.metadata.name.clone()).or_insert_with(|| digest(plugin));
    }

    /// The digest, once.
    pub(super) fn take(&self, name: &str) -> Option<String> {
        self.0.lock().get_mut(name)?.take()
    }

    /// Drops deleted resources.
    pub(super) fn retain(&self, is_present: impl Fn(&String) -> bool) {
        self.0.lock().retain(|name, _| is_present(name));
    }
}

/// The component that ran, if its deletions were not bounded and the spec has not changed since.
fn digest(plugin: &ControllerPlugin) -> Option<String> {
    let status = &plugin.status;
    let is_same_spec = status["observedGeneration"] == plugin.metadata.generation;
    let is_bounded = status["boundsDeletions"] == true;
    status["current"]["digest"].as_str().filter(|_| is_same_spec && !is_bounded).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plugin(name: &str, status: Value) -> ControllerPlugin {
        serde_json::from_value(json!({"metadata": {"name": name, "generation": 3}, "status": status})).unwrap()
    }

    #[test]
    fn only_the_unbounded_component_of_the_same_spec_counts_and_only_at_first_sight() {
        let of = |status: Value| {
            let proven = Proven::default();
            proven.seen(&plugin("p", status));
            proven.take("p")
        };
        let ran = json!({"observedGeneration": 3, "current": {"digest": "aa"}});
        assert_eq!(of(ran.clone()).as_deref(), Some("aa"));
        assert_eq!(of(json!({})), None, "nothing ran");
        assert_eq!(of(json!({"observedGeneration": 2, "current": {"digest": "aa"}})), None, "the spec has changed");
        assert_eq!(of(json!({"observedGeneration": 3, "boundsDeletions": true, "current": {"digest": "aa"}})), None);
        let proven = Proven::default();
        proven.seen(&plugin("p", json!({})));
        proven.seen(&plugin("p", ran.clone()));
        assert_eq!(proven.take("p"), None, "a status of this host");
        proven.retain(|_| false);
        proven.seen(&plugin("p", ran));
        assert_eq!((proven.take("p").as_deref(), proven.take("p")), (Some("aa"), None));
        assert_eq!(proven.take("q"), None);
    }
}
