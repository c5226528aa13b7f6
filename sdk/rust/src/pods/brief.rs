//! The few fields that counting Pods needs, without copying.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::State;
use crate::api::core::Pod;
use crate::api::meta::Resource;
use crate::borrowed::{Map, Text};
use crate::error::Error;
use crate::lister::decode;
use crate::time::Timestamp;

/// A Pod of a list, with the fields that counting needs. Several times cheaper than a [`Pod`], which it [can become](Self::full).
#[derive(Clone, Debug)]
pub struct Brief<'a> {
    text: &'a str,
    parts: Parts<'a>,
}

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

impl<'a> Brief<'a> {
    /// Decodes an object of [`Lister::list_json`](crate::Lister::list_json).
    ///
    /// # Errors
    /// If it does not fit the type.
    pub fn decode(text: &'a str) -> Result<Self, Error> {
        match serde_json::from_str(text) {
            Ok(parts) => Ok(Self { text, parts }),
            // The full type names the object in its error.
            Err(error) => Err(decode::<Pod>(&Pod::KIND, text).err().unwrap_or_else(|| error.into())),
        }
    }

    /// All fields.
    ///
    /// # Errors
    /// If it does not fit the type.
    pub fn full(&self) -> Result<Pod, Error> {
        decode(&Pod::KIND, self.text)
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

    fn ready(&self) -> Option<&Condition<'a>> {
        self.parts.status.conditions.0.as_ref().filter(|condition| condition.status == *"True")
    }
}

impl State for Brief<'_> {
    fn phase(&self) -> &str {
        &self.parts.status.phase
    }

    fn is_deleting(&self) -> bool {
        self.parts.metadata.deletion_timestamp.is_some()
    }

    fn is_ready(&self) -> bool {
        self.ready().is_some()
    }

    fn ready_since(&self) -> Option<Timestamp> {
        Timestamp::parse(&self.ready()?.last_transition_time)
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
        struct Items<T>(std::marker::PhantomData<T>);

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

        deserializer.deserialize_any(Items(std::marker::PhantomData))
    }
}
