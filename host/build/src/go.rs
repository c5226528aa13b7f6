//! Go: the standard compiler builds a core module for WASI, which is converted to a component with a closed WASI.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::component::{finish, wrap};
use crate::project::Project;
use crate::{check, process};

/// Disables the linker check that forbids the bindings to use the run-time library's allocator.
const LINKER_FLAGS: &str = "-ldflags=-s -w -checklinkname=0";

pub(crate) fn build(project: &Project) -> anyhow::Result<Vec<u8>> {
    let there = process::succeeds(Command::new("go").arg("version"));
    ensure!(there, "there is no Go compiler: install Go 1.26 or newer (https://go.dev/dl) and put it on PATH");
    let work = project.work()?;
    let module = work.path().join("core.wasm");
    let mut go = Command::new("go");
    go.current_dir(&project.folder).args(["build", "-buildmode=c-shared", "-trimpath", LINKER_FLAGS, "-o"]);
    go.arg(&module).arg(".").env("GOOS", "wasip1").env("GOARCH", "wasm").env("CGO_ENABLED", "0");
    // Settings for other programs must not reach this one.
    go.env_remove("GOFLAGS");
    process::run(&mut go)?;
    let core = std::fs::read(&module).with_context(|| format!("read {}", module.display()))?;
    check::module(&core, project.language)?;
    let mut component = wrap(core, project.contract()?.path(), project.world)?;
    finish(&mut component, project.language, &project.manifest);
    Ok(component)
}
