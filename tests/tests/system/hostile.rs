//! Plugins that attack: what becomes of each, and that its neighbour does not notice.
//!
//! One host on the embedded cluster runs a well-behaved plugin (`tests/guests/echo`) all the time, and one attack after the other
//! beside it. The neighbour's latency is the time from a change of an object to the effect of its run, seen by a client.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod attacks;
mod stage;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use attacks::{ATTACKS, Met};
use pintle_core::contract::manifest::Instances;
use pintle_runtime::manager::PluginStatus;
use pintle_tests::{eventually, workspace_dir};
use stage::{Latency, PATIENCE, Stage};

#[test]
fn every_attack_of_the_corpus_has_a_row_and_every_row_a_guest() -> Result<()> {
    let mut folders = BTreeSet::new();
    for entry in std::fs::read_dir(workspace_dir().join("tests/guests"))? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if folder.join("manifest.yaml").is_file() && (name.starts_with("hostile-") || name.starts_with("text-")) {
            folders.insert(name);
        }
    }
    let rows: BTreeSet<String> = ATTACKS.iter().map(|(name, _)| (*name).to_owned()).collect();
    ensure!(rows.len() == ATTACKS.len(), "a row stands twice");
    ensure!(rows == folders, "rows and folders differ: {:?}", rows.symmetric_difference(&folders).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn no_attack_harms_the_host_or_a_neighbour() -> Result<()> {
    let only = std::env::var("ATTACK").unwrap_or_default();
    let stage = Stage::start()?;
    let mut failed = Vec::new();
    println!("{:28} {:>9} {:>9} {:>6}   met by", "attack", "calm", "attacked", "ratio");
    // The latencies are for reading. That the neighbour follows every change during each attack is what is asserted, by `probe`.
    let calm = stage.probe()?;
    for (name, met) in ATTACKS.iter().filter(|(name, _)| name.contains(&only)) {
        match attack(&stage, name, *met) {
            Ok((attacked, told)) => {
                let ratio = attacked.median.as_secs_f64() / calm.median.as_secs_f64();
                println!("{name:28} {:>9.2?} {:>9.2?} {ratio:>5.2}x   {told}", calm.median, attacked.median);
            }
            Err(why) => failed.push(format!("{name}: {why:#}")),
        }
    }
    let neighbour = stage.status("echo")?;
    ensure!(neighbour.n_faults == 0, "the neighbour has faults: {neighbour:?}");
    stage.stop();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Adds the plugin, looks at what becomes of it and how long the neighbour takes meanwhile, and removes it.
fn attack(stage: &Stage, name: &str, met: Met) -> Result<(Latency, String)> {
    let guest = stage.add(name)?;
    stage.wait(name, "begin", |status| status.n_runs > 0 || status.queues.iter().any(|queue| queue.n_running > 0))?;
    let attacked = stage.probe();
    let told = match met {
        Met::Borne => borne(stage, name),
        Met::Denied(message) => denied(stage, name, message),
        Met::Fault(kind, message) => faulted(stage, name, kind, message),
    };
    let is_pooled = guest.manifest().instances == Instances::Pooled;
    stage.remove(name)?;
    let n_left = guest.n_instances();
    ensure!(n_left == 0 || is_pooled && n_left <= 4, "{n_left} instances are left");
    Ok((attacked?, told?))
}

fn borne(stage: &Stage, name: &str) -> Result<String> {
    let status = stage.wait(name, "a run of each key", |status| status.n_runs >= 4)?;
    ensure!(status.n_faults == 0, "faults: {:?}, {:?}", status.faults, status.last_error);
    let metrics = stage.manager.metrics_text();
    let n_series = metrics.lines().filter(|line| line.starts_with("hostile_labels_total{")).count();
    ensure!(n_series <= 1_000, "{n_series} combinations of labels");
    let n_events = stage.events("Flood")?.len();
    // client-go's spam filter: 25 at once for each object.
    ensure!(n_events <= 4 * 26, "{n_events} events");
    Ok(format!("{} runs, {n_series} series, {n_events} events", status.n_runs))
}

fn faulted(stage: &Stage, name: &str, kind: &str, message: &str) -> Result<String> {
    let is_met = |status: &PluginStatus| status.faults.contains_key(kind);
    let status = stage.wait(name, &format!("fault of kind {kind}"), is_met)?;
    ensure!(status.faults.keys().all(|other| other == kind), "other faults, too: {:?}", status.faults);
    let error = status.last_error.clone().unwrap_or_default();
    ensure!(error.contains(message), "the fault is {error:?}");
    counted(stage, name, kind)?;
    // The condition.
    stage.wait(name, "condition", |status| {
        let healthy = status.conditions.iter().find(|condition| condition.kind == "Healthy");
        healthy.is_some_and(|healthy| healthy.status == "False" && healthy.message.contains(message))
    })?;
    // The backoff.
    stage.wait(name, "backoff", |status| status.queues.iter().any(|queue| queue.n_waiting > 0))?;
    told(stage, name, message)?;
    let fault = error.split_once(": ").map_or(&*error, |(_, fault)| fault);
    Ok(fault.chars().take(70).collect())
}

fn denied(stage: &Stage, name: &str, message: &str) -> Result<String> {
    let status = stage.wait(name, "a run of each key", |status| status.n_runs >= 4)?;
    ensure!(status.faults.keys().eq(["grant"]), "other faults, too: {:?}", status.faults);
    counted(stage, name, "grant")?;
    told(stage, name, message)?;
    Ok(format!("grant: {message}, {} times", status.n_faults))
}

/// The metric.
fn counted(stage: &Stage, name: &str, kind: &str) -> Result<()> {
    let counted = format!("pintle_plugin_faults_total{{plugin=\"{name}\",kind=\"{kind}\"}} ");
    let metrics = stage.manager.metrics_text();
    ensure!(metrics.lines().any(|line| line.starts_with(&counted) && !line.ends_with(" 0")), "no {counted}");
    Ok(())
}

/// The event, about an object that is the key of a run.
fn told(stage: &Stage, name: &str, message: &str) -> Result<()> {
    let about = format!("plugin {name} ");
    stage.outside.block_on(eventually(PATIENCE, "event", async || {
        let events = stage.client.list("/api/v1/namespaces/hostile/events").await?;
        Ok(events.into_iter().find(|event| {
            let text = event["message"].as_str().unwrap_or_default();
            event["reason"] == "PluginFault" && text.starts_with(&about) && text.contains(message)
        }))
    }))?;
    Ok(())
}

/// What is no plugin, or asks for too much: nothing of it is ever run.
#[test]
fn what_is_no_plugin_is_refused_before_it_runs() -> Result<()> {
    let stage = Stage::start()?;
    for (what, bytes, why) in stage::refused()? {
        let error = stage.apply(bytes).err().with_context(|| format!("{what} was taken"))?;
        ensure!(error.contains(why), "{what}: {error}");
    }
    stage.probe()?;
    ensure!(stage.manager.status().len() == 1);
    stage.stop();
    Ok(())
}
