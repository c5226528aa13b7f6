//! The page about controllers, and parts of other pages about them, generated from upstream's list and the manifests of
//! the built-in ones.

use std::fmt::Write as _;

use pintle_core::contract::manifest::{Flag, Grant, Manifest, Watch};
use pintle_core::kubernetes;

use super::{cell, code};
use crate::upstream::{Entry, Upstream};

const HEAD: &str = "# Controllers

What each built-in controller does, watches and writes, its flags, and what carries the controllers that are not built in yet.

This page is generated from the manifests of the controllers and `plugins/upstream.yaml`: `cargo xtask generate pages`.
";

const OVERVIEW: &str = "
## Overview

The controllers of kube-controller-manager {minor}.
Their full names end in `-controller`.
";

const BUILT_IN: &str = "
`pintle run` starts all that run by default; `--controllers` chooses. It and `pintle plugin` also accept the other names.
`pintle version` lists what a binary contains. [Recorded scenarios](../../tests/README.md) compare the controllers with those of kube-controller-manager.

Names, meanings and defaults of flags are those of kube-controller-manager; [what all controllers share](reference.md#flags-of-kube-controller-manager). A flag is also a field of [the configuration file](configuration.md).
";

const MISSING: &str = "
## Not built in yet

Of each other controller of kube-controller-manager {version}, and of the four of the cloud controller manager: its hard part, and the parts of contract 0.2 and of the manifest that carry it.
A name in the last column is a guest of a page in `tests/guests/shape-*`, which has the shape of that hard part and runs under `pintle test`.
Modules are those of [`plugins/lib`](../../plugins/lib/src/lib.rs); fields are in [the manifest](../../sdk/docs/manifest.md), types in [the contract](../../sdk/docs/contract.md).

All of them take their workers, periods and switches from flags and feature gates: settings with `flags` and `featureGates`, and numbers of the manifest that are `{config: SETTING}`. The tables name that only where it is the hard part.
";

const NEEDS_FLAGS: &str = "\n(\\*) runs upstream only with certain flags, such as files of keys.\n";

/// Read-only verbs.
const READS: [&str; 3] = ["get", "list", "watch"];

/// The page. Writing to a String does not fail, so results are dropped here.
pub(super) fn page(upstream: &Upstream, built: &[Manifest]) -> String {
    let mut page = HEAD.to_owned();
    let _ = write!(page, "{}\n{}\n", kubernetes::filled(OVERVIEW), overview(upstream, built).trim_end());
    let _ = write!(page, "\n## Built in\n\n{}\n{BUILT_IN}", status(upstream, built).trim_end());
    let listed = upstream.with(built);
    for (manifest, _) in listed.iter().flat_map(|area| area.built()) {
        about(&mut page, manifest);
    }
    page.push_str(&kubernetes::filled(MISSING));
    for area in &listed {
        let rows: Vec<String> = area.missing().map(row_of_missing).collect();
        if !rows.is_empty() {
            let _ = writeln!(page, "\n### {}\n", capitalised(area.area));
            let _ = writeln!(page, "| controller | hard part | carried by | shape |\n| --- | --- | --- | --- |");
            page.extend(rows);
        }
    }
    page
}

/// A sentence with the number of controllers, in one line.
pub(super) fn status(upstream: &Upstream, built: &[Manifest]) -> String {
    let count = upstream.count(built);
    format!("{} of {} controllers of kube-controller-manager are built in.\n", count.built, count.all)
}

/// The table of all controllers, by area, with short names.
pub(super) fn overview(upstream: &Upstream, built: &[Manifest]) -> String {
    let mut table =
        "| area | built in | not yet | not yet, and off by default upstream |\n| --- | --- | --- | --- |\n".to_owned();
    let mut needs_flags = false;
    for area in upstream.with(built) {
        let built: Vec<String> =
            area.built().map(|(manifest, is_off_upstream)| name_of_built(manifest, is_off_upstream)).collect();
        if area.cloud_providers && built.is_empty() {
            continue;
        }
        let missing = |is_off: bool| {
            let names = area.missing().filter(|entry| entry.off_by_default == is_off && !area.cloud_providers);
            names.map(name_of_missing).collect::<Vec<_>>().join(", ")
        };
        needs_flags |= area.missing().any(|entry| entry.needs_flags);
        let _ = writeln!(table, "| {} | {} | {} | {} |", area.area, built.join(", "), missing(false), missing(true));
    }
    if needs_flags {
        table.push_str(NEEDS_FLAGS);
    }
    table
}

/// The effects of missing controllers in a cluster.
pub(super) fn effects(upstream: &Upstream, built: &[Manifest]) -> String {
    let mut table = "| missing | what does not happen | kinds with a warning |\n| --- | --- | --- |\n".to_owned();
    let listed = upstream.with(built);
    for entry in listed.iter().flat_map(|area| area.missing()).filter(|entry| !entry.without.is_empty()) {
        let kinds: Vec<String> = entry.reconciles.iter().map(ToString::to_string).collect();
        let _ = writeln!(table, "| `{}` | {} | {} |", entry.name, cell(&entry.without), code(&kinds));
    }
    table
}

fn short(name: &str) -> &str {
    name.strip_suffix("-controller").unwrap_or(name)
}

fn name_of_built(manifest: &Manifest, is_off_upstream: bool) -> String {
    let note = match (is_off(manifest), is_off_upstream) {
        (true, true) => " (off by default, as upstream)",
        (true, false) => " (off by default)",
        (false, _) => "",
    };
    format!("`{}`{note}", short(&manifest.name))
}

/// Whether the controller starts only on request.
fn is_off(manifest: &Manifest) -> bool {
    manifest.built_in.as_ref().is_some_and(|section| {
        !section.on_by_default || section.feature_gates.iter().any(|gate| gate.sets.runs && !gate.default)
    })
}

fn name_of_missing(entry: &Entry) -> String {
    format!("`{}`{}", short(&entry.name), if entry.needs_flags { " (\\*)" } else { "" })
}

fn row_of_missing(entry: &Entry) -> String {
    let shape = if entry.shape.is_empty() { String::new() } else { format!("`{}`", entry.shape) };
    let off = if entry.off_by_default { "; off by default" } else { "" };
    format!("| `{}` | {}{off} | {} | {shape} |\n", short(&entry.name), cell(&entry.hard_part), cell(&entry.carried_by))
}

/// The section of one built-in controller.
fn about(page: &mut String, manifest: &Manifest) {
    let section = manifest.built_in.clone().unwrap_or_default();
    let conditions = section.start_conditions();
    let runs = if conditions.is_empty() { "by default".to_owned() } else { conditions.join("; ") };
    let watches: Vec<String> = manifest.watches.iter().map(watched).collect();
    let mut writes: Vec<String> = manifest.grants.iter().filter_map(written).collect();
    writes.extend(manifest.events.then(|| "Events".to_owned()));
    let gates: Vec<String> = section
        .feature_gates
        .iter()
        .map(|gate| format!("`{}` ({})", gate.name, if gate.default { "on" } else { "off" }))
        .collect();
    let _ = writeln!(page, "\n### {}\n\n{}\n\n| | |\n| --- | --- |", manifest.name, cell(&manifest.description));
    let rows = [
        ("other names", code(&manifest.aliases)),
        ("runs", runs),
        ("watches", watches.join(", ")),
        ("may write", writes.join("; ")),
        ("feature gates", gates.join(", ")),
    ];
    for (title, text) in rows.iter().filter(|(_, text)| !text.is_empty()) {
        let _ = writeln!(page, "| {title} | {text} |");
    }
    if !section.flags.is_empty() {
        let _ = writeln!(page, "\n| flag | type | default | |\n| --- | --- | --- | --- |");
        page.extend(section.flags.iter().map(row_of_flag));
    }
}

fn row_of_flag(flag: &Flag) -> String {
    let kind = serde_json::to_value(flag.kind).unwrap_or_default();
    let default = match &flag.default {
        None => String::new(),
        Some(serde_json::Value::String(text)) => format!("`{text}`"),
        Some(other) => format!("`{other}`"),
    };
    format!(
        "| `--{}` | {} | {default} | {} |\n",
        flag.name,
        kind.as_str().unwrap_or_default(),
        cell(&flag.help).replace('<', "&lt;")
    )
}

fn watched(watch: &Watch) -> String {
    match (&watch.kind, &watch.every) {
        (Some(kind), _) => format!("`{kind}`"),
        (None, Some(every)) if !every.verbs.is_empty() => format!("every kind with {}", code(&every.verbs)),
        (None, _) => "every kind".to_owned(),
    }
}

/// The verbs and kinds of a grant that writes.
fn written(grant: &Grant) -> Option<String> {
    let verbs: Vec<&str> = grant.verbs.iter().map(String::as_str).filter(|verb| !READS.contains(verb)).collect();
    if verbs.is_empty() {
        return None;
    }
    let of_kind = |kind: &String| match &grant.subresources[..] {
        [] => vec![kind.clone()],
        parts => parts.iter().map(|part| format!("{kind}/{part}")).collect(),
    };
    let kinds: Vec<String> = grant.kinds.iter().flat_map(of_kind).collect();
    Some(format!("{} {}", verbs.join(", "), code(&kinds)))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "
areas:
  - name: workloads
    controllers:
      - {name: web-controller, aliases: [web], hardPart: easy, carriedBy: '`every`', without: nothing happens, reconciles: [v1/Service], needsFlags: true}
      - {name: off-controller, offByDefault: true, hardPart: two | three, carriedBy: '`tickMs`', shape: off}
  - {name: clouds, cloudProviders: true, controllers: [{name: cloud-controller, hardPart: calls, carriedBy: '`call`'}]}
flags: []
";

    fn list() -> Upstream {
        serde_norway::from_str(LIST).unwrap()
    }

    fn manifest(name: &str, section: &str) -> Manifest {
        let yaml = format!(
            "{{name: {name}, version: '1', contract: '0.2', description: Keeps them., aliases: [one, two], queues: [{{name: q}}],
              watches: [{{kind: v1/Pod, enqueue: [{{to: self}}]}}, {{every: {{verbs: [delete]}}, enqueue: [{{to: self}}]}}],
              grants: [{{verbs: [get, update], kinds: [v1/Pod], subresources: [status, scale]}}, {{verbs: [get], kinds: [v1/Node]}}],
              builtIn: {section}}}"
        );
        let json: serde_json::Value = serde_norway::from_str(&yaml).unwrap();
        Manifest::parse(json.to_string().as_bytes()).unwrap()
    }

    fn rows(text: &str) -> Vec<&str> {
        text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| -")).skip(1).collect()
    }

    #[test]
    fn a_manifest_moves_its_controller_to_those_that_are_built() {
        assert_eq!(rows(&overview(&list(), &[])), ["| workloads |  | `web` (\\*) | `off` |"]);
        assert!(overview(&list(), &[]).ends_with(NEEDS_FLAGS));
        assert_eq!(status(&list(), &[]), "0 of 2 controllers of kube-controller-manager are built in.\n");
        assert_eq!(rows(&effects(&list(), &[])), ["| `web-controller` | nothing happens | `v1/Service` |"]);

        let built = [manifest("web-controller", "{}"), manifest("off-controller", "{onByDefault: false}")];
        assert_eq!(
            rows(&overview(&list(), &built)),
            ["| workloads | `web`, `off` (off by default, as upstream) |  |  |"]
        );
        assert!(!overview(&list(), &built).contains("(\\*)"));
        assert_eq!(status(&list(), &built), "2 of 2 controllers of kube-controller-manager are built in.\n");
        assert!(rows(&effects(&list(), &built)).is_empty());
    }

    #[test]
    fn a_manifest_that_upstream_does_not_have_is_in_an_area_of_its_own() {
        let gates = "{featureGates: [{name: Robots, default: false, sets: {runs: true}}]}";
        let built = [manifest("robots-controller", gates), manifest("cloud-controller", "{}")];
        assert_eq!(
            rows(&overview(&list(), &built)),
            [
                "| workloads |  | `web` (\\*) | `off` |",
                "| clouds | `cloud` |  |  |",
                "| other | `robots` (off by default) |  |  |"
            ]
        );
        assert_eq!(list().count(&built).built, 0, "neither is one that kube-controller-manager runs");
    }

    #[test]
    fn the_page_has_what_a_manifest_declares_and_the_hard_parts_of_the_others() {
        let flags = "{onByDefault: false, flags: [{name: web-syncs, type: int32, default: 5, minimum: 1, help: 'Less <more>.', sets: {concurrency: [q]}}]}";
        let page = page(&list(), &[manifest("web-controller", flags)]);
        let (_, section) = page.split_once("\n### web-controller\n").unwrap();
        let (section, missing) = section.split_once("\n## Not built in yet\n").unwrap();
        assert!(section.starts_with("\nKeeps them.\n"), "{section}");
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ") && !line.contains("---")).collect();
        assert_eq!(
            rows,
            [
                "| | |",
                "| other names | `one`, `two` |",
                "| runs | off by default: --controllers has to name it |",
                "| watches | `v1/Pod`, every kind with `delete` |",
                "| may write | update `v1/Pod/status`, `v1/Pod/scale`; Events |",
                "| flag | type | default | |",
                "| `--web-syncs` | int32 | `5` | Less &lt;more>. |",
            ]
        );
        assert!(!missing.contains("`web`"), "{missing}");
        for row in [
            "| `off` | two \\| three; off by default | `tickMs` | `off` |",
            "### Clouds",
            "| `cloud` | calls | `call` |  |",
        ] {
            assert!(missing.contains(row), "{row}: {missing}");
        }
    }
}
