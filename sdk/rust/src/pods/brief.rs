//! The few fields that counting Pods needs, without copying.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{HasPhase, HasReadiness, MayBeDeleting};
use crate::api::{Projection, assert_declared};
use crate::borrowed::{Map, Text};
use crate::error::Error;
use crate::lister::decode;
use crate::time::Timestamp;

/// A Pod of a list, with the fields that counting needs: labels, controller, deletion, phase and readiness. Several times cheaper
/// than the plugin's own type `P`, which it [can become](Self::full), and which must have these fields:
///
/// ```compile_fail
/// # use pintle_sdk::pods::Brief;
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

/// What is decoded.
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
    /// Decodes an object of [`Lister::list_json`](crate::Lister::list_json).
    ///
    /// # Errors
    /// If it does not fit the type.
    pub fn decode(text: &'a str) -> Result<Self, Error> {
        const { assert_declared(FIELDS, P::FIELDS) };
        match serde_json::from_str(text) {
            Ok(parts) => Ok(Self { text, parts, full: PhantomData }),
            // The full type names the object in its error.
            Err(error) => Err(decode::<P>(&P::KIND, text).err().unwrap_or_else(|| error.into())),
        }
    }

    /// All fields.
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

/// The first item of a list that is of interest.
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
