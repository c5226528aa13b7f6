//! `--feature-gates`, as in kube-controller-manager.
//!
//! *Flow*: [`parse`] reads the flag; [`check`] compares it with the gates of Kubernetes; [`FeatureGates::value`]
//! returns the value of a gate in the manifest of a built-in controller.
//!
//! *Invariants*:
//! 1. The flag accepts exactly the gates of kube-controller-manager, except for values of gates that built-in
//!    controllers should use and do not.
//! 2. A gate that is not in the flag has the default of its manifest.
//!
//! *Not here*: the gates of Kubernetes, which are data next to the plugins.
//!
//! *Source*: `featuregate/feature_gate.go` of component-base.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pintle_core::contract::manifest::FeatureGate;
use pintle_core::kubernetes::minor_number;
use serde::Deserialize;

/// The gates of kube-controller-manager, by their stages.
const TABLE: &str = include_str!("../../../plugins/feature-gates.yaml");

/// The gate of the host itself: the API server coordinates leader election, by LeaseCandidates (KEP-4355).
pub(crate) const COORDINATED_LEADER_ELECTION: &str = "CoordinatedLeaderElection";

/// Values of `--feature-gates`, by gate name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(BTreeMap<String, bool>);

/// A gate of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) stage: Stage,
    pub(crate) default: bool,
    /// Whether the default cannot be changed.
    locked: bool,
    /// Whether the built-in controllers that use it upstream support the default only.
    fixed: bool,
    /// The first minor version with it; 0 if all versions that can be emulated have it.
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

/// Gate names with common properties.
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
    // A test parses the table.
    let groups: Vec<Group> = serde_norway::from_str(TABLE).unwrap_or_default();
    let gates = groups.into_iter().flat_map(|Group { stage, default, locked, fixed, since, gates }| {
        let since = minor_number(&since).unwrap_or_default();
        gates.into_iter().map(move |name| (name, Gate { stage, default, locked, fixed, since }))
    });
    gates.collect()
});

/// Parses gates: `NAME=BOOL`, separated by commas. If a gate occurs twice, the last value is used.
///
/// # Errors
/// The error, and the valid form.
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

/// The stage of `AllAlpha` or `AllBeta`.
fn group(name: &str) -> Option<Stage> {
    match name {
        "AllAlpha" => Some(Stage::Alpha),
        "AllBeta" => Some(Stage::Beta),
        _ => None,
    }
}

/// A gate of a manifest, as listed by `--help`.
pub(crate) fn describe(gate: &FeatureGate) -> String {
    let FeatureGate { name, default, .. } = gate;
    let stage = known(name).map_or_else(String::new, |known| format!("{:?} - ", known.stage).to_uppercase());
    format!("{name}=true|false ({stage}default={default})")
}

/// A gate of Kubernetes; `None` if the name is unknown.
pub(crate) fn known(name: &str) -> Option<Gate> {
    KNOWN.get(name).copied()
}

/// Whether this minor version of Kubernetes has a gate.
pub(crate) fn is_of(name: &str, minor: u32) -> bool {
    known(name).is_none_or(|gate| gate.since <= minor)
}

/// The stage of a gate in upstream's metrics: empty for general availability.
pub(crate) fn stage(name: &str) -> &'static str {
    match known(name).map(|gate| gate.stage) {
        Some(Stage::Alpha) => "ALPHA",
        Some(Stage::Beta) => "BETA",
        Some(Stage::Deprecated) => "DEPRECATED",
        Some(Stage::Ga) | None => "",
    }
}

/// Checks that kube-controller-manager accepts this value of the gate.
///
/// # Errors
/// The gate is unknown, or locked to another value, or another value would have no effect.
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

    /// Checks that the emulated minor version has the gates of the flag.
    ///
    /// # Errors
    /// Upstream's message for a gate that it does not have.
    pub(crate) fn check_emulated(&self, emulated: u32, compatible: u32) -> Result<(), String> {
        match self.0.iter().find(|(name, _)| !is_of(name, emulated)) {
            None => Ok(()),
            Some((name, value)) => Err(format!(
                "cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version 1.{emulated}, min compatibility version 1.{compatible}"
            )),
        }
    }

    /// The value that the flag sets for a gate; `None` for the default. A gate in the flag takes precedence over
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

    /// Gates in the flag that are not in `read`: they have no effect.
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
        // An earlier version had it.
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
