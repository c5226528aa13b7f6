//! `pintle dev` started and queried from test programs, by the `testing` module of each SDK that has a client for it.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use pintle_tests::{components, eventually, pintle, target_dir, workspace_dir};
use rustix::process::{Pid, test_kill_process};
use xtask::process;

/// A built-in controller, as a component of somebody.
const PLUGIN: &str = "serviceaccount-controller";

fn sdk(language: &str) -> PathBuf {
    workspace_dir().join("sdk").join(language)
}

fn python() -> PathBuf {
    let venv =
        std::env::var_os("VIRTUAL_ENV").map_or_else(|| workspace_dir().join("target/tools/python"), PathBuf::from);
    venv.join("bin/python")
}

/// A program of this SDK that finds `pintle` and the plugin.
fn program(program: impl AsRef<std::ffi::OsStr>, language: &str) -> Result<Command> {
    let folder = target_dir().join("test-programs");
    std::fs::create_dir_all(&folder)?;
    let plugin = folder.join(format!("{PLUGIN}-{language}.wasm"));
    std::fs::write(&plugin, components::plugin(PLUGIN)?)?;
    let mut command = Command::new(program);
    command.current_dir(sdk(language)).env("PINTLE_BIN", pintle::binary()?).env("PLUGIN", plugin);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("GOFLAGS");
    Ok(command)
}

#[test]
fn python_tests_a_controller_on_a_cluster() -> Result<()> {
    process::run(program(python(), "python")?.args(["-m", "unittest", "tests.dev_cluster"]))
}

#[test]
fn go_tests_a_controller_on_a_cluster() -> Result<()> {
    let arguments = ["test", "-count=1", "-tags", "dev_cluster", "-run", "TestDev", "./pintletest"];
    process::run(program("go", "go")?.args(arguments))
}

#[test]
fn javascript_tests_a_controller_on_a_cluster() -> Result<()> {
    process::run(program("node", "js")?.args(["--test", "test/dev.cluster.js"]))
}

#[tokio::test]
async fn a_cluster_ends_with_its_program_however_that_ends() -> Result<()> {
    let python_source =
        "import time\nfrom pintle.testing.dev import Dev\nprint(Dev().ready['pid'], flush=True)\ntime.sleep(3600)";
    let js_source = "import { Dev } from './src/testing/index.js';\nconsole.log((await Dev.start()).ready.pid);\nsetInterval(() => {}, 1000);";
    let node: &[&str] = &["--input-type=module", "-e", js_source];
    let programs = [(program(python(), "python")?, &["-c", python_source][..]), (program("node", "js")?, node)];
    for (mut command, arguments) in programs {
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let pid =
            line.trim().parse().ok().and_then(Pid::from_raw).with_context(|| format!("{line:?} is not a process"))?;
        test_kill_process(pid).context("pintle dev does not run")?;
        // It cannot say anything any more.
        child.kill()?;
        child.wait()?;
        eventually(Duration::from_secs(60), "the end of pintle dev", async || {
            Ok(test_kill_process(pid).err().map(drop))
        })
        .await?;
    }
    Ok(())
}
