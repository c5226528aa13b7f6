//! State that a controller keeps between runs, under an object's name or one name for all. It is lost when the host
//! stops.
//!
//! *Invariants*
//! 1. State about an object belongs to its uid: a later object with the same name starts without it.
//! 2. Names fit the limit, however long the object's name is.
//! 3. State that another version of the controller kept and this one cannot decode counts as absent.
//! 4. Only changes are written.

use pintle_sdk::{Lister, ObjectKey, Outcome, json, log};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A value under a name, as read at the start of the run.
#[derive(Debug)]
pub struct Record<T> {
    name: String,
    old: Option<T>,
}

/// A value about an object, with its uid.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound<T> {
    #[serde(default)]
    uid: String,
    #[serde(flatten)]
    value: T,
}

impl<T: Serialize + DeserializeOwned + PartialEq> Record<T> {
    /// Reads the value under a name.
    pub fn read(lister: &impl Lister, name: impl Into<String>) -> Self {
        let name = name.into();
        let old = lister.state(&name).and_then(|text| match serde_json::from_str(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                log::warn(&format!("the state {name} is of another version, and begins again: {error}"));
                None
            }
        });
        Self { name, old }
    }

    /// The value; `None` if there is none.
    pub fn get(&self) -> Option<&T> {
        self.old.as_ref()
    }

    /// Stores a value.
    #[must_use]
    pub fn keep(&self, outcome: Outcome, new: &T) -> Outcome {
        if self.old.as_ref() == Some(new) { outcome } else { outcome.keep(&self.name, json(new)) }
    }

    /// Removes the value.
    #[must_use]
    pub fn forget(&self, outcome: Outcome) -> Outcome {
        if self.old.is_some() { outcome.forget(&self.name) } else { outcome }
    }
}

/// State about one object.
pub type ObjectRecord<T> = Record<Bound<T>>;

impl<T: Serialize + DeserializeOwned + PartialEq> ObjectRecord<T> {
    /// Reads the state of an object about a subject.
    pub fn of(lister: &impl Lister, subject: &str, object: &ObjectKey) -> Self {
        Self::read(lister, object.state_name(subject))
    }

    /// The value of the object with this uid.
    pub fn of_uid(&self, uid: &str) -> Option<&T> {
        self.get().filter(|kept| kept.uid == uid).map(|kept| &kept.value)
    }

    /// Stores a value for the object with this uid.
    #[must_use]
    pub fn keep_of(&self, outcome: Outcome, uid: &str, value: T) -> Outcome {
        self.keep(outcome, &Bound { uid: uid.to_owned(), value })
    }
}

#[cfg(test)]
mod tests {
    use pintle_sdk::testing::{Cluster, Plugin};
    use pintle_sdk::{Error, Key, Kind};

    use super::*;

    const MANIFEST: &str = "name: x\nqueues: [{name: x}]\nwatches: [{kind: v1/Pod}]\n";
    const POD: Kind = Kind::new("", "v1", "Pod");

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Count {
        n: u32,
    }

    /// Counts the runs of an object whose uid is the name of the queue.
    fn count(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
        let record = ObjectRecord::<Count>::of(lister, "count", &key.object());
        let n = record.of_uid(&key.queue).map_or(0, |kept| kept.n);
        Ok(match n {
            2 => record.forget(Outcome::new()),
            _ => record.keep_of(Outcome::new(), &key.queue, Count { n: n + 1 }),
        })
    }

    #[test]
    fn a_value_belongs_to_the_uid_of_its_object() {
        let mut cluster = Cluster::new(1);
        let plugin = Plugin::new(MANIFEST, count);
        let mut run = |queue: &str| {
            let key = Key::new(queue, POD, "ns", "p".repeat(253));
            let outcome = cluster.run(&plugin, &key).result.expect("it runs");
            outcome.state.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        let kept = |uid: &str, n: u32| vec![Some(format!(r#"{{"uid":"{uid}","n":{n}}}"#))];
        assert_eq!(run("a"), kept("a", 1));
        assert_eq!(run("b"), kept("b", 1), "another object of the name");
        assert_eq!(run("b"), kept("b", 2));
        assert_eq!(run("b"), [None]);
        assert_eq!(run("b"), kept("b", 1));
    }

    #[test]
    fn only_a_change_is_written() {
        let record = Record { name: "x".into(), old: Some(Count { n: 1 }) };
        assert!(record.keep(Outcome::new(), &Count { n: 1 }).state.is_empty());
        assert_eq!(
            record.keep(Outcome::new(), &Count { n: 2 }).state,
            [("x".to_owned(), Some(r#"{"n":2}"#.to_owned()))]
        );
        assert_eq!(record.forget(Outcome::new()).state, [("x".to_owned(), None)]);
        let none = Record::<Count> { name: "x".into(), old: None };
        assert!(none.forget(Outcome::new()).state.is_empty());
    }
}
