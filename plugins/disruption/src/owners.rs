//! The size of a Pod's owner: ReplicationControllers, Deployments, ReplicaSets and StatefulSets from the caches, all
//! others from the subresource `scale` of the API server.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use pintle_sdk::api::meta::Metadata;
use pintle_sdk::{ApiResource, Error, Kind, Lister, Need, Resource, decode, group_version};
use serde::Deserialize;

use crate::scale::Stop;
use crate::types::{CountedPod, Deployment, ReplicaSet, ReplicationController, StatefulSet};

const NOT_FOUND: u32 = 404;

/// A controller reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner<'a> {
    namespace: &'a str,
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    pub(crate) uid: &'a str,
}

/// Desired Pods of the object with this uid.
#[doc(alias = "controllerAndScale")]
#[derive(Debug)]
pub(crate) struct Size {
    pub(crate) uid: String,
    pub(crate) replicas: i32,
}

impl<'a> Owner<'a> {
    /// The controller of a Pod.
    pub(crate) fn of_pod(pod: &'a CountedPod) -> Option<Self> {
        let owner = pod.metadata.controller()?;
        Some(Self {
            namespace: &pod.metadata.namespace,
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
        })
    }

    #[doc(alias = "verifyGroupKind")]
    fn is(&self, kind: &str, groups: &[&str]) -> Result<bool, Stop> {
        let (group, _) = group_version(self.api_version).map_err(Stop::Failed)?;
        Ok(self.kind == kind && groups.contains(&group))
    }

    /// Its size; 1 if the number is absent.
    fn size(&self, replicas: Option<i32>) -> Size {
        Size { uid: self.uid.to_owned(), replicas: replicas.unwrap_or(1) }
    }
}

/// The referenced object, unless it has another uid.
fn named<T: Resource>(owner: &Owner<'_>, lister: &impl Lister) -> Result<Option<T>, Error> {
    let found = lister.get::<T>(owner.namespace, owner.name)?;
    Ok(found.filter(|found| Metadata::uid(found.metadata()) == owner.uid))
}

/// The size of an owner in the caches; `None` if they lack it, or its kind.
///
/// # Errors
/// If the reference is invalid, or an object does not fit its type.
#[doc(alias = "finders")]
#[doc(alias = "getPodReplicationController")]
#[doc(alias = "getPodDeployment")]
#[doc(alias = "getPodReplicaSet")]
#[doc(alias = "getPodStatefulSet")]
pub(crate) fn cached(owner: &Owner<'_>, lister: &impl Lister) -> Result<Option<Size>, Stop> {
    if owner.is("ReplicationController", &[""])? {
        let found = named::<ReplicationController>(owner, lister)?;
        return Ok(found.map(|found| owner.size(found.spec.replicas)));
    }
    if owner.is("StatefulSet", &["apps"])? {
        let found = named::<StatefulSet>(owner, lister)?;
        return Ok(found.map(|found| owner.size(found.spec.replicas)));
    }
    if !owner.is("ReplicaSet", &["apps", "extensions"])? {
        return Ok(None);
    }
    let Some(set) = named::<ReplicaSet>(owner, lister)? else { return Ok(None) };
    let own = owner.size(set.spec.replicas);
    let Some(above) = set.metadata.controller() else { return Ok(Some(own)) };
    let above = Owner {
        namespace: owner.namespace,
        api_version: &above.api_version,
        kind: &above.kind,
        name: &above.name,
        uid: &above.uid,
    };
    if above.is("Deployment", &["apps", "extensions"])? {
        let found = named::<Deployment>(&above, lister)?;
        return Ok(found.map(|found| above.size(found.spec.replicas)));
    }
    // Upstream's ReplicaSet finder compares the kind alone.
    Ok((above.kind != "Deployment").then_some(own))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Scale {
    metadata: ScaleMetadata,
    spec: ScaleSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleMetadata {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleSpec {
    replicas: i32,
}

/// The size of any owner, from its `scale`; `None` if the API server does not have it.
///
/// # Errors
/// Upstream's error; or reads are needed first.
#[doc(alias = "getScaleController", alias = "implementsScale")]
pub(crate) fn live<L: Lister>(
    owner: &Owner<'_>,
    resources: &Resources<'_, L>,
    lister: &L,
) -> Result<Option<Size>, Stop> {
    let (resource, read) = resources.of(owner)?;
    // Upstream reads in the Pod's namespace, where the API server has no such path.
    if resource.namespaced {
        let need = Need::live_object(&read, owner.namespace, owner.name).subresource("scale");
        match lister.ask(need)? {
            Ok(text) => {
                let scale: Scale = decode(&read, &text)?;
                let is_it = scale.metadata.uid == owner.uid;
                return Ok(is_it.then(|| owner.size(Some(scale.spec.replicas))));
            }
            Err(error) if error.code == NOT_FOUND => {}
            Err(error) => return Err(Stop::Failed(error.message)),
        }
    }
    if resource.subresources.iter().any(|subresource| subresource == "scale") {
        return Ok(None);
    }
    let dot = if resource.kind.group.is_empty() { "" } else { "." };
    let resource = format!("{}{dot}{}", resource.plural, resource.kind.group);
    Err(Stop::Failed(format!("{resource} does not implement the scale subresource")))
}

/// The resources of one kind, of all versions.
type OfKind = Rc<[ApiResource]>;

/// The API server's resources, read at most once in a run for each kind.
pub(crate) struct Resources<'a, L> {
    lister: &'a L,
    /// By group and name of the kind.
    known: RefCell<BTreeMap<(String, String), OfKind>>,
}

impl<'a, L: Lister> Resources<'a, L> {
    pub(crate) fn new(lister: &'a L) -> Self {
        Self { lister, known: RefCell::default() }
    }

    /// The owner's resource, and the kind to read it as: in the version that the server prefers, as upstream's scale
    /// client does.
    #[doc(alias = "RESTMapping")]
    fn of(&self, owner: &Owner<'_>) -> Result<(ApiResource, Kind), Stop> {
        let (group, version) = group_version(owner.api_version).map_err(Stop::Failed)?;
        let known = self.known(group, owner.kind);
        let Some(resource) = known.iter().find(|resource| resource.kind.version == version) else {
            // The definition may be new. The next round has its resources.
            if let Err(error) = self.lister.ask(Need::Discovery)? {
                return Err(Stop::Failed(error.message));
            }
            let slash = if group.is_empty() { "" } else { "/" };
            let version = format!("{group}{slash}{version}");
            return Err(Stop::Failed(format!("no matches for kind {:?} in version {version:?}", owner.kind)));
        };
        let is_preferred = |other: &&ApiResource| other.preferred && other.plural == resource.plural;
        Ok((resource.clone(), known.iter().find(is_preferred).unwrap_or(resource).kind.clone()))
    }

    fn known(&self, group: &str, kind: &str) -> OfKind {
        let mut known = self.known.borrow_mut();
        let of_kind = known.entry((group.to_owned(), kind.to_owned()));
        of_kind.or_insert_with(|| self.lister.resources_of(group, kind).into()).clone()
    }
}
