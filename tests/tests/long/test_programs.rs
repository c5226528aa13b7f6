//! `pintle dev` started and queried from test programs, by the `testing` module of each SDK that has a client for it, and by a
//! shell script.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use pintle_tests::process::write_program;
use pintle_tests::{components, eventually, kubectl, pintle, target_dir, workspace_dir};
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

#[test]
fn rust_tests_a_controller_on_a_cluster() -> Result<()> {
    let mut cargo = program("cargo", "rust")?;
    cargo.env("CARGO_TARGET_DIR", target_dir().join("native")).env_remove("RUSTC_WORKSPACE_WRAPPER");
    process::run(cargo.args(["test", "--features", "dev-cluster", "--test", "dev_cluster"]))
}

/// The script of `sdk/docs/testing.md`, with another controller: the way for C, and for all who have kubectl.
#[test]
fn a_shell_script_tests_a_controller_on_a_cluster() -> Result<()> {
    let page = std::fs::read_to_string(workspace_dir().join("sdk/docs/testing.md"))?;
    let (_, section) = page.split_once("### From a shell\n").context("the section is gone")?;
    let (_, script) = section.split_once("```sh\n").context("no script")?;
    let (script, _) = script.split_once("```").context("no end of the script")?;
    assert!(script.contains("--plugin . ") && script.contains("serviceaccount/robot"), "{script}");
    let run = |plugin: &str, flags: &str, account: &str| -> Result<std::process::Output> {
        let script =
            script.replace("--plugin . ", &format!("--plugin {plugin} --nodes=0 --controllers=namespace {flags} "));
        let script = script.replace("serviceaccount/robot", account).replace("--timeout=60s", "--timeout=5s");
        let folder = tempfile::tempdir()?;
        let wrapper = format!("#!/bin/sh\nexec {} \"$@\"\n", kubectl::program()?.join(" "));
        write_program(&folder.path().join("kubectl"), &wrapper)?;
        let binary = pintle::binary()?;
        let own = [binary.parent().context("no folder")?, folder.path()].map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut bash = program("bash", "c")?;
        bash.env("PATH", std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)))?);
        Ok(bash.current_dir(folder.path()).args(["-c", &script]).output()?)
    };
    let good = run("$PLUGIN", "--admin-socket=off", "serviceaccount/default")?;
    assert!(good.status.success(), "{good:?}");
    let missing = run("$PLUGIN", "--admin-socket=off", "serviceaccount/nobody")?;
    assert!(!missing.status.success(), "{missing:?}");
    let no_plugin = run("./kubectl", "--admin-socket=off", "serviceaccount/default")?;
    let told = String::from_utf8_lossy(&no_plugin.stdout);
    assert!(!no_plugin.status.success() && told.contains("no version runs yet"), "{no_plugin:?}");
    let no_flag = run("$PLUGIN", "--nonsense", "serviceaccount/default")?;
    let told = String::from_utf8_lossy(&no_flag.stdout);
    assert!(!no_flag.status.success() && told.contains("unexpected argument '--nonsense'"), "{no_flag:?}");
    Ok(())
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
