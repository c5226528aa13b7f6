//! ResourceQuota: rejects requests whose usage would exceed a limit.
//!
//! *Flow*: a new or changed object is checked against the status of every quota of its namespace, its usage is added to
//! `status.used` of each quota that limits it, then the object is stored.
//!
//! *Invariants*: 1. a charge is recomputed after a concurrent one, so that two requests cannot both take the last place;
//! 2. a charge whose write fails stays until the quota's controller recounts, as upstream; 3. resources without a
//! limit in the status yet are not limited.
//!
//! *Not here*: the usage of an object, and whether a quota allows it (`plugin_quota`); releases by deletes, which the
//! controller counts.
//! *Source*: upstream's ResourceQuota admission, without resources that are limited by default.

use plugin_quota::admission::{self, Request};
use plugin_quota::{
    DeviceClass, DeviceClasses, Evaluator, Neighbours, ObjectCount, PersistentVolumeClaims, Pod, Pods, ResourceClaim,
    ResourceClaims, ResourceQuota, Services, Timestamp,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::objects::meta;
use super::status::ApiError;
use super::{Api, Call};
use crate::store::{Entry, WriteVerb, object_key};

/// Table of claims of devices.
const RESOURCE_CLAIMS: &str = "resourceclaims.resource.k8s.io";

impl Api {
    /// Charges a new object, or the change of `old`, to the quotas of its namespace, or rejects it.
    pub(super) fn charge_quotas(
        &self,
        call: &Call,
        object: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        let Some(namespace) = call.namespace() else { return Ok(()) };
        let now = Timestamp::from_micros(self.clock.now().as_microsecond());
        let pods = Pods { now, pod_level_resources: true };
        let resource = &call.resource;
        let charge = Charge { api: self, call, namespace, object, old, dry_run };
        match &*resource.storage {
            "pods" => charge.by(&pods),
            "services" => charge.by(&Services),
            "persistentvolumeclaims" => charge.by(&PersistentVolumeClaims),
            RESOURCE_CLAIMS => {
                let classes: DeviceClasses =
                    self.all::<DeviceClass>("deviceclasses.resource.k8s.io", None).into_iter().collect();
                charge.by(&ResourceClaims { classes: &classes, neighbours: self, pods })
            }
            // Of other kinds, only the number counts.
            _ if old.is_some() => Ok(()),
            _ => match ObjectCount::new(&resource.group, &resource.plural) {
                Some(count) => charge.by(&count),
                None => Ok(()),
            },
        }
    }

    /// The objects of a table that can be read.
    fn all<T: DeserializeOwned>(&self, storage: &str, namespace: Option<&str>) -> Vec<T> {
        let read = |entry: &Entry| T::deserialize(&*entry.value).ok();
        self.store.view(|view| view.range(storage, namespace).filter_map(read).collect())
    }
}

impl Neighbours for Api {
    fn pod(&self, namespace: &str, name: &str) -> Option<Pod> {
        let entry = self.store.get("pods", &object_key(Some(namespace), name))?;
        Pod::deserialize(&*entry.value).ok()
    }

    fn claims(&self, namespace: &str, pod: &str) -> Vec<ResourceClaim> {
        let mut claims: Vec<ResourceClaim> = self.all(RESOURCE_CLAIMS, Some(namespace));
        claims.retain(|claim| claim.metadata.is_controlled_by(pod));
        claims
    }
}

/// A request that is charged to quotas.
struct Charge<'a> {
    api: &'a Api,
    call: &'a Call,
    namespace: &'a str,
    object: &'a Value,
    old: Option<&'a Value>,
    dry_run: bool,
}

impl Charge<'_> {
    fn by<E: Evaluator<Object: DeserializeOwned>>(&self, evaluator: &E) -> Result<(), ApiError> {
        let Self { api, call, namespace, .. } = *self;
        let quotas: Vec<ResourceQuota> = api.all("resourcequotas", Some(namespace));
        if quotas.is_empty() {
            return Ok(());
        }
        if self.old.is_none() {
            api.store.view(|view| api.admit_create(view, call, self.object))?;
        }
        let read = |value: &Value| E::Object::deserialize(value).map_err(ApiError::internal);
        let (object, old) = (read(self.object)?, self.old.map(read).transpose()?);
        let subresource = call.subresource().unwrap_or("");
        let request = Request { object: &object, old: old.as_ref(), subresource };
        let check = |quotas: &[ResourceQuota]| {
            let forbidden =
                |why: String| ApiError::forbidden(&call.resource.group_resource(), meta(self.object, "name"), &why);
            admission::check(evaluator, &request, quotas).map_err(forbidden)
        };
        let charged = check(&quotas)?;
        if self.dry_run || charged.is_empty() {
            return Ok(());
        }
        let kind = api.registry().by_plural("v1", "resourcequotas").cloned().ok_or_else(ApiError::unknown_path)?;
        for (place, _) in charged {
            let name = quotas[place].metadata.name.as_str();
            let own = Call::own(std::sync::Arc::clone(&kind), Some(namespace), Some(name), Some("status"));
            let done = api.update_object(&own, WriteVerb::Patch, |current| {
                let quota = ResourceQuota::deserialize(current).map_err(ApiError::internal)?;
                let mut new = current.clone();
                for (_, used) in check(std::slice::from_ref(&quota))? {
                    new["status"]["used"] = json!(used);
                }
                Ok(new)
            });
            match done {
                // A deleted quota limits nothing.
                Err(error) if error.code == 404 => {}
                other => drop(other?),
            }
        }
        Ok(())
    }
}
