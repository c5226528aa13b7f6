//! Kinds of owners: those that the API server has, and those whose CustomResourceDefinition is gone.
//!
//! When a CustomResourceDefinition is deleted, the API server deletes its objects first, and then forgets the kind. Dependents whose
//! run comes later name owners of a kind that nobody knows. They must not be mistaken for objects that name a wrong kind, which stay.
//! So a definition that is being deleted is noted with its kind, and one that is gone for the API server has left no owner.
//!
//! *Source*: `TestCRDDeletionCascading` of upstream's integration tests. There the owners are known from the graph.

use pintle_sdk::{ApiResource, Error, Kind, Lister, Need, ObjectKey, Outcome};
use plugin_lib::state::Record;
use serde::{Deserialize, Serialize};

use crate::types::Object;

const DEFINITION: Kind = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");

/// What is noted of a kind.
#[derive(PartialEq, Serialize, Deserialize)]
struct Noted {
    /// Name of the definition.
    definition: String,
    namespaced: bool,
}

/// What is noted. Versions of a kind have one definition.
fn noted(lister: &impl Lister, group: &str, name: &str) -> Record<Noted> {
    Record::read(lister, ObjectKey::new(group, name).state_name("deleted-kind"))
}

/// What is known of the kind of an owner.
pub(crate) enum Known {
    /// The API server has it.
    Served { namespaced: bool },
    /// All of its objects are gone.
    Gone { namespaced: bool },
}

/// An outcome that notes the kind of a definition that is being deleted.
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

/// Looks for a kind by group, version and name, as upstream does.
///
/// # Errors
/// A need, if its definition was deleted. A retry if the API server does not know the kind: it may be one that appears later.
pub(crate) fn find(lister: &impl Lister, kind: &Kind) -> Result<Known, Error> {
    let served = lister.resources_of(&kind.group, &kind.name);
    if let Some(resource) = served.iter().find(|resource| resource.kind == *kind) {
        return Ok(Known::Served { namespaced: resource.namespaced });
    }
    let unknown = || Error::retry(format!("owner kind {kind} is not known to the API server"));
    // Of a kind with other versions, the objects may be there.
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
