//! The hardest controllers of kube-controller-manager that are not built yet, each as a guest of a page (`tests/guests/shape-*`) that has
//! the shape of its hard part: the contract carries it, under the limits and grants of `pintle test`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pintle_core::contract::manifest;
use pintle_tests::languages::pintle;
use pintle_tests::{components, workspace_dir};
use serde_json::Value;
use xtask::guests::Set;

use crate::documentation;

/// A page, as an editor shows it on two screens.
const MAX_LINES: usize = 200;

const SHAPES: [&str; 7] = [
    "endpointslice",
    "node-lifecycle",
    "taint-eviction",
    "node-ipam",
    "resourcequota",
    "persistentvolume-binder",
    "certificate-signing",
];

#[test]
fn the_contract_carries_the_shape_of_each_hard_controller() -> Result<()> {
    let built = components::built(Set::TestGuests)?;
    println!("{:28} {:>5} {:>5} {:>7} {:>4}", "shape", "lines", "cases", "settled", "KiB");
    for shape in SHAPES {
        let name = format!("shape-{shape}");
        let folder = workspace_dir().join("tests/guests").join(&name);
        let n_lines = fs::read_to_string(folder.join("src/lib.rs"))?.lines().count();
        ensure!(n_lines <= MAX_LINES, "{name} has {n_lines} lines, which is more than a page");
        let component = built.iter().find(|component| component.name == name);
        let component = &component.with_context(|| format!("no component of {name}"))?.path;
        let (n_cases, n_settled) = pass(component, &folder.join("cases"))?;
        let kib = fs::metadata(component)?.len() >> 10;
        println!("{shape:28} {n_lines:>5} {n_cases:>5} {n_settled:>7} {kib:>4}");
    }
    Ok(())
}

/// Runs the cases; answers how many there are, and how many of them are carried out to their end.
fn pass(component: &Path, cases: &Path) -> Result<(usize, usize)> {
    let answer = pintle(&["test".as_ref(), component, "--cases".as_ref(), cases, "-o".as_ref(), "json".as_ref()])?;
    let answer: Value = serde_json::from_str(&answer)?;
    let ran = answer["cases"].as_array().context("no cases")?;
    let n_files = fs::read_dir(cases)?.count();
    ensure!(ran.len() == n_files && n_files >= 3, "{}: {} of {n_files} cases", cases.display(), ran.len());
    for case in ran {
        ensure!(case["ok"] == true, "{}: {case}", cases.display());
    }
    let is_carried_out = |file: &fs::DirEntry| {
        fs::read_to_string(file.path()).is_ok_and(|text| text.lines().any(|line| line.starts_with("settle:")))
    };
    let n_settled = fs::read_dir(cases)?.filter_map(Result::ok).filter(is_carried_out).count();
    Ok((n_files, n_settled))
}

/// The controllers of the cloud controller manager (`k8s.io/cloud-provider/names`).
const OF_CLOUDS: [&str; 4] = ["cloud-node", "cloud-node-lifecycle", "node-route", "service-lb"];

#[test]
fn the_page_names_what_carries_each_controller_that_is_not_built_yet() -> Result<()> {
    let root = workspace_dir();
    let [_, on, off] = documentation::table(&fs::read_to_string(root.join("README.md"))?)?;
    let mut missing: BTreeSet<String> = on.union(&off).cloned().collect();
    missing.extend(OF_CLOUDS.map(|name| format!("{name}-controller")));
    // A part is something of the contract, of the manifest or of the SDK.
    let contract = fs::read_to_string(root.join("wit/controller.wit"))?;
    let schema = manifest::schema().to_string();
    let is_part = |part: &str| {
        let module = |file: &str| root.join("sdk/rust/src").join(file).exists();
        let method = part.strip_prefix("Outcome::").is_some_and(|method| {
            fs::read_to_string(root.join("sdk/rust/src/outcome.rs"))
                .is_ok_and(|text| text.contains(&format!("pub fn {method}(")))
        });
        method
            || module(&format!("{part}.rs"))
            || module(&format!("{part}/mod.rs"))
            || contract.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == part)
            || schema.contains(&format!("\"{part}\""))
            || ["status", "approval"].contains(&part)
    };

    let page = fs::read_to_string(root.join("plugins/REMAINING.md"))?;
    let (mut n_rows, mut shapes) = (0, BTreeSet::new());
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let [_, name, _, parts, shape, _] = row.split('|').collect::<Vec<_>>()[..] else {
            anyhow::bail!("{row}: four columns are needed");
        };
        let codes = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let name = codes(name).pop().context("no name")?;
        ensure!(missing.remove(&format!("{name}-controller")), "{name} is built in, unknown, or there twice");
        for part in codes(parts) {
            ensure!(is_part(&part), "{name}: {part} is not of the contract, the manifest or the SDK");
        }
        shapes.extend(codes(shape));
        n_rows += 1;
    }
    ensure!(missing.is_empty(), "without a row: {missing:?}");
    assert_eq!(shapes, SHAPES.map(str::to_owned).into());
    println!("{n_rows} controllers, {} shapes", shapes.len());
    Ok(())
}
