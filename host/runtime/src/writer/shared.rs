//! Lists that several clients write: finalizers, owner references and conditions.
//!
//! A write that replaces such a list removes every entry that the plugin has not read. No precondition prevents this:
//! the plugin knows the version of the object, but not the list.
//!
//! *Not here*: server-side apply and strategic merge patches. The API server merges these lists by their entries.

use pintle_core::contract::manifest::{Manifest, Watch};
use pintle_core::contract::outcome::{Action, PatchType};
use pintle_core::object::field::{FieldMask, FieldPath};

use super::edit::{Members, Operation, first_parts};
use super::request::{Body, ParsedWrite};

type List = [&'static str; 2];

const LISTS: [List; 3] = [["metadata", "finalizers"], ["metadata", "ownerReferences"], ["status", "conditions"]];

/// The first list that a write replaces and that no watch of the manifest reads, as a path.
pub(super) fn replaced_unread(manifest: &Manifest, write: &ParsedWrite<'_>) -> Option<String> {
    let mut replaced = LISTS.iter().filter(|list| replaces(write, list));
    let unread = replaced.find(|list| {
        let path = FieldPath::of(&list[..]);
        let reads = |watch: &Watch| watch.whole || mask(watch).covers(&path);
        let mut watches = manifest.watches.iter().filter(|watch| watch.kind.as_ref() == Some(&write.target.kind));
        !watches.any(reads)
    });
    unread.map(|list| list.join("."))
}

/// Invalid paths have been rejected with the manifest.
fn mask(watch: &Watch) -> FieldMask {
    FieldMask::new(watch.fields.iter().filter_map(|path| path.parse().ok()))
}

fn replaces(write: &ParsedWrite<'_>, list: &List) -> bool {
    let [parent, name] = list;
    match (write.action, &write.body) {
        // An update without the list removes it. The API server takes the status only from updates of the status.
        (Action::Update { subresource, .. }, _) => match subresource.as_deref() {
            None => *parent == "metadata",
            Some(subresource) => subresource == *parent,
        },
        (Action::Patch { patch_type: PatchType::Merge, .. }, Body::Object(text)) => match *parent {
            "metadata" => text.metadata().ok().flatten().is_some_and(|metadata| has(metadata, name)),
            parent => text.members.original(parent).is_some_and(|status| match Members::parse(status) {
                Ok(status) => has(&status, name),
                // `null` removes the whole list.
                Err(_) => true,
            }),
        },
        (Action::Patch { .. }, Body::Operations(operations)) => {
            let operations = operations.iter().filter_map(|operation| serde_json::from_str(operation.get()).ok());
            replaces_by_operations(operations, list)
        }
        _ => false,
    }
}

fn has(members: &Members<'_>, name: &str) -> bool {
    members.names().any(|member| member == name)
}

/// Whether an operation replaces the list, or an entry by position, without an earlier test of it.
fn replaces_by_operations<'a>(operations: impl Iterator<Item = Operation<'a>>, list: &List) -> bool {
    let mut tested: Vec<Vec<String>> = Vec::new();
    for Operation { op, path, from, .. } in operations {
        let parts = first_parts(&path);
        if op == "test" {
            tested.push(parts);
            continue;
        }
        let destroys = |parts: &[String]| match parts {
            // The list or a parent.
            parts if parts.len() <= list.len() => parts.iter().zip(list).all(|(part, name)| part == name),
            // An entry. An added entry only moves the others.
            [parent, name, ..] => [parent, name] == *list && op != "add" && op != "copy",
            _ => false,
        };
        let is_known = |parts: &[String]| tested.iter().any(|tested| parts.starts_with(tested));
        let from = from.filter(|_| op == "move").map(|from| first_parts(&from));
        if [Some(parts), from].into_iter().flatten().any(|parts| destroys(&parts) && !is_known(&parts)) {
            return true;
        }
    }
    false
}
