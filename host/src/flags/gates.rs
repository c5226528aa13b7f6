//! `--feature-gates`, as kube-controller-manager has it.
//!
//! *Flow*: [`parse`] reads the flag; [`check`] compares it with the gates of Kubernetes; [`FeatureGates::value`]
//! answers for a gate that the manifest of a built-in controller declares.
//!
//! *Invariants*:
//! 1. The flag accepts every gate that kube-controller-manager accepts, and no others, but for values of gates that built-in controllers
//!    should read and do not.
//! 2. A gate that the flag does not name has the default of its manifest.
//!
//! *Not here*: the gates of Kubernetes, which are data beside the plugins.
//!
//! *Source*: `featuregate/feature_gate.go` of component-base.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pintle_core::contract::manifest::FeatureGate;
use pintle_core::kubernetes::minor_number;
use serde::Deserialize;

/// The gates of kube-controller-manager, by their stages.
const TABLE: &str = include_str!("../../../plugins/feature-gates.yaml");

/// The gate that the host itself reads: the API server elects the leader, by LeaseCandidates (KEP-4355).
pub(crate) const COORDINATED_LEADER_ELECTION: &str = "CoordinatedLeaderElection";

/// Values that `--feature-gates` gives, by the gates' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(BTreeMap<String, bool>);

/// A gate of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) stage: Stage,
    pub(crate) default: bool,
    /// Whether the default cannot be changed.
    locked: bool,
    /// Whether the built-in controllers that read it upstream have the behaviour of the default only.
    fixed: bool,
    /// The first minor version that has it; 0 if all that can be emulated have it.
    since: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

/// Names of gates, by what holds for them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    stage: Stage,
    default: bool,
    #[serde(default)]
    locked: bool,
    #[serde(default)]
    fixed: bool,
    #[serde(default)]
    since: String,
    gates: Vec<String>,
}

static KNOWN: LazyLock<BTreeMap<String, Gate>> = LazyLock::new(|| {
    // A test reads the table.
    let groups: Vec<Group> = serde_norway::from_str(TABLE).unwrap_or_default();
    let gates = groups.into_iter().flat_map(|Group { stage, default, locked, fixed, since, gates }| {
        let since = minor_number(&since).unwrap_or_default();
        gates.into_iter().map(move |name| (name, Gate { stage, default, locked, fixed, since }))
    });
    gates.collect()
});

/// Gates: `NAME=BOOL`, separated by commas. Of a gate that is named twice, the last value holds.
///
/// # Errors
/// What is wrong, and how to write it.
pub(crate) fn parse(text: &str) -> Result<FeatureGates, String> {
    let mut gates = FeatureGates::default();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (name, value) = item.split_once('=').ok_or_else(|| format!("{item:?}: write GATE=true or GATE=false"))?;
        let (name, value) = (name.trim(), value.trim());
        let value = boolean(value).ok_or_else(|| format!("{name}: {value:?} is not true or false"))?;
        check(name, value)?;
        gates.0.insert(name.to_owned(), value);
    }
    Ok(gates)
}

/// As Go's `strconv.ParseBool`.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The stage that `AllAlpha` or `AllBeta` names.
fn group(name: &str) -> Option<Stage> {
    match name {
        "AllAlpha" => Some(Stage::Alpha),
        "AllBeta" => Some(Stage::Beta),
        _ => None,
    }
}

/// A gate that a manifest declares, as `--help` lists it.
pub(crate) fn describe(gate: &FeatureGate) -> String {
    let FeatureGate { name, default, .. } = gate;
    let stage = known(name).map_or_else(String::new, |known| format!("{:?} - ", known.stage).to_uppercase());
    format!("{name}=true|false ({stage}default={default})")
}

/// A gate of Kubernetes; `None` if there is none of this name.
pub(crate) fn known(name: &str) -> Option<Gate> {
    KNOWN.get(name).copied()
}

/// Whether this minor version of Kubernetes has a gate.
pub(crate) fn is_of(name: &str, minor: u32) -> bool {
    known(name).is_none_or(|gate| gate.since <= minor)
}

/// The word of upstream's metrics for the stage of a gate: empty for general availability.
pub(crate) fn stage(name: &str) -> &'static str {
    match known(name).map(|gate| gate.stage) {
        Some(Stage::Alpha) => "ALPHA",
        Some(Stage::Beta) => "BETA",
        Some(Stage::Deprecated) => "DEPRECATED",
        Some(Stage::Ga) | None => "",
    }
}

/// Checks that kube-controller-manager accepts the gate with this value.
///
/// # Errors
/// The gate is unknown, or locked to another value, or another value would not have its effect.
fn check(name: &str, value: bool) -> Result<(), String> {
    if group(name).is_some() {
        return Ok(());
    }
    let Some(gate) = known(name) else {
        let near = KNOWN.keys().find(|known| known.eq_ignore_ascii_case(name));
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        return Err(format!("unrecognized feature gate: {name}{near}"));
    };
    if gate.locked && gate.default != value {
        return Err(format!("cannot set feature gate {name} to {value}, feature is locked to {}", gate.default));
    }
    if gate.fixed && gate.default != value {
        return Err(format!(
            "cannot set feature gate {name} to {value}: the built-in controllers have the behaviour of {} only",
            gate.default
        ));
    }
    Ok(())
}

impl FeatureGates {
    /// Adds the gates of another occurrence of the flag, whose values take precedence.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Checks that the emulated minor version has the gates that the flag names.
    ///
    /// # Errors
    /// Upstream's sentence for one that it does not have.
    pub(crate) fn check_emulated(&self, emulated: u32, compatible: u32) -> Result<(), String> {
        match self.0.iter().find(|(name, _)| !is_of(name, emulated)) {
            None => Ok(()),
            Some((name, value)) => Err(format!(
                "cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version 1.{emulated}, min compatibility version 1.{compatible}"
            )),
        }
    }

    /// The value that the flag gives a gate; `None` if the default holds. A gate that the flag names takes precedence over
    /// `AllAlpha` and `AllBeta`.
    pub(crate) fn value(&self, name: &str) -> Option<bool> {
        let of_stage = || {
            let gate = known(name).filter(|gate| !gate.locked)?;
            self.0.iter().find(|(name, _)| group(name) == Some(gate.stage)).map(|(_, value)| *value)
        };
        self.0.get(name).copied().or_else(of_stage)
    }

    /// Whether a gate of Kubernetes is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.value(name).or_else(|| known(name).map(|gate| gate.default)).unwrap_or_default()
    }

    /// Gates that the flag names and that none of `read` is: they have no effect.
    pub(crate) fn without_effect(&self, read: &[&str]) -> Vec<&str> {
        let is_read = |name: &str| match group(name) {
            Some(stage) => read.iter().any(|read| known(read).is_some_and(|gate| gate.stage == stage)),
            None => read.contains(&name),
        };
        self.0.keys().map(String::as_str).filter(|name| !is_read(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::builtins::testing::manifests;

    #[test]
    fn each_gate_of_kubernetes_is_listed_once() {
        let groups: Vec<Group> = serde_norway::from_str(TABLE).unwrap();
        let n_listed: usize = groups.iter().map(|group| group.gates.len()).sum();
        assert!(n_listed > 150, "only {n_listed} gates");
        assert_eq!(KNOWN.len(), n_listed, "a gate is listed twice");
        let alpha_is_off = KNOWN.values().all(|gate| gate.stage != Stage::Alpha || !gate.default);
        assert!(alpha_is_off, "alpha features are off by default");
    }

    #[test]
    fn manifests_declare_gates_as_kubernetes_does() {
        for manifest in manifests() {
            for gate in manifest.built_in.unwrap_or_default().feature_gates {
                let known = known(&gate.name);
                assert_eq!(known.map(|known| known.default), Some(gate.default), "{}: {}", manifest.name, gate.name);
                assert_eq!(known.map(|known| known.locked), Some(false), "{}: {} is locked", manifest.name, gate.name);
            }
        }
    }

    #[test]
    fn gates_are_names_with_booleans() {
        let two = parse("DeploymentReplicaSetTerminatingReplicas=false, AllAlpha=1,").unwrap();
        assert_eq!(two.0.len(), 2);
        assert_eq!(parse(""), Ok(FeatureGates::default()));
        let check = |text: &str, why: expect_test::Expect| why.assert_eq(&parse(text).unwrap_err());
        check("AllAlpha", expect![[r#""AllAlpha": write GATE=true or GATE=false"#]]);
        check("AllAlpha=maybe", expect![[r#"AllAlpha: "maybe" is not true or false"#]]);
        check("Widgets=true", expect!["unrecognized feature gate: Widgets"]);
        // A version before had it.
        check("OrderedNamespaceDeletion=true", expect!["unrecognized feature gate: OrderedNamespaceDeletion"]);
        check(
            "deploymentreplicasetterminatingreplicas=true",
            expect![
                "unrecognized feature gate: deploymentreplicasetterminatingreplicas; did you mean DeploymentReplicaSetTerminatingReplicas?"
            ],
        );
        assert_eq!(parse("WorkloadWithJob=false,StaleControllerConsistencyJob=true").unwrap().0.len(), 2);
        check(
            "WorkloadWithJob=true",
            expect![
                "cannot set feature gate WorkloadWithJob to true: the built-in controllers have the behaviour of false only"
            ],
        );
        check(
            "JobManagedBy=false",
            expect!["cannot set feature gate JobManagedBy to false, feature is locked to true"],
        );
        assert!(parse("JobManagedBy=true").is_ok(), "locked to this value");
    }

    #[test]
    fn a_named_gate_takes_precedence_over_its_stage() {
        let beta = "DeploymentReplicaSetTerminatingReplicas";
        let value = |text: &str| parse(text).unwrap().value(beta);
        assert_eq!(value(""), None);
        assert_eq!(value("AllAlpha=false"), None);
        assert_eq!(value("AllBeta=false"), Some(false));
        assert_eq!(value("AllBeta=false,DeploymentReplicaSetTerminatingReplicas=true"), Some(true));
        let twice = "DeploymentReplicaSetTerminatingReplicas=true,DeploymentReplicaSetTerminatingReplicas=false";
        assert_eq!(value(twice), Some(false));
        assert_eq!(parse("AllAlpha=true").unwrap().value("JobManagedBy"), None);
        let later = parse("AllBeta=true").unwrap().merge(parse("AllBeta=false").unwrap());
        assert_eq!(later.value(beta), Some(false), "the last flag holds");
    }

    #[test]
    fn gates_that_no_controller_reads_are_reported() {
        let given = parse("AllAlpha=true,AllBeta=false,DeploymentReplicaSetTerminatingReplicas=true,JobManagedBy=true");
        let read = ["DeploymentReplicaSetTerminatingReplicas"];
        assert_eq!(given.unwrap().without_effect(&read), ["AllAlpha", "JobManagedBy"]);
    }
}
