//! One controller in every language: the same mutations, also after thousands of runs on one instance; and what each language costs.
//!
//! And in Rust and Go, the same sources give the same bytes.
//!
//! The tables are printed: `cargo test --workspace --test long languages:: -- --nocapture`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use pintle_tests::authors;
use pintle_tests::languages::{Built, build, built, errands, pintle, test};
use pintle_tests::pintle::{Answer, binary, command};
use pintle_tests::{TestCluster, components, target_dir, workspace_dir};
use pintle_wasm::{WasmConfig, WasmEngine};
use serde_json::{Value, json};

/// Runs on one instance: enough for every language's collector to work many times.
const N_RUNS: u32 = 2_000;

/// How many children a WebApp has in the table of costs, and how many runs the medians are of.
const N_CHILDREN: [(usize, &str); 2] = [(10, "100"), (1_000, "20")];

/// Memory that an instance may gain between the first run of each case and the last of all, beyond a doubling: what a collector
/// leaves for later is no leak, but a leak of one object in each run is more.
const GROWTH_BYTES: u64 = 8 << 20;

/// What an errand does -> the part of the contract that it exercises.
const PARTS: [(&str, &str); 14] = [
    ("greet", "settings"),
    ("wake", "other keys"),
    ("later", "far times"),
    ("uptime", "the clock that nobody sets"),
    ("scale", "subresources"),
    ("pods", "live lists by field"),
    ("review", "reviews"),
    ("token", "tokens"),
    ("certificate", "certificates"),
    ("call", "calls"),
    ("count", "samples tied to writes"),
    ("tally", "gauges by key"),
    ("fail", "runs that fail and write"),
    ("kinds", "resources of one kind"),
];

/// Whether the errand of a case does this.
fn does(cases: &Path, case: &Value, what: &str) -> bool {
    let text = case["name"].as_str().map(|name| std::fs::read_to_string(cases.join(format!("{name}.yaml"))));
    let text = text.and_then(Result::ok).unwrap_or_default();
    [',', '}'].iter().any(|end| text.contains(&format!("spec: {{do: {what}{end}")))
}

/// What is wrong with a run of an Errand that does this, as `pintle test` reports it.
fn problem_of(component: &Path, what: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let errand = json!({
        "apiVersion": "example.com/v1", "kind": "Errand", "metadata": {"name": "one", "namespace": "default"},
        "spec": {"do": what},
    });
    let key = json!({"queue": "errands", "kind": "example.com/v1/Errand", "namespace": "default", "name": "one"});
    let input = json!({"key": key, "objects": [errand]});
    std::fs::write(folder.path().join("case.yaml"), format!("{input}\n---\nsteps: []\n"))?;
    let arguments: [&Path; 6] =
        ["test".as_ref(), component, "--cases".as_ref(), folder.path(), "-o".as_ref(), "json".as_ref()];
    let answer = Answer::of(&mut command(arguments)?)?;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let told: Value = serde_json::from_str(&answer.output).with_context(|| answer.text())?;
    Ok(told["cases"][0]["problems"].to_string())
}

#[test]
fn every_language_has_each_part_of_contract_0_2_with_its_denials_and_limits() -> Result<()> {
    let cases = workspace_dir().join("tests/errand/cases");
    let n_cases = std::fs::read_dir(&cases)?.count();
    let errands = errands()?;
    assert_eq!(errands.len(), built()?.len());
    let names = ["part"].into_iter().chain(PARTS.map(|(_, part)| part)).chain(["denied read", "10,001 keys"]);
    let mut rows: Vec<String> = names.map(|name| format!("{name:28}")).collect();
    for Built { language, component, .. } in &errands {
        let told = test(component, &cases, &[])?;
        let ran = told["cases"].as_array().context("no cases")?;
        let failed: Vec<&Value> = ran.iter().filter(|case| case["ok"] != true).collect();
        assert!(failed.is_empty() && ran.len() == n_cases, "{language}: {} cases, {failed:?}", ran.len());
        let mut column = vec![language.clone()];
        for (what, part) in PARTS {
            let n = ran.iter().filter(|case| does(&cases, case, what)).count();
            assert!(n > 0, "no case of {part}");
            column.push(n.to_string());
        }
        let denied = problem_of(component, "secrets")?;
        assert!(denied.contains("list v1/Secret default/ is not granted"), "{language}: {denied}");
        let crowd = problem_of(component, "crowd")?;
        assert!(crowd.contains("10001 keys to wake, more than 10000"), "{language}: {crowd}");
        column.extend(["denied".to_owned(), "fault".to_owned()]);
        rows.iter_mut().zip(column).for_each(|(row, cell)| row.push_str(&format!("{cell:>8}")));
    }
    println!("{}", rows.join("\n"));
    Ok(())
}

const DEBUG_GO: &str = r#"package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/sdk/pintletest"
)

func TestDebug(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(os.Getenv("CASES"), "*.json"))
	for _, file := range files {
		n := 0
		if outcome := pintletest.Debug(file, reconcile).Outcome; outcome != nil {
			for _, step := range outcome.Steps {
				n += len(step.Mutations)
			}
		}
		fmt.Println("case", strings.TrimSuffix(filepath.Base(file), ".json"), n)
	}
}
"#;

const DEBUG_JS: &str = r#"import { readdirSync } from "node:fs";
const { debugCase } = await import(`${process.env.SDK}/src/testing/index.js`);
const { reconcile } = await import(`${process.env.SDK}/examples/errand/src/controller.ts`);
for (const file of readdirSync(process.env.CASES)) {
  let n = 0;
  try {
    n = (debugCase(`${process.env.CASES}/${file}`, reconcile)?.steps ?? []).flatMap(({ mutations }) => mutations).length;
  } catch (error) {
    if (!["Retry", "Terminal"].includes(error.constructor.name)) throw error;
  }
  console.log("case", file.replace(".json", ""), n);
}
"#;

const DEBUG_PYTHON: &str = r#"import os, pathlib
from errand.controller import reconcile
from pintle import Retry, Terminal
from pintle.testing import debug_case

for file in pathlib.Path(os.environ["CASES"]).iterdir():
    n = 0
    try:
        outcome = debug_case(file, reconcile)
        n = sum(len(step.mutations) for step in outcome.steps) if outcome else 0
    except (Retry, Terminal):
        pass
    print("case", file.stem, n)
"#;

/// What a native program prints that runs all exported cases of the Errand of a language: `case NAME N`, with the number of mutations.
fn debug_all(language: &str, exported: &Path) -> Result<String> {
    let sdk = workspace_dir().join("sdk").join(language);
    let example = sdk.join("examples/errand");
    let work = tempfile::tempdir()?;
    let write = |name: &str, text: &str| {
        let path = work.path().join(name);
        std::fs::write(&path, text).map(|()| path)
    };
    let mut program = match language {
        "go" => {
            let source = write("debug_test.go", DEBUG_GO)?;
            let overlay = json!({"Replace": {(example.join("debug_test.go").display().to_string()): source}});
            let mut go = Command::new("go");
            go.args(["test", "-count=1", "-v", "-run=TestDebug", "-overlay"])
                .arg(write("overlay.json", &overlay.to_string())?);
            go
        }
        "js" => {
            let mut node = Command::new("node");
            node.arg("--import").arg(sdk.join("typescript.js")).arg(write("debug.mjs", DEBUG_JS)?).env("SDK", &sdk);
            node
        }
        _ => {
            let mut python = Command::new("python3");
            python.arg(write("debug.py", DEBUG_PYTHON)?).env("PYTHONDONTWRITEBYTECODE", "1");
            python.env("PYTHONPATH", format!("{}:{}", sdk.display(), example.display()));
            python
        }
    };
    Answer::of(program.current_dir(&example).env("CASES", exported))?.success()
}

/// What a debugger steps through: `reconcile`, natively, with an exported case. It wants what the case expects of the component.
#[test]
fn exported_cases_run_natively() -> Result<()> {
    let cases = workspace_dir().join("tests/errand/cases");
    for Built { language, component, .. } in errands()?.iter().filter(|built| built.language != "rust") {
        let folder = tempfile::tempdir()?;
        let [test, with, export] = ["test", "--cases", "--export"].map(Path::new);
        pintle(&[test, component, with, &cases, export, folder.path()])?;
        let printed = debug_all(language, folder.path())?;
        let mut n_cases = 0;
        for file in std::fs::read_dir(folder.path())? {
            let case: Value = serde_json::from_str(&std::fs::read_to_string(file?.path())?)?;
            let steps = case["expected"]["steps"].as_array().into_iter().flatten();
            let mutations = steps.flat_map(|step| step["mutations"].as_array().into_iter().flatten());
            let n: u64 = mutations.map(|mutation| mutation["times"].as_u64().unwrap_or(1)).sum();
            let line = format!("case {} {n}", case["case"].as_str().context("no name")?);
            assert!(printed.lines().any(|printed| printed == line), "{language}: no {line:?} in\n{printed}");
            n_cases += 1;
        }
        assert_eq!(n_cases, std::fs::read_dir(&cases)?.count(), "{language}");
    }
    Ok(())
}

/// What the manifest leads to, each language in a host of its own: X1, X3, X4, X9, X10 and X11.
#[tokio::test(flavor = "multi_thread")]
async fn every_language_is_led_to_its_runs_by_the_manifest() -> Result<()> {
    let hosts = errands()?.into_iter().map(async |Built { language, component, .. }| {
        let cluster = TestCluster::embedded().await?;
        pintle_tests::errands::what_leads_to_runs(&cluster, &component, &controller(&component)?)
            .await
            .with_context(|| language.clone())?;
        cluster.stop().await;
        anyhow::Ok(())
    });
    try_join_all(hosts).await?;
    Ok(())
}

/// The same on the real control plane, where the host and the API server are those of every language.
#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_leads_to_runs_on_the_real_control_plane() -> Result<()> {
    let Built { component, .. } = build("rust", "errand")?;
    let cluster = TestCluster::real().await?;
    pintle_tests::errands::what_leads_to_runs(&cluster, &component, &controller(&component)?).await?;
    cluster.stop().await;
    Ok(())
}

/// The name that the manifest in a component has.
fn controller(component: &Path) -> Result<String> {
    let manifest = components::manifest_of(&std::fs::read(component)?)?;
    Ok(manifest["name"].as_str().context("a manifest without a name")?.to_owned())
}

#[test]
fn every_language_gives_the_same_mutations() -> Result<()> {
    let cases = workspace_dir().join("tests/webapp/cases");
    let n_cases = std::fs::read_dir(&cases)?.count();
    assert_eq!(n_cases, 20);
    println!("language  cases  equal  runs on one instance  memory KiB: first  last");
    for Built { language, component, .. } in built()? {
        let told = test(component, &cases, &["--runs", &N_RUNS.to_string()])?;
        let ran = told["cases"].as_array().context("no cases")?;
        let n_equal = ran.iter().filter(|case| case["ok"] == true).count();
        let endurance = &told["endurance"];
        let [first, last] = ["memoryBytesFirst", "memoryBytesLast"].map(|name| endurance[name].as_u64().unwrap_or(0));
        println!(
            "{language:8}  {:>5}  {n_equal:>5}  {:>20}  {:>17}  {:>4}",
            ran.len(),
            endurance["runs"],
            first >> 10,
            last >> 10
        );
        assert_eq!((n_equal, ran.len()), (n_cases, n_cases), "{language}");
        assert_eq!(endurance["runs"], N_RUNS, "{language}");
        assert!(last <= first * 2 + GROWTH_BYTES, "{language} grows from {first} to {last} bytes in {N_RUNS} runs");
    }
    Ok(())
}

/// A WebApp that has this many ConfigMaps which are going away: they are listed and looked at, and nothing is to be done.
fn many_children(folder: &Path, n: usize) -> Result<PathBuf> {
    let cases = folder.join(format!("children-{n}"));
    std::fs::create_dir_all(&cases)?;
    let text = std::fs::read_to_string(workspace_dir().join("tests/webapp/cases/nothing-to-do.yaml"))?;
    let (input, expected) = text.split_once("\n---\n").context("no second document")?;
    let mut input: serde_norway::Value = serde_norway::from_str(input)?;
    input.apply_merge()?;
    let mut input: Value = serde_json::to_value(input)?;
    let objects = input["objects"].as_array_mut().context("no objects")?;
    let webapp = objects.iter().find(|object| object["kind"] == "WebApp").context("no WebApp")?.clone();
    let meta = &webapp["metadata"];
    let name = meta["name"].as_str().context("no name")?;
    let uid = meta["uid"].as_str().map_or_else(|| format!("uid-{name}"), str::to_owned);
    for i in 0..n {
        objects.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("old-{i:04}"), "namespace": meta["namespace"], "deletionTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "webapp-controller"},
                "ownerReferences": [{
                    "apiVersion": webapp["apiVersion"], "kind": "WebApp", "name": name, "uid": uid, "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "data": {"LOG_LEVEL": "info", "GREETING": "hello, world", "FEATURES": "a,b,c", "LIMIT": "100"},
        }));
    }
    std::fs::write(cases.join("many.yaml"), format!("{}---\n{expected}", serde_norway::to_string(&input)?))?;
    Ok(cases)
}

/// Time to compile, and to load what has been compiled before.
fn compile_and_load(component: &Path, folder: &Path) -> Result<[Duration; 2]> {
    let bytes = std::fs::read(component)?;
    let cache_dir = Some(folder.join("compiled"));
    let time = || -> Result<Duration> {
        let engine = WasmEngine::new(WasmConfig { cache_dir: cache_dir.clone(), ..WasmConfig::default() })?;
        let started = Instant::now();
        engine.load("webapp", &bytes)?;
        Ok(started.elapsed())
    };
    Ok([time()?, time()?])
}

#[test]
fn what_each_language_costs() -> Result<()> {
    let milliseconds = |seconds: &Value| seconds.as_f64().unwrap_or(0.0) * 1000.0;
    println!("language  size KiB  build s  compile ms  load ms |  children  run ms  fresh instance ms  memory KiB");
    for Built { language, component, build } in built()? {
        let folder = tempfile::tempdir()?;
        let [compile, load] = compile_and_load(component, folder.path())?;
        let size = std::fs::metadata(component)?.len() >> 10;
        let about = format!(
            "{language:8}  {size:>8}  {:>7.1}  {:>10.0}  {:>7.2}",
            build.as_secs_f64(),
            compile.as_secs_f64() * 1000.0,
            load.as_secs_f64() * 1000.0
        );
        for (n, n_runs) in N_CHILDREN {
            let cases = many_children(folder.path(), n)?;
            let told = test(component, &cases, &["--runs", n_runs])?;
            let cost = &told["endurance"];
            println!(
                "{about} | {n:>9}  {:>6.2}  {:>17.2}  {:>10}",
                milliseconds(&cost["liveMedianSeconds"]),
                milliseconds(&cost["freshMedianSeconds"]),
                cost["memoryBytesLast"].as_u64().unwrap_or(0) >> 10
            );
            // Growth is the other test's; here it is enough that nothing was wrong.
            assert_eq!(cost["problem"], Value::Null, "{language}");
        }
    }
    Ok(())
}

/// How far below the root two folders lie, and when their files were written.
const PLACES: [(&str, Duration); 2] =
    [("here", Duration::ZERO), ("elsewhere/and/deeper", Duration::from_secs(400 * 86_400))];

/// A project of `pintle new` that was built in one of [`PLACES`], as bytes.
fn built_in(root: &Path, language: &str, (place, age): (&str, Duration)) -> Result<Vec<u8>> {
    let folder = authors::new_project(&binary()?, &root.join(place), language)?;
    make_older(&folder, SystemTime::now() - age)?;
    let component = folder.join("web.wasm");
    let mut build = command(["build".as_ref(), folder.as_os_str(), "-o".as_ref(), component.as_os_str()])?;
    build.env("CARGO_TARGET_DIR", target_dir().join("wasm")).env("PINTLE_CACHE_DIR", root.join(place).join("cache"));
    // Another file system lists the same files in another order.
    let memory = Path::new("/dev/shm");
    if !age.is_zero() && memory.is_dir() {
        build.env("TMPDIR", memory);
    }
    Answer::of(&mut build)?.success()?;
    std::fs::read(component).context("read a component")
}

/// Gives all files of a folder this time, except those that links lead to.
fn make_older(folder: &Path, time: SystemTime) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            make_older(&entry.path(), time)?;
        } else if kind.is_file() {
            std::fs::File::open(entry.path())?.set_modified(time)?;
        }
    }
    Ok(())
}

#[test]
fn the_same_sources_in_rust_and_go_give_the_same_bytes_in_every_folder_and_at_any_time() -> Result<()> {
    let languages = ["go", "rust"];
    let differing = authors::side_by_side(languages, |language| {
        let root = tempfile::tempdir()?;
        let [one, other] = PLACES.map(|place| built_in(root.path(), language, place));
        let (one, other) = (one?, other?);
        let shown = root.path().display().to_string();
        let tells = one.windows(shown.len()).any(|bytes| bytes == shown.as_bytes());
        assert!(!tells, "{language}: the component says where it was built");
        let first = one.iter().zip(&other).position(|(one, other)| one != other);
        Ok((one != other).then(|| format!("{language}: {} and {} bytes, from {first:?} on", one.len(), other.len())))
    })?;
    let differing: Vec<String> = differing.into_iter().flatten().collect();
    assert!(differing.is_empty(), "{differing:#?}");
    Ok(())
}
