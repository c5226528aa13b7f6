//! Minimum versions for components that only a signature admits: a user who may change a ConfigMap or move a tag must
//! not be able to restore an older signed component.
//!
//! ```text
//! .status.current.version of the resource ──first sight──> Floors <──version that was applied── Watcher
//! ```
//!
//! *Invariant*: the floor of a resource is the last applied version, including before a restart.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use semver::Version;
use serde_json::Value;

/// Versions by the name of their resource.
#[derive(Default)]
pub(super) struct Floors(Mutex<BTreeMap<String, String>>);

impl Floors {
    /// Records the version in `status`, unless this process has a later one.
    pub(super) fn seen(&self, name: &str, status: &Value) {
        if let Some(version) = status["current"]["version"].as_str() {
            self.0.lock().entry(name.to_owned()).or_insert_with(|| version.to_owned());
        }
    }

    /// Records an applied version, whatever admitted it.
    pub(super) fn applied(&self, name: &str, version: &str) {
        self.0.lock().insert(name.to_owned(), version.to_owned());
    }

    /// Checks a version that only a signature admits.
    ///
    /// # Errors
    /// It is older than the last applied one, or has no version; one line with the next step.
    pub(super) fn check(&self, name: &str, version: &str) -> Result<(), String> {
        let floors = self.0.lock();
        let Some(floor) = floors.get(name).filter(|floor| *floor != version) else { return Ok(()) };
        let why = match (parse(version), parse(floor)) {
            (Some(new), Some(old)) if new >= old => return Ok(()),
            (Some(_), Some(_)) => format!("version {version} is older than {floor}, which the plugin has had"),
            _ => format!(
                "nothing tells whether version {version} is older than {floor}, which the plugin has had: versions such as 1.4.0 can be compared"
            ),
        };
        Err(format!("{why}; a signature does not decide that: name the component by its digest to run it"))
    }

    /// Drops deleted resources.
    pub(super) fn retain(&self, is_present: impl Fn(&String) -> bool) {
        self.0.lock().retain(|name, _| is_present(name));
    }
}

/// A semantic version; `1` and `1.4` count as `1.0.0` and `1.4.0`.
fn parse(version: &str) -> Option<Version> {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let (numbers, rest) = version.split_at(end);
    let missing = 2_usize.saturating_sub(numbers.matches('.').count());
    Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_older_version_is_below_the_floor() {
        let floors = Floors::default();
        let is_allowed = |version: &str| floors.check("p", version).is_ok();
        assert!(is_allowed("0.1.0"), "nothing is known of the plugin");
        floors.seen("p", &json!({}));
        floors.seen("p", &json!({"current": {"version": "1.10"}}));
        let allowed = ["1.10", "1.10.0", "1.10.1-rc.1", "1.11", "2", "10.0.0+build"].map(is_allowed);
        assert_eq!(allowed, [true; 6]);
        assert_eq!(["1.9", "1", "1.10.0-rc.1", "0.99.0", "latest", "v2", ""].map(is_allowed), [false; 7]);
        let why = floors.check("p", "1.9").unwrap_err();
        assert!(why.contains("version 1.9 is older than 1.10") && why.contains("by its digest"), "{why}");

        floors.seen("p", &json!({"current": {"version": "0.1"}}));
        assert!(!is_allowed("1.9"), "a status is believed at first sight alone");
        floors.applied("p", "1.9");
        assert!(is_allowed("1.9") && !is_allowed("1.8"), "the operator has named it by its digest");
        floors.applied("p", "nightly");
        assert!(is_allowed("nightly") && !is_allowed("9.9"));
        floors.retain(|_| false);
        assert!(is_allowed("0.1.0"));
    }
}
