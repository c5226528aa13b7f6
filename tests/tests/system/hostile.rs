//! Plugins that attack: what the host makes of each, and that its neighbour is not affected.
//!
//! One host on the embedded cluster runs a well-behaved plugin (`tests/guests/echo`) all the time, and one attack after the other
//! beside it. The neighbour's latency is the time from a change of an object to the effect of its run, seen by a client.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod attacks;
mod fixture;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use attacks::{ATTACKS, Attack, Met, with_source};
use fixture::{Fixture, Latency};
use pintle_core::contract::manifest::Instances;
use pintle_runtime::manager::PluginStatus;
use pintle_tests::scenarios::sample::seed;
use pintle_tests::{PATIENCE, eventually};

#[test]
fn every_attack_that_has_a_source_has_a_row_and_the_reverse() -> Result<()> {
    let rows: BTreeSet<String> = ATTACKS.iter().map(|attack| attack.name.to_owned()).collect();
    ensure!(rows.len() == ATTACKS.len(), "there are two rows of one name");
    let sources = with_source()?;
    ensure!(rows == sources, "rows and sources differ: {:?}", rows.symmetric_difference(&sources).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn no_attack_harms_the_host_or_a_neighbour() -> Result<()> {
    let only = std::env::var("ATTACK").unwrap_or_default();
    let fixture = Fixture::start()?;
    let mut failed = Vec::new();
    println!("{:28} {:>9} {:>9} {:>6}   met by", "attack", "calm", "attacked", "ratio");
    // The latencies are for reading. That the neighbour follows every change during each attack is what is asserted, by `probe`.
    let calm = fixture.probe()?;
    for attack in ATTACKS.iter().filter(|attack| attack.name.contains(&only)) {
        let name = attack.name;
        match run(&fixture, attack) {
            Ok((attacked, told)) => {
                let ratio = attacked.median.as_secs_f64() / calm.median.as_secs_f64();
                println!("{name:28} {:>9.2?} {:>9.2?} {ratio:>5.2}x   {told}", calm.median, attacked.median);
            }
            Err(why) => failed.push(format!("{name}: {why:#}")),
        }
    }
    let neighbour = fixture.status("echo")?;
    ensure!(neighbour.n_faults == 0, "the neighbour has faults: {neighbour:?}");
    fixture.stop()?;
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Every third attack at once, of which the commit or `SEED` decides, until each has run again after a run.
#[test]
fn attacks_at_once_are_bounded_in_memory_and_leave_the_neighbour_alone() -> Result<()> {
    // The peak of memory is that of a process, and other tests run in this one.
    if std::env::var_os("ALONE").is_none() {
        let name = "hostile::attacks_at_once_are_bounded_in_memory_and_leave_the_neighbour_alone";
        let mut alone = std::process::Command::new(std::env::current_exe()?);
        let output = alone.args(["--exact", name, "--nocapture"]).env("ALONE", "1").output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.contains("attacks at once")).unwrap_or_default();
        println!("{line}");
        ensure!(output.status.success() && !line.is_empty(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        return Ok(());
    }
    /// What the process may take more than at rest. Alone, the attack that takes most has 16 calls of 64 MiB.
    const MAX_MORE: u64 = 2 << 30;
    let seed = seed()?;
    let first = usize::try_from(seed % 3)?;
    let attacks: Vec<_> = ATTACKS.iter().skip(first).step_by(3).collect();
    let fixture = Fixture::start()?;
    let calm = fixture.probe()?;
    let at_rest = memory("VmRSS")?;
    for attack in &attacks {
        fixture.add(attack.name, &attack.component()?)?;
    }
    for attack in &attacks {
        let is_met = |status: &PluginStatus| status.n_runs >= 2;
        fixture.wait(attack.name, "two runs", is_met)?;
    }
    let attacked = fixture.probe()?;
    let peak = memory("VmHWM")?;
    let mib = |n_bytes: u64| n_bytes >> 20;
    println!(
        "{} attacks at once: {} MiB at rest, at most {} MiB, bound {} MiB; neighbour {:.2?} at rest, {:.2?} attacked (SEED={seed:x})",
        attacks.len(),
        mib(at_rest),
        mib(peak),
        mib(at_rest + MAX_MORE),
        calm.median,
        attacked.median
    );
    let neighbour = fixture.status("echo")?;
    ensure!(neighbour.n_faults == 0, "the neighbour has faults: {neighbour:?}");
    ensure!(peak < at_rest + MAX_MORE, "{} MiB", mib(peak));
    for attack in &attacks {
        fixture.remove(attack.name)?;
    }
    fixture.stop()
}

/// A size of this process in bytes.
fn memory(field: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib: u64 = line.and_then(|line| line.trim().strip_suffix("kB")).context(field.to_owned())?.trim().parse()?;
    Ok(kib << 10)
}

/// Adds the plugin, looks at what becomes of it and how long the neighbour takes meanwhile, and removes it.
fn run(fixture: &Fixture, attack: &Attack) -> Result<(Latency, String)> {
    let name = attack.name;
    let guest = fixture.add(name, &attack.component()?)?;
    fixture.wait(name, "begin", |status| status.n_runs > 0 || status.queues.iter().any(|queue| queue.n_running > 0))?;
    let attacked = fixture.probe();
    let told = match attack.met {
        Met::Allowed => allowed(fixture, name),
        Met::Rests => rests(fixture, name),
        Met::Denied(message) => denied(fixture, name, message),
        Met::Failed(message) => failed(fixture, name, message),
        Met::Fault(kind, message) => faulted(fixture, name, kind, message),
        Met::MappingFault(kind, message) => mapping_faulted(fixture, name, kind, message),
    };
    let is_pooled = guest.manifest().instances == Instances::Pooled;
    fixture.remove(name)?;
    let n_left = guest.n_instances();
    ensure!(n_left == 0 || is_pooled && n_left <= 4, "{n_left} instances are left");
    let harmed = fixture.harmed()?;
    ensure!(harmed.is_empty(), "it has written objects that it does not own: {harmed:?}");
    Ok((attacked?, told?))
}

fn allowed(fixture: &Fixture, name: &str) -> Result<String> {
    let status = fixture.wait(name, "a run of each key", |status| status.n_runs >= 4)?;
    ensure!(status.n_faults == 0, "faults: {:?}, {:?}", status.faults, status.last_error);
    let metrics = fixture.manager().metrics_text();
    let n_series = metrics.lines().filter(|line| line.starts_with("hostile_labels_total{")).count();
    ensure!(n_series <= 2_000, "{n_series} combinations of labels");
    let n_events = fixture.events("Flood")?.len();
    // client-go's spam filter: 25 at once for each object.
    ensure!(n_events <= 4 * 26, "{n_events} events");
    Ok(format!("{} runs, {n_series} series, {n_events} events", status.n_runs))
}

fn rests(fixture: &Fixture, name: &str) -> Result<String> {
    let idle = async { tokio::time::timeout(PATIENCE, fixture.manager().idle(Duration::ZERO)).await };
    fixture.outside.block_on(idle).context("it does not rest")?;
    let held = format!("pintle_plugin_held_bytes{{plugin=\"{name}\"}} 0");
    let metrics = fixture.manager().metrics_text();
    ensure!(metrics.lines().any(|line| line == held), "the host holds something for it");
    allowed(fixture, name)
}

fn failed(fixture: &Fixture, name: &str, message: &str) -> Result<String> {
    let status = fixture.wait(name, "a run of each key", |status| status.n_runs >= 4)?;
    ensure!(status.n_faults == 0, "faults: {:?}, {:?}", status.faults, status.last_error);
    let error = status.last_error.unwrap_or_default();
    ensure!(error.contains(message), "the error is {error:?}");
    Ok(format!("failed write: {message}"))
}

fn faulted(fixture: &Fixture, name: &str, kind: &str, message: &str) -> Result<String> {
    let is_met = |status: &PluginStatus| status.faults.contains_key(kind);
    let status = fixture.wait(name, &format!("fault of kind {kind}"), is_met)?;
    ensure!(status.faults.keys().all(|other| other == kind), "other faults, too: {:?}", status.faults);
    let error = status.last_error.clone().unwrap_or_default();
    ensure!(error.contains(message), "the fault is {error:?}");
    counted(fixture, name, kind)?;
    // The condition.
    fixture.wait(name, "condition", |status| {
        let healthy = status.conditions.iter().find(|condition| condition.kind == "Healthy");
        healthy.is_some_and(|healthy| healthy.status == "False" && healthy.message.contains(message))
    })?;
    // The backoff.
    fixture.wait(name, "backoff", |status| status.queues.iter().any(|queue| queue.n_waiting > 0))?;
    told(fixture, name, "hostile", message)?;
    let fault = error.split_once(": ").map_or(&*error, |(_, fault)| fault);
    Ok(fault.chars().take(70).collect())
}

fn mapping_faulted(fixture: &Fixture, name: &str, kind: &str, message: &str) -> Result<String> {
    let is_met = |status: &PluginStatus| status.faults.contains_key(kind) && status.n_runs >= 4;
    let status = fixture.wait(name, &format!("fault of kind {kind}, and runs of its objects"), is_met)?;
    ensure!(status.faults.keys().all(|other| other == kind), "other faults, too: {:?}", status.faults);
    counted(fixture, name, kind)?;
    let condition = |status: &PluginStatus| {
        let healthy = status.conditions.iter().find(|condition| condition.kind == "Healthy")?;
        let is_so = healthy.reason == "MappingFaults" && healthy.message.contains(message);
        is_so.then(|| healthy.message.clone())
    };
    let status = fixture.wait(name, "condition", |status| condition(status).is_some())?;
    told(fixture, name, "default", message)?;
    Ok(condition(&status).unwrap_or_default().chars().take(70).collect())
}

fn denied(fixture: &Fixture, name: &str, message: &str) -> Result<String> {
    let status = fixture.wait(name, "a run of each key", |status| status.n_runs >= 4)?;
    ensure!(status.faults.keys().eq(["grant"]), "other faults, too: {:?}", status.faults);
    counted(fixture, name, "grant")?;
    told(fixture, name, "hostile", message)?;
    Ok(format!("grant: {message}, {} times", status.n_faults))
}

/// The metric, which is counted shortly after the status has changed.
fn counted(fixture: &Fixture, name: &str, kind: &str) -> Result<()> {
    let counted = format!("pintle_plugin_faults_total{{plugin=\"{name}\",kind=\"{kind}\"}} ");
    fixture.outside.block_on(eventually(PATIENCE, &counted, async || {
        let metrics = fixture.manager().metrics_text();
        Ok(metrics.lines().any(|line| line.starts_with(&counted) && !line.ends_with(" 0")).then_some(()))
    }))
}

/// The event: about an object that is the key of a run, or about the plugin, which is not in a namespace.
fn told(fixture: &Fixture, name: &str, namespace: &str, message: &str) -> Result<()> {
    let about = format!("plugin {name} ");
    fixture.outside.block_on(eventually(PATIENCE, "event", async || {
        let events = fixture.client().list(&format!("/api/v1/namespaces/{namespace}/events")).await?;
        Ok(events.into_iter().find(|event| {
            let text = event["message"].as_str().unwrap_or_default();
            event["reason"] == "PluginFault" && text.starts_with(&about) && text.contains(message)
        }))
    }))?;
    Ok(())
}

/// What is not a plugin, or requests too much, never runs.
#[test]
fn what_is_not_a_plugin_is_rejected_before_it_runs() -> Result<()> {
    let fixture = Fixture::start()?;
    for (what, bytes, why) in fixture::rejected()? {
        let error = fixture.apply(bytes).err().with_context(|| format!("{what} was accepted"))?;
        ensure!(error.contains(why), "{what}: {error}");
    }
    fixture.probe()?;
    ensure!(fixture.manager().status().len() == 1);
    fixture.stop()?;
    Ok(())
}
