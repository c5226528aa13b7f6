//! Checks which of an object's owners exist.
//!
//! An object may have tens of thousands of owner references, and each owner may be large. The reads of one run are
//! bounded; later runs do the rest.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{Error, Kind, Lister, Need};

use crate::absent::Absent;
use crate::kinds::{Known, find};
use crate::types::Object;

/// Most owners that one run reads from the API server, in one round. The contract allows 256 in a round.
const MOST_ASKED: usize = 200;

/// Most bytes of owners that one run reads from the cache.
const MOST_BYTES: usize = 64 << 20;

/// Indexes of an object's owner references, by the owner's state.
#[derive(Default)]
pub(crate) struct Owners {
    /// The owner exists and does not wait for its dependents.
    pub(crate) solid: BTreeSet<usize>,
    /// The owner is absent.
    pub(crate) dangling: BTreeSet<usize>,
    /// The owner exists and is deleted after its dependents.
    pub(crate) waiting: BTreeSet<usize>,
    /// Whether an owner exists that the cache lacks.
    pub(crate) is_any_unseen: bool,
    /// Whether some owners are unchecked: this run had no room for them.
    pub(crate) is_partial: bool,
}

impl Owners {
    fn push(&mut self, place: usize, is_waiting: bool) {
        if is_waiting { &mut self.waiting } else { &mut self.solid }.insert(place);
    }
}

/// A cluster-scoped object refers to a namespaced owner. The namespace is unknown, so the object is never changed.
#[doc(alias = "namespacedOwnerOfClusterScopedObjectErr")]
pub(crate) struct Impossible;

/// The relevant fields of an owner in the cache.
struct Seen {
    kind: Kind,
    namespace: String,
    name: String,
    is_waiting: bool,
}

/// The owners in the cache, each read once.
pub(crate) struct Cached<'l, L> {
    lister: &'l L,
    seen: BTreeMap<String, Option<Seen>>,
    n_bytes: usize,
}

impl<'l, L: Lister> Cached<'l, L> {
    pub(crate) fn new(lister: &'l L) -> Self {
        Self { lister, seen: BTreeMap::new(), n_bytes: 0 }
    }

    /// The owner with this uid, if it exists; `None` if there is no room to read it.
    fn get(&mut self, uid: &str) -> Result<Option<Option<&Seen>>, Error> {
        if !self.seen.contains_key(uid) {
            if self.n_bytes > MOST_BYTES {
                return Ok(None);
            }
            let text = self.lister.by_uid_json(uid);
            self.n_bytes += text.as_ref().map_or(0, String::len);
            let owner = text.map(|text| Object::parse(&text)).transpose()?;
            let seen = owner.map(|owner| Seen {
                kind: owner.kind(),
                is_waiting: owner.waits_for_dependents(),
                namespace: owner.metadata.namespace,
                name: owner.metadata.name,
            });
            self.seen.insert(uid.to_owned(), seen);
        }
        Ok(self.seen.get(uid).map(Option::as_ref))
    }
}

/// The first owner in another namespace, where it cannot be an owner: it counts as absent, and an event reports it. As
/// upstream, references after one with a wrong kind or name are not checked.
#[doc(alias = "addDependentToOwners")]
pub(crate) fn elsewhere<'a, L: Lister>(
    object: &'a Object,
    cached: &mut Cached<'_, L>,
) -> Result<Option<&'a OwnerReference>, Error> {
    for reference in &object.metadata.owner_references {
        let Some(Some(owner)) = cached.get(&reference.uid)? else { continue };
        if !owner.namespace.is_empty() && owner.namespace != object.metadata.namespace {
            return Ok(Some(reference));
        }
        if owner.kind != reference.owner_kind() || owner.name != reference.name {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Classifies the references of an object.
///
/// # Errors
/// Needs for owners that the cache lacks, in the first round only: the cache and the absent owners change from round to
/// round, so that the needs might never be the same twice. A retry if a kind is unknown to the API server: it may
/// appear later, and an object must not be deleted because of a typo.
#[doc(alias = "classifyReferences", alias = "isDangling")]
pub(crate) fn classify<L: Lister>(
    object: &Object,
    lister: &L,
    cached: &mut Cached<'_, L>,
    absent: &mut Absent,
) -> Result<Result<Owners, Impossible>, Error> {
    let mut owners = Owners::default();
    let (mut asked, mut needs) = (BTreeSet::new(), Vec::new());
    let mut is_any_answered = false;
    let mut kinds: BTreeMap<Kind, Known> = BTreeMap::new();
    for (place, reference) in object.metadata.owner_references.iter().enumerate() {
        let known = match kinds.entry(reference.owner_kind()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let known = find(lister, new.key())?;
                new.insert(known)
            }
        };
        let (Known::Served { namespaced: is_namespaced } | Known::Gone { namespaced: is_namespaced }) = *known;
        if is_namespaced && object.metadata.namespace.is_empty() {
            return Ok(Err(Impossible));
        }
        if matches!(known, Known::Gone { .. }) {
            owners.dangling.insert(place);
            continue;
        }
        let namespace = if is_namespaced { object.metadata.namespace.as_str() } else { "" };
        match cached.get(&reference.uid)? {
            Some(Some(owner)) if is_the_one(owner, reference, namespace) => {
                owners.push(place, owner.is_waiting);
                continue;
            }
            Some(_) => {}
            None => {
                owners.is_partial = true;
                continue;
            }
        }
        if absent.has(reference, namespace) {
            owners.dangling.insert(place);
            continue;
        }
        let owner = (&reference.api_version, &reference.kind, &reference.name);
        if !asked.contains(&owner) && asked.len() == MOST_ASKED {
            owners.is_partial = true;
            continue;
        }
        let is_new = asked.insert(owner);
        let need = Need::live_object(&reference.owner_kind(), namespace, &reference.name);
        let answer = lister.answer(&need);
        is_any_answered |= answer.is_some();
        match answer {
            None if is_new => needs.push(need),
            None => {}
            Some(Ok(text)) => {
                let owner = Object::parse(&text)?;
                if owner.metadata.uid != reference.uid {
                    absent.learn(reference, namespace);
                    owners.dangling.insert(place);
                    continue;
                }
                owners.is_any_unseen = true;
                owners.push(place, owner.waits_for_dependents());
            }
            Some(Err(error)) if error.code == 404 => {
                absent.learn(reference, namespace);
                owners.dangling.insert(place);
            }
            // The answers of this run have no room for this owner.
            Some(Err(error)) if error.reason == "TooLarge" => owners.is_partial = true,
            Some(Err(error)) => {
                return Err(Error::retry(format!(
                    "read owner {} {}: {}",
                    reference.kind, reference.name, error.message
                )));
            }
        }
    }
    if !needs.is_empty() {
        if !is_any_answered {
            return Err(Error::Needs(needs));
        }
        owners.is_partial = true;
    }
    Ok(Ok(owners))
}

fn is_the_one(owner: &Seen, reference: &OwnerReference, namespace: &str) -> bool {
    let named = reference.owner_kind();
    owner.kind.group == named.group
        && owner.kind.name == named.name
        && owner.name == reference.name
        && owner.namespace == namespace
}
