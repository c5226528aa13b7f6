//! Types of the fields that the controller reads from Jobs and Pods.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Resource, has_finalizer, is_true};
use serde::Deserialize;

pintle_sdk::types!(
    "manifest.yaml",
    "batch/v1/Job": [
        "metadata.deletionTimestamp",
        "spec.activeDeadlineSeconds",
        "spec.backoffLimit",
        "spec.backoffLimitPerIndex",
        "spec.completionMode",
        "spec.completions",
        "spec.managedBy",
        "spec.maxFailedIndexes",
        "spec.parallelism",
        "spec.podFailurePolicy",
        "spec.podReplacementPolicy",
        "spec.selector",
        "spec.successPolicy",
        "spec.suspend",
        "spec.template",
        "status",
    ],
);

/// The finalizer of Pods that are not counted yet.
#[doc(alias = "JobTrackingFinalizer")]
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// `spec.managedBy` of Jobs that this controller runs; an absent field means the same.
#[doc(alias = "JobControllerName")]
const OWN_NAME: &str = "kubernetes.io/job-controller";

/// `metadata.annotations` of a Pod: its index. Also a label.
#[doc(alias = "JobCompletionIndexAnnotation")]
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// `metadata.annotations` of a Pod: earlier failures of its index.
#[doc(alias = "JobIndexFailureCountAnnotation")]
pub(crate) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// The same for failures that a rule ignores.
#[doc(alias = "JobIndexIgnoredFailureCountAnnotation")]
pub(crate) const IGNORED_INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

impl Job {
    /// The name of another controller that manages the Job.
    #[doc(alias = "managedByExternalController")]
    pub(crate) fn other_manager(&self) -> Option<&str> {
        self.spec.managed_by.as_deref().filter(|name| *name != OWN_NAME)
    }

    /// Whether the Job is finished.
    #[doc(alias = "IsJobFinished")]
    pub(crate) fn is_finished(&self) -> bool {
        ["Complete", "Failed"].iter().any(|end| is_true(&self.status.conditions, end))
    }

    /// Whether each of its Pods has an index.
    #[doc(alias = "isIndexedJob")]
    pub(crate) fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    /// Whether it is suspended.
    #[doc(alias = "jobSuspended")]
    pub(crate) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Number of Pods to run in parallel.
    pub(crate) fn parallelism(&self) -> i64 {
        i64::from(self.spec.parallelism.unwrap_or(1)).max(0)
    }

    /// Most failures that the Job tolerates. The API server sets the default.
    pub(crate) fn backoff_limit(&self) -> i64 {
        let default = if self.spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 };
        i64::from(self.spec.backoff_limit.unwrap_or(default))
    }

    /// The number of indexes of an Indexed Job, `None` for others.
    ///
    /// # Errors
    /// If an Indexed Job has none, which the API server rejects.
    pub(crate) fn n_indexes(&self) -> Result<Option<i64>, Error> {
        if !self.is_indexed() {
            return Ok(None);
        }
        let completions = self.spec.completions.map(i64::from);
        completions.map(Some).ok_or_else(|| Error::terminal("the Job is Indexed and has no spec.completions"))
    }

    /// Whether a Pod is replaced only once it is in the phase `Failed`, not as soon as it is being deleted.
    #[doc(alias = "onlyReplaceFailedPods")]
    pub(crate) fn replaces_only_failed(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed") || self.spec.pod_failure_policy.is_some()
    }

    /// `spec.template.spec.restartPolicy`.
    pub(crate) fn restart_policy(&self) -> String {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct PodSpec {
            restart_policy: String,
        }
        self.spec.template.spec.parse::<PodSpec>().unwrap_or_default().restart_policy
    }
}

impl Pod {
    /// Whether the Pod has the finalizer, so is not counted yet.
    #[doc(alias = "hasJobTrackingFinalizer")]
    pub(crate) fn is_tracked(&self) -> bool {
        has_finalizer(&self.metadata, TRACKING)
    }

    /// Whether it has succeeded.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.status.phase == "Succeeded"
    }

    /// Whether it counts as failed for this Job.
    #[doc(alias = "isPodFailed")]
    pub(crate) fn is_failed(&self, job: &Job) -> bool {
        plugin_lib::pods::is_failed(self, job.replaces_only_failed())
    }

    /// The index of the Pod.
    #[doc(alias = "getCompletionIndex")]
    pub(crate) fn index(&self) -> Option<i64> {
        let index: i64 = self.metadata.annotations.job_completion_index.as_deref()?.parse().ok()?;
        // No Job has a larger one.
        (0..=i64::from(i32::MAX)).contains(&index).then_some(index)
    }

    /// The index, if the Job has it.
    pub(crate) fn index_below(&self, n_indexes: i64) -> Option<i64> {
        self.index().filter(|index| *index < n_indexes)
    }

    /// Earlier failures of its index. A user-set value that is not a number counts as 0.
    #[doc(alias = "getIndexFailureCount", alias = "parseIndexFailureCountAnnotation")]
    pub(crate) fn index_failures(&self) -> i64 {
        count(self.metadata.annotations.job_index_failure_count.as_deref())
    }

    /// The same for failures that a rule ignores.
    #[doc(alias = "parseIndexFailureIgnoreCountAnnotation")]
    pub(crate) fn ignored_index_failures(&self) -> i64 {
        count(self.metadata.annotations.job_index_ignored_failure_count.as_deref())
    }

    /// The end time, as far as the status has it.
    #[doc(alias = "getFinishedTime")]
    pub(crate) fn finished_at(&self) -> Timestamp {
        plugin_lib::pods::finished_at(self).unwrap_or(Timestamp::from_micros(0))
    }
}

#[doc(alias = "parseInt32")]
fn count(annotation: Option<&str>) -> i64 {
    let number = annotation.and_then(|text| text.parse::<i32>().ok()).filter(|number| *number >= 0);
    number.map_or(0, i64::from)
}

/// Whether an owner reference refers to a Job.
pub(crate) fn is_job(reference: &OwnerReference) -> bool {
    reference.owner_kind() == Job::KIND
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `TestGetIndexFailureCount` of indexed_job_utils_test.go.
    #[test]
    fn counts_that_users_have_changed_are_zero() {
        for (text, expected) in [
            (None, 0),
            (Some("123"), 123),
            (Some("2147483647"), 2_147_483_647),
            (Some("2147483648"), 0),
            (Some("-1"), 0),
            (Some("xyz"), 0),
            (Some(""), 0),
        ] {
            assert_eq!(count(text), expected, "{text:?}");
        }
    }
}
