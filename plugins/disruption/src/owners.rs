//! The size of a Pod's owner: ReplicationControllers, Deployments, ReplicaSets and StatefulSets from the caches, all else from the
//! subresource `scale` of the API server.
//!
//! *Source*: `finders`, and the six functions that it lists.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use pintle_sdk::{ApiResource, Kind, Lister, Need, decode};
use serde::Deserialize;

use crate::{CountedPod, Deployment, ReplicaSet, ReplicationController, StatefulSet, Stop};

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

/// How many Pods the object with this uid wants.
#[derive(Debug)]
pub(crate) struct Size {
    pub(crate) uid: String,
    pub(crate) replicas: i32,
}

/// What the API server has.
#[derive(Debug)]
pub(crate) enum Answer {
    Found(Size),
    NotFound,
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

    /// Group and version. Upstream's `ParseGroupVersion`.
    fn group_version(&self) -> Result<(&'a str, &'a str), Stop> {
        match self.api_version.split('/').collect::<Vec<_>>()[..] {
            [version] => Ok(("", version)),
            [group, version] => Ok((group, version)),
            _ => Err(Stop::Failed(format!("unexpected GroupVersion string: {}", self.api_version))),
        }
    }

    fn is(&self, kind: &str, groups: &[&str]) -> Result<bool, Stop> {
        let (group, _) = self.group_version()?;
        Ok(self.kind == kind && groups.contains(&group))
    }
}

/// The size of an owner that the caches have; `None` if they do not have it, or its kind.
///
/// # Errors
/// If the reference does not make sense, or an object does not fit its type.
pub(crate) fn cached(owner: &Owner<'_>, lister: &impl Lister) -> Result<Option<Size>, Stop> {
    let size = |uid: &str, replicas: Option<i32>| Some(Size { uid: uid.to_owned(), replicas: replicas.unwrap_or(1) });
    if owner.is("ReplicationController", &[""])? {
        let found = lister.get::<ReplicationController>(owner.namespace, owner.name)?;
        let found = found.filter(|found| found.metadata.uid == owner.uid);
        return Ok(found.and_then(|found| size(&found.metadata.uid, found.spec.replicas)));
    }
    if owner.is("StatefulSet", &["apps"])? {
        let found = lister.get::<StatefulSet>(owner.namespace, owner.name)?;
        let found = found.filter(|found| found.metadata.uid == owner.uid);
        return Ok(found.and_then(|found| size(&found.metadata.uid, found.spec.replicas)));
    }
    if !owner.is("ReplicaSet", &["apps", "extensions"])? {
        return Ok(None);
    }
    let found = lister.get::<ReplicaSet>(owner.namespace, owner.name)?;
    let Some(set) = found.filter(|found| found.metadata.uid == owner.uid) else { return Ok(None) };
    let Some(above) = set.metadata.controller() else { return Ok(size(&set.metadata.uid, set.spec.replicas)) };
    let above = Owner {
        namespace: owner.namespace,
        api_version: &above.api_version,
        kind: &above.kind,
        name: &above.name,
        uid: &above.uid,
    };
    if above.is("Deployment", &["apps", "extensions"])? {
        let found = lister.get::<Deployment>(above.namespace, above.name)?;
        let found = found.filter(|found| found.metadata.uid == above.uid);
        return Ok(found.and_then(|found| size(&found.metadata.uid, found.spec.replicas)));
    }
    // Upstream's finder of ReplicaSets looks at the kind alone.
    Ok(if above.kind == "Deployment" { None } else { size(&set.metadata.uid, set.spec.replicas) })
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

/// The size of any owner, by its `scale`.
///
/// # Errors
/// What upstream's error says; or reads are needed first.
pub(crate) fn live<L: Lister>(owner: &Owner<'_>, resources: &Resources<'_, L>, lister: &L) -> Result<Answer, Stop> {
    let (resource, read) = resources.of(owner)?;
    // Upstream asks below the namespace of the Pod, where the API server has no such path.
    if resource.namespaced {
        let need = Need::live_object(&read, owner.namespace, owner.name).subresource("scale");
        match lister.ask(need)? {
            Ok(text) => {
                let scale: Scale = decode(&read, &text)?;
                let is_it = scale.metadata.uid == owner.uid;
                let size = || Size { uid: scale.metadata.uid, replicas: scale.spec.replicas };
                return Ok(if is_it { Answer::Found(size()) } else { Answer::NotFound });
            }
            Err(error) if error.code == NOT_FOUND => {}
            Err(error) => return Err(Stop::Failed(error.message)),
        }
    }
    if resource.subresources.iter().any(|subresource| subresource == "scale") {
        return Ok(Answer::NotFound);
    }
    let dot = if resource.kind.group.is_empty() { "" } else { "." };
    let resource = format!("{}{dot}{}", resource.plural, resource.kind.group);
    Err(Stop::Failed(format!("{resource} does not implement the scale subresource")))
}

/// The resources of one kind, of all versions.
type OfKind = Rc<[ApiResource]>;

/// What the API server has, read at most once in a run for each kind.
pub(crate) struct Resources<'a, L> {
    lister: &'a L,
    /// By group and name of the kind.
    known: RefCell<BTreeMap<(String, String), OfKind>>,
}

impl<'a, L: Lister> Resources<'a, L> {
    pub(crate) fn new(lister: &'a L) -> Self {
        Self { lister, known: RefCell::default() }
    }

    /// The resource of the owner, and the kind to read it as: in the version that the server prefers, as upstream's client of scales
    /// does.
    fn of(&self, owner: &Owner<'_>) -> Result<(ApiResource, Kind), Stop> {
        let (group, version) = owner.group_version()?;
        let known = self.known(group, owner.kind);
        let Some(resource) = known.iter().find(|resource| resource.kind.version == version) else {
            // A definition may have come a moment ago. What it brings is known in the next round.
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
