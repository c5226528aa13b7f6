//! `pintle test`: the cases of a plugin, run as the host would run them.
//!
//! *Flow*: folder -> component ([`pintle_build`]) -> each case: `input.yaml` -> a world behind the host's own caches ([`world`])
//! -> the component in the sandbox -> its outcome as YAML ([`render`]) -> compared with `expected.yaml`, and with what the same
//! component gives in other circumstances ([`checks`]).
//!
//! *Invariants*: what a case sees comes from the caches that a cluster would fill, so projections, indexes and refusals are the
//! host's. The format of the files is that of the SDKs' own `testing`: one case, one expectation, whoever runs it.
//!
//! *Not here*: anything that writes to a cluster.

mod checks;
mod input;
mod mask;
mod order;
mod plugin;
mod render;
mod report;
mod saved;
mod world;

use std::path::Path;

use anyhow::{Context as _, bail, ensure};

pub(crate) use self::saved::Saved;

use self::checks::{Cost, Tried};
use self::input::Case;
use self::plugin::Plugin;
use crate::cli::Output;
use crate::cli::test::TestArgs;
use crate::output;

/// Runs the cases.
///
/// # Errors
/// The plugin does not build or load, a case cannot be read, or something is not as it should be.
pub(crate) async fn test(args: &TestArgs) -> anyhow::Result<()> {
    let plugin = Plugin::open(&args.plugin)?;
    let folder = match (&args.cases, plugin.folder()) {
        (Some(folder), _) => folder.clone(),
        (None, Some(folder)) => folder.join("cases"),
        (None, None) => bail!("a component file has no cases of its own: name their folder with --cases"),
    };
    let cases = input::read_all(&folder, args.filter.as_deref())?;
    if let Some(file) = &args.export {
        return export(file, &plugin, &cases);
    }
    crate::logging::quiet()?;
    let guests = plugin.guests()?;
    let worlds = checks::open(&guests, &cases).await?;
    let mut tried = checks::run(&guests, &cases, &worlds).await;
    if args.update {
        update(&mut tried)?;
    }
    let cost = match args.runs {
        Some(n_runs) => Some(checks::endure(&guests, &worlds, n_runs).await),
        None => None,
    };
    match args.output {
        Output::Json => output::json(&report::json(&plugin, &tried, cost.as_ref()))?,
        Output::Text => output::line(report::text(&plugin, &tried, cost.as_ref()).trim_end())?,
    }
    verdict(&tried, cost.as_ref())
}

fn verdict(tried: &[Tried], cost: Option<&Cost>) -> anyhow::Result<()> {
    let n_wrong = tried.iter().filter(|tried| !tried.problems.is_empty()).count();
    ensure!(n_wrong == 0, "{n_wrong} of {} cases are not as they should be", tried.len());
    if let Some(problem) = cost.and_then(|cost| cost.problem.as_ref()) {
        bail!("{problem}");
    }
    Ok(())
}

/// Writes what was seen as what is expected.
fn update(tried: &mut [Tried]) -> anyhow::Result<()> {
    for tried in tried {
        let Some(seen) = &tried.seen else { continue };
        if tried.differs {
            let file = tried.folder.join("expected.yaml");
            let text = serde_norway::to_string(seen).context("write YAML")?;
            std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
            tried.updated();
        }
    }
    Ok(())
}

/// One JSON document with the manifest and all cases, for test programs that do not read YAML.
fn export(file: &Path, plugin: &Plugin, cases: &[Case]) -> anyhow::Result<()> {
    let cases: Vec<_> = cases
        .iter()
        .map(|case| serde_json::json!({"name": case.name, "input": case.raw, "expected": case.expected}))
        .collect();
    let document = serde_json::json!({"manifest": plugin.raw_manifest(), "cases": cases});
    let text = serde_json::to_string(&document).context("write JSON")?;
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
    output::line(&format!("{} cases in {}", cases.len(), file.display()))
}
