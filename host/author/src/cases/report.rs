//! The report of `pintle test`.

use std::fmt::Write as _;
use std::time::Duration;

use pintle_core::contract::manifest::Manifest;
use pintle_core::ports::guest::Usage;
use serde_json::{Value, json};
use similar::TextDiff;

use super::checks::{Cost, Memory, Tried};
use super::plugin::Plugin;
use super::settle::Settled;

/// For humans. Writing to a String does not fail, so results are dropped here.
pub(crate) fn text(plugin: &Plugin, tried: &[Tried], cost: Option<&Cost>) -> String {
    let mut text = String::new();
    let manifest = plugin.manifest();
    let Manifest { name, version, contract, .. } = &**manifest;
    let _ = write!(text, "{name} {version} (contract {contract}): {} bytes", plugin.bytes.len());
    if let Some(took) = plugin.built_in {
        let _ = write!(text, ", built in {:.1} s", took.as_secs_f64());
    }
    text.push('\n');
    for case in tried {
        let word = match (case.problems.is_empty(), case.is_new) {
            (false, _) => "FAILED",
            (true, true) => "updated",
            (true, false) => "ok",
        };
        let about = match (&case.settled, case.end()) {
            _ if !case.problems.is_empty() => format!(": {}", case.key),
            (Some(settled), Some(_)) => format!(": settles, and is stable ({} runs)", settled.n_runs),
            _ => String::new(),
        };
        let _ = writeln!(text, "{word:8} {}{about}", case.name);
        for problem in &case.problems {
            let _ = writeln!(text, "         {problem}");
        }
        if case.differs
            && let Some(seen) = &case.shown
        {
            indent(&mut text, &difference(&case.expected, seen, ["expected", "this component"]));
        }
        if let Some(settled) = &case.settled {
            match &settled.result {
                Ok(end) if case.end_differs => {
                    indent(&mut text, &difference(&case.expected_end, end, ["expected end", "this component"]));
                }
                // Its problem is one of the case's, unless settling is optional for the case.
                Err(unsettled) => {
                    if !case.problems.contains(&unsettled.problem) {
                        indent(&mut text, &format!("--settle: {}", unsettled.problem));
                    }
                    indent(&mut text, &unsettled.details);
                }
                Ok(_) => {}
            }
        }
        if let (Some(seen), Some(other)) = (&case.seen, &case.other) {
            indent(&mut text, &difference(seen, other, ["a run of this case", "another run of it"]));
        }
    }
    let n_good = tried.iter().filter(|case| case.problems.is_empty()).count();
    let _ = writeln!(text, "{n_good} of {} cases passed", tried.len());
    if tried.iter().any(|case| case.differs || case.end_differs) {
        let _ = writeln!(text, "if what this component does is right, --update writes it into the cases");
    }
    let most = most(tried);
    let limits = manifest.limits.effective();
    let _ = writeln!(
        text,
        "most in one call: {:.1} ms (limit {}), {} KiB of memory ({}), {} host calls ({}), {} bytes read ({})",
        milliseconds(most.elapsed),
        limits.deadline.as_millis(),
        most.memory_bytes >> 10,
        limits.memory_bytes >> 10,
        most.host_calls,
        limits.host_calls,
        most.bytes_read,
        limits.read_bytes,
    );
    if let Some(cost) = cost {
        let Memory { first, last, .. } = cost.memory_bytes;
        let _ = writeln!(
            text,
            "{} runs on one instance: {} KiB of memory after the first of each case, {} KiB at the end; {:.3} ms each, {:.3} ms on \
             an instance of its own",
            cost.n_runs,
            first >> 10,
            last >> 10,
            milliseconds(cost.live),
            milliseconds(cost.fresh),
        );
    }
    text
}

/// For programs.
pub(crate) fn json(plugin: &Plugin, tried: &[Tried], cost: Option<&Cost>) -> Value {
    let cases: Vec<Value> = tried
        .iter()
        .map(|case| {
            json!({
                "name": case.name, "key": case.key.to_string(), "ok": case.problems.is_empty(), "problems": case.problems, "updated": case.is_new,
                "seen": case.seen, "other": case.other, "expected": case.expected, "usage": usage(case.usage),
                "settle": case.settled.as_ref().map(settled),
            })
        })
        .collect();
    json!({
        "plugin": plugin.manifest().name,
        "version": plugin.manifest().version,
        "contract": plugin.manifest().contract,
        "digest": plugin.found.digest,
        "sizeBytes": plugin.bytes.len(),
        "buildSeconds": plugin.built_in.map(|took| took.as_secs_f64()),
        "cases": cases,
        "most": usage(most(tried)),
        "endurance": cost.map(|cost| json!({
            "runs": cost.n_runs, "memoryBytesFirst": cost.memory_bytes.first, "memoryBytesWarm": cost.memory_bytes.warm,
            "memoryBytesLast": cost.memory_bytes.last,
            "liveMedianSeconds": cost.live.as_secs_f64(), "freshMedianSeconds": cost.fresh.as_secs_f64(),
            "problem": cost.problem,
        })),
    })
}

fn settled(settled: &Settled) -> Value {
    let Settled { n_runs, result } = settled;
    match result {
        Ok(end) => json!({"ok": true, "runs": n_runs, "end": end}),
        Err(why) => json!({"ok": false, "runs": n_runs, "problem": why.problem, "details": why.details}),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn usage(usage: Usage) -> Value {
    json!({
        "seconds": usage.elapsed.as_secs_f64(), "memoryBytes": usage.memory_bytes, "hostCalls": usage.host_calls,
        "bytesRead": usage.bytes_read,
    })
}

fn most(tried: &[Tried]) -> Usage {
    tried.iter().map(|case| case.usage).fold(Usage::default(), Usage::most)
}

fn indent(text: &mut String, lines: &str) {
    for line in lines.lines() {
        let _ = writeln!(text, "         {line}");
    }
}

fn difference(expected: &Value, seen: &Value, [one, other]: [&str; 2]) -> String {
    // JSON values are shown as YAML.
    let yaml = |value: &Value| match value {
        Value::String(lines) => format!("{lines}\n"),
        other => serde_norway::to_string(other).unwrap_or_default(),
    };
    let (expected, seen) = if expected.is_null() { (String::new(), yaml(seen)) } else { (yaml(expected), yaml(seen)) };
    let diff = TextDiff::from_lines(&expected, &seen);
    diff.unified_diff().context_radius(3).header(one, other).to_string()
}
