//! `spec.podFailurePolicy`: how a failed Pod affects the Job.
//!
//! *Source*: pod_failure_policy.go.

use plugin_lib::pods;

use crate::types::{Job, JobSpecPodFailurePolicyRules as Rule, Pod};

/// Result of the first rule that matches a failed Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyResult {
    /// Why the Job fails.
    pub(crate) fails_job: Option<String>,
    /// Whether the failure counts towards the limits.
    pub(crate) counts: bool,
    /// The action of the rule.
    pub(crate) action: Option<Action>,
}

/// Action of a rule.
#[doc(alias = "PodFailurePolicyAction")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// The failure does not count.
    Ignore,
    /// The index fails, whatever its limit.
    FailIndex,
    /// The failure counts, as without a rule.
    Count,
    /// The Job fails.
    FailJob,
}

impl Action {
    /// Its name in Kubernetes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::FailIndex => "FailIndex",
            Self::Count => "Count",
            Self::FailJob => "FailJob",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Ignore, Self::FailIndex, Self::Count, Self::FailJob].into_iter().find(|action| action.name() == name)
    }
}

/// Evaluates the policy for a failed Pod.
#[doc(alias = "matchPodFailurePolicy")]
pub(crate) fn evaluate(job: &Job, pod: &Pod) -> PolicyResult {
    let rules = job.spec.pod_failure_policy.as_ref().map_or(&[][..], |policy| &policy.rules);
    for (place, rule) in rules.iter().enumerate() {
        // Actions of a newer API server do not match.
        let Some(action) = Action::parse(&rule.action) else { continue };
        let Some(cause) = matches(rule, pod) else { continue };
        let message = || format!("{} matching {} rule at index {place}", cause.in_words(pod), rule.action);
        return PolicyResult {
            fails_job: (action == Action::FailJob).then(message),
            counts: action != Action::Ignore,
            action: Some(action),
        };
    }
    PolicyResult { fails_job: None, counts: true, action: None }
}

/// Why a rule matches a Pod.
enum Cause<'a> {
    /// A container, and its exit code.
    Exit(&'a str, i32),
    /// The type of a condition.
    Condition(&'a str),
}

impl Cause<'_> {
    fn in_words(&self, pod: &Pod) -> String {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        match self {
            Self::Exit(container, code) => {
                format!("Container {container} for pod {namespace}/{name} failed with exit code {code}")
            }
            Self::Condition(kind) => format!("Pod {namespace}/{name} has condition {kind}"),
        }
    }
}

/// The part of a Pod that matches the rule, if any.
#[doc(alias = "matchOnExitCodes", alias = "matchOnPodConditions", alias = "isOnExitCodesOperatorMatching")]
fn matches<'a>(rule: &Rule, pod: &'a Pod) -> Option<Cause<'a>> {
    if let Some(wanted) = &rule.on_exit_codes {
        let is_wanted = |code: i32| match wanted.operator.as_str() {
            "In" => wanted.values.contains(&code),
            "NotIn" => !wanted.values.contains(&code),
            _ => false,
        };
        let (container, code) = pods::failed_container(pod, wanted.container_name.as_deref(), is_wanted)?;
        return Some(Cause::Exit(container.name, code));
    }
    let wanted = &rule.on_pod_conditions;
    let condition = pod.status.conditions.iter().find(|condition| {
        wanted.iter().any(|wanted| wanted.type_ == condition.type_ && wanted.status == condition.status)
    })?;
    Some(Cause::Condition(&condition.type_))
}
