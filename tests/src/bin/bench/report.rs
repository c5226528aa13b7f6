//! Samples, their medians, and the files and tables of them.

use anyhow::{Context, Result};
use pintle_tests::target_dir;
use serde_json::{Value, json};

use crate::rounds::Samples;

/// Who creates the Pods.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Implementation {
    Pintle,
    /// The build of `--before`.
    Before,
    KubeControllerManager,
    Bare,
}

impl Implementation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pintle => "pintle",
            Self::Before => "pintle (before)",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Bare => "bare",
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) pods_per_second: f64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_bytes: f64,
    /// Of the subject, to the objects that the scenario is about.
    pub(crate) writes: f64,
}

/// Writes records into the folder of results.
pub(crate) fn write(name: &str, records: &[Value]) -> Result<()> {
    let folder = target_dir().join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let file = folder.join(name);
    std::fs::write(&file, serde_json::to_string_pretty(records)? + "\n")
        .with_context(|| format!("write {}", file.display()))?;
    println!("\nwritten to {}", file.display());
    Ok(())
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Prints medians and writes them to a file. Of each scenario: its name, and what its rate counts.
pub(crate) fn report(samples: &Samples, scenarios: &[(&str, &str)], file: &str) -> Result<()> {
    let mut records = Vec::new();
    println!(
        "{:<20} {:<24} {:>21} {:>7} {:>7} {:>7} {:>9} {:>7} {:>9} {:>7} {:>7} {:>7}",
        "scenario",
        "implementation",
        "per second",
        "ratio",
        "seconds",
        "ratio",
        "CPU s",
        "ratio",
        "MiB",
        "ratio",
        "writes",
        "ratio"
    );
    for ((place, implementation), all) in samples {
        let of = |field: fn(&Sample) -> f64| median(all.iter().map(field).collect());
        let fields: [fn(&Sample) -> f64; 5] =
            [|s| s.pods_per_second, |s| s.seconds, |s| s.cpu_seconds, |s| s.rss_bytes, |s| s.writes];
        let [rate, seconds, cpu, rss, writes] = fields.map(of);
        let reference = samples.get(&(*place, Implementation::KubeControllerManager));
        let ratio = |field: fn(&Sample) -> f64, value: f64| {
            let base = reference.map_or(0.0, |all| median(all.iter().map(field).collect()));
            if base > 0.0 && value > 0.0 { format!("{:.2}x", value / base) } else { String::new() }
        };
        let (name, unit) = scenarios[*place];
        println!(
            "{name:<20} {:<24} {rate:>8.0} {unit:<12} {:>7} {seconds:>7.1} {:>7} {cpu:>9.2} {:>7} {:>9.1} {:>7} \
             {:>7} {:>7}",
            implementation.name(),
            ratio(fields[0], rate),
            ratio(fields[1], seconds),
            ratio(fields[2], cpu),
            rss / f64::from(1 << 20),
            ratio(fields[3], rss),
            if writes > 0.0 { format!("{writes:.0}") } else { String::new() },
            ratio(fields[4], writes),
        );
        records.push(json!({
            "scenario": name, "implementation": implementation.name(), "unit": unit,
            "pods_per_second": rate, "seconds": seconds, "cpu_seconds": cpu, "rss_bytes": rss as u64,
            "writes": writes as u64,
        }));
    }
    println!("\nratios are to kube-controller-manager");
    write(file, &records)
}
