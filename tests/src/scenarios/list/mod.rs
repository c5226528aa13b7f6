//! The scenarios. Each file of this folder is found by the build, and has a constant `GROUPS`.

automod::dir!(pub(in crate::scenarios) "src/scenarios/list");

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Chance, Scenario, Stage};
use crate::{PATIENCE, eventually};

/// In how many steps a ReplicaSet is scaled.
const STEPS: Chance = Chance { steps: true, ..Chance::NONE };

/// Why [`STEPS`] are chance.
const MANY_AT_ONCE: &str = "as many Pods as become ready between two runs of the Deployment controller make one step";

/// The built-in controllers that scenarios are about, and the scenarios.
type Group = (&'static [&'static str], &'static [&'static [Scenario]]);

/// `GROUPS` of each file of this folder.
const GROUPS: &[&[Group]] = &include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// All scenarios.
pub fn all() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (controllers, parts) in GROUPS.concat() {
        all.extend(parts.concat().into_iter().map(|scenario| Scenario { controllers, ..scenario }));
    }
    all
}

/// Waits until nothing is at the path.
async fn until_gone(s: &Stage, path: &str) -> Result<()> {
    eventually(PATIENCE, format!("{path} to be gone"), async || Ok(s.client.find(path).await?.is_none().then_some(())))
        .await
}

/// A finalizer that only a scenario removes.
const HOLD: &str = "example.com/hold";

/// Begins the deletion of an object.
async fn delete(s: &Stage, path: &str) -> Result<()> {
    s.client.delete(path, None).await.map(drop)
}

/// Waits until an object has exactly these finalizers.
async fn until_finalizers(s: &Stage, path: &str, wanted: &[&str]) -> Result<()> {
    eventually(PATIENCE, format!("{path} to have the finalizers {wanted:?}"), async || {
        let object = s.client.get(path).await?;
        let finalizers = object["metadata"].get("finalizers").cloned().unwrap_or_else(|| json!([]));
        ensure!(finalizers == json!(wanted), "it has {finalizers}");
        Ok(Some(()))
    })
    .await
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = super::all().iter().map(|s| s.name).collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
        assert!(n >= 25, "only {n} scenarios");
    }

    #[test]
    fn what_is_left_to_chance_has_a_reason_and_a_file() {
        for scenario in super::all() {
            let declared = scenario.chance != super::Chance::NONE;
            assert_eq!(declared, !scenario.reason.is_empty(), "{}", scenario.name);
            assert!(crate::workspace_dir().join(scenario.source).is_file(), "{}: {}", scenario.name, scenario.source);
        }
    }
}
