//! The revisions of the template: the current one, the update revision, and truncation.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::api::meta::HasController as _;
use pintle_sdk::{Error, Lister, Mutation, PatchType, Query, Resource as _};
use plugin_lib::controller_ref;
use plugin_lib::history::{self as revisions, Change, ControllerRevision, HASH_LABEL, Proposal};
use serde_json::{Value, json};

use crate::set::Set;
use crate::types::{Pod, StatefulSet};

/// Most names that one run tries for a revision.
const NAMES: usize = 1000;

/// The revisions of a StatefulSet, sorted, including those that it adopts.
pub(crate) fn list(lister: &impl Lister, set: &Set) -> Result<Vec<ControllerRevision>, Error> {
    let query =
        Query::namespace(set.namespace()).controlled_by_or_orphans(&set.object.metadata.uid).labels(&set.selector);
    let mut history = lister.list_whole::<ControllerRevision>(&query)?;
    revisions::sort(&mut history);
    Ok(history)
}

/// A revision that can provide its template.
#[derive(Clone)]
pub(crate) enum Revision {
    /// It exists. `template` is set on first use.
    Stored { revision: ControllerRevision, template: OnceCell<Value> },
    /// This run creates it.
    New { name: String, template: Value },
}

impl Revision {
    fn stored(revision: ControllerRevision) -> Self {
        Self::Stored { revision, template: OnceCell::new() }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Stored { revision, .. } => &revision.metadata.name,
            Self::New { name, .. } => name,
        }
    }

    /// The Pod template.
    ///
    /// # Errors
    /// Terminal, if the revision does not hold a template.
    pub(crate) fn template(&self) -> Result<&Value, Error> {
        match self {
            Self::Stored { revision, template } => match template.get() {
                Some(known) => Ok(known),
                None => {
                    let parsed = revisions::template(revision)?;
                    Ok(template.get_or_init(|| parsed))
                }
            },
            Self::New { template, .. } => Ok(template),
        }
    }
}

/// The current and the update revision of a StatefulSet.
pub(crate) struct Revisions {
    /// Revision of replicas that are not updated yet.
    pub(crate) current: Revision,
    /// Revision of the template.
    pub(crate) update: Revision,
    pub(crate) collision_count: i32,
    /// The write that makes `update` the newest.
    pub(crate) write: Option<Mutation>,
}

/// Finds or creates the revision of the template.
///
/// # Errors
/// Terminal, if the template is not an object.
#[doc(alias = "getStatefulSetRevisions")]
pub(crate) fn resolve(
    lister: &impl Lister,
    set: &Set,
    history: &[ControllerRevision],
    is_semantic: bool,
) -> Result<Revisions, Error> {
    let mut collision_count = set.object.status.collision_count.unwrap_or(0);
    let data = revisions::template_patch(&set.object.spec.template)?;
    let number = revisions::next_number(history);
    let proposal = Proposal::new(set.name(), data, number, Some(collision_count));
    let change = match revisions::change(history, proposal.clone()) {
        Change::None(newest) if !is_semantic && !revisions::is_identical(newest, &proposal.data) => {
            Change::Create(proposal)
        }
        change => change,
    };
    let (update, write) = match change {
        Change::None(newest) => (Revision::stored(newest.clone()), None),
        Change::Renumber(older, number) => (Revision::stored(older.clone()), Some(renumber(older, number))),
        Change::Create(proposal) => create(lister, set, proposal, &mut collision_count)?,
    };
    let current = history.iter().find(|revision| revision.metadata.name == set.object.status.current_revision);
    let current = current.map_or_else(|| update.clone(), |current| Revision::stored(current.clone()));
    Ok(Revisions { current, update, collision_count, write })
}

/// The update that makes an older revision the newest.
fn renumber(revision: &ControllerRevision, number: i64) -> Mutation {
    let meta = &revision.metadata;
    Mutation::patch(&ControllerRevision::KIND, meta.key(), PatchType::Merge, json!({"revision": number})).uid(&meta.uid)
}

/// A new revision, with the first free name.
fn create(
    lister: &impl Lister,
    set: &Set,
    mut proposal: Proposal,
    collision_count: &mut i32,
) -> Result<(Revision, Option<Mutation>), Error> {
    for _ in 0..NAMES {
        match lister.get::<ControllerRevision>(set.namespace(), &proposal.name)? {
            Some(existing) if !proposal.collides_with(&existing) => return Ok((Revision::stored(existing), None)),
            Some(_) => {
                *collision_count = collision_count.wrapping_add(1);
                let Proposal { data, number, .. } = proposal;
                proposal = Proposal::new(set.name(), data, number, Some(*collision_count));
            }
            None => {
                let template = set.object.spec.template.value();
                let labels: BTreeMap<String, String> = match template.pointer("/metadata/labels") {
                    Some(labels) if !labels.is_null() => serde_json::from_value(labels.clone())?,
                    _ => BTreeMap::new(),
                };
                let meta = &set.object.metadata;
                let object = proposal.object(&StatefulSet::KIND, meta, HASH_LABEL, &labels, &meta.annotations)?;
                let write = Mutation::create(&ControllerRevision::KIND, set.namespace(), object);
                return Ok((Revision::New { name: proposal.name, template }, Some(write)));
            }
        }
    }
    Err(Error::retry(format!("the first {NAMES} names for a revision of {} are taken", set.name())))
}

/// Writes that delete the oldest revisions beyond the limit.
#[doc(alias = "truncateHistory")]
pub(crate) fn truncate(
    set: &Set,
    history: &[ControllerRevision],
    revisions: &Revisions,
    pods: &[Pod],
) -> Vec<Mutation> {
    let of_pods: BTreeSet<&str> = pods.iter().filter_map(revision).collect();
    let is_live = |revision: &ControllerRevision| {
        let name = revision.metadata.name.as_str();
        name == revisions.current.name() || name == revisions.update.name() || of_pods.contains(name)
    };
    let surplus = revisions::surplus(history, set.history_limit(), is_live);
    let delete = |revision: &&ControllerRevision| {
        let meta = &revision.metadata;
        Mutation::delete(&ControllerRevision::KIND, &meta.namespace, &meta.name).uid(&meta.uid)
    };
    surplus.iter().map(delete).collect()
}

/// The revision name of a Pod.
pub(crate) fn revision(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.get(revisions::POD_LABEL).map(String::as_str)
}

/// Writes that adopt revisions without a controller.
///
/// # Errors
/// As for [`recheck`](plugin_lib::controller_ref::recheck).
pub(crate) fn adopt(lister: &impl Lister, set: &Set, history: &[ControllerRevision]) -> Result<Vec<Mutation>, Error> {
    let meta = &set.object.metadata;
    let mut adoptions = Vec::new();
    for revision in history.iter().filter(|revision| revision.metadata.controller_uid().is_none()) {
        if adoptions.is_empty() {
            controller_ref::recheck::<StatefulSet>(lister, meta)?;
        }
        adoptions.push(controller_ref::adopt(&StatefulSet::KIND, meta, &ControllerRevision::KIND, &revision.metadata));
    }
    Ok(adoptions)
}
