//! Restores objects with identity, times, status and deletion as given, for tests that start in an intermediate state.
//!
//! *Not here*: creates by clients, who cannot set any of these.

use serde_json::{Value, json};

use super::objects::{is_deleting, meta, metadata_mut};
use super::shape::to_stored;
use super::status::ApiError;
use super::{Api, Call, strategy};
use crate::clock::rfc3339;
use crate::discovery::Resource;
use crate::store::{CommitError, WriteVerb, object_key};

/// Metadata that the server sets in a create.
const DECIDED: [&str; 5] =
    ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"];

impl Api {
    /// Adds an object as if it had existed before.
    pub(crate) fn restore(&self, mut object: Value) -> Result<(), ApiError> {
        let registry = self.registry();
        let is_kind =
            |resource: &Resource| resource.api_version() == object["apiVersion"] && resource.kind == object["kind"];
        let resource = registry.resources().iter().find(|resource| resource.is_stored() && is_kind(resource));
        let resource = resource.cloned().ok_or_else(|| {
            let kind = object["kind"].as_str().unwrap_or_default();
            ApiError::bad_request(format!("no matches for kind \"{kind}\" in version {}", object["apiVersion"]))
        })?;
        let namespace = Some(meta(&object, "namespace").to_owned()).filter(|namespace| !namespace.is_empty());
        let name = meta(&object, "name").to_owned();
        let call = Call::own(resource.clone(), namespace.as_deref(), None, None);
        let given = object.clone();
        strategy::prepare_create(&resource, &mut object);
        let metadata = metadata_mut(&mut object);
        metadata.insert("uid".into(), json!(self.uid()));
        metadata.insert("creationTimestamp".into(), json!(rfc3339(self.clock.now())));
        for field in DECIDED.iter().filter(|field| !given["metadata"][**field].is_null()) {
            metadata.insert((*field).to_owned(), given["metadata"][*field].clone());
        }
        if !given["status"].is_null() {
            object["status"] = given["status"].clone();
        }
        // A Job with a selector keeps the one it was created with.
        let is_complete = &*resource.storage == "jobs.batch" && !given["spec"]["selector"].is_null();
        if !is_deleting(&given) && !is_complete {
            strategy::finish_create(&resource, &mut object);
        }
        self.fill_defaults(&resource, &mut object);
        self.validate(&resource, None, &object)?;
        to_stored(&resource, &mut object);
        let (ctx, key) = (self.context(&call, WriteVerb::Create), object_key(namespace.as_deref(), &name));
        let committed = match self.store.get(&resource.storage, &key) {
            Some(present) => self.store.replace(&ctx, &key, present.version.rv, object),
            None => self.store.create(&ctx, &key, object, |_, _| Ok(())),
        };
        match committed {
            Ok(entry) => {
                self.after_commit(&resource, &entry.value);
                Ok(())
            }
            Err(CommitError::Api(error)) => Err(error),
            Err(_) => Err(ApiError::already_exists(&resource.group_resource(), &name)),
        }
    }
}
