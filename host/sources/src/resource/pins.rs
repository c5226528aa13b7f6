//! Resolved artifacts of tags: a restarted host runs the same artifact as before, even if the tag has been moved since.
//!
//! ```text
//! .status.artifact of the resource ──first sight──> Pins ──pull──> .status.artifact
//! ```
//!
//! *Invariant*: the reference to pull for a resource and a tag stays the same while this process runs.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pintle_oci::{ArtifactRef, Digest};
use serde_json::{Value, json};

/// Tags by the name of their resource.
#[derive(Default)]
pub(super) struct Pins(Mutex<BTreeMap<String, Pin>>);

struct Pin {
    /// The reference in the spec, with the tag.
    tag: ArtifactRef,
    /// The reference to pull.
    start: ArtifactRef,
    /// Digest of the applied artifact.
    applied: Option<Digest>,
}

impl Pins {
    /// The reference to pull for a reference in a spec: by the digest that `status` recorded for the same tag, if any.
    pub(super) fn start(&self, name: &str, reference: &ArtifactRef, status: &Value) -> ArtifactRef {
        if !reference.is_by_tag_only() {
            self.forget(name);
            return reference.clone();
        }
        let mut pins = self.0.lock();
        if let Some(pin) = pins.get(name).filter(|pin| pin.tag == *reference) {
            return pin.start.clone();
        }
        let recorded = recorded(status, reference);
        let start = recorded.map_or_else(|| reference.clone(), |digest| reference.pinned(digest));
        let pin = Pin { tag: reference.clone(), start: start.clone(), applied: recorded };
        pins.insert(name.to_owned(), pin);
        start
    }

    /// Records the applied artifact: the tag with its digest.
    pub(super) fn applied(&self, name: &str, artifact: &ArtifactRef) {
        if let Some(pin) = self.0.lock().get_mut(name)
            && let Some(digest) = artifact.digest()
            && pin.tag.pinned(digest) == *artifact
        {
            pin.applied = Some(digest);
        }
    }

    /// `.status.artifact` of a resource; null if its source is not a tag.
    pub(super) fn status(&self, name: &str) -> Value {
        let pins = self.0.lock();
        let of = |pin: &Pin| Some(json!({"reference": pin.tag.to_string(), "digest": pin.applied?.to_string()}));
        pins.get(name).and_then(of).unwrap_or_default()
    }

    /// Drops a resource whose source is not a tag.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Drops deleted resources.
    pub(super) fn retain(&self, is_present: impl Fn(&String) -> bool) {
        self.0.lock().retain(|name, _| is_present(name));
    }
}

fn recorded(status: &Value, reference: &ArtifactRef) -> Option<Digest> {
    let artifact = &status["artifact"];
    (artifact["reference"] == reference.to_string().as_str()).then(|| artifact["digest"].as_str()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_leads_where_it_led_before_the_restart() {
        let tag: ArtifactRef = "oci://r.example.com/a:1".parse().unwrap();
        let [old, new] = [b"old", b"new"].map(|bytes| Digest::of(bytes));
        let pins = Pins::default();
        assert_eq!(pins.start("p", &tag, &Value::Null), tag, "the first time, the registry decides");
        assert_eq!(pins.status("p"), Value::Null);
        pins.applied("p", &tag.pinned(old));
        let status = json!({ "artifact": pins.status("p") });
        assert_eq!(status["artifact"]["reference"], "oci://r.example.com/a:1");
        assert_eq!(pins.start("p", &tag, &status), tag, "what is wanted stays the same, so it is not applied again");

        let restarted = Pins::default();
        assert_eq!(restarted.start("p", &tag, &status), tag.pinned(old));
        assert_eq!(json!({ "artifact": restarted.status("p") }), status);
        let other: ArtifactRef = "oci://r.example.com/a:2".parse().unwrap();
        assert_eq!(restarted.start("p", &other, &status), other, "another tag is another wish");
        restarted.applied("p", &tag.pinned(old));
        assert_eq!(restarted.status("p"), Value::Null, "an earlier request that ends late records nothing");
        assert_eq!(restarted.start("p", &tag.pinned(new), &status), tag.pinned(new));
        assert_eq!(restarted.status("p"), Value::Null, "a digest in the spec needs no record");
    }
}
