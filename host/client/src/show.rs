//! Text output of the admin API's responses.

use std::fmt::Write as _;

use jiff::Timestamp;
use pintle_core::lifecycle::{Phase, ShadowReport, SwapReport, SwapResult, VersionInfo};
use pintle_core::text::{Printable, age, table};
use pintle_sources::control::OVERRIDDEN;
use pintle_sources::wire::{Description, Listing, NotStarted, PluginStatus, Problem};
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

/// Characters of a shortened digest.
const SHORT_DIGEST: usize = 12;

/// Plugins as a table, and rejected requests.
pub fn listing(listing: &Listing, now: &Timestamp) -> String {
    let mut text = if listing.items.is_empty() { "No plugins are loaded.".to_owned() } else { plugins(listing, now) };
    if !listing.problems.is_empty() {
        text += &format!("\n\nNot applied:\n{}", problems(listing));
    }
    if !listing.not_started.is_empty() {
        text += &format!("\n\nNot started:\n{}", not_started(listing));
    }
    text
}

/// Differences between two listings.
#[derive(Debug, Serialize)]
pub struct Changes {
    /// Plugins in another state, and new problems.
    #[serde(flatten)]
    pub listing: Listing,
    /// Names of plugins that are no longer loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unloaded: Vec<String>,
}

impl Changes {
    /// The differences of `after`. Counters other than that of faults are ignored.
    pub fn between(before: &Listing, after: &Listing) -> Self {
        // The same age for both.
        let state = |plugin: &PluginStatus| row(plugin, &Timestamp::UNIX_EPOCH);
        let is_changed = |plugin: &&PluginStatus| {
            let old = before.items.iter().find(|old| old.name == plugin.name);
            old.is_none_or(|old| state(old) != state(plugin))
        };
        let is_gone = |old: &&PluginStatus| after.items.iter().all(|plugin| plugin.name != old.name);
        let listing = Listing {
            items: after.items.iter().filter(is_changed).cloned().collect(),
            problems: after.problems.iter().filter(|problem| !before.problems.contains(problem)).cloned().collect(),
            // Start conditions do not change while the host runs.
            not_started: Vec::new(),
        };
        Self { listing, unloaded: before.items.iter().filter(is_gone).map(|plugin| plugin.name.clone()).collect() }
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.listing.items.is_empty() && self.listing.problems.is_empty() && self.unloaded.is_empty()
    }

    /// Rows like those of [`listing`], without the headers.
    pub fn rows(&self, now: &Timestamp) -> String {
        // With its header, the table has the columns of the first one, unless a value is longer.
        let table = plugins(&self.listing, now);
        let mut rows: Vec<String> = table.lines().skip(1).map(ToOwned::to_owned).collect();
        rows.extend(self.unloaded.iter().map(|name| format!("{name} is unloaded")));
        rows.extend(problems(&self.listing).lines().map(|line| format!("not applied: {line}")));
        rows.join("\n")
    }
}

fn plugins(listing: &Listing, now: &Timestamp) -> String {
    let header = ["NAME", "VERSION", "DIGEST", "PHASE", "READY", "HEALTHY", "SOURCE", "FAULTS", "AGE"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(listing.items.iter().map(|plugin| row(plugin, now)));
    table(&rows)
}

fn row(plugin: &PluginStatus, now: &Timestamp) -> Vec<String> {
    let phase = match plugin.stage {
        Some(stage) => format!("{:?} ({stage:?})", plugin.phase),
        None => format!("{:?}", plugin.phase),
    };
    vec![
        plugin.name.clone(),
        plugin.current.version.clone(),
        short(&plugin.current.digest).to_owned(),
        phase,
        match plugin.phase {
            // Not a problem: the host waits for the Lease.
            Phase::Standby if reason(plugin, "Ready") == Some("Standby") => "Standby".to_owned(),
            _ => condition(plugin, "Ready"),
        },
        condition(plugin, "Healthy"),
        source(plugin),
        plugin.n_faults.to_string(),
        since(&plugin.current.since, now),
    ]
}

fn problems(listing: &Listing) -> String {
    let rows = listing.problems.iter().map(|problem| {
        let Problem { plugin, reason, message, .. } = problem;
        vec![plugin.clone(), reason.clone(), message.clone()]
    });
    table(&rows.collect::<Vec<_>>())
}

fn not_started(listing: &Listing) -> String {
    let row = |of: &NotStarted| vec![of.plugin.clone(), of.reason.clone(), of.message.clone()];
    table(&listing.not_started.iter().map(row).collect::<Vec<_>>())
}

/// Its source, and whether an operator has changed it.
fn source(plugin: &PluginStatus) -> String {
    let is_overridden = condition(plugin, OVERRIDDEN) == "True";
    if is_overridden { format!("{} (overridden)", plugin.source) } else { plugin.source.clone() }
}

fn short(digest: &str) -> &str {
    digest.get(..SHORT_DIGEST).unwrap_or(digest)
}

fn condition(plugin: &PluginStatus, kind: &str) -> String {
    let found = plugin.conditions.iter().find(|condition| condition.kind == kind);
    found.map_or_else(|| "Unknown".to_owned(), |condition| condition.status.clone())
}

fn reason<'a>(plugin: &'a PluginStatus, kind: &str) -> Option<&'a str> {
    plugin.conditions.iter().find(|condition| condition.kind == kind).map(|condition| condition.reason.as_str())
}

fn since(time: &str, now: &Timestamp) -> String {
    time.parse::<Timestamp>().map_or_else(|_| "<unknown>".to_owned(), |time| age(now.as_second() - time.as_second()))
}

/// All details of one plugin. Writing to a String does not fail, so results are dropped here.
pub fn description(found: &Description) -> String {
    let mut text = String::new();
    if let Some(plugin) = &found.plugin {
        about(&mut text, plugin);
    }
    if !found.problems.is_empty() {
        let _ = writeln!(text, "Not applied:");
        for Problem { source, reason, message, since, .. } in &found.problems {
            let [source, reason, since, message] = [source, reason, since, message].map(|text| Printable(text));
            let _ = writeln!(text, "  {source}\n    {reason} since {since}: {message}");
        }
    }
    text.trim_end().to_owned()
}

fn about(text: &mut String, plugin: &PluginStatus) {
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{:<15}{}", format!("{name}:"), Printable(value));
    };
    line("Name", &plugin.name);
    line("Phase", &format!("{:?}", plugin.phase));
    line("Source", &source(plugin));
    line("Version", &long(&plugin.current));
    if let Some(previous) = &plugin.previous {
        line("Previous", &long(previous));
    }
    if let Some(incoming) = &plugin.incoming {
        let stage = plugin.stage.map(|stage| format!(", {stage:?}")).unwrap_or_default();
        line("Incoming", &(long(incoming) + &stage));
    }
    line("Runs", &plugin.n_runs.to_string());
    let kinds: Vec<String> = plugin.faults.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    line("Faults", &format!("{}{kinds}", plugin.n_faults));
    line("Cached", &format!("{} KiB", plugin.cached_bytes / 1024));
    if let Some(error) = &plugin.last_error {
        line("Last error", error);
    }
    if let Some(last) = &plugin.last_swap {
        line("Last swap", &format!("{} at {}", report(last), last.at));
    }
    if !plugin.conditions.is_empty() {
        let mut rows = vec![["  Type", "Status", "Reason", "Since", "Message"].map(str::to_owned).to_vec()];
        rows.extend(plugin.conditions.iter().map(|condition| {
            vec![
                format!("  {}", condition.kind),
                condition.status.clone(),
                condition.reason.clone(),
                condition.last_transition_time.clone(),
                condition.message.clone(),
            ]
        }));
        let _ = writeln!(text, "Conditions:\n{}", table(&rows));
    }
    if !plugin.faulting_keys.is_empty() {
        let mut rows = vec![["  Key", "Faults", "Backoff", "Last fault"].map(str::to_owned).to_vec()];
        rows.extend(plugin.faulting_keys.iter().map(|faulting| {
            let held = format!("{:.1} s", faulting.held_ms as f64 / 1000.0);
            vec![format!("  {}", faulting.key), faulting.n_faults.to_string(), held, faulting.message.clone()]
        }));
        let _ = writeln!(text, "Keys that fault, each with its own backoff:\n{}", table(&rows));
        let n_more = plugin.n_faulting_keys.saturating_sub(plugin.faulting_keys.len());
        if n_more > 0 {
            let _ = writeln!(text, "  and {n_more} more");
        }
    }
    if !plugin.bound.is_empty() {
        let mut rows = vec![["  Name", "Type", "Place"].map(str::to_owned).to_vec()];
        rows.extend(
            plugin.bound.iter().map(|bound| vec![format!("  {}", bound.name), bound.kind.clone(), bound.place.clone()]),
        );
        let _ = writeln!(text, "Bound by the operator:\n{}", table(&rows));
    }
    if !plugin.queues.is_empty() {
        let mut rows = vec![["  Name", "Queued", "Delayed", "Running", "Held"].map(str::to_owned).to_vec()];
        rows.extend(plugin.queues.iter().map(|queue| {
            let mut row = vec![format!("  {}", queue.name)];
            row.extend([queue.n_dirty, queue.n_waiting, queue.n_running, queue.n_held].map(|n| n.to_string()));
            row
        }));
        let _ = writeln!(text, "Queues:\n{}", table(&rows));
    }
}

fn long(version: &VersionInfo) -> String {
    format!("{}, {} from {}, since {}", version.version, version.digest, version.origin, version.since)
}

fn brief(version: &VersionInfo) -> String {
    format!("{} ({})", version.version, short(&version.digest))
}

/// A swap in one line.
pub fn report(report: &SwapReport) -> String {
    let to = report.to.as_ref().map_or_else(|| "an unknown version".to_owned(), brief);
    let way = match &report.from {
        Some(from) => format!("{} -> {to}", brief(from)),
        None => to,
    };
    let pause = if report.from.is_some() && report.pause_micros > 0 {
        format!(" in {:.1} ms", report.pause_micros as f64 / 1000.0)
    } else {
        String::new()
    };
    let why = if report.message.is_empty() { String::new() } else { format!(": {}", Printable(&report.message)) };
    match report.result {
        SwapResult::Switched if report.from.is_none() => format!("loaded {way}; on probation"),
        // The previous version was proven.
        SwapResult::Switched if report.reason == "RollbackRequested" => format!("switched back {way}{pause}"),
        SwapResult::Switched => format!("switched {way}{pause}; on probation"),
        SwapResult::Proven => format!("proven {way}{pause}"),
        SwapResult::Refused => format!("refused {way}{why}"),
        SwapResult::RolledBack => format!("rolled back {way}{pause}{why}"),
    }
}

/// A swap in one line, with the resulting state of the plugin, if it is loaded.
pub fn outcome(report: &SwapReport, plugin: Option<&PluginStatus>) -> String {
    let ready = plugin.and_then(|plugin| plugin.conditions.iter().find(|condition| condition.kind == "Ready"));
    let state = ready.filter(|ready| ready.status != "True").map(|ready| {
        let message = if ready.message.is_empty() { String::new() } else { format!(": {}", Printable(&ready.message)) };
        format!("; not ready: {}{message}", Printable(&ready.reason))
    });
    self::report(report) + &state.unwrap_or_default()
}

/// The differences found by a shadow run.
pub fn diff(name: &str, shadow: Option<&ShadowReport>) -> String {
    let Some(shadow) = shadow else {
        return format!("Plugin {name} had no shadow run; see `pintle plugin swap --shadow`.");
    };
    let ShadowReport { n_runs, n_with_writes, n_differences, differences, .. } = shadow;
    let mut text = shadow.summary();
    if *n_runs > 0 && *n_with_writes == 0 {
        text += "\nNo compared run wanted to write, so the comparison shows little: the objects were as both versions want them.";
    }
    for difference in differences {
        let _ = write!(text, "\n\n{} at {}\n", difference.key, difference.at);
        let (old, new) = (yaml(&difference.old), yaml(&difference.new));
        let diff = TextDiff::from_lines(&old, &new);
        text += diff.unified_diff().context_radius(3).header("old", "new").to_string().trim_end();
    }
    if (differences.len() as u64) < u64::from(*n_differences) {
        let _ =
            write!(text, "\n\n{} more differences are not kept.", u64::from(*n_differences) - differences.len() as u64);
    }
    text
}

fn yaml(value: &Value) -> String {
    // JSON values can be written as YAML.
    serde_norway::to_string(value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn plugin(name: &str) -> PluginStatus {
        serde_json::from_value(json!({
            "name": name, "phase": "Running", "source": "built-in",
            "current": {"version": "0.2.0", "digest": "0123456789abcdef", "origin": "built-in x", "since": "2026-01-02T03:04:05Z"},
            "previous": {"version": "0.1.0", "digest": "fedcba", "origin": "/x.wasm", "since": "2026-01-02T03:00:00Z"},
            "stage": "Probation",
            "lastSwap": {
                "from": {"version": "0.1.0", "digest": "fedcba", "origin": "/x.wasm", "since": "2026-01-02T03:00:00Z"},
                "to": {"version": "0.2.0", "digest": "0123456789abcdef", "origin": "built-in x", "since": "2026-01-02T03:04:05Z"},
                "result": "Switched", "reason": "Requested", "message": "", "at": "2026-01-02T03:04:05Z", "pauseMicros": 1234,
            },
            "conditions": [{"type": "Ready", "status": "True", "reason": "CachesFilled", "message": "", "lastTransitionTime": "2026-01-02T03:04:06Z"},
                {"type": "Healthy", "status": "False", "reason": "RunsFail", "message": "x", "lastTransitionTime": "2026-01-02T03:04:06Z"}],
            "queues": [{"name": "q", "dirty": 1, "waiting": 2, "running": 3, "held": 4}],
            "runs": 17, "nFaults": 3, "faults": {"trap": 2, "deadline": 1}, "lastError": "trap: unreachable", "cachedBytes": 2048,
            "nFaultingKeys": 3, "faultingKeys": [{"key": "v1/Pod ns/a", "faults": 2, "message": "trap: unreachable", "heldMs": 1500}],
            "bound": [{"kind": "key", "name": "signer", "place": "/etc/pki/key.pem"}],
        }))
        .unwrap()
    }

    fn problem() -> Problem {
        Problem {
            plugin: "widgets".into(),
            source: "/plugins/widgets.wasm".into(),
            reason: "Invalid".into(),
            message: "/plugins/widgets.wasm: this is not WebAssembly".into(),
            since: "2026-01-02T03:04:05Z".into(),
        }
    }

    fn not_started_one() -> NotStarted {
        NotStarted {
            plugin: "signer".into(),
            reason: "MissingSetting".into(),
            message: "setting key is not given".into(),
        }
    }

    #[test]
    fn a_version_that_took_over_and_is_not_ready_says_why() {
        let mut plugin = plugin("p");
        let report = plugin.last_swap.clone().unwrap();
        let switched = "switched 0.1.0 (fedcba) -> 0.2.0 (0123456789ab) in 1.2 ms; on probation";
        assert_eq!(outcome(&report, Some(&plugin)), switched);
        assert_eq!(outcome(&report, None), switched);
        let ready = &mut plugin.conditions[0];
        (ready.status, ready.reason) = ("False".into(), "KindNotServed".into());
        assert_eq!(outcome(&report, Some(&plugin)), format!("{switched}; not ready: KindNotServed"));
        plugin.conditions[0].message = "apply the definition".into();
        assert_eq!(
            outcome(&report, Some(&plugin)),
            format!("{switched}; not ready: KindNotServed: apply the definition")
        );
    }

    #[test]
    fn a_listing_is_a_table_like_kubectls() {
        let now = "2026-01-02T03:09:05Z".parse().unwrap();
        let all = Listing { items: vec![plugin("p")], problems: vec![problem()], not_started: vec![not_started_one()] };
        expect![[r#"
            NAME   VERSION   DIGEST         PHASE                 READY   HEALTHY   SOURCE     FAULTS   AGE
            p      0.2.0     0123456789ab   Running (Probation)   True    False     built-in   3        5m

            Not applied:
            widgets   Invalid   /plugins/widgets.wasm: this is not WebAssembly

            Not started:
            signer   MissingSetting   setting key is not given"#]]
        .assert_eq(&listing(&all, &now));
        let mut standby = plugin("p");
        standby.phase = Phase::Standby;
        assert_eq!(row(&standby, &now)[4], "True", "another condition");
        (standby.conditions[0].status, standby.conditions[0].reason) = ("False".into(), "Standby".into());
        assert_eq!(row(&standby, &now)[4], "Standby");
        expect!["No plugins are loaded."].assert_eq(&listing(&Listing::default(), &now));
    }

    #[test]
    fn what_has_changed_is_shown_again() {
        let before = Listing {
            items: vec![plugin("p"), plugin("gone"), plugin("still")],
            problems: vec![problem()],
            ..Listing::default()
        };
        let mut after = before.clone();
        after.items.remove(1);
        after.items[0].n_faults += 1;
        // Run counters are ignored.
        after.items[1].n_runs += 1;
        after.problems.push(Problem { reason: "NotGranted".into(), ..problem() });
        expect![[r#"
            p      0.2.0     0123456789ab   Running (Probation)   True    False     built-in   4        5m
            gone is unloaded
            not applied: widgets   NotGranted   /plugins/widgets.wasm: this is not WebAssembly"#]]
        .assert_eq(&Changes::between(&before, &after).rows(&"2026-01-02T03:09:05Z".parse().unwrap()));
        assert!(Changes::between(&after, &after).is_empty());
    }

    #[test]
    fn a_description_is_complete() {
        let found = Description { plugin: Some(plugin("p")), problems: vec![problem()] };
        expect![[r#"
            Name:          p
            Phase:         Running
            Source:        built-in
            Version:       0.2.0, 0123456789abcdef from built-in x, since 2026-01-02T03:04:05Z
            Previous:      0.1.0, fedcba from /x.wasm, since 2026-01-02T03:00:00Z
            Runs:          17
            Faults:        3 (deadline 1, trap 2)
            Cached:        2 KiB
            Last error:    trap: unreachable
            Last swap:     switched 0.1.0 (fedcba) -> 0.2.0 (0123456789ab) in 1.2 ms; on probation at 2026-01-02T03:04:05Z
            Conditions:
              Type      Status   Reason         Since                  Message
              Ready     True     CachesFilled   2026-01-02T03:04:06Z
              Healthy   False    RunsFail       2026-01-02T03:04:06Z   x
            Keys that fault, each with its own backoff:
              Key           Faults   Backoff   Last fault
              v1/Pod ns/a   2        1.5 s     trap: unreachable
              and 2 more
            Bound by the operator:
              Name     Type   Place
              signer   key    /etc/pki/key.pem
            Queues:
              Name   Queued   Delayed   Running   Held
              q      1        2         3         4
            Not applied:
              /plugins/widgets.wasm
                Invalid since 2026-01-02T03:04:05Z: /plugins/widgets.wasm: this is not WebAssembly"#]].assert_eq(&description(&found));
    }

    #[test]
    fn no_word_of_a_server_or_plugin_looks_like_a_line_of_the_answer() {
        let hostile = "no\nPhase:         Running\u{1b}[2J\u{202e}";
        let mut plugin = plugin("p");
        plugin.last_error = Some(hostile.to_owned());
        plugin.conditions[0].message = hostile.to_owned();
        plugin.faulting_keys[0].message = hostile.to_owned();
        let swap = plugin.last_swap.as_mut().unwrap();
        (swap.result, swap.message) = (SwapResult::Refused, hostile.to_owned());
        let problem = Problem { message: hostile.to_owned(), ..problem() };
        let all = Listing { items: vec![plugin.clone()], problems: vec![problem.clone()], ..Listing::default() };
        let shown = r"no\nPhase:         Running\u{1b}[2J\u{202e}";
        let listing = listing(&all, &"2026-01-02T03:09:05Z".parse().unwrap());
        assert_eq!((listing.lines().count(), listing.matches(shown).count()), (5, 1), "{listing}");
        let found = description(&Description { plugin: Some(plugin), problems: vec![problem] });
        assert_eq!((found.matches("\nPhase:").count(), found.matches(shown).count()), (1, 5), "{found}");
        assert!(found.chars().all(|c| c == '\n' || !c.is_control()), "{found:?}");
    }

    #[test]
    fn differences_show_only_what_differs() {
        let shadow: ShadowReport = serde_json::from_value(json!({
            "nRuns": 10, "nKeys": 4, "nWithWrites": 3, "nDifferences": 2, "nSkipped": 1,
            "differences": [{"key": "apps/v1/ReplicaSet a/web", "at": "2026-01-02T03:04:05Z", "old": {"n": 1, "same": true}, "new": {"n": 2, "same": true}}],
        }))
        .unwrap();
        expect![[r#"
            10 runs of 4 keys compared, 3 with writes, 2 differ, 1 not compared

            apps/v1/ReplicaSet a/web at 2026-01-02T03:04:05Z
            --- old
            +++ new
            @@ -1,2 +1,2 @@
            -n: 1
            +n: 2
             same: true

            1 more differences are not kept."#]]
        .assert_eq(&diff("p", Some(&shadow)));
        let idle = ShadowReport { n_runs: 200, n_keys: 40, ..ShadowReport::default() };
        expect![[r#"
            200 runs of 40 keys compared, 0 with writes, 0 differ
            No compared run wanted to write, so the comparison shows little: the objects were as both versions want them."#]]
        .assert_eq(&diff("p", Some(&idle)));
    }
}
