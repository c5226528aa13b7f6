//! `cargo xtask upstream VERSION`: updates the followed version of Kubernetes.
//!
//! *Flow*: control planes of both versions print their facts (`tests/controlplane/facts.go`); derived files are
//! written; the differences, and the changed sources of controllers, are listed for manual review.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use pintle_core::kubernetes;

use crate::{controlplane, embedded, process, root};

/// The only place that sets the version, relative to the root of the repository.
const VERSION: &str = "plugins/kubernetes-version";

/// The gates of kube-controller-manager.
const GATES: &str = "plugins/feature-gates.yaml";

/// Sources of kube-controller-manager; a folder of each controller is in the last ones.
const SOURCES: [&str; 5] = [
    "cmd/kube-controller-manager",
    "pkg/apis/core/v1/defaults.go",
    "pkg/quota",
    "pkg/controller",
    "plugin/pkg/auth/authorizer/rbac/bootstrappolicy",
];

/// Sets the followed version, writes the derived files, and returns the differences from `since` for manual review.
///
/// # Errors
/// The module proxy has no such version, a control plane cannot be built, or a file cannot be written.
pub fn follow(version: &str, since: &str) -> anyhow::Result<String> {
    for version in [version, since] {
        let is_number = |part: &str| part.parse::<u32>().is_ok();
        ensure!(
            version.split('.').count() == 3 && version.split('.').all(is_number),
            "{version:?} is not a version: write, for example, {}",
            kubernetes::VERSION
        );
    }
    let (before, after) = (facts(since)?, facts(version)?);
    write(VERSION, &format!("{version}\n"))?;
    let newest = kubernetes::minor_number(version).context("no minor version")?;
    let gates =
        gates(&after, newest, &fs::read_to_string(root().join(GATES)).with_context(|| format!("read {GATES}"))?)?;
    write(GATES, &gates)?;
    // A new process, because this one was compiled for the old version.
    process::run(process::cargo(&root()).args(["xtask", "generate", "bindings", "pages"]))?;

    let mut report = format!("# From {since} to {version}\n\n## Facts of kube-controller-manager\n\n");
    report += &difference(&before, &after);
    report += "\n## Sources, by folder: lines added and removed\n\n";
    report += &sources(&controlplane::sources(since)?, &controlplane::sources(version)?)?;
    report += &format!("\n## New kinds, whose flags are code in pkg/registry ({})\n\n", embedded::DISCOVERY);
    let mut git = Command::new("git");
    git.args(["diff", "--unified=0", "HEAD", "--", embedded::DISCOVERY]).current_dir(root());
    for line in process::output(&mut git)?.lines().filter(|line| line.starts_with('+') && !line.starts_with("++")) {
        report += &format!("{line}\n");
    }
    report += concat!(
        "\n## Then\n\n",
        "plugins/upstream.yaml and manifests: controllers, flags, gates and rights from the facts above\n",
        "host/metrics/src/table.rs: the test long::monitoring names metrics that differ\n",
        "texts that name the version: the test system::documentation names them\n",
        "cargo xtask record: kube-controller-manager's behaviour in every scenario\n",
    );
    Ok(report)
}

fn write(path: &str, text: &str) -> anyhow::Result<()> {
    fs::write(root().join(path), text).with_context(|| format!("write {path}"))
}

fn facts(version: &str) -> anyhow::Result<String> {
    let binary = controlplane::ensure_version(version).with_context(|| {
        format!("build the control plane of Kubernetes {version}; https://kubernetes.io/releases lists the releases")
    })?;
    process::output(Command::new(binary).arg("facts"))
}

/// The lines that only one side has, `-` and `+`, grouped by subject.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    let changed = old.symmetric_difference(&new).copied();
    let line = |line: &str| format!("{} {line}\n", if old.contains(line) { '-' } else { '+' });
    let mut lines: Vec<&str> = changed.collect();
    let subject = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    lines.sort_by_key(|line| (subject(line), !old.contains(line)));
    lines.into_iter().map(line).collect()
}

/// The changed folders below [`SOURCES`], without tests and generated code.
fn sources(before: &Path, after: &Path) -> anyhow::Result<String> {
    let mut changed: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for folder in SOURCES {
        let mut git = Command::new("git");
        git.args(["diff", "--no-index", "--no-renames", "--numstat"]).arg(before.join(folder)).arg(after.join(folder));
        // Its exit code is 1 if there are differences.
        let output = git.output().context("run git diff")?;
        ensure!(
            output.status.code().is_some_and(|code| code < 2),
            "git diff: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some((added, (removed, path))) =
                line.split_once('\t').and_then(|(added, rest)| Some((added, rest.split_once('\t')?)))
            else {
                continue;
            };
            let path = path.rsplit_once(folder).map_or(path, |(_, rest)| rest).trim_end_matches('}');
            if path.contains("_test.go") || path.contains("zz_generated") || path.contains("/config/") {
                continue;
            }
            let name = format!("{folder}{}", path.rsplit_once('/').map_or("", |(folder, _)| folder));
            let sum = changed.entry(name).or_default();
            sum.0 += added.parse::<u32>().unwrap_or_default();
            sum.1 += removed.parse::<u32>().unwrap_or_default();
        }
    }
    let line = |(folder, (added, removed)): (String, (u32, u32))| format!("+{added} -{removed}\t{folder}\n");
    Ok(changed.into_iter().map(line).collect())
}

/// The table of gates with those of the facts, of the minor version `newest`. The groups of `fixed` gates, and the
/// comments, stay unchanged.
fn gates(facts: &str, newest: u32, table: &str) -> anyhow::Result<String> {
    let mut groups: BTreeMap<(usize, bool, bool, Option<&str>), Vec<&str>> = BTreeMap::new();
    const STAGES: [&str; 4] = ["alpha", "beta", "ga", "deprecated"];
    let (header, rest) = table.split_once("- stage").context("the table of gates has no group")?;
    let own = rest.lines().position(|line| line.starts_with('#')).context("the table of gates has no fixed group")?;
    let fixed: Vec<&str> = rest.lines().skip(own).collect();
    let is_fixed = |name: &str| fixed.iter().any(|line| line.trim_start().strip_prefix("- ") == Some(name));
    let mut known = BTreeSet::new();
    for fact in facts.lines().filter_map(|line| line.strip_prefix("gate ")) {
        let words: Vec<&str> = fact.split(' ').collect();
        let [name, stage, default, locked, since] = words.as_slice() else { anyhow::bail!("the fact {fact:?}") };
        let stage = STAGES.iter().position(|known| known == stage).with_context(|| format!("the stage of {fact:?}"))?;
        known.insert(*name);
        if !is_fixed(name) && !["AllAlpha", "AllBeta"].contains(name) {
            let since = Some(*since)
                .filter(|since| kubernetes::minor_number(since) > Some(newest.saturating_sub(kubernetes::EMULATED)));
            groups.entry((stage, *default == "true", *locked == "true", since)).or_default().push(name);
        }
    }
    let mut text = header.to_owned();
    for ((stage, default, locked, since), names) in groups {
        text += &format!("- stage: {}\n  default: {default}\n", STAGES[stage]);
        if locked {
            text += "  locked: true\n";
        }
        if let Some(since) = since {
            text += &format!("  since: '{since}'\n");
        }
        text += "  gates:\n";
        text.extend(names.iter().map(|name| format!("    - {name}\n")));
    }
    for line in fixed {
        // A gate that upstream no longer has.
        if line.strip_prefix("    - ").is_none_or(|name| known.contains(name)) {
            text += line;
            text.push('\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gates_of_upstream_replace_the_others_and_fixed_ones_stay() -> anyhow::Result<()> {
        let table = "# Comment.\n\n- stage: alpha\n  default: false\n  gates:\n    - Gone\n# Why.\n- stage: beta\n  default: true\n  fixed: true\n  gates:\n    - Fixed\n    - Left\n";
        let facts = "flag --a int \"1\"\ngate AllBeta beta false false 0.0\ngate Fixed beta true false 1.30\ngate Allow ga true true 1.34\ngate New alpha false false 1.35\n";
        let expected = "# Comment.\n\n- stage: alpha\n  default: false\n  since: '1.35'\n  gates:\n    - New\n- stage: ga\n  default: true\n  locked: true\n  gates:\n    - Allow\n# Why.\n- stage: beta\n  default: true\n  fixed: true\n  gates:\n    - Fixed\n";
        assert_eq!(gates(facts, 37, table)?, expected);
        Ok(())
    }

    #[test]
    fn a_change_is_beside_what_it_replaces() {
        let before = "flag --a int \"2\"\ngate A alpha false false\ngate B alpha false false\n";
        let after = "flag --a int \"1\"\ngate B alpha false false\ngate C beta true false\n";
        let expected =
            "- flag --a int \"2\"\n+ flag --a int \"1\"\n- gate A alpha false false\n+ gate C beta true false\n";
        assert_eq!(difference(before, after), expected);
    }
}
