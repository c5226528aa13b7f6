//! What an author waits for, in each language: builds, `pintle test`, and a save until the new version runs. And the size of components.
//!
//! *Flow*: a project of `pintle new` in an empty folder, with empty caches of Pintle and of compilers (downloads are there) -> each
//! step, with one text of its source changed each time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::authors::new_project;
use crate::pintle::Answer;
use crate::workspace_dir;

/// The longest that one step may take.
const DEADLINE: Duration = Duration::from_secs(600);
/// Between two looks at the log of `pintle dev`: always the same, because the time until one shows a change is measured.
const PAUSE: Duration = Duration::from_millis(5);
/// What every project writes, in the file of its language.
const CHANGED: &str = "-ports";

/// What one round measures.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The first `pintle build`.
    pub first_build: Duration,
    /// `pintle build` after a change.
    pub later_build: Duration,
    /// `pintle test`, which builds after another change.
    pub test: Duration,
    /// From saving a source under `pintle dev` until the new version runs: the median of some saves.
    pub save: Duration,
    /// Of the component.
    pub bytes: u64,
    /// Of the component where it travels.
    pub compressed_bytes: u64,
}

/// A project, with caches of its own.
struct Project<'a> {
    pintle: &'a Path,
    root: PathBuf,
    source: PathBuf,
    text: String,
    n_changes: u32,
}

/// Measures once, with `n_saves` saves.
///
/// # Errors
/// A command fails; the error contains what it prints.
pub fn measure(pintle: &Path, language: &str, n_saves: usize) -> Result<Times> {
    let root = tempfile::tempdir()?;
    let folder = new_project(pintle, root.path(), language)?;
    let name = match language {
        "go" => "main.go",
        "ts" => "controller.ts",
        "js" => "controller.js",
        "python" => "app.py",
        "rust" => "src/lib.rs",
        other => bail!("{other} is no language of `pintle new`"),
    };
    let source = folder.join(name);
    let text = fs::read_to_string(&source)?;
    ensure!(text.contains(CHANGED), "{name} does not contain {CHANGED:?}");
    let mut project = Project { pintle, root: root.path().to_owned(), source, text, n_changes: 0 };
    let component = folder.join("web.wasm");
    let build = ["build".as_ref(), folder.as_os_str(), "-o".as_ref(), component.as_os_str()];
    let first_build = project.timed(&folder, &build)?;
    let test = project.timed(&folder, &["test".as_ref()])?;
    let bytes = fs::read(&component)?;
    project.change()?;
    let later_build = project.timed(&folder, &build)?;
    let save = project.saves(&folder, n_saves)?;
    let compressed_bytes = pintle_oci::compressed(&bytes)?.len() as u64;
    Ok(Times { first_build, later_build, test, save, bytes: bytes.len() as u64, compressed_bytes })
}

impl Project<'_> {
    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(self.pintle);
        command.current_dir(folder).env("XDG_CACHE_HOME", self.root.join("cache"));
        command.env_remove("CARGO_TARGET_DIR").env_remove("PINTLE_CACHE_DIR");
        if std::env::var_os("VIRTUAL_ENV").is_none() {
            command.env("VIRTUAL_ENV", workspace_dir().join("target/tools/python"));
        }
        command
    }

    fn timed(&self, folder: &Path, arguments: &[&std::ffi::OsStr]) -> Result<Duration> {
        let begun = Instant::now();
        let answer = Answer::of(self.command(folder).args(arguments))?;
        let took = begun.elapsed();
        ensure!(answer.is_good(), "{arguments:?}: {}", answer.text());
        Ok(took)
    }

    /// Changes a text of the source that the component contains.
    fn change(&mut self) -> Result<()> {
        self.n_changes += 1;
        let to = format!("{CHANGED}-{}", self.n_changes);
        fs::write(&self.source, self.text.replace(CHANGED, &to)).context("change the source")
    }

    /// The median time from a save to the new version.
    fn saves(&mut self, folder: &Path, n_saves: usize) -> Result<Duration> {
        let dev = Dev::start(self, folder)?;
        let mut all = Vec::new();
        for n in 0..n_saves {
            let begun = Instant::now();
            self.change()?;
            dev.wait("a swap", |log| log.matches("swapped in").count() > n)?;
            all.push(begun.elapsed());
        }
        all.sort();
        all.get(n_saves / 2).copied().context("nothing was saved")
    }
}

/// A running `pintle dev`, which ends with this.
struct Dev {
    log: PathBuf,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Dev {
    fn start(project: &Project<'_>, folder: &Path) -> Result<Self> {
        let at = |name: &str| project.root.join(name);
        let log = at("dev.log");
        let file = File::create(&log)?;
        let mut dev = project.command(folder);
        dev.args(["dev", "--stop-with-stdin", "--port=0", "--admin-socket=off", "--plugin"]).arg(folder);
        dev.arg("--kubeconfig").arg(at("kubeconfig")).arg("--ready-file").arg(at("ready"));
        dev.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        let mut child = dev.spawn().context("start pintle dev")?;
        let stdin = child.stdin.take();
        let dev = Self { log, child, stdin };
        dev.wait("pintle dev to run", |_| at("ready").exists())?;
        Ok(dev)
    }

    /// Waits until something is so, which may depend on what is printed.
    fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let log = fs::read_to_string(&self.log)?;
            if is_so(&log) {
                return Ok(());
            }
            let failed = log
                .lines()
                .find(|line| line.contains("the running version stays") || line.contains("no version runs yet"));
            if let Some(line) = failed {
                bail!("{line}");
            }
            ensure!(begun.elapsed() < DEADLINE, "{what} takes more than {DEADLINE:?}:\n{log}");
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Its end ends the program.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
