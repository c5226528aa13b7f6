//! Which of an object's owners are there.
//!
//! *Source*: `classifyReferences` and `isDangling`.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{ApiResource, Error, Lister, Need, ObjectKey};

use crate::absent::Absent;
use crate::object::Object;

/// The owner references of an object by what is known of the owners.
#[derive(Default)]
pub(crate) struct Owners<'a> {
    /// There, and not waiting for its dependents.
    pub(crate) solid: Vec<&'a OwnerReference>,
    /// Gone.
    pub(crate) dangling: Vec<&'a OwnerReference>,
    /// There, but going once its dependents are gone.
    pub(crate) waiting: Vec<&'a OwnerReference>,
    /// There, and waiting or not, but the cache does not show it.
    pub(crate) is_any_unseen: bool,
}

/// A cluster-scoped object names a namespaced owner. There is no telling which one, so nothing is done, ever.
pub(crate) struct Impossible;

/// The first owner that is in another namespace, where it cannot be an owner: it counts as absent, and an event reports it.
pub(crate) fn elsewhere<'a>(object: &'a Object, lister: &impl Lister) -> Result<Option<&'a OwnerReference>, Error> {
    for reference in &object.metadata.owner_references {
        if let Some(text) = lister.by_uid_json(&reference.uid) {
            let namespace = Object::parse(&text)?.metadata.namespace;
            if !namespace.is_empty() && namespace != object.metadata.namespace {
                return Ok(Some(reference));
            }
        }
    }
    Ok(None)
}

/// Sorts the references of an object.
///
/// # Errors
/// Needs for owners that the cache does not hold. A retry if a kind is not known to the API server: it may be one that
/// appears later, and an object must not be deleted because of a typo.
pub(crate) fn classify<'a>(
    object: &'a Object,
    lister: &impl Lister,
    absent: &mut Absent,
) -> Result<Result<Owners<'a>, Impossible>, Error> {
    let mut owners = Owners::default();
    let mut needs = Vec::new();
    let mut resources: Option<Vec<ApiResource>> = None;
    for reference in &object.metadata.owner_references {
        let resources = resources.get_or_insert_with(|| lister.resources());
        let resource = find(resources, reference)?;
        if resource.namespaced && object.metadata.namespace.is_empty() {
            return Ok(Err(Impossible));
        }
        let namespace = if resource.namespaced { object.metadata.namespace.as_str() } else { "" };
        let cached = lister.by_uid_json(&reference.uid).map(|text| Object::parse(&text)).transpose()?;
        if let Some(owner) = cached.filter(|owner| is_the_one(owner, reference, namespace)) {
            let group = if owner.waits_for_dependents() { &mut owners.waiting } else { &mut owners.solid };
            group.push(reference);
            continue;
        }
        if absent.has(reference, namespace) {
            owners.dangling.push(reference);
            continue;
        }
        let need =
            Need::LiveObject { kind: reference.owner_kind(), object: ObjectKey::new(namespace, &reference.name) };
        match lister.answer(&need) {
            None => needs.push(need),
            Some(Ok(text)) => {
                let owner = Object::parse(&text)?;
                if owner.metadata.uid != reference.uid {
                    absent.learn(reference, namespace);
                    owners.dangling.push(reference);
                    continue;
                }
                owners.is_any_unseen = true;
                if owner.waits_for_dependents() {
                    owners.waiting.push(reference);
                } else {
                    owners.solid.push(reference);
                }
            }
            Some(Err(error)) if error.code == 404 => {
                absent.learn(reference, namespace);
                owners.dangling.push(reference);
            }
            Some(Err(error)) => {
                return Err(Error::retry(format!(
                    "read owner {} {}: {}",
                    reference.kind, reference.name, error.message
                )));
            }
        }
    }
    if needs.is_empty() { Ok(Ok(owners)) } else { Err(Error::Needs(needs)) }
}

fn is_the_one(owner: &Object, reference: &OwnerReference, namespace: &str) -> bool {
    let (cached, named) = (owner.kind(), reference.owner_kind());
    cached.group == named.group
        && cached.name == named.name
        && owner.metadata.name == reference.name
        && owner.metadata.namespace == namespace
}

/// The resource of a reference, by group, version and kind as upstream does.
fn find<'r>(resources: &'r [ApiResource], reference: &OwnerReference) -> Result<&'r ApiResource, Error> {
    let kind = reference.owner_kind();

    let exact = resources.iter().find(|resource| resource.kind == kind);
    exact.ok_or_else(|| Error::retry(format!("owner kind {kind} is not known to the API server")))
}
