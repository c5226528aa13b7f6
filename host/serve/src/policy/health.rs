//! Responses of `/healthz`, `/livez` and `/readyz`, and their metrics.
//!
//! Invariants:
//! 1. The response without authorization has the names of checks, but never the reason of a failure.
//! 2. A check that does not count (that of one plugin) is shown, and never fails a probe, because a plugin must not
//!    restart the host.
//!
//! Source: `handleRootHealth` in k8s.io/apiserver/pkg/server/healthz/healthz.go; k8s.io/component-base/metrics/prometheus/slis.
//! Deliberate difference: checks that do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// `/healthz`, which kubelets use for kube-controller-manager's liveness.
    Healthz,
    /// `/livez`: whether the host needs no restart.
    Livez,
    /// `/readyz`: whether the host can do its work.
    Readyz,
}

impl Probe {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Healthz, Self::Livez, Self::Readyz];

    /// Its name in paths and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// Its name in paths and responses.
    pub name: String,
    /// The reason of a failure, for authorized clients and for the log.
    pub result: Result<(), String>,
    /// Whether a failure fails the probe.
    pub counts: bool,
}

/// The response to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// Whether all checks that count succeeded.
    pub ok: bool,
    /// The body.
    pub body: String,
    /// The reasons of failures that count, for the log.
    pub failed: Option<String>,
}

/// Answers a probe from the results of its checks. `excluded` are the values of `exclude`; `verbose`: whether to list
/// the checks even if none failed.
pub fn answer(probe: Probe, results: &[CheckResult], excluded: &BTreeSet<String>, verbose: bool) -> ProbeAnswer {
    let name = probe.as_str();
    let mut lines = String::new();
    let mut unknown: BTreeSet<&str> = excluded.iter().map(String::as_str).collect();
    let mut failed = Vec::new();
    for check in results {
        let line = if excluded.contains(&check.name) {
            unknown.remove(check.name.as_str());
            format!("[+]{} excluded: ok\n", check.name)
        } else {
            match &check.result {
                Ok(()) => format!("[+]{} ok\n", check.name),
                Err(_) if !check.counts => format!("[-]{} failed, does not count: reason withheld\n", check.name),
                Err(why) => {
                    failed.push(format!("{}: {why}", check.name));
                    format!("[-]{} failed: reason withheld\n", check.name)
                }
            }
        };
        lines.push_str(&line);
    }
    if !unknown.is_empty() {
        let unknown: Vec<String> = unknown.into_iter().map(|name| format!("{name:?}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "warn: some health checks cannot be excluded: no matches for {}", unknown.join(","));
    }
    let ok = failed.is_empty();
    let body = match (ok, verbose) {
        (false, _) => format!("{lines}{name} check failed\n"),
        (true, false) => "ok".to_owned(),
        (true, true) => format!("{lines}{name} check passed\n"),
    };
    ProbeAnswer { ok, body, failed: (!ok).then(|| failed.join("; ")) }
}

/// The response for a single check: whether it succeeded, and the body, which contains the reason.
pub fn single(check: &CheckResult) -> (bool, String) {
    match &check.result {
        Ok(()) => (true, "ok".to_owned()),
        Err(why) => (false, format!("internal server error: {why}\n")),
    }
}

/// Most checks with recorded results.
pub const MAX_OBSERVED: usize = 1_000;

/// Records check results, for `/metrics/slis`.
#[derive(Clone, Debug, Default)]
pub struct HealthMetrics {
    by_check: BTreeMap<(String, Probe), Observed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    is_ok: bool,
    n_ok: u64,
    n_failed: u64,
}

impl HealthMetrics {
    /// Records the results of a probe. Checks beyond [`MAX_OBSERVED`] are ignored.
    pub fn observe<'c>(&mut self, probe: Probe, results: impl IntoIterator<Item = &'c CheckResult>) {
        for check in results {
            let key = (check.name.clone(), probe);
            if !self.by_check.contains_key(&key) && self.by_check.len() >= MAX_OBSERVED {
                continue;
            }
            let observed = self.by_check.entry(key).or_default();
            observed.is_ok = check.result.is_ok();
            match observed.is_ok {
                true => observed.n_ok += 1,
                false => observed.n_failed += 1,
            }
        }
    }

    /// Resets all results.
    pub fn reset(&mut self) {
        self.by_check.clear();
    }

    /// The metrics in Prometheus' text format (`text/plain; version=0.0.4`).
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, help: &str, kind: &str, lines: &mut dyn Iterator<Item = String>| {
            let mut lines = lines.peekable();
            if lines.peek().is_some() {
                let _ = writeln!(text, "# HELP {name} [STABLE] {help}\n# TYPE {name} {kind}");
                lines.for_each(|line| text.push_str(&line));
            }
        };
        let now = self.by_check.iter().map(|((name, probe), observed)| {
            let (probe, value) = (probe.as_str(), u8::from(observed.is_ok));
            format!("kubernetes_healthcheck{{name={name:?},type=\"{probe}\"}} {value}\n")
        });
        let help = "This metric records the result of a single healthcheck.";
        family("kubernetes_healthcheck", help, "gauge", &mut { now });
        let totals = self.by_check.iter().flat_map(|((name, probe), observed)| {
            let probe = probe.as_str();
            let line = move |status: &str, n: u64| {
                let labels = format!("name={name:?},status={status:?},type=\"{probe}\"");
                (n > 0).then(|| format!("kubernetes_healthchecks_total{{{labels}}} {n}\n"))
            };
            [line("error", observed.n_failed), line("success", observed.n_ok)].into_iter().flatten()
        });
        let help = "This metric records the results of all healthcheck.";
        family("kubernetes_healthchecks_total", help, "counter", &mut { totals });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, result: Result<(), &str>) -> CheckResult {
        CheckResult { name: name.to_owned(), result: result.map_err(str::to_owned), counts: true }
    }

    fn excluding(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The expected texts are those of upstream's `TestInstallPathHandler` and `TestMulitipleChecks`.
    #[test]
    fn answers_have_upstreams_text() {
        let good = [check("ping", Ok(())), check("leaderElection", Ok(()))];
        let bad = [check("ping", Ok(())), check("bad", Err("this will fail"))];
        let text = |results: &[CheckResult], excluded: &[&str], verbose| {
            let answer = answer(Probe::Healthz, results, &excluding(excluded), verbose);
            (answer.ok, answer.body)
        };
        assert_eq!(text(&good, &[], false), (true, "ok".into()));
        assert_eq!(text(&good, &[], true), (true, "[+]ping ok\n[+]leaderElection ok\nhealthz check passed\n".into()));
        let failed = "[+]ping ok\n[-]bad failed: reason withheld\nhealthz check failed\n";
        assert_eq!(text(&bad, &[], false), (false, failed.into()));
        assert_eq!(
            text(&bad, &["bad"], true),
            (true, "[+]ping ok\n[+]bad excluded: ok\nhealthz check passed\n".into())
        );
        let warned = "[+]ping ok\n[+]bad excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"x\",\"y\"\nhealthz check passed\n";
        assert_eq!(text(&bad, &["y", "bad", "x"], true), (true, warned.into()));
        assert_eq!(single(&bad[0]), (true, "ok".into()));
        assert_eq!(single(&bad[1]), (false, "internal server error: this will fail\n".into()));
    }

    #[test]
    fn only_the_log_has_reasons() {
        let results = [check("a", Err("secret")), check("b", Err("other"))];
        let answer = answer(Probe::Readyz, &results, &BTreeSet::new(), true);
        assert!(!answer.body.contains("secret") && answer.body.ends_with("readyz check failed\n"), "{}", answer.body);
        assert_eq!(answer.failed.as_deref(), Some("a: secret; b: other"));
    }

    #[test]
    fn a_check_that_does_not_count_is_shown_and_fails_nothing() {
        let plugin = CheckResult { counts: false, ..check("widgets", Err("quarantined")) };
        let answer = answer(Probe::Livez, &[check("ping", Ok(())), plugin], &BTreeSet::new(), true);
        assert!(answer.ok && answer.failed.is_none());
        assert_eq!(answer.body, "[+]ping ok\n[-]widgets failed, does not count: reason withheld\nlivez check passed\n");
    }

    #[test]
    fn results_are_counted_by_check_and_probe() {
        let mut metrics = HealthMetrics::default();
        assert_eq!(metrics.text(), "");
        metrics.observe(Probe::Healthz, &[check("ping", Ok(())), check("a", Err("no"))]);
        metrics.observe(Probe::Healthz, &[check("ping", Ok(())), check("a", Ok(()))]);
        metrics.observe(Probe::Livez, &[check("ping", Err("no"))]);
        assert_eq!(
            metrics.text(),
            "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
# TYPE kubernetes_healthcheck gauge
kubernetes_healthcheck{name=\"a\",type=\"healthz\"} 1
kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1
kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 0
# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
# TYPE kubernetes_healthchecks_total counter
kubernetes_healthchecks_total{name=\"a\",status=\"error\",type=\"healthz\"} 1
kubernetes_healthchecks_total{name=\"a\",status=\"success\",type=\"healthz\"} 1
kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2
kubernetes_healthchecks_total{name=\"ping\",status=\"error\",type=\"livez\"} 1
"
        );
        metrics.reset();
        assert_eq!(metrics.text(), "");
    }

    #[test]
    fn the_number_of_counted_checks_is_bounded() {
        let mut metrics = HealthMetrics::default();
        let results: Vec<CheckResult> = (0..MAX_OBSERVED + 1).map(|n| check(&format!("{n:05}"), Ok(()))).collect();
        metrics.observe(Probe::Healthz, &results);
        let gauges = metrics.text().lines().filter(|line| line.starts_with("kubernetes_healthcheck{")).count();
        assert_eq!(gauges, MAX_OBSERVED);
        // Known checks are still recorded.
        metrics.observe(Probe::Healthz, &results[..1]);
        assert!(metrics.text().contains("name=\"00000\",status=\"success\",type=\"healthz\"} 2\n"));
    }
}
