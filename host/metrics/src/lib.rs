//! The metrics of a host: names, types, labels, buckets, and descriptions.
//!
//! *Flow*: `pintle-runtime` creates its metrics from these definitions, so that names and labels are defined once;
//! `cargo xtask generate pages` documents them in `host/docs/metrics.md`; a test compares them with the metrics of a
//! host and of kube-controller-manager.
//!
//! *Invariant*: the values of every label are bounded: by the host's code, by the loaded plugins, or, for kinds, by
//! [`MAX_KINDS`].
//!
//! Not here: metrics in the manifests of plugins, which the host records from the samples of their runs.

mod disabled;
mod table;

pub use disabled::without;
pub use table::*;

/// Most kinds in the label `kind` of one metric, for each plugin if it has the label `plugin`. Further ones are
/// [`OTHER`], so that users who may create CustomResourceDefinitions cannot create an unbounded number of series.
pub const MAX_KINDS: usize = 200;
/// The value of the label `kind` beyond [`MAX_KINDS`].
pub const OTHER: &str = "other";

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Only increases.
    Counter,
    /// An arbitrary number.
    Gauge,
    /// Observations by upper bounds of buckets.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// The word in `# TYPE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// Origin of a metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// kube-controller-manager's, with its labels and buckets.
    Kubernetes,
    /// controller-runtime's.
    ControllerRuntime,
    /// The process metrics of Prometheus' client libraries.
    Process,
    /// The host's own.
    Pintle,
}

/// Facts about a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricInfo {
    /// Its name, with `_total` if it is a counter.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Origin of its name.
    pub origin: Origin,
    /// Its description, without a final period.
    pub help: &'static str,
}

/// A metric with `N` labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricDef<const N: usize> {
    /// Facts about it.
    pub info: MetricInfo,
    /// Its labels.
    pub labels: [&'static str; N],
}

/// A metric of kube-controller-manager that a host does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotServed {
    /// Its name; `*` at the end matches any continuation.
    pub name: &'static str,
    /// The reason, and the alternative.
    pub reason: &'static str,
}

impl NotServed {
    /// Whether it matches a metric's name.
    pub fn matches(&self, name: &str) -> bool {
        match (self.name.strip_suffix('*'), self.name.strip_prefix('*')) {
            (Some(start), _) => name.starts_with(start),
            (_, Some(end)) => name.ends_with(end),
            _ => self.name == name,
        }
    }
}

/// Whether plugins must not declare a metric with this name, because the host has one, or may have one later.
pub fn is_reserved(name: &str) -> bool {
    [
        "workqueue_",
        "controller_runtime_",
        "pintle_",
        "rest_client_",
        "leader_election_",
        "process_",
        "kubernetes_",
        "go_",
    ]
    .iter()
    .any(|own| name.starts_with(own))
        || ALL.iter().any(|info| name.starts_with(info.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_labels_follow_the_conventions_of_prometheus() {
        let mut names = BTreeSet::new();
        for info in ALL {
            assert!(names.insert(info.name), "{} is there twice", info.name);
            assert_eq!(info.name.ends_with("_total"), info.kind == MetricKind::Counter, "{}", info.name);
            assert!(!info.help.is_empty() && !info.help.ends_with('.') && !info.help.contains('\n'), "{}", info.name);
            let is_own = info.name.starts_with("pintle_");
            assert_eq!(is_own, info.origin == Origin::Pintle, "{}", info.name);
            if let MetricKind::Histogram(buckets) = info.kind {
                assert!(buckets.is_sorted() && !buckets.is_empty(), "{}", info.name);
                let unit = ["_seconds", "_bytes", "_ratio"].iter().any(|unit| info.name.ends_with(unit));
                assert!(unit, "{} names no unit", info.name);
            }
            assert!(is_reserved(info.name), "{}", info.name);
        }
    }

    #[test]
    fn what_is_served_is_not_listed_as_missing() {
        for missing in NOT_SERVED {
            let served = ALL.iter().find(|info| missing.matches(info.name));
            assert_eq!(served, None, "{}", missing.name);
        }
    }

    #[test]
    fn plugins_may_declare_names_that_the_host_does_not_use() {
        assert!(!is_reserved("widgets_total") && !is_reserved("replicaset_controller_sorting_deletion_age_ratio"));
        for name in ["running_managed_controllers", "process_open_fds", "leader_election_x", "pintle_x"] {
            assert!(is_reserved(name), "{name}");
        }
    }
}
