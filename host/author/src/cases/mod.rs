//! `pintle test`: the cases of a plugin, run as the host would run them.
//!
//! *Flow*: folder -> component ([`pintle_build`]) -> each case: its input -> a cluster behind the host's own caches
//! ([`cluster`]) -> the component in the sandbox -> its outcome as YAML ([`render`]) -> compared with the expected one,
//! and with the outcomes of the same component in other circumstances ([`checks`]).
//!
//! *Invariants*: a case reads from caches filled as in a cluster, so projections, indexes and errors are the host's.
//!
//! A case with `settle` also runs repeatedly on the embedded API server ([`settle`]).
//!
//! *Not here*: anything that writes to a real cluster.

mod checks;
mod cluster;
mod export;
mod input;
mod order;
mod plugin;
mod render;
mod report;
mod settle;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use pintle_build::crds;
use serde_json::Value;

use self::checks::{Cost, Tried};
use self::input::Case;
use self::plugin::Plugin;

/// Selects cases of a plugin.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the plugin, which is built, or a component file.
    pub plugin: PathBuf,
    /// Folder of the cases; `cases` in the plugin's folder if absent.
    pub cases: Option<PathBuf>,
    /// Folder of CustomResourceDefinitions; `crds` in the plugin's folder, or next to the component, if absent.
    pub crds: Option<PathBuf>,
    /// Only cases whose names contain this text.
    pub filter: Option<String>,
    /// Whether the seen outcomes replace the expected ones.
    pub update: bool,
    /// Total number of additional runs of the cases on one instance.
    pub n_runs: Option<u32>,
    /// Whether to settle and report cases without `settle`, too.
    pub settle: bool,
}

/// The results of the cases.
pub struct Report {
    plugin: Plugin,
    tried: Vec<Tried>,
    cost: Option<Cost>,
}

impl Report {
    /// For humans.
    pub fn text(&self) -> String {
        report::text(&self.plugin, &self.tried, self.cost.as_ref())
    }

    /// For programs.
    pub fn json(&self) -> Value {
        report::json(&self.plugin, &self.tried, self.cost.as_ref())
    }

    /// Fails if a case failed.
    ///
    /// # Errors
    /// A case failed, or the runs on one instance did.
    pub fn verdict(&self) -> anyhow::Result<()> {
        let n_wrong = self.tried.iter().filter(|tried| !tried.problems.is_empty()).count();
        ensure!(n_wrong == 0, "{n_wrong} of {} cases failed", self.tried.len());
        if let Some(problem) = self.cost.as_ref().and_then(|cost| cost.problem.as_ref()) {
            bail!("{problem}");
        }
        Ok(())
    }
}

/// The JSON Schema of the first document of a case, for editors.
pub fn schema() -> Value {
    input::schema()
}

/// Runs the cases.
///
/// # Errors
/// The plugin does not build or load, or a case cannot be read.
pub async fn test(options: &Options) -> anyhow::Result<Report> {
    let (plugin, cases) = open(options)?;
    let guests = plugin.guests()?;
    let clusters = checks::open(&guests, &cases).await?;
    let mut tried = checks::run(&guests, &cases, &clusters).await;
    checks::settle(&guests, &definitions(options), &cases, &mut tried, options.settle).await;
    if options.update {
        update(&cases, &mut tried)?;
    }
    let cost = match options.n_runs {
        Some(n_runs) => Some(checks::endure(&guests, &clusters, n_runs).await),
        None => None,
    };
    Ok(Report { plugin, tried, cost })
}

fn open(options: &Options) -> anyhow::Result<(Plugin, Vec<Case>)> {
    let plugin = Plugin::open(&options.plugin)?;
    check_paths(&plugin, options)?;
    let folder = match (&options.cases, plugin.folder()) {
        (Some(folder), _) => folder.clone(),
        (None, Some(folder)) => folder.join("cases"),
        (None, None) => bail!("a component file has no cases of its own: name their folder with --cases"),
    };
    let cases = input::read_all(&folder, options.filter.as_deref())?;
    Ok((plugin, cases))
}

/// The folder of definitions.
fn definitions(options: &Options) -> PathBuf {
    options.crds.clone().unwrap_or_else(|| crds::beside(&options.plugin))
}

/// Checks the field paths of the manifest against definitions that the build has not used.
fn check_paths(plugin: &Plugin, options: &Options) -> anyhow::Result<()> {
    let folder = definitions(options);
    ensure!(
        options.crds.is_none() || folder.is_dir(),
        "--crds {} is not a directory: name the folder of the definitions",
        folder.display()
    );
    let of = || format!("{}, with the definitions in {}", options.plugin.display(), folder.display());
    crds::check_paths(plugin.manifest(), &folder).with_context(of)
}

/// Writes the seen outcomes as the expected ones.
fn update(cases: &[Case], tried: &mut [Tried]) -> anyhow::Result<()> {
    for (case, tried) in cases.iter().zip(tried) {
        let seen = tried.shown.as_ref().filter(|_| tried.differs);
        let end = tried.end().filter(|_| tried.end_differs);
        if seen.is_some() || end.is_some() {
            case.write_expected(seen, end)?;
            tried.updated();
        }
    }
    Ok(())
}

/// Runs each case once, and writes it to `NAME.json` in a folder, with the answer to each of its reads: for a native
/// `reconcile` under a debugger. Returns one line for each case: its file, and the fault that ended its run.
///
/// # Errors
/// The plugin does not build or load, a case cannot be read, or a file cannot be written.
pub async fn export(options: &Options, folder: &Path) -> anyhow::Result<Vec<String>> {
    let (plugin, cases) = open(options)?;
    let guests = plugin.guests()?;
    let clusters = checks::open(&guests, &cases).await?;
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let mut lines = Vec::new();
    for (case, cluster) in cases.iter().zip(&clusters) {
        let (recorder, fault) = checks::record(&guests.fresh, cluster).await;
        let recorder = recorder.context("the case was not run")?;
        let text = serde_json::to_string_pretty(&recorder.document(case, cluster, &plugin.raw_manifest()))?;
        let file = folder.join(format!("{}.json", case.name));
        std::fs::write(&file, text + "\n").with_context(|| format!("write {}", file.display()))?;
        let fault = fault.map(|fault| format!(": the run ends with a fault: {fault}")).unwrap_or_default();
        lines.push(format!("{}{fault}", file.display()));
    }
    Ok(lines)
}
