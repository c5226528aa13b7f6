//! The checks behind `/healthz`, `/livez` and `/readyz`. Parts of the host add theirs; the check of each controller
//! never fails a probe.

use std::collections::BTreeSet;

use parking_lot::{Mutex, RwLock};

use crate::policy::health::{self, CheckResult, HealthMetrics, Probe, ProbeAnswer};

/// A check that can fail a probe.
pub struct Check {
    name: String,
    probes: Vec<Probe>,
    test: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Check {
    /// A check of these probes. `test` returns the reason of a failure; it runs at each probe, and must not block.
    pub fn new(
        name: impl Into<String>,
        probes: &[Probe],
        test: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), probes: probes.to_vec(), test: Box::new(test) }
    }
}

/// The state of each controller, by name, with the reason of a failure.
pub type Controllers = Box<dyn Fn() -> Vec<(String, Result<(), String>)> + Send + Sync>;

/// All checks of a host.
pub struct Checks {
    checks: RwLock<Vec<Check>>,
    controllers: RwLock<Option<Controllers>>,
    metrics: Mutex<HealthMetrics>,
}

impl Default for Checks {
    fn default() -> Self {
        let checks = RwLock::new(vec![Check::new("ping", &Probe::ALL, || Ok(()))]);
        Self { checks, controllers: RwLock::default(), metrics: Mutex::default() }
    }
}

impl Checks {
    /// Adds a check.
    pub fn add(&self, check: Check) {
        self.checks.write().push(check);
    }

    /// Sets the source of controller states. It runs at each probe of `/healthz`, and must not block.
    pub fn set_controllers(&self, controllers: Controllers) {
        *self.controllers.write() = Some(controllers);
    }

    fn results(&self, probe: Probe) -> Vec<CheckResult> {
        let checks = self.checks.read();
        let of_probe = checks.iter().filter(|check| check.probes.contains(&probe));
        let of_probe =
            of_probe.map(|check| CheckResult { name: check.name.clone(), result: (check.test)(), counts: true });
        let mut results: Vec<CheckResult> = of_probe.collect();
        // A restart does not help a controller, and a single one does not determine whether the host is ready.
        if probe == Probe::Healthz
            && let Some(controllers) = &*self.controllers.read()
        {
            let results_of = controllers().into_iter();
            results.extend(results_of.map(|(name, result)| CheckResult { name, result, counts: false }));
        }
        results
    }

    /// Answers a probe, and records the results.
    pub fn answer(&self, probe: Probe, excluded: &BTreeSet<String>, verbose: bool) -> ProbeAnswer {
        let results = self.results(probe);
        // As upstream, excluded checks are not recorded.
        self.metrics.lock().observe(probe, results.iter().filter(|check| !excluded.contains(&check.name)));
        health::answer(probe, &results, excluded, verbose)
    }

    /// The result of one check of a probe; `None` if the check does not exist.
    pub fn single(&self, probe: Probe, name: &str) -> Option<(bool, String)> {
        self.results(probe).iter().find(|check| check.name == name).map(health::single)
    }

    /// The metrics about all results so far, in Prometheus' text form.
    pub fn metrics_text(&self) -> String {
        self.metrics.lock().text()
    }

    /// Resets all results.
    pub fn reset_metrics(&self) {
        self.metrics.lock().reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_belongs_to_its_probes_and_controllers_to_healthz() {
        let checks = Checks::default();
        checks.add(Check::new("api-server", &[Probe::Readyz], || Err("away".to_owned())));
        checks.set_controllers(Box::new(|| vec![("widgets".to_owned(), Err("no such kind".to_owned()))]));
        let body = |probe| {
            let answer = checks.answer(probe, &BTreeSet::new(), true);
            (answer.ok, answer.body)
        };
        let failed = "[-]widgets failed, does not count: reason withheld\n";
        assert_eq!(body(Probe::Healthz), (true, format!("[+]ping ok\n{failed}healthz check passed\n")));
        assert_eq!(body(Probe::Livez), (true, "[+]ping ok\nlivez check passed\n".to_owned()));
        let failed = "[-]api-server failed: reason withheld\n";
        assert_eq!(body(Probe::Readyz), (false, format!("[+]ping ok\n{failed}readyz check failed\n")));
        let single = checks.single(Probe::Healthz, "widgets");
        assert_eq!(single, Some((false, "internal server error: no such kind\n".to_owned())));
        assert_eq!(checks.single(Probe::Livez, "widgets"), None);
        assert!(checks.metrics_text().contains("kubernetes_healthcheck{name=\"widgets\",type=\"healthz\"} 0\n"));
        checks.reset_metrics();
        checks.answer(Probe::Readyz, &BTreeSet::from(["api-server".to_owned()]), false);
        assert!(!checks.metrics_text().contains("api-server"));
    }
}
