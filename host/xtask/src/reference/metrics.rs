//! The page about metrics, generated from the host's definitions and the manifests of the built-in controllers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pintle_core::contract::manifest::{Manifest, Metric, MetricType};
use pintle_core::kubernetes;
use pintle_metrics::{ALL, MAX_KINDS, MetricInfo, MetricKind, NOT_SERVED, Origin};

use super::{cell, code};

const HEAD: &str = "# Metrics

Every metric that a host serves at [`/metrics`](serving.md). A metric appears when it has its first value.
[Monitoring](monitoring.md) has the dashboard and the alerts.

This page is generated from the host's definitions and the manifests of the built-in controllers: `cargo xtask generate pages`.
";

const PLUGINS: &str = "
## Metrics of plugins

Plugins declare metrics in their [manifests](../../sdk/docs/manifest.md#metric). The built-in controllers have those of their counterparts in kube-controller-manager:
";

const BOUNDS: &str = "
## How many series there are

The series of a plugin and of its queues end when it is unloaded, and those of a version when another one takes its place.
";

const MISSING: &str = "
## Not served

Metrics of kube-controller-manager {minor} that a host does not have, for the controllers that Pintle has:

| metric | reason |
| --- | --- |
";

/// The sections about the host, with an introduction.
const SECTIONS: [(Origin, &str, &str); 4] = [
    (
        Origin::Kubernetes,
        "As in kube-controller-manager",
        "Names, types, labels and buckets are the same. The label `name` of a queue is that of the controller's queue there. `manager` is `pintle`.",
    ),
    (Origin::ControllerRuntime, "As in controller-runtime", "The label `controller` is the plugin's name."),
    (Origin::Process, "The process", "As of every program with a client library of Prometheus."),
    (
        Origin::Pintle,
        "Pintle's own",
        "The label `plugin` is the plugin's name; events of the host itself have `pintle`. `kind` is `GROUP/VERSION/KIND`.",
    ),
];

/// Writing to a String does not fail, so results are dropped here.
pub(super) fn page(plugins: &[Manifest]) -> String {
    let mut page = HEAD.to_owned();
    for (origin, title, about) in SECTIONS {
        let _ = write!(
            page,
            "\n## {title}\n\n{about}\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
        );
        for info in ALL.iter().filter(|info| info.origin == origin) {
            let MetricInfo { name, kind, labels, help, .. } = info;
            let kind = match kind {
                MetricKind::Histogram(buckets) => histogram(buckets),
                MetricKind::Counter | MetricKind::Gauge => kind.as_str().to_owned(),
            };
            let _ = writeln!(page, "| `{name}` | {kind} | {} | {}. |", code(labels), cell(help));
        }
    }
    page.push_str(PLUGINS);
    page.push_str("\n| metric | type | labels | controllers | meaning |\n| --- | --- | --- | --- | --- |\n");
    for (name, (metric, declaring)) in declared(plugins) {
        let Metric { help, kind, labels, buckets, .. } = metric;
        let kind = match kind {
            MetricType::Counter => "counter".to_owned(),
            MetricType::Gauge if metric.per.is_some() => "gauge, sum of the keys".to_owned(),
            MetricType::Gauge => "gauge".to_owned(),
            MetricType::Histogram => histogram(buckets),
        };
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let declaring = code(&declaring);
        let _ = writeln!(page, "| `{name}` | {kind} | {} | {declaring} | {} |", code(&labels), cell(help.trim()));
    }
    page.push_str(BOUNDS);
    let _ = writeln!(
        page,
        "At most {MAX_KINDS} kinds have separate series in a metric (with the label `plugin`: of each plugin); further ones are counted as `other`.\nEach metric that a plugin declares has at most 1,000 series, all of them twice as many, and 1 KiB of text for each on average; `limits.series` of its manifest asks for up to 20,000, and `--max-limits series=NUMBER` bounds that.\nWhat finds no room is dropped, and counted in `pintle_dropped_samples_total`.\nQueues with the same label `name`, of one controller or of several, have the same series: depth and unfinished work are sums, the longest run is that of any."
    );
    page.push_str(&kubernetes::filled(MISSING));
    for missing in NOT_SERVED {
        let _ = writeln!(page, "| `{}` | {} |", missing.name, cell(missing.reason));
    }
    page
}

/// Metrics of manifests, each with the plugins that declare it.
fn declared(plugins: &[Manifest]) -> BTreeMap<&str, (&Metric, Vec<&str>)> {
    let mut declared: BTreeMap<&str, (&Metric, Vec<&str>)> = BTreeMap::new();
    for manifest in plugins {
        for metric in &manifest.metrics {
            declared.entry(&metric.name).or_insert((metric, Vec::new())).1.push(&manifest.name);
        }
    }
    declared
}

/// `histogram, 0.005 to 60`.
fn histogram(buckets: &[f64]) -> String {
    match buckets {
        [first, .., last] => format!("histogram, {} buckets from {} to {}", buckets.len(), short(*first), short(*last)),
        _ => "histogram".to_owned(),
    }
}

fn short(number: f64) -> String {
    if number < 1e-4 { format!("{number:e}") } else { number.to_string() }
}
