//! JavaScript and TypeScript: a program of the SDK bundles the sources with esbuild, and combines them with QuickJS to
//! a component with componentize-qjs. Both tools are libraries of Node.js, so the program is written for it, too.
//!
//! componentize-qjs starts the engine with the machine's clock and random numbers, so the same sources result in
//! different bytes.
//!
//! esbuild ignores types, so the TypeScript compiler checks them in parallel.

use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::component::finish;
use crate::process;
use crate::project::Project;

/// The program, in the SDK's folder.
const PROGRAM: &str = "build.js";

/// Settings of the TypeScript compiler. Types are checked in projects with this file, including those in comments of
/// plain JavaScript.
const SETTINGS: &str = "tsconfig.json";

/// The compiler, in a folder with libraries of Node.js.
const COMPILER: &str = "node_modules/.bin/tsc";

pub(crate) fn build(project: &Project) -> anyhow::Result<Vec<u8>> {
    let there = process::succeeds(Command::new("node").arg("--version"));
    ensure!(there, "there is no Node.js: install version 20 or newer (https://nodejs.org) and put it on PATH");
    // Node looks for libraries in the parent folders of a program, and resolves links first.
    let sdk = project.sdk()?.canonicalize().context("find the SDK")?;
    let work = project.work()?;
    let contract = project.contract()?;
    let output = work.path().join("component.wasm");
    let mut node = Command::new("node");
    node.current_dir(&project.folder).arg(sdk.join(PROGRAM)).arg("--wit").arg(contract.path());
    node.args(["--world", project.world, "--output"]).arg(&output);
    let checked = project.folder.join(SETTINGS).is_file();
    let compiler = checked.then(|| compiler(&project.folder, &sdk)).transpose()?;
    let (made, types) = std::thread::scope(|scope| {
        let types = scope.spawn(|| compiler.map_or(Ok(()), |compiler| check_types(&compiler, &project.folder)));
        (process::run(&mut node), types.join().unwrap_or_else(|_| bail!("the check of types panicked")))
    });
    // An invalid JavaScript module has no types either.
    made.and(types)?;
    let mut component = fs::read(&output).with_context(|| format!("read {}", output.display()))?;
    finish(&mut component, project.language, &project.manifest);
    Ok(component)
}

/// The TypeScript compiler of a project, found in the way of Node.js; or that of the SDK.
fn compiler(folder: &Path, sdk: &Path) -> anyhow::Result<PathBuf> {
    let found = folder.ancestors().chain([sdk]).map(|folder| folder.join(COMPILER)).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "{SETTINGS} asks for types, and there is no TypeScript compiler: run `npm install` in {} (package.json needs \
             typescript among devDependencies)",
            folder.display()
        )
    })
}

/// Checks the types of a project, and shows the compiler's errors.
fn check_types(compiler: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut tsc = Command::new(compiler);
    tsc.current_dir(folder).args([
        "--noEmit",
        "--pretty",
        if std::io::stderr().is_terminal() { "true" } else { "false" },
    ]);
    // The next check reads only changed files.
    tsc.args(["--incremental", "--tsBuildInfoFile", ".pintle/build/types.tsbuildinfo"]);
    // The output is collected, because another program writes at the same time.
    let told = tsc.output().with_context(|| format!("start {}", compiler.display()))?;
    if !told.status.success() {
        let _ = std::io::stderr().write_all(&[told.stdout, told.stderr].concat());
        bail!("the types are wrong; see above");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_without_the_compiler_says_how_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let why = compiler(folder.path(), folder.path()).unwrap_err().to_string();
        let at = format!("there is no TypeScript compiler: run `npm install` in {} ", folder.path().display());
        assert!(why.contains(&at), "{why}");
    }

    #[test]
    fn the_compiler_of_the_project_is_preferred_to_that_of_the_sdk() {
        let root = tempfile::tempdir().unwrap();
        let [project, sdk] = ["project/examples/a", "sdk"].map(|name| root.path().join(name));
        let put = |folder: &Path| {
            let tsc = folder.join(COMPILER);
            fs::create_dir_all(tsc.parent().unwrap()).unwrap();
            fs::write(&tsc, "").unwrap();
            tsc
        };
        let of_sdk = put(&sdk);
        assert_eq!(compiler(&project, &sdk).unwrap(), of_sdk);
        let of_project = put(&root.path().join("project"));
        assert_eq!(compiler(&project, &sdk).unwrap(), of_project);
    }

    #[test]
    fn the_compiler_runs_in_the_folder_of_the_project_and_decides() {
        let root = tempfile::tempdir().unwrap();
        let tsc = root.path().join("tsc");
        // By another process: a child of another test may inherit an open file descriptor of a file written here, which
        // prevents its execution.
        let write = "printf '#!/bin/sh\ntest -e right\n' > \"$0\" && chmod 755 \"$0\"";
        assert!(Command::new("/bin/sh").args(["-c", write]).arg(&tsc).status().unwrap().success());
        let project = root.path().join("a");
        fs::create_dir_all(&project).unwrap();
        assert_eq!(check_types(&tsc, &project).unwrap_err().to_string(), "the types are wrong; see above");
        fs::write(project.join("right"), "").unwrap();
        check_types(&tsc, &project).unwrap();
    }
}
