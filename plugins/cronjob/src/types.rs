//! The types that the controller reads.

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

pintle_sdk::types!("manifest.yaml", "batch/v1/CronJob" = _);

/// The fields of a CronJob that decisions use. Its template is copied from the
/// [`Document`](pintle_sdk::document::Document).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CronJob {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

pintle_sdk::resource!(CronJob, "batch", "v1", "CronJob");

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) schedule: String,
    pub(crate) time_zone: Option<String>,
    pub(crate) suspend: Option<bool>,
    pub(crate) starting_deadline_seconds: Option<i64>,
    pub(crate) concurrency_policy: String,
    pub(crate) successful_jobs_history_limit: Option<i32>,
    pub(crate) failed_jobs_history_limit: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    /// References to unfinished Jobs, with all of their fields.
    #[serde(deserialize_with = "pintle_sdk::api::or_default")]
    pub(crate) active: Vec<Value>,
    pub(crate) last_schedule_time: Option<Timestamp>,
    pub(crate) last_successful_time: Option<Timestamp>,
}
