//! The history of the template: the current revision and the others.
//!
//! *Flow*: revisions of the DaemonSet and adoptable ones -> claims, labels, duplicates (first, and alone) -> the
//! current revision, which is created or renumbered if necessary.
//!
//! *Invariants*
//! 1. A revision is current if its data is the patch for the template.
//! 2. The current revision has the highest number, and numbers never decrease.
//! 3. The collision count grows only when the API server has another revision with the name, and the same collision
//!    count as the cache.
//!
//! *Source*: update.go.

use pintle_sdk::document::Document;
use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Lister, Mutation, Need, ObjectKey, PatchType, Query, Refusal, Resource, Step, decode};
use plugin_lib::controller_ref::{Relation, claim, relation};
use plugin_lib::failures::Failures as _;
use plugin_lib::history::{self as revisions, ControllerRevision, POD_LABEL, Proposal};
use serde_json::{Value, json};

use crate::types::{DaemonSet, Pod};

/// State of the history.
pub(crate) enum History {
    /// These writes come first; the next run sees their result.
    Unsettled(Vec<Step>),
    /// The current revision is known, after these writes.
    Settled {
        /// The current revision, and the others.
        current: Current,
        /// At most one write.
        writes: Step,
    },
}

/// The current revision, and the others.
pub(crate) struct Current {
    /// Its label: the hash in its name.
    pub(crate) hash: String,
    /// The others, from the lowest number to the highest.
    pub(crate) old: Vec<ControllerRevision>,
}

/// Finds the revision of the template; `document` is the JSON of `set`.
///
/// # Errors
/// A live read is needed or failed; or the template is not an object.
#[doc(alias = "constructHistory", alias = "controlledHistories")]
pub(crate) fn construct(
    lister: &impl Lister,
    set: &DaemonSet,
    document: &Document,
    selector: &Selector,
) -> Result<History, Error> {
    let meta = &set.metadata;
    let listed = lister.list(&Query::namespace(&meta.namespace).controlled_by_or_orphans(&meta.uid))?;
    let mut claimed = claim::<DaemonSet, ControllerRevision>(lister, meta, selector, listed)?;
    let claims = claimed.step();
    if !claims.mutations.is_empty() {
        return Ok(History::Unsettled(vec![claims]));
    }
    let mut history = claimed.owned;
    let unlabeled: Vec<_> = history.iter().filter(|revision| hash(revision).is_none()).map(label).collect();
    if !unlabeled.is_empty() {
        return Ok(History::Unsettled(vec![Step::sequential(unlabeled)]));
    }
    revisions::sort(&mut history);
    let template: Value = document.get(&["spec", "template"]).unwrap_or_default();
    let data = revisions::template_patch(&template)?;
    let tree = serde_json::from_str(&data).ok();
    let is_current = |revision: &ControllerRevision| has_data(revision, &data, tree.as_ref());
    let (current, old): (Vec<_>, Vec<_>) = history.into_iter().partition(is_current);
    let number = revisions::next_number(&old);
    let settled = |hash: String, write: Option<Mutation>| History::Settled {
        current: Current { hash, old },
        writes: Step::sequential(write),
    };
    let Some((newest, duplicates)) = current.split_last() else {
        let proposal = Proposal::new(&meta.name, data, number, set.status.collision_count);
        return Ok(match name_of(lister, set, &proposal, tree.as_ref())? {
            Name::Free => settled(proposal.hash.clone(), Some(create(set, &proposal)?)),
            Name::Done(hash) => settled(hash, None),
            Name::Taken(document) => {
                let update = Mutation::update_status(&DaemonSet::KIND, document);
                History::Unsettled(vec![Step::sequential([update])])
            }
        });
    };
    if !duplicates.is_empty() {
        return Ok(History::Unsettled(merge(lister, set, selector, newest, duplicates)?));
    }
    let renumber = (newest.revision < number).then(|| patch(newest, &json!({"revision": number})));
    Ok(settled(hash(newest).unwrap_or_default().to_owned(), renumber))
}

/// Whether a revision restores this template. The order of fields is ignored, because another API server may have
/// stored it; an absent field differs from null, as upstream. `tree` is the parsed `data`.
#[doc(alias = "Match")]
fn has_data(revision: &ControllerRevision, data: &str, tree: Option<&Value>) -> bool {
    revisions::is_identical(revision, data) || tree.is_some_and(|tree| revision.data.value() == *tree)
}

/// The hash of a revision's template.
pub(crate) fn hash(revision: &ControllerRevision) -> Option<&str> {
    revision.metadata.labels.get(POD_LABEL).map(String::as_str)
}

/// Labels a revision that has no hash with a unique one: its name.
fn label(revision: &ControllerRevision) -> Mutation {
    patch(revision, &json!({"metadata": {"labels": {POD_LABEL: revision.metadata.name}}}))
}

fn patch(revision: &ControllerRevision, body: &Value) -> Mutation {
    let meta = &revision.metadata;
    Mutation::patch(&ControllerRevision::KIND, meta.key(), PatchType::Merge, body)
        .uid(&meta.uid)
        .resource_version(&meta.resource_version)
}

/// Deletes a revision.
pub(crate) fn delete(revision: &ControllerRevision) -> Mutation {
    let meta = &revision.metadata;
    Mutation::delete(&ControllerRevision::KIND, &meta.namespace, &meta.name).uid(&meta.uid)
}

#[doc(alias = "snapshot")]
fn create(set: &DaemonSet, proposal: &Proposal) -> Result<Mutation, Error> {
    let meta = &set.metadata;
    let labels = &set.spec.template.metadata.labels;
    let object = proposal.object(&DaemonSet::KIND, meta, POD_LABEL, labels, &meta.annotations)?;
    Ok(Mutation::create(&ControllerRevision::KIND, &meta.namespace, object))
}

/// The name of a new revision.
enum Name {
    /// The name is free.
    Free,
    /// The API server already has this revision, with this hash.
    Done(String),
    /// Another revision has the name. With this raised collision count the DaemonSet chooses another one.
    Taken(Document),
}

/// Whether the name of a proposed revision is taken. Reads from the API server only if the cache or a failure shows
/// that it is.
#[doc(alias = "snapshot")]
fn name_of(lister: &impl Lister, set: &DaemonSet, proposal: &Proposal, tree: Option<&Value>) -> Result<Name, Error> {
    let meta = &set.metadata;
    let is_refused = lister
        .failures()
        .of("create", &ControllerRevision::KIND)
        .any(|failure| failure.reason == "AlreadyExists" && failure.object.name == proposal.name);
    let object = ObjectKey::new(&meta.namespace, &proposal.name);
    if !is_refused && lister.get_json(&ControllerRevision::KIND, &object).is_none() {
        return Ok(Name::Free);
    }
    let Some(existing) = lister.live::<ControllerRevision>(&meta.namespace, &proposal.name)? else {
        return Ok(Name::Free);
    };
    if has_data(&existing, &proposal.data, tree) {
        return Ok(Name::Done(hash(&existing).unwrap_or(&proposal.hash).to_owned()));
    }
    let need = Need::live_object(&DaemonSet::KIND, &meta.namespace, &meta.name);
    let text =
        lister.ask(need)?.map_err(|error| Error::retry(format!("read DaemonSet {}: {}", meta.name, error.message)))?;
    let live: DaemonSet = decode(&DaemonSet::KIND, &text)?;
    let (count, known) = (live.status.collision_count, set.status.collision_count);
    let stale = |what: &str, live: &str, cached: &str| {
        let of_set = format!("DaemonSet {} has {what} {live}, and {cached} in the cache", meta.name);
        Err(Error::retry(format!("{of_set}; the next run follows the cache")))
    };
    if live.metadata.uid != meta.uid {
        return stale("the uid", &live.metadata.uid, &meta.uid);
    }
    if count != known {
        let text = |count: Option<i32>| count.map_or_else(|| "none".to_owned(), |count| count.to_string());
        return stale("the collision count", &text(count), &text(known));
    }
    let mut document = Document::parse(&text)?;
    document.set(&["status", "collisionCount"], &count.unwrap_or(0).saturating_add(1));
    Ok(Name::Taken(document))
}

/// Merges several revisions of the template into one. All Pods get its hash before the others are deleted.
#[doc(alias = "dedupCurHistories")]
fn merge(
    lister: &impl Lister,
    set: &DaemonSet,
    selector: &Selector,
    kept: &ControllerRevision,
    duplicates: &[ControllerRevision],
) -> Result<Vec<Step>, Error> {
    let meta = &set.metadata;
    let pods: Vec<Pod> = lister.list(&Query::namespace(&meta.namespace).controlled_by(&meta.uid))?;
    let relabel = |pod: &Pod| {
        let is_own = relation(meta, selector, &pod.metadata) == Relation::Owned;
        (is_own && pod.metadata.labels.get(POD_LABEL).map(String::as_str) != hash(kept)).then(|| {
            let body = json!({"metadata": {"labels": {POD_LABEL: hash(kept)}}});
            Mutation::patch(&Pod::KIND, pod.metadata.key(), PatchType::Merge, body)
                .uid(&pod.metadata.uid)
                .tolerate([Refusal::NotFound])
        })
    };
    let relabels = pods.iter().filter_map(relabel);
    Ok(vec![Step::parallel(relabels), Step::sequential(duplicates.iter().map(delete))])
}
