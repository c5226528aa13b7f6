//! JavaScript and TypeScript: a program of the SDK bundles the sources with esbuild, and puts them and QuickJS into a component with
//! componentize-qjs. Both tools are libraries of Node.js, so the program that knows how to call them is written for it, too.

use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::component::finish;
use crate::process;
use crate::project::Project;

/// That program, in the SDK's folder.
const PROGRAM: &str = "build.js";

pub(crate) fn build(project: &Project) -> anyhow::Result<Vec<u8>> {
    let there = process::succeeds(Command::new("node").arg("--version"));
    ensure!(there, "there is no Node.js: install version 20 or newer (https://nodejs.org) and put it on PATH");
    // Node looks for libraries in the folders above a program, and follows links first.
    let sdk = project.sdk()?.canonicalize().context("find the SDK")?;
    let work = project.work()?;
    let contract = project.contract()?;
    let output = work.path().join("component.wasm");
    let mut node = Command::new("node");
    node.current_dir(&project.folder).arg(sdk.join(PROGRAM)).arg("--wit").arg(contract.path());
    node.args(["--world", project.world, "--output"]).arg(&output);
    process::run(&mut node)?;
    let mut component = fs::read(&output).with_context(|| format!("read {}", output.display()))?;
    finish(&mut component, project.language, &project.manifest);
    Ok(component)
}
