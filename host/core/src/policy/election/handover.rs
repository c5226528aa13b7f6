//! The last writes of each plugin, which a leader passes to the next one when it releases the Lease.
//!
//! The next leader begins within milliseconds, and its caches may not show these writes yet. A controller that does not
//! see Pods that were just created would create them again, so the next leader waits until its caches show the writes.
//!
//! They are stored in an annotation of the Lease ([`LAST_WRITES`]): `{"PLUGIN": [{"kind", "namespace", "name", "uid",
//! "resourceVersion"}]}`, one entry per kind. Every client that may write the Lease may write the annotation, so it
//! only delays a term for a bounded time.
//!
//! *Not here*: read-your-writes within a term (`policy::pending`); leaders that end without a release: then the time
//! without a leader is longer than the lag of watches.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object::id::{Kind, ObjectKey};
use crate::object::version::ResourceVersion;
use crate::policy::pending::{Leaves, PendingWrite};

/// Annotation of a released Lease with the last writes.
pub const LAST_WRITES: &str = "pintle.dev/last-writes";

/// Maximum kinds per plugin. Others are left out: no plugin creates objects of that many kinds.
const MAX_KINDS: usize = 16;
/// Maximum bytes of the text. All annotations of an object together may have 256 KiB.
const MAX_BYTES: usize = 64 << 10;

/// The last write of each plugin to each kind, without deletions: deleting an object twice does no harm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWrites(BTreeMap<String, BTreeMap<Kind, PendingWrite>>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    kind: Kind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

impl LastWrites {
    /// Records writes, in their order.
    pub fn note<'a>(&mut self, plugin: &str, writes: impl IntoIterator<Item = &'a PendingWrite>) {
        for write in
            writes.into_iter().filter(|write| write.leaves == Leaves::Object && !write.resource_version.is_empty())
        {
            if !self.0.contains_key(plugin) {
                self.0.insert(plugin.to_owned(), BTreeMap::new());
            }
            let Some(kinds) = self.0.get_mut(plugin) else { continue };
            let version = ResourceVersion::parse(&write.resource_version);
            let is_older = |last: &PendingWrite| {
                let last = ResourceVersion::parse(&last.resource_version);
                version.compare(&last).is_some_and(|order| order.is_lt())
            };
            match kinds.get(&write.kind) {
                Some(last) if is_older(last) => {}
                None if kinds.len() >= MAX_KINDS => {}
                _ => drop(kinds.insert(write.kind.clone(), PendingWrite { labels: None, ..write.clone() })),
            }
        }
    }

    /// The writes, each with its plugin.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PendingWrite)> {
        self.0.iter().flat_map(|(plugin, kinds)| kinds.values().map(move |write| (plugin.as_str(), write)))
    }

    /// Whether there are no writes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the annotation; absent if there are no writes. If it is too long, plugins are left out, the last in
    /// order first.
    pub fn text(&self) -> Option<String> {
        let mut all: BTreeMap<&str, Vec<Entry>> = BTreeMap::new();
        let mut n_bytes = 0;
        for (plugin, write) in self.iter() {
            let ObjectKey { namespace, name } = &write.object;
            let entry = Entry {
                kind: write.kind.clone(),
                namespace: namespace.to_string(),
                name: name.to_string(),
                uid: write.uid.clone(),
                resource_version: write.resource_version.clone(),
            };
            // Separators and the plugin's name are counted for each entry.
            n_bytes += serde_json::to_string(&entry).map_or(0, |text| text.len()) + plugin.len() + 8;
            if n_bytes > MAX_BYTES {
                break;
            }
            all.entry(plugin).or_default().push(entry);
        }
        if all.is_empty() { None } else { serde_json::to_string(&all).ok() }
    }

    /// Parses the annotation. An invalid value counts as empty.
    pub fn parse(text: &str) -> Self {
        if text.len() > MAX_BYTES {
            return Self::default();
        }
        let all: BTreeMap<String, Vec<Entry>> = serde_json::from_str(text).unwrap_or_default();
        let mut writes = Self::default();
        for (plugin, entries) in all {
            let of_plugin: Vec<PendingWrite> = entries
                .into_iter()
                .map(|Entry { kind, namespace, name, uid, resource_version }| PendingWrite {
                    kind,
                    object: ObjectKey::new(&namespace, &name),
                    uid,
                    resource_version,
                    leaves: Leaves::Object,
                    labels: None,
                })
                .collect();
            writes.note(&plugin, &of_plugin);
        }
        writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(kind: &str, name: &str, version: &str) -> PendingWrite {
        PendingWrite {
            kind: kind.parse().unwrap(),
            object: ObjectKey::new("ns", name),
            uid: format!("uid-{name}"),
            resource_version: version.to_owned(),
            leaves: Leaves::Object,
            labels: Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])),
        }
    }

    fn names(writes: &LastWrites) -> Vec<String> {
        writes.iter().map(|(plugin, write)| format!("{plugin} {} {}", write.kind, write.object.name)).collect()
    }

    #[test]
    fn the_last_write_of_each_kind_is_kept_and_survives_the_annotation() {
        let mut writes = LastWrites::default();
        assert_eq!(writes.text(), None);
        // Answers of concurrent writes arrive in any order.
        writes.note("rs", &[write("v1/Pod", "a", "9"), write("v1/Pod", "b", "10"), write("v1/Pod", "c", "8")]);
        writes.note("rs", &[write("apps/v1/ReplicaSet", "s", "12")]);
        writes.note(
            "gc",
            &[PendingWrite { leaves: Leaves::Terminating, ..write("v1/Pod", "d", "13") }, write("v1/Pod", "e", "")],
        );
        assert_eq!(names(&writes), ["rs v1/Pod b", "rs apps/v1/ReplicaSet s"]);
        let text = writes.text().unwrap();
        let expected = r#"{"rs":[{"kind":"v1/Pod","namespace":"ns","name":"b","uid":"uid-b","resourceVersion":"10"},{"kind":"apps/v1/ReplicaSet","namespace":"ns","name":"s","uid":"uid-s","resourceVersion":"12"}]}"#;
        assert_eq!(text, expected);
        assert_eq!(LastWrites::parse(&text), writes);
    }

    #[test]
    fn neither_plugins_nor_users_make_it_large() {
        let mut writes = LastWrites::default();
        for n in 0..MAX_KINDS + 1 {
            writes.note("many-kinds", &[write(&format!("g/v1/K{n}"), "a", "1")]);
        }
        assert_eq!(writes.iter().count(), MAX_KINDS);
        for n in 0..100 {
            for kind in 0..MAX_KINDS {
                writes.note(&format!("plugin-{n}"), &[write(&format!("g/v1/K{kind}"), &"n".repeat(253), "1")]);
            }
        }
        let text = writes.text().unwrap();
        assert!(text.len() <= MAX_BYTES && text.len() > MAX_BYTES / 2, "{}", text.len());
        assert!(!LastWrites::parse(&text).is_empty());
        assert!(LastWrites::parse(&format!("{}{}", " ".repeat(MAX_BYTES), r#"{"a":[]}"#)).is_empty());
        for garbage in
            ["", "[]", "{", r#"{"a":{}}"#, r#"{"a":[{"kind":"?","name":"x","uid":"","resourceVersion":"1"}]}"#]
        {
            assert!(LastWrites::parse(garbage).is_empty(), "{garbage}");
        }
    }
}
