//! The effect of a handover from one controller manager to another on the objects of a namespace.
//!
//! ```text
//! quiet -> Census (every object) -> Recorder (watches from there on) -> the next one takes over -> quiet -> Census
//!                                             '-> writes --------------------------------> Comparison -> table
//! ```
//!
//! Invariants:
//! 1. A write that is undone is seen too: each write is an event of a watch.
//! 2. "Quiet" means that the queues of the controllers are empty and that they have reconciled each object; silence alone
//!    could be that of a controller that has not started.
//!
//! Not here: the controller managers.

mod full;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::scenarios::history::{Effect, Id, Recorder, text};
use crate::scenarios::stage::Stage;
use crate::scenarios::subject::{self, Running, Subject};
use crate::{ControlPlane, PATIENCE, eventually};

pub use full::fill;

/// How many looks in a row must show no write and idle controllers.
const N_QUIET_LOOKS: usize = 25;

/// Kinds whose status a controller that takes over may write.
const MAY_GET_STATUS: [&str; 3] = ["deployments", "replicasets", "replicationcontrollers"];

/// The work queue of each kind, as kube-controller-manager and as Pintle call it.
const QUEUES: [(&str, [&str; 2]); 4] = [
    ("deployments", ["deployment", "deployment-controller"]),
    ("replicasets", ["replicaset", "replicaset-controller"]),
    ("replicationcontrollers", ["replicationmanager", "replicationcontroller-controller"]),
    ("services", ["endpoint_slice", "endpoint_slice"]),
];

/// All objects of a namespace at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Census {
    /// The kinds that are compared.
    kinds: Vec<&'static str>,
    /// Each as it was.
    pub objects: BTreeMap<Id, Value>,
}

/// What became of the objects.
#[derive(Debug)]
pub struct Comparison {
    rows: Vec<Row>,
    /// What should not have happened, in words.
    pub violations: Vec<String>,
}

#[derive(Debug)]
struct Row {
    plural: &'static str,
    n_before: usize,
    n_untouched: usize,
    n_status: usize,
    n_changed: usize,
    n_created: usize,
    n_deleted: usize,
}

/// Hands a quiet namespace over to the next one, waits until it has reconciled all objects, and compares.
///
/// # Errors
/// One did not come to rest, or something was changed.
pub async fn hand_over(s: &Stage, plane: &ControlPlane, from: Running, to: &Subject) -> Result<Running> {
    let before = from.quiet(s).await?;
    let from_name = from.name;
    from.stop().await;
    let recorder = Recorder::start(s).await?;
    let to = to.start(plane).await?;
    let after = to.quiet(s).await?;
    let comparison = Comparison::of(&recorder, &before, &after).await?;
    let title = format!("{from_name} -> {}", to.name);
    // The table is a result, so it is printed past the capture of the test harness.
    writeln!(std::io::stderr(), "{}", comparison.table(&title))?;
    let violations = comparison.violations;
    ensure!(violations.is_empty(), "{title}:\n{}", violations.join("\n"));
    Ok(to)
}

impl Running {
    /// Fails with the reason why the controllers are not at rest, if they are not.
    async fn at_rest(&self, census: &Census) -> Result<()> {
        let answer = self.client.request("GET", self.ready_path, &[], None).await?;
        ensure!(answer.status == 200, "{} answers {}: {}", self.ready_path, answer.status, answer.text());
        let text = subject::metrics(&self.client).await?;
        let busy = subject::busy_queues(&text)?;
        ensure!(busy.is_empty(), "{busy:?} have keys");
        for (plural, queues) in QUEUES {
            let n_done = subject::samples(&text, "workqueue_work_duration_seconds_count")
                .find(|(queue, _)| queues.contains(queue))
                .map_or(0.0, |(_, value)| value);
            let n = census.count(plural);
            ensure!(n_done >= n as f64, "{} has looked at {n_done} of {n} {plural}", self.name);
        }
        Ok(())
    }

    /// Waits until nothing happens any more, and returns what there is.
    ///
    /// # Errors
    /// Something goes on happening, or the controllers never came to rest; the message holds the end of their log.
    pub async fn quiet(&self, namespace: &Stage) -> Result<Census> {
        let recorder = Recorder::start(namespace).await.context("watch the namespace")?;
        let mut census = Census::take(namespace).await?;
        let (mut n_seen, mut n_same) = (0, 0);
        let outcome = eventually(PATIENCE, format!("{} to come to rest", self.name), async || {
            let now = recorder.n_seen();
            if now != n_seen {
                (n_seen, n_same, census) = (now, 0, Census::take(namespace).await?);
            }
            let rest = self.at_rest(&census).await;
            n_same = if rest.is_ok() { n_same + 1 } else { 0 };
            rest?;
            if n_same < N_QUIET_LOOKS {
                return Ok(None);
            }
            // A watch may be behind: what is listed now decides.
            let last = Census::take(namespace).await?;
            let is_same = last == census;
            (n_same, census) = (0, last);
            Ok(is_same.then(|| census.clone()))
        })
        .await;
        outcome.with_context(|| format!("the log of {} ends with:\n{}\n", self.name, self.process().log_tail()))
    }
}

impl Census {
    /// Looks at every object.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn take(namespace: &Stage) -> Result<Census> {
        let kinds: Vec<&'static str> = namespace.compared().collect();
        let mut objects = BTreeMap::new();
        for plural in &kinds {
            for object in namespace.list(plural).await? {
                objects.insert((*plural, text(&object, "uid").to_owned()), object);
            }
        }
        Ok(Census { kinds, objects })
    }

    /// How many objects there are of a kind.
    pub fn count(&self, plural: &str) -> usize {
        self.objects.keys().filter(|(of, _)| *of == plural).count()
    }
}

impl Comparison {
    /// Waits until the watches have seen all that led from `before` to `after`, and compares.
    ///
    /// # Errors
    /// A watch broke or did not see all, or something was written before the watches began.
    pub async fn of(recorder: &Recorder, before: &Census, after: &Census) -> Result<Comparison> {
        ensure!(*recorder.base() == before.objects, "something was written before the watches began");
        let history = recorder.until(&after.objects).await?;
        let mut writes: BTreeMap<Id, (usize, String)> = BTreeMap::new();
        let mut violations = Vec::new();
        for write in &history.writes {
            let key = write.id();
            let shown = describe(&key, &write.object);
            match write.effect {
                Effect::Added => violations.push(format!("{shown}: ADDED")),
                Effect::Deleted => violations.push(format!("{shown}: DELETED")),
                Effect::Modified => {}
            }
            writes.entry(key).or_insert((0, shown)).0 += 1;
        }
        let rows = before.kinds.iter().map(|plural| row(plural, before, after, &mut violations)).collect();
        for (n, what) in writes.into_values().filter(|(n, _)| *n > 1) {
            violations.push(format!("{what}: written {n} times"));
        }
        Ok(Comparison { rows, violations })
    }

    /// A table of it.
    pub fn table(&self, title: &str) -> String {
        let mut table = format!("{title}\n");
        let heads = ["objects", "untouched", "status", "changed", "created", "deleted"];
        let _ = write!(table, "{:<24}", "");
        for head in heads {
            let _ = write!(table, "{head:>10}");
        }
        table.push('\n');
        for row in &self.rows {
            let _ = write!(table, "{:<24}", row.plural);
            let counts = [row.n_before, row.n_untouched, row.n_status, row.n_changed, row.n_created, row.n_deleted];
            for n in counts {
                let _ = write!(table, "{n:>10}");
            }
            table.push('\n');
        }
        table
    }
}

fn row(plural: &'static str, before: &Census, after: &Census, violations: &mut Vec<String>) -> Row {
    let mut row = Row {
        plural,
        n_before: before.count(plural),
        n_untouched: 0,
        n_status: 0,
        n_changed: 0,
        n_created: after.objects.keys().filter(|key| key.0 == plural && !before.objects.contains_key(*key)).count(),
        n_deleted: 0,
    };
    for (key, old) in before.objects.iter().filter(|(key, _)| key.0 == plural) {
        match after.objects.get(key) {
            // The watch has reported it.
            None => row.n_deleted += 1,
            Some(new) if text(new, "resourceVersion") == text(old, "resourceVersion") => row.n_untouched += 1,
            Some(new) if MAY_GET_STATUS.contains(&plural) && without_status(new) == without_status(old) => {
                row.n_status += 1;
            }
            Some(new) => {
                row.n_changed += 1;
                violations.push(format!("{}: rewritten\n- {old}\n+ {new}", describe(key, new)));
            }
        }
    }
    row
}

/// The object without what a write of its status changes.
fn without_status(object: &Value) -> Value {
    let mut rest = object.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = rest["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    rest
}

fn describe(key: &Id, object: &Value) -> String {
    let message = object["message"].as_str().map(|message| format!(" ({message})")).unwrap_or_default();
    format!("{} {}{message}", key.0, text(object, "name"))
}
