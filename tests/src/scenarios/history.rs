//! Every write to the objects of a namespace, in the order in which they took effect.
//!
//! ```text
//! list (base) -> a watch of each kind from there on -> notes -> caught up with a last look -> History
//! ```
//!
//! Invariants:
//! 1. Writes of all kinds are in one order: resourceVersions come from one counter.
//! 2. A history is complete: it leads from the base to the last look, or it is an error.
//!
//! Not here: what a history must or must not hold (`rules`), and what of it is compared (`steps`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::task::JoinSet;

use super::stage::Stage;
use crate::api::Watch;
use crate::{PATIENCE, eventually};

/// How long a watch may be silent; longer than any test.
const SILENCE: Duration = Duration::from_secs(3600);

/// (Plural, uid): an object, whatever happens to it.
pub type Id = (&'static str, String);

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The object is new.
    Added,
    /// The object is another.
    Modified,
    /// The object is gone; it is told as it was last.
    Deleted,
}

/// One write that took effect.
#[derive(Debug, Clone)]
pub struct Write {
    /// The kind.
    pub plural: &'static str,
    /// What it did.
    pub effect: Effect,
    /// The object afterwards.
    pub object: Value,
}

/// Objects and all that happened to them.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// What was there when it began.
    pub base: BTreeMap<Id, Value>,
    /// What happened since, in order.
    pub writes: Vec<Write>,
}

/// Watches that note down every write. Dropping it ends them.
#[derive(Debug)]
pub struct Recorder {
    _tasks: JoinSet<()>,
    base: BTreeMap<Id, Value>,
    notes: Arc<Mutex<Vec<Result<Write, String>>>>,
}

impl Write {
    /// Which object it is about.
    pub fn id(&self) -> Id {
        (self.plural, text(&self.object, "uid").to_owned())
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        text(&self.object, "name")
    }

    /// The object unless it is gone.
    pub fn left(&self) -> Option<&Value> {
        (self.effect != Effect::Deleted).then_some(&self.object)
    }

    fn version(&self) -> u64 {
        text(&self.object, "resourceVersion").parse().unwrap_or(0)
    }
}

impl Recorder {
    /// Starts to note down every write to the recorded kinds of a namespace from now on.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn start(stage: &Stage) -> Result<Recorder> {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let mut base = BTreeMap::new();
        for plural in stage.recorded() {
            let mut list = stage.client.get(&stage.all(plural)).await?;
            let path = format!("{}?watch=true&resourceVersion={}", stage.all(plural), text(&list, "resourceVersion"));
            if let Value::Array(items) = list["items"].take() {
                base.extend(items.into_iter().map(|object| ((plural, text(&object, "uid").to_owned()), object)));
            }
            let watch = stage.client.watch(&path).await?;
            tasks.spawn(note_down(plural, watch, Arc::clone(&notes)));
        }
        Ok(Recorder { _tasks: tasks, base, notes })
    }

    /// What was there when it began.
    pub fn base(&self) -> &BTreeMap<Id, Value> {
        &self.base
    }

    /// How many writes were seen so far.
    pub fn n_seen(&self) -> usize {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The last writes that were seen, for messages.
    pub fn last_writes(&self) -> String {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |note: &Result<Write, String>| match note {
            Ok(write) => format!("{:?} {} {}", write.effect, write.plural, write.name()),
            Err(why) => why.clone(),
        };
        notes.iter().rev().take(5).map(shown).collect::<Vec<_>>().join(", ")
    }

    /// What happened so far, which may be less than has happened.
    ///
    /// # Errors
    /// A watch broke.
    pub fn so_far(&self) -> Result<History> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut writes = notes.into_iter().collect::<Result<Vec<Write>, String>>().map_err(anyhow::Error::msg)?;
        writes.sort_by_key(Write::version);
        Ok(History { base: self.base.clone(), writes })
    }

    /// Waits until the watches have told all that led to `last`, a state in which nothing happened for a while. What happened after it
    /// is left out: an event that is repeated, for example, after a longer silence.
    ///
    /// # Errors
    /// A watch broke, or told something else.
    pub async fn until(&self, last: &BTreeMap<Id, Value>) -> Result<History> {
        let caught_up =
            eventually(PATIENCE, "the watches to tell all", async || self.so_far()?.leading_to(last).map(Some));
        caught_up.await.context("the watches did not see all that happened")
    }
}

impl History {
    /// The part that leads to exactly these versions of these objects. Fails if none does.
    fn leading_to(mut self, last: &BTreeMap<Id, Value>) -> Result<History> {
        let mut replayed: BTreeMap<Id, &str> =
            self.base.iter().map(|(id, object)| (id.clone(), text(object, "resourceVersion"))).collect();
        let wanted: BTreeMap<&Id, &str> =
            last.iter().map(|(id, object)| (id, text(object, "resourceVersion"))).collect();
        let ids: BTreeSet<&Id> = wanted.keys().copied().chain(self.base.keys()).collect();
        let mut different: BTreeSet<Id> =
            ids.into_iter().filter(|id| replayed.get(*id) != wanted.get(id)).cloned().collect();
        let mut n_writes = different.is_empty().then_some(0);
        for (n, write) in self.writes.iter().enumerate() {
            let id = write.id();
            match write.left() {
                Some(object) => replayed.insert(id.clone(), text(object, "resourceVersion")),
                None => replayed.remove(&id),
            };
            if replayed.get(&id) == wanted.get(&id) {
                different.remove(&id);
            } else {
                different.insert(id);
            }
            if different.is_empty() {
                n_writes = Some(n + 1);
            }
        }
        if let Some(n_writes) = n_writes {
            self.writes.truncate(n_writes);
            return Ok(self);
        }
        let shown = |id: &Id| format!("{} {}: {:?} instead of {:?}", id.0, id.1, replayed.get(id), wanted.get(id));
        bail!("versions differ: {}", different.iter().map(shown).collect::<Vec<_>>().join(", "))
    }

    /// The writes to one kind.
    pub fn of(&self, plural: &str) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(move |write| write.plural == plural)
    }
}

async fn note_down(plural: &'static str, mut watch: Watch, notes: Arc<Mutex<Vec<Result<Write, String>>>>) {
    loop {
        let note = match watch.next(SILENCE).await {
            Ok(Some(mut event)) => {
                let object = event["object"].take();
                match event["type"].as_str() {
                    Some("ADDED") => Ok(Write { plural, effect: Effect::Added, object }),
                    Some("MODIFIED") => Ok(Write { plural, effect: Effect::Modified, object }),
                    Some("DELETED") => Ok(Write { plural, effect: Effect::Deleted, object }),
                    other => Err(format!("the watch of {plural} sent {other:?}: {object}")),
                }
            }
            Ok(None) => Err(format!("the watch of {plural} ended")),
            Err(error) => Err(format!("the watch of {plural}: {error:#}")),
        };
        let is_last = note.is_err();
        notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        if is_last {
            return;
        }
    }
}

/// A field of the metadata, or nothing.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(uid: &str, version: &str) -> Value {
        json!({"metadata": {"uid": uid, "resourceVersion": version}})
    }

    fn write(effect: Effect, uid: &str, version: &str) -> Write {
        Write { plural: "pods", effect, object: object(uid, version) }
    }

    fn state(versions: &[(&str, &str)]) -> BTreeMap<Id, Value> {
        versions.iter().map(|(uid, version)| (("pods", (*uid).to_owned()), object(uid, version))).collect()
    }

    #[test]
    fn a_history_ends_where_it_has_led_to_the_wanted_state() {
        let history = || History {
            base: state(&[("a", "1"), ("b", "2")]),
            writes: vec![
                write(Effect::Modified, "a", "3"),
                write(Effect::Deleted, "b", "4"),
                write(Effect::Added, "c", "5"),
                write(Effect::Modified, "c", "6"),
            ],
        };
        let n_writes = |versions| history().leading_to(&state(versions)).map(|history| history.writes.len()).ok();
        assert_eq!(n_writes(&[("a", "1"), ("b", "2")]), Some(0));
        assert_eq!(n_writes(&[("a", "3")]), Some(2));
        assert_eq!(n_writes(&[("a", "3"), ("c", "5")]), Some(3), "what follows is left out");
        assert_eq!(n_writes(&[("a", "3"), ("c", "6")]), Some(4));
        assert_eq!(n_writes(&[("a", "3"), ("c", "7")]), None, "a version that was not seen");
        assert_eq!(n_writes(&[("a", "3"), ("b", "2"), ("c", "5")]), None, "no state of any moment");
        assert_eq!(n_writes(&[]), None, "an end that was not seen");
    }
}
