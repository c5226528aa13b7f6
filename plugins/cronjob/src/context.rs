//! A CronJob, and the status that a run computes.

use std::collections::BTreeSet;

use pintle_sdk::document::Document;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Key, Lister, Mutation, Need, ObjectKey, Resource, decode};
use serde_json::{Value, json};

use crate::types::{CronJob, Job, Status};

/// A CronJob with its new status.
pub(crate) struct Context {
    pub(crate) object: CronJob,
    pub(crate) document: Document,
    pub(crate) status: Status,
    /// Uids of the Jobs in the status; there may be thousands.
    active: BTreeSet<String>,
}

impl Context {
    fn new(text: &str) -> Result<Self, Error> {
        let object: CronJob = decode(&CronJob::KIND, text)?;
        let active = object.status.active.iter().map(|reference| self::text(reference, "uid").to_owned()).collect();
        Ok(Self { status: object.status.clone(), object, document: Document::parse(text)?, active })
    }

    /// Reads the CronJob from the cache.
    ///
    /// # Errors
    /// If it does not fit its type.
    pub(crate) fn cached(key: &Key, lister: &impl Lister) -> Result<Option<Self>, Error> {
        let text = lister.get_json(&CronJob::KIND, &ObjectKey::new(&key.namespace, &key.name));
        text.map(|text| Self::new(&text)).transpose()
    }

    /// Reads the CronJob from the API server.
    ///
    /// # Errors
    /// If the live read is needed first, or fails.
    #[doc(alias = "GetCronJob")]
    pub(crate) fn live(key: &Key, lister: &impl Lister) -> Result<Option<Self>, Error> {
        match lister.ask(Need::live_object(&CronJob::KIND, &key.namespace, &key.name))? {
            Ok(text) => Self::new(&text).map(Some),
            Err(error) if error.code == 404 => Ok(None),
            Err(error) => Err(Error::retry(format!("read the CronJob again: {}", error.message))),
        }
    }

    /// Whether the status lists the Job with this uid.
    #[doc(alias = "inActiveList")]
    pub(crate) fn has_active(&self, uid: &str) -> bool {
        self.active.contains(uid)
    }

    /// Whether the status lists a Job with this name in the CronJob's namespace.
    #[doc(alias = "inActiveListByName")]
    pub(crate) fn has_active_name(&self, name: &str) -> bool {
        let is_it = |reference: &Value| {
            text(reference, "name") == name && text(reference, "namespace") == self.object.metadata.namespace
        };
        self.status.active.iter().any(is_it)
    }

    /// Removes the Jobs with these uids from the status.
    #[doc(alias = "deleteFromActiveList")]
    pub(crate) fn remove_active(&mut self, uids: &BTreeSet<&str>) {
        self.active.retain(|uid| !uids.contains(uid.as_str()));
        self.status.active.retain(|reference| !uids.contains(text(reference, "uid")));
    }

    /// Removes all Jobs from the status.
    pub(crate) fn take_active(&mut self) -> Vec<Value> {
        self.active.clear();
        std::mem::take(&mut self.status.active)
    }

    /// Adds a Job to the status, scheduled for this time.
    #[doc(alias = "getRef")]
    pub(crate) fn add_active(&mut self, job: &Job, time: Timestamp) {
        let metadata = &job.metadata;
        self.active.insert(metadata.uid.clone());
        self.status.active.push(json!({
            "apiVersion": "batch/v1", "kind": "Job", "namespace": metadata.namespace, "name": metadata.name,
            "uid": metadata.uid, "resourceVersion": metadata.resource_version,
        }));
        self.set_scheduled(time);
    }

    /// Sets the last schedule time, if it is later than the current one.
    pub(crate) fn set_scheduled(&mut self, time: Timestamp) {
        self.status.last_schedule_time = self.status.last_schedule_time.max(Some(time));
    }

    /// The status update, if something changes.
    #[doc(alias = "UpdateStatus")]
    pub(crate) fn update(&self) -> Option<Mutation> {
        let (old, new) = (&self.object.status, &self.status);
        if old == new {
            return None;
        }
        let mut document = self.document.clone();
        if new.active.is_empty() {
            document.remove(&["status", "active"]);
        } else if new.active != old.active {
            document.set(&["status", "active"], &new.active);
        }
        for (field, old, new) in [
            ("lastScheduleTime", old.last_schedule_time, new.last_schedule_time),
            ("lastSuccessfulTime", old.last_successful_time, new.last_successful_time),
        ] {
            if old != new {
                document.set(&["status", field], &new);
            }
        }
        Some(Mutation::update_status(&CronJob::KIND, document))
    }
}

/// A field of an object reference.
pub(crate) fn text<'a>(reference: &'a Value, field: &str) -> &'a str {
    reference[field].as_str().unwrap_or_default()
}
