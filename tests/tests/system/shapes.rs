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
use xtask::upstream::{Entry, Upstream, built_in};

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

/// Whether this is something of the contract, of the manifest, of the SDK or of the library of the controllers.
fn is_part(part: &str, contract: &str, schema: &str) -> bool {
    let sdk = workspace_dir().join("sdk/rust/src");
    let is_method = part.strip_prefix("Outcome::").is_some_and(|method| {
        fs::read_to_string(sdk.join("outcome.rs")).is_ok_and(|text| text.contains(&format!("pub fn {method}(")))
    });
    is_method
        || [sdk, workspace_dir().join("plugins/lib/src")]
            .iter()
            .any(|modules| modules.join(format!("{part}.rs")).exists() || modules.join(part).join("mod.rs").exists())
        || contract.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == part)
        || schema.contains(&format!("\"{part}\""))
        || ["status", "approval"].contains(&part)
}

#[test]
fn the_list_of_controllers_names_what_carries_each_one_that_is_not_built_yet() -> Result<()> {
    let (list, built) = (Upstream::read()?, built_in()?);
    let contract = fs::read_to_string(workspace_dir().join("wit/controller.wit"))?;
    let schema = manifest::schema().to_string();
    let listed = list.with(&built);
    let missing: Vec<&Entry> = listed.iter().flat_map(|area| area.missing()).collect();
    for Entry { name, hard_part, carried_by, shape, .. } in &missing {
        ensure!(!hard_part.is_empty() && !carried_by.is_empty(), "{name}: what is hard, and what carries it?");
        for part in carried_by.split('`').skip(1).step_by(2) {
            ensure!(
                is_part(part, &contract, &schema),
                "{name}: {part} is not of the contract, the manifest, the SDK or the library"
            );
        }
        ensure!(shape.is_empty() || SHAPES.contains(&&**shape), "{name}: there is no guest shape-{shape}");
    }
    let shapes: BTreeSet<&str> = list.controllers().map(|entry| &*entry.shape).collect();
    let unused: Vec<&str> = SHAPES.into_iter().filter(|shape| !shapes.contains(shape)).collect();
    ensure!(unused.is_empty(), "guests of no controller: {unused:?}");
    let clouds = list.areas.iter().filter(|area| area.cloud_providers).flat_map(|area| &area.controllers);
    let clouds: Vec<&str> = clouds.filter_map(|entry| entry.name.strip_suffix("-controller")).collect();
    assert_eq!(clouds, OF_CLOUDS);
    println!("{} controllers, {} shapes", missing.len(), SHAPES.len());
    Ok(())
}
