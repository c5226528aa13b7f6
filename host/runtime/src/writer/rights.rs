//! Authorization of one run's writes and reads: the plugin's grants, and ownership in the caches.
//!
//! Invariants:
//! 1. The run's own view decides ownership: a plugin can only write objects that it saw as its own.
//! 2. A write that is allowed only by ownership carries the uid of the checked object, so that it never hits another
//!    object with the same name.
//! 3. Objects that are not in the caches are not owned; but a create or a server-side apply that names the key's object
//!    as the controller is allowed. If another client created the object meanwhile, the API server rejects a second
//!    controller.
//! 4. A server-side apply of an object that is not in the caches also requires permission to create; without it, the
//!    apply of a cached object requires its uid.
//! 5. A write that can give rights to others also requires the verb for it, unless it only changes the owner of the
//!    object.
//! 6. A write that replaces a list of several clients requires that the plugin reads the list: by a watch, or live.
//! 7. An object without a controller is not owned. A grant with `adopt` allows one write of it: a patch that makes the
//!    key's object its controller and changes nothing else. From then on, also in later steps of the same outcome, it
//!    is owned.
//! 8. The signer of a write is that of the cached object, whose uid the write then carries, or that of a create.
//!
//! Not here: the grants (`pintle_core::policy::grants`), the controllers in a body (`ownership`).

use std::sync::Arc;

use pintle_core::contract::manifest::{Manifest, Of};
use pintle_core::contract::outcome::{Action, Event, Need, PatchType};
use pintle_core::object::Object;
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::object::version::Uid;
use pintle_core::policy::grants::{Access, Allowed, Denial, Grants, Relation, special_verb};
use pintle_core::ports::view::View;

use super::ownership::{Controller, only_adopts, sets_key, sets_only};
use super::request::ParsedWrite;
use super::shared::replaced_unread;
use super::special::{bound_roles, changes_owners_only, signer};

/// The permissions of a run, and the facts that decide them.
#[derive(Clone, Copy)]
pub(crate) struct Rights<'a> {
    pub(crate) grants: &'a Grants,
    pub(crate) manifest: &'a Manifest,
    /// The key of the run.
    pub(crate) key: &'a Key,
    /// The run's view.
    pub(crate) view: &'a dyn View,
}

impl Rights<'_> {
    /// Checks whether a mutation may be sent; returns the uid that the object must have, if ownership or its signer
    /// decided.
    ///
    /// `adopted`: an earlier write of the same outcome adopts the object, so the key will own it at this write.
    ///
    /// # Errors
    /// [`Denial`]; a later run may see a different owner.
    pub(super) fn write(&self, write: &ParsedWrite<'_>, adopted: impl Fn() -> bool) -> Result<Option<Uid>, Denial> {
        let ParsedWrite { action, target, .. } = write;
        let owns = |relation| self.owns(relation, write, &adopted);
        let allowed = self.grants.check(&target.access(), owns).map_err(|denial| self.narrowed(denial, write))?;
        if let Some(list) = replaced_unread(self.manifest, write)
            && self.get(&target.kind, &target.object, None).is_err()
        {
            return Err(Denial::of_unread(&target.access(), list));
        }
        let mut of_signer = None;
        if let Some(verb) = special_verb(&target.access())
            && !changes_owners_only(write)
        {
            let denied = |denial: Denial| denial.as_taken_by(&target.access());
            match verb {
                "bind" => bound_roles(write).iter().try_for_each(|role| {
                    self.grants.check(&role.access(), |_| Err("it is not written".into())).map(|_| ()).map_err(denied)
                })?,
                verb => {
                    let creates = is_new(action) || self.makes(write);
                    let shown = if creates { None } else { self.shown(&target.kind, &target.object).ok() };
                    let signer = signer(write, shown.as_deref(), creates);
                    let access = Access { verb, signer: signer.as_deref(), ..target.access() };
                    self.grants.check(&access, owns).map_err(denied)?;
                    of_signer = shown.filter(|_| signer.is_some()).map(|object| object.meta.uid.clone());
                }
            }
        }
        let pin = match allowed {
            Allowed::Owned if self.makes(write) => {
                self.grants.check(&Access { verb: "create", ..target.access() }, owns).map(|_| None)
            }
            Allowed::Owned if !is_new(action) => {
                Ok(self.view.object(&target.kind, &target.object).map(|object| object.meta.uid.clone()))
            }
            Allowed::Freely if may_create(write) => {
                let access = Access { verb: "create", ..target.access() };
                match (self.grants.check(&access, owns), self.view.object(&target.kind, &target.object)) {
                    (Ok(_), _) => Ok(None),
                    // The uid ensures that the object is not created again if it was deleted meanwhile.
                    (Err(_), Some(object)) if !object.meta.uid.is_empty() => Ok(Some(object.meta.uid.clone())),
                    (Err(denial), _) => Err(denial),
                }
            }
            Allowed::Freely | Allowed::Owned => Ok(None),
        };
        pin.map(|uid| uid.or(of_signer))
    }

    /// Narrows the grant that a denial names to the write: to objects of the key, if the write is about one.
    fn narrowed(&self, denial: Denial, write: &ParsedWrite<'_>) -> Denial {
        let ParsedWrite { target, .. } = write;
        let create = Access { verb: "create", ..target.access() };
        let lacks_create = self.makes(write) && self.grants.check(&create, |_| Ok(())).is_err();
        let denial = if lacks_create { denial.with_verb("create") } else { denial };
        let Ok(key) = self.controller() else { return denial };
        if self.is_key(&target.kind, &target.object).is_ok() {
            return denial.narrowed(Of::Key, false);
        }
        let controls = || self.shown(&target.kind, &target.object).is_ok_and(|object| key.controls(&object).is_ok());
        if sets_key(&key, write) || controls() {
            return denial.narrowed(Of::Controlled, key.namespace.is_empty() && !target.object.namespace.is_empty());
        }
        denial
    }

    /// Checks whether a need may be answered. Discovery that the manifest does not declare has been rejected as a fault
    /// before.
    ///
    /// # Errors
    /// [`Denial`]; for objects, a later run may see a different owner.
    pub(crate) fn ask(&self, need: &Need) -> Result<(), Denial> {
        match need {
            Need::LiveObject { kind, object, subresource } => self.get(kind, object, subresource.as_deref()),
            Need::LiveList { kind, namespace, .. } => self.list(kind, namespace),
            Need::RawPath(path) => self.grants.check_path(path),
            Need::Discovery if self.manifest.discovery => Ok(()),
            Need::Discovery => Err(Denial::of_discovery()),
            // Allowed if the operator has bound the key or the endpoint; see `needs`.
            Need::SignJwt { .. } | Need::SignCertificate(_) | Need::Call { .. } => Ok(()),
            Need::Review { kind, namespace, .. } => {
                let access = Access { verb: "create", kind, subresource: None, namespace, name: "", signer: None };
                self.grants.check(&access, |_| Err("a review belongs to no object".into())).map(|_| ())
            }
        }
    }

    /// Checks whether an object may be read from the API server.
    ///
    /// # Errors
    /// [`Denial`]; a later run may see a different owner.
    fn get(&self, kind: &Kind, object: &ObjectKey, subresource: Option<&str>) -> Result<(), Denial> {
        let (namespace, name) = (&*object.namespace, &*object.name);
        let access = Access { verb: "get", kind, subresource, namespace, name, signer: None };
        let owned = |relation: Relation| match relation.of {
            Of::Any => Ok(()),
            Of::Key => self.is_key(kind, object),
            Of::Controlled => {
                let key = self.controller()?;
                key.reaches(&object.namespace, relation)?;
                key.controls(&*self.shown(kind, object)?)
            }
        };
        self.grants.check(&access, owned).map(|_| ())
    }

    /// Checks whether objects may be listed from the API server.
    ///
    /// # Errors
    /// [`Denial`]; a retry does not help.
    fn list(&self, kind: &Kind, namespace: &str) -> Result<(), Denial> {
        let access = Access { verb: "list", kind, subresource: None, namespace, name: "", signer: None };
        self.grants.check(&access, |_| Err("a list is of many objects".into())).map(|_| ())
    }

    /// Checks whether an event may be recorded: the plugin may record events, and this one is about a watched object,
    /// or one of the key's kind and namespace.
    pub(crate) fn may_record(&self, event: &Event) -> bool {
        let same = |kind: &Kind| kind.is_any_version_of(&event.regarding_kind);
        let namespace = &*event.regarding.namespace;
        let watched = self.manifest.watches.iter().any(|watch| {
            let kind = match (&watch.kind, &watch.every) {
                (Some(kind), _) => same(kind),
                (None, Some(every)) => !every.except.iter().any(same),
                (None, None) => false,
            };
            kind && watch.namespace.as_deref().is_none_or(|ours| ours == namespace)
        });
        let is_allowed = self.manifest.events && !self.grants.withholds_events();
        is_allowed && (watched || (same(&self.key.kind) && *self.key.object.namespace == *namespace))
    }

    /// Whether a successful write makes the key's object the controller of an object without one.
    pub(super) fn adopts(&self, write: &ParsedWrite<'_>) -> bool {
        let ParsedWrite { action, target, .. } = write;
        if !matches!(action, Action::Update { .. } | Action::Patch { .. }) || target.subresource.is_some() {
            return false;
        }
        let Ok(key) = self.controller() else { return false };
        let Ok(object) = self.shown(&target.kind, &target.object) else { return false };
        object.meta.controller().is_none() && hits(write, &object).is_ok() && sets_key(&key, write)
    }

    fn owns(&self, relation: Relation, write: &ParsedWrite<'_>, adopted: &impl Fn() -> bool) -> Result<(), String> {
        let ParsedWrite { action, target, .. } = write;
        match relation.of {
            Of::Any => Ok(()),
            Of::Key => {
                if target.object.name.is_empty() {
                    return Err("it is not about one object".into());
                }
                self.is_key(&target.kind, &target.object)?;
                match is_new(action) {
                    true => Ok(()),
                    false => self.shown(&target.kind, &target.object).and_then(|object| hits(write, &object)),
                }
            }
            Of::Controlled => self.controls(relation, write, adopted),
        }
    }

    fn controls(&self, relation: Relation, write: &ParsedWrite<'_>, adopted: &impl Fn() -> bool) -> Result<(), String> {
        let ParsedWrite { action, target, .. } = write;
        let key = self.controller()?;
        key.reaches(&target.object.namespace, relation)?;
        match action {
            Action::DeleteCollection { .. } => return Err("a collection is of many objects".into()),
            Action::Event(_) => return Err("it writes no object".into()),
            _ if is_new(action) => {}
            _ if self.makes(write) => {
                self.sees_all(&target.kind, &target.object)?;
                sets_only(&key, write)?;
                return match sets_key(&key, write) {
                    true => Ok(()),
                    false => Err(format!("a new object must name {} {} as its controller", key.kind, key.name)),
                };
            }
            Action::Create { .. } | Action::Update { .. } | Action::Patch { .. } | Action::Delete { .. } => {
                let object = self.shown(&target.kind, &target.object)?;
                hits(write, &object)?;
                match object.meta.controller() {
                    Some(_) => key.controls(&object)?,
                    None if adopted() => {}
                    None => self.may_adopt(&key, relation, write, &object)?,
                }
            }
        }
        sets_only(&key, write)
    }

    /// Checks that a write of an object without a controller is an adoption, and that the grant and the key's selector
    /// allow it.
    fn may_adopt(
        &self,
        key: &Controller,
        relation: Relation,
        write: &ParsedWrite<'_>,
        object: &Object,
    ) -> Result<(), String> {
        let Controller { kind, name, .. } = key;
        let found = format!("the caches show {} without a controller", object.meta.key);
        if !relation.adopt {
            return Err(format!(
                "{found}, and {kind} {name} has to adopt it before any other write, which takes `adopt: true` in a grant of `patch`"
            ));
        }
        only_adopts(key, write, object).map_err(|why| {
            format!(
                "{found}, and by `adopt: true` this write may only adopt it, by a patch of `metadata.ownerReferences` and nothing else: {why}"
            )
        })?;
        let declares = self.manifest.watches.iter().any(|watch| {
            watch.selects.is_some() && watch.kind.as_ref().is_some_and(|kind| kind.is_any_version_of(&self.key.kind))
        });
        if !declares && !relation.named {
            return Err(format!(
                "{found}, and the watch of {kind} declares no `selects`: then a grant with `adopt` has to list `names`, or all with \
                 `names: [\"*\"]`"
            ));
        }
        if declares && !self.view.selects(&self.key.kind, &self.key.object, &object.meta) {
            return Err(format!("{found}, and the selector of {kind} {name} does not match its labels"));
        }
        Ok(())
    }

    /// Whether this is a server-side apply of an object that the caches do not contain.
    fn makes(&self, write: &ParsedWrite<'_>) -> bool {
        let ParsedWrite { action, target, .. } = write;
        let Action::Patch { patch_type: PatchType::Apply { .. }, preconditions, .. } = action else { return false };
        target.subresource.is_none()
            && preconditions.uid.is_none()
            && preconditions.resource_version.is_none()
            && self.view.object(&target.kind, &target.object).is_none()
    }

    /// Whether the caches would contain the object if it existed.
    fn sees_all(&self, kind: &Kind, object: &ObjectKey) -> Result<(), String> {
        let shows = self.manifest.watches.iter().any(|watch| {
            watch.kind.as_ref() == Some(kind)
                && watch.label_selector.is_none()
                && watch.field_selector.is_none()
                && watch.namespace.as_deref().is_none_or(|ours| *ours == *object.namespace)
        });
        match shows {
            true => Ok(()),
            false => Err(format!("the plugin does not watch every {kind} there, so it may be somebody else's")),
        }
    }

    fn is_key(&self, kind: &Kind, object: &ObjectKey) -> Result<(), String> {
        match kind.is_any_version_of(&self.key.kind) && *object == self.key.object {
            true => Ok(()),
            false => Err(format!("the key is {} {}", self.key.kind, self.key.object)),
        }
    }

    /// The key's object as a controller.
    fn controller(&self) -> Result<Controller, String> {
        let object = self.shown(&self.key.kind, &self.key.object)?;
        Ok(Controller {
            kind: self.key.kind.clone(),
            name: self.key.object.name.clone(),
            namespace: self.key.object.namespace.clone(),
            uid: object.meta.uid.clone(),
        })
    }

    fn shown(&self, kind: &Kind, object: &ObjectKey) -> Result<Arc<Object>, String> {
        let found = self.view.object(kind, object).filter(|object| !object.meta.uid.is_empty());
        found.ok_or_else(|| format!("the caches of the plugin do not show {kind} {object}"))
    }
}

/// Whether the write creates a missing object: a server-side apply that requires no uid.
fn may_create(write: &ParsedWrite<'_>) -> bool {
    let ParsedWrite { action, target, uid, .. } = write;
    let applies = matches!(action, Action::Patch { patch_type: PatchType::Apply { .. }, .. });
    applies && target.subresource.is_none() && uid.is_none()
}

/// Whether the write creates an object. Creating a subresource requires an existing object.
fn is_new(action: &Action) -> bool {
    matches!(action, Action::Create { subresource: None, .. })
}

/// Checks that a precondition on the uid names the checked object.
fn hits(write: &ParsedWrite<'_>, object: &Object) -> Result<(), String> {
    match &write.uid {
        Some(uid) if Uid::parse(uid) != object.meta.uid => {
            Err(format!("the caches show {} with another uid than {uid:?}", object.meta.key))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pintle_testing::{FakeView, key, manifest, pod};

    use super::*;

    #[test]
    fn events_and_discovery_take_the_word_of_the_manifest_and_of_the_operator() {
        let view = FakeView::showing(Vec::new());
        let event = Event {
            regarding_kind: pod(),
            regarding: ObjectKey::new("ns", "a"),
            regarding_uid: String::new(),
            warning: false,
            reason: "Tried".into(),
            message: String::new(),
        };
        let may = |declares: bool, grants: &Grants| {
            let manifest = manifest(|m| {
                m["events"] = declares.into();
                m["discovery"] = declares.into();
            });
            let rights = Rights { grants, manifest: &manifest, key: &key("a"), view: &view };
            (rights.may_record(&event), rights.ask(&Need::Discovery).is_ok())
        };
        assert_eq!(may(true, &Grants::new(&[], None)), (true, true));
        assert_eq!(may(false, &Grants::new(&[], None)), (false, false));
        // If the operator does not grant discovery, the version's manifest is stored without it.
        assert_eq!(may(true, &Grants::new(&[], Some(&[]))), (false, true));
    }
}
