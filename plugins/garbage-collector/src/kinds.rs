//! Kinds of owners: served ones, and those whose CustomResourceDefinition is deleted.
//!
//! When a CustomResourceDefinition is deleted, the API server deletes its objects first, and then stops serving the
//! kind. Dependents that run later refer to owners of an unknown kind. They must be distinguished from objects that
//! refer to a wrong kind, which stay. So the kind of a definition that is being deleted is recorded; if the definition
//! is absent from the API server, the owner is too.
//!
//! The record is lost when the host restarts. Then dependents are retried endlessly, because a kind that discovery lacks
//! may be served later. Upstream loses its graph, and retries the owner endlessly: its REST mapper lacks the kind
//! (`restMappingError`).
//!
//! *Source*: `TestCRDDeletionCascading` of upstream's integration tests. Upstream has the owners in its graph.

use pintle_sdk::{ApiResource, Error, Kind, Lister, Need, ObjectKey, Outcome};
use plugin_lib::state::Record;
use serde::{Deserialize, Serialize};

use crate::types::Object;

const DEFINITION: Kind = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");

/// Recorded kind of a definition.
#[derive(PartialEq, Serialize, Deserialize)]
struct Noted {
    /// Name of the definition.
    definition: String,
    namespaced: bool,
}

/// Reads the record of a kind. Versions of a kind have one definition.
fn noted(lister: &impl Lister, group: &str, name: &str) -> Record<Noted> {
    Record::read(lister, ObjectKey::new(group, name).state_name("deleted-kind"))
}

/// Knowledge about an owner's kind.
pub(crate) enum Known {
    /// The API server serves it.
    Served { namespaced: bool },
    /// All of its objects are deleted.
    Gone { namespaced: bool },
}

/// An outcome that records the kind of a definition that is being deleted.
pub(crate) fn note(object: &Object, lister: &impl Lister) -> Outcome {
    if object.kind() != DEFINITION {
        return Outcome::new();
    }
    let definition = &object.metadata.name;
    let is_its = |resource: &ApiResource| *definition == format!("{}.{}", resource.plural, resource.kind.group);
    let Some(resource) = lister.resources().into_iter().find(is_its) else { return Outcome::new() };
    let new = Noted { definition: definition.clone(), namespaced: resource.namespaced };
    noted(lister, &resource.kind.group, &resource.kind.name).keep(Outcome::new(), &new)
}

/// Finds a kind by group, version and name, as upstream does.
///
/// # Errors
/// A need, if its definition was deleted. A retry if the kind is unknown to the API server: it may appear later.
#[doc(alias = "apiResource")]
pub(crate) fn find(lister: &impl Lister, kind: &Kind) -> Result<Known, Error> {
    let served = lister.resources_of(&kind.group, &kind.name);
    if let Some(resource) = served.iter().find(|resource| resource.kind == *kind) {
        return Ok(Known::Served { namespaced: resource.namespaced });
    }
    let unknown = || Error::retry(format!("owner kind {kind} is not known to the API server"));
    // If the kind has other versions, its objects may exist.
    let noted = noted(lister, &kind.group, &kind.name);
    let Some(Noted { definition, namespaced }) = noted.get().filter(|_| served.is_empty()) else {
        return Err(unknown());
    };
    match lister.ask(Need::live_object(&DEFINITION, "", definition))? {
        Err(error) if error.code == 404 => Ok(Known::Gone { namespaced: *namespaced }),
        Ok(_) => Err(unknown()),
        Err(error) => Err(Error::retry(format!("read {DEFINITION} {definition}: {}", error.message))),
    }
}
