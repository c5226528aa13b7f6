//! `spec.successPolicy`: success of an Indexed Job before all indexes have succeeded.
//!
//! *Source*: success_policy.go.

use crate::indexes::Indexes;
use crate::types::Job;

/// The message of the first rule that the succeeded indexes fulfil.
#[doc(alias = "matchSuccessPolicy", alias = "matchSucceededIndexesRule")]
pub(crate) fn matched(job: &Job, n_indexes: i64, succeeded: &Indexes) -> Option<String> {
    let policy = job.spec.success_policy.as_ref().filter(|_| !succeeded.is_empty())?;
    let place = policy.rules.iter().position(|rule| {
        let is_enough = |n: i64| rule.succeeded_count.is_some_and(|count| n >= i64::from(count));
        let Some(indexes) = &rule.succeeded_indexes else { return is_enough(succeeded.len()) };
        let wanted = Indexes::parse(indexes, n_indexes);
        let n_common = wanted.n_common(succeeded);
        !wanted.is_empty() && (n_common == wanted.len() || is_enough(n_common))
    })?;
    Some(format!("Matched rules at index {place}"))
}
