//! The lifecycle of a CustomResourceDefinition: its conditions, serving its kinds, deleting its objects.
//!
//! *Flow*: after each commit of a definition the server writes its status and builds a new registry; deleting a
//! definition deletes its objects, and the definition is removed after the last of them.
//!
//! *Source*: the naming, establishing and finalizing controllers of apiextensions-apiserver; here they run before the
//! response to the write.

use serde_json::{Value, json};

use super::delete::DeleteOptions;
use super::objects::{finalizers, has_condition, is_deleting, meta, metadata_mut, set_condition, set_finalizers};
use super::status::ApiError;
use super::{Api, Call};
use crate::cause::Cause;
use crate::clock::rfc3339;
use crate::discovery::Resource;
use crate::discovery::crd::{completed_names, resources};
use crate::store::{ListRange, WriteVerb};

const STORAGE: &str = "customresourcedefinitions.apiextensions.k8s.io";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in defaults of a definition.
pub(crate) fn complete(object: &mut Value, is_new: bool) {
    if is_new {
        let stored: Vec<Value> = object["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|version| version["storage"] == true)
            .map(|version| version["name"].clone())
            .collect();
        object["status"] =
            json!({"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let names = completed_names(&Value::Object(spec.clone()));
        spec.insert("names".into(), names);
    }
}

/// The finalizers that the first delete adds to an object: those of a definition hold it until its objects are deleted.
pub(super) fn hold(resource: &Resource, object: &Value, finalizers: &mut Vec<String>) {
    if &*resource.storage == STORAGE && !is_deleting(object) && !finalizers.iter().any(|one| one == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
}

/// The errors in a definition.
pub(crate) fn causes(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &object["spec"];
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    if meta(object, "name") != format!("{plural}.{group}") {
        let name = &object["metadata"]["name"];
        causes.push(Cause::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    for (field, value) in
        [("spec.group", &group), ("spec.names.plural", &plural), ("spec.names.kind", &text(&spec["names"]["kind"]))]
    {
        if value.is_empty() {
            causes.push(Cause::required(field));
        }
    }
    if !matches!(spec["scope"].as_str(), Some("Namespaced" | "Cluster")) {
        causes.push(Cause::unsupported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"]));
    }
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let message = "Invalid value: must have exactly one version marked as storage version";
        causes.push(Cause::new("FieldValueInvalid", "spec.versions", message));
    }
    for (n, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{n}].schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object()) {
            None => causes.push(Cause::required(field)),
            Some(schema) => {
                let problems = pintle_crd::Schema::compile(schema).err().into_iter().flatten().map(Cause::from);
                causes.extend(problems.map(|cause| Cause {
                    field: format!("{field}.{}", cause.field).trim_end_matches('.').to_owned(),
                    ..cause
                }));
            }
        }
    }
    causes
}

impl Api {
    /// Reacts to a commit.
    pub(crate) fn after_commit(&self, resource: &Resource, object: &Value) {
        let done = match &*resource.storage {
            STORAGE if is_deleting(object) => self.terminate(object),
            STORAGE => self.establish(object),
            "services" => self.sync_addresses(object, false),
            _ => return,
        };
        if let Err(error) = done {
            tracing::warn!(kind = resource.kind, name = meta(object, "name"), %error, "cannot follow an object");
        }
    }

    /// Reacts to the removal of an object.
    pub(crate) fn after_removal(&self, resource: &Resource, object: &Value) {
        if &*resource.storage == "services" {
            if let Err(error) = self.sync_addresses(object, true) {
                tracing::warn!(name = meta(object, "name"), %error, "cannot release the addresses of a Service");
            }
        } else if &*resource.storage == STORAGE {
            let spec = &object["spec"];
            let storage =
                format!("{}.{}", spec["names"]["plural"].as_str().unwrap_or(""), spec["group"].as_str().unwrap_or(""));
            self.rebuild_registry();
            self.store.close_table(&storage);
        } else if let Some(crd) = &resource.crd
            && let Some(definition) = self.store.get(STORAGE, &crd.crd_name)
            && is_deleting(&definition.value)
            && let Err(error) = self.finish(&definition.value)
        {
            tracing::warn!(name = crd.crd_name, %error, "cannot finish a CustomResourceDefinition");
        }
    }

    fn own_crd_call(&self, name: &str, subresource: Option<&str>) -> Result<Call, ApiError> {
        let registry = self.registry();
        let resource = registry
            .by_plural("apiextensions.k8s.io/v1", "customresourcedefinitions")
            .cloned()
            .ok_or_else(ApiError::unknown_path)?;
        Ok(Call::own(resource, None, Some(name), subresource))
    }

    fn establish(&self, object: &Value) -> Result<(), ApiError> {
        let name = meta(object, "name").to_owned();
        let conflict = self.name_conflict(object);
        let now = rfc3339(self.clock.now());
        let call = self.own_crd_call(&name, Some("status"))?;
        self.update_object(&call, WriteVerb::Update, |current| {
            let mut new = current.clone();
            let condition = |kind: &str, status: bool, reason: &str, message: &str| {
                json!({"type": kind, "status": if status { "True" } else { "False" }, "lastTransitionTime": now, "reason": reason, "message": message})
            };
            match &conflict {
                Some((reason, message)) => {
                    set_condition(&mut new, condition("NamesAccepted", false, reason, message));
                    if !is_established(&new) {
                        set_condition(&mut new, condition("Established", false, "NotAccepted", "not all names are accepted"));
                    }
                }
                None => {
                    new["status"]["acceptedNames"] = new["spec"]["names"].clone();
                    set_condition(&mut new, condition("NamesAccepted", true, "NoConflicts", "no conflicts found"));
                    set_condition(&mut new, condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted"));
                }
            }
            let storing = new["spec"]["versions"].as_array().into_iter().flatten().find(|version| version["storage"] == true);
            if let Some(version) = storing.map(|version| version["name"].clone())
                && let Some(stored) = new["status"]["storedVersions"].as_array_mut()
                && !stored.contains(&version)
            {
                stored.push(version);
            }
            Ok(new)
        })?;
        self.rebuild_registry();
        Ok(())
    }

    /// Another definition of the group with one of the names.
    fn name_conflict(&self, object: &Value) -> Option<(&'static str, String)> {
        let spec = &object["spec"];
        self.store.view(|view| {
            view.range(STORAGE, None)
                .filter(|other| {
                    *other.version.name != *meta(object, "name") && other.value["spec"]["group"] == spec["group"]
                })
                .find_map(|other| {
                    let taken = &other.value["status"]["acceptedNames"];
                    let clash = |field: &str, reason: &'static str| {
                        (spec["names"][field] == taken[field] && taken[field].is_string())
                            .then(|| (reason, format!("{} is already in use", spec["names"][field])))
                    };
                    clash("kind", "KindConflict")
                        .or_else(|| clash("listKind", "ListKindConflict"))
                        .or_else(|| clash("singular", "SingularConflict"))
                })
        })
    }

    /// Serves the kinds of all established definitions, and no others.
    fn rebuild_registry(&self) {
        let mut registry = self.registry.write();
        let custom: Vec<_> = self.store.view(|view| {
            view.range(STORAGE, None)
                .filter(|definition| is_established(&definition.value))
                .flat_map(|definition| resources(&definition.value))
                .collect()
        });
        for resource in &custom {
            self.store.open_table(&resource.storage);
        }
        *registry = std::sync::Arc::new(registry.with_custom(custom));
    }

    fn terminate(&self, object: &Value) -> Result<(), ApiError> {
        if !finalizers(object).iter().any(|finalizer| finalizer == FINALIZER) || has_condition(object, "Terminating") {
            return Ok(());
        }
        let now = rfc3339(self.clock.now());
        let call = self.own_crd_call(meta(object, "name"), Some("status"))?;
        self.update_object(&call, WriteVerb::Update, |current| {
            let mut new = current.clone();
            set_condition(
                &mut new,
                json!({
                    "type": "Terminating", "status": "True", "lastTransitionTime": now,
                    "reason": "InstanceDeletionInProgress", "message": "CustomResource deletion is in progress",
                }),
            );
            Ok(new)
        })?;
        if let Some(resource) = resources(object).first() {
            let range = ListRange { namespace: None, at: None, after: None, limit: None };
            let objects =
                self.store.list(&resource.storage, &range, |_| true).map(|listed| listed.items).unwrap_or_default();
            for item in objects {
                let call =
                    Call::own(std::sync::Arc::clone(resource), item.namespace.as_deref(), Some(&item.name), None);
                match self.delete_object(&call, &item.key, &DeleteOptions::default(), WriteVerb::DeleteCollection) {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
        }
        match self.store.get(STORAGE, meta(object, "name")) {
            Some(definition) => self.finish(&definition.value),
            // Removing the last object removed the definition too.
            None => Ok(()),
        }
    }

    /// Removes the definition when its last object is deleted.
    fn finish(&self, object: &Value) -> Result<(), ApiError> {
        let resource = resources(object).into_iter().next();
        let empty = resource
            .is_none_or(|resource| self.store.view(|view| view.range(&resource.storage, None).next().is_none()));
        if !empty {
            return Ok(());
        }
        let call = self.own_crd_call(meta(object, "name"), None)?;
        let done = self.update_object(&call, WriteVerb::Update, |current| {
            let mut new = current.clone();
            let rest: Vec<String> =
                finalizers(current).into_iter().filter(|finalizer| finalizer != FINALIZER).collect();
            set_finalizers(&mut new, &rest);
            metadata_mut(&mut new);
            Ok(new)
        });
        match done {
            Err(error) if error.code == 404 => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Rejects new objects of a kind whose definition is being deleted.
    pub(crate) fn check_not_terminating(&self, resource: &Resource, name: &str) -> Result<(), ApiError> {
        let terminating = resource
            .crd
            .as_ref()
            .and_then(|crd| self.store.get(STORAGE, &crd.crd_name))
            .is_some_and(|crd| is_deleting(&crd.value));
        if terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(&resource.group_resource(), name, why));
        }
        Ok(())
    }
}

fn is_established(definition: &Value) -> bool {
    has_condition(definition, "Established")
}
