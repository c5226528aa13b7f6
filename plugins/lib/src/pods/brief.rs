//! The few fields that counting Pods needs, without copying.

use std::fmt;
use std::marker::PhantomData;

use pintle_sdk::Error;
use pintle_sdk::api::{Projection, assert_declared};
use pintle_sdk::borrowed::{Map, Text};
use pintle_sdk::decode;
use pintle_sdk::time::Timestamp;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{HasPhase, HasReadiness, MayBeDeleting};

/// A Pod of a list, with the fields that counting needs: labels, controller, deletion, phase and readiness. Decoding it
/// is several times cheaper than the plugin's own type `P`, to which it [can be converted](Self::full), and which must
/// have these fields:
///
/// ```compile_fail
/// # use plugin_lib::pods::Brief;
/// pintle_sdk::types!("v1/Pod": ["metadata.labels", "metadata.ownerReferences", "metadata.deletionTimestamp", "status.phase"]);
///
/// // Does not compile, as `status.conditions` is missing.
/// Brief::<Pod>::decode("{}");
/// ```
#[derive(Clone, Debug)]
pub struct Brief<'a, P> {
    text: &'a str,
    parts: Parts<'a>,
    full: PhantomData<fn() -> P>,
}

/// The decoded fields.
const FIELDS: &[&str] = &[
    "metadata.labels",
    "metadata.ownerReferences.uid",
    "metadata.ownerReferences.controller",
    "metadata.deletionTimestamp",
    "status.phase",
    "status.conditions.type",
    "status.conditions.status",
    "status.conditions.lastTransitionTime",
];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Parts<'a> {
    metadata: Metadata<'a>,
    status: Status<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Metadata<'a> {
    uid: Text<'a>,
    labels: Map<'a>,
    owner_references: First<OwnerReference<'a>>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Status<'a> {
    phase: Text<'a>,
    conditions: First<Condition<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct OwnerReference<'a> {
    uid: Text<'a>,
    controller: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Condition<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    status: Text<'a>,
    last_transition_time: Text<'a>,
}

impl<'a, P: Projection> Brief<'a, P> {
    /// Decodes an object of [`Lister::list_json`](pintle_sdk::Lister::list_json).
    ///
    /// # Errors
    /// If it does not fit the type.
    pub fn decode(text: &'a str) -> Result<Self, Error> {
        const { assert_declared(FIELDS, P::FIELDS) };
        match serde_json::from_str(text) {
            Ok(parts) => Ok(Self { text, parts, full: PhantomData }),
            // The error of the full type names the object.
            Err(error) => Err(decode::<P>(&P::KIND, text).err().unwrap_or_else(|| error.into())),
        }
    }

    /// Decodes all fields.
    ///
    /// # Errors
    /// If it does not fit the type.
    pub fn full(&self) -> Result<P, Error> {
        decode(&P::KIND, self.text)
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.parts.metadata.uid
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> &Map<'a> {
        &self.parts.metadata.labels
    }

    /// The uid of its controller.
    pub fn controller_uid(&self) -> Option<&str> {
        self.parts.metadata.owner_references.0.as_ref().map(|owner| &*owner.uid)
    }
}

impl<P> HasPhase for Brief<'_, P> {
    fn phase(&self) -> &str {
        &self.parts.status.phase
    }
}

impl<P> MayBeDeleting for Brief<'_, P> {
    fn is_deleting(&self) -> bool {
        self.parts.metadata.deletion_timestamp.is_some()
    }
}

impl<P> HasReadiness for Brief<'_, P> {
    fn ready(&self) -> Option<Option<Timestamp>> {
        let ready = self.parts.status.conditions.0.as_ref().filter(|condition| condition.status == *"True")?;
        Some(Timestamp::parse(&ready.last_transition_time))
    }
}

/// The first matching item of a list.
#[derive(Clone, Debug)]
struct First<T>(Option<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        Self(None)
    }
}

trait Interesting {
    fn is_interesting(&self) -> bool;
}

impl Interesting for OwnerReference<'_> {
    fn is_interesting(&self) -> bool {
        self.controller == Some(true)
    }
}

impl Interesting for Condition<'_> {
    fn is_interesting(&self) -> bool {
        self.kind == *"Ready"
    }
}

impl<'de, T: Interesting + Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);

        impl<'de, T: Interesting + Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<First<T>, A::Error> {
                while let Some(item) = items.next_element::<T>()? {
                    if item.is_interesting() {
                        while items.next_element::<IgnoredAny>()?.is_some() {}
                        return Ok(First(Some(item)));
                    }
                }
                Ok(First(None))
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<First<T>, E> {
                Ok(First(None))
            }
        }

        deserializer.deserialize_any(Items(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pods::{is_active, is_available, is_terminating, until_available};

    pintle_sdk::types!("v1/Pod": [
        "metadata.deletionTimestamp",
        "metadata.labels",
        "metadata.ownerReferences",
        "status.conditions",
        "status.phase",
    ]);

    /// A Pod that has been ready for `ready` seconds, or is not ready.
    fn texts(ready: Option<&str>) -> String {
        let condition = match ready {
            None => r#"{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}"#.to_owned(),
            Some("") => r#"{"type": "Ready", "status": "True", "lastTransitionTime": null}"#.to_owned(),
            Some(time) => format!(r#"{{"type": "Ready", "status": "True", "lastTransitionTime": "{time}"}}"#),
        };
        format!(
            r#"{{"status": {{"phase": "Running", "conditions": [{{"type": "\u003cother>", "status": "True"}}, {condition}]}}}}"#
        )
    }

    #[test]
    fn availability_is_the_same_for_both_types() {
        let now = Timestamp::parse("2026-01-01T00:01:00Z").unwrap();
        for (ready, min_ready, available, left) in [
            (None, 0, false, None),
            (Some("2026-01-01T00:01:00Z"), 0, true, None),
            (Some(""), 0, true, None),
            (Some(""), 1, false, None),
            (Some("2026-01-01T00:01:00Z"), 1, false, Some(1)),
            (Some("2026-01-01T00:00:30Z"), 31, false, Some(1)),
            (Some("2026-01-01T00:00:30Z"), 30, true, None),
            (Some("2026-01-01T00:01:10Z"), 30, false, Some(40)),
        ] {
            let text = texts(ready);
            let pod: Pod = serde_json::from_str(&text).unwrap();
            let brief = Brief::<Pod>::decode(&text).unwrap();
            let left = left.map(Duration::from_secs);
            assert_eq!((is_available(&pod, min_ready, now), until_available(&pod, min_ready, now)), (available, left));
            assert_eq!(
                (is_available(&brief, min_ready, now), until_available(&brief, min_ready, now)),
                (available, left)
            );
        }
    }

    #[test]
    fn pods_end_and_go_away_independently() {
        for (phase, deleting, active, terminating) in [
            ("Pending", false, true, false),
            ("Running", true, false, true),
            ("Failed", false, false, false),
            ("Succeeded", true, false, false),
        ] {
            let deletion = if deleting { r#""2026-01-01T00:00:00Z""# } else { "null" };
            let text =
                format!(r#"{{"metadata": {{"deletionTimestamp": {deletion}}}, "status": {{"phase": "{phase}"}}}}"#);
            let pod: Pod = serde_json::from_str(&text).unwrap();
            let brief = Brief::<Pod>::decode(&text).unwrap();
            assert_eq!((is_active(&pod), is_terminating(&pod)), (active, terminating), "{phase}");
            assert_eq!((is_active(&brief), is_terminating(&brief)), (active, terminating), "{phase}");
        }
    }
}
