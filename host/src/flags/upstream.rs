//! What kube-controller-manager has and this host does not, so that errors can say why and what to do.
//!
//! *Not here*: the names, which are data next to the plugins.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pintle_core::object::id::Kind;
use serde::Deserialize;

/// Controllers that have no plugin, and flags of kube-controller-manager that belong to no controller.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Upstream {
    controllers: BTreeMap<String, Controller>,
    flags: Vec<General>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Controller {
    aliases: Vec<String>,
    flags: Vec<String>,
    /// Kinds on whose objects nothing acts without it.
    reconciles: Vec<Kind>,
}

/// Flags with what to do instead, the end of a sentence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct General {
    names: Vec<String>,
    instead: String,
}

const TABLE: &str = include_str!("../../../plugins/upstream.yaml");

// A test reads it.
static UPSTREAM: LazyLock<Upstream> = LazyLock::new(|| serde_norway::from_str(TABLE).unwrap_or_default());

/// The error for an unknown flag, if it is one of kube-controller-manager's. `flag` begins with `--`, or is `-v`.
pub(crate) fn refusal(flag: &str) -> Option<String> {
    let name = flag.strip_prefix("--").or_else(|| flag.strip_prefix('-'))?.replace('_', "-");
    if let Some(general) = UPSTREAM.flags.iter().find(|general| general.names.contains(&name)) {
        return Some(format!(
            "{flag} is a flag of kube-controller-manager that Pintle does not have: {}",
            general.instead
        ));
    }
    let (controller, _) = UPSTREAM.controllers.iter().find(|(_, controller)| controller.flags.contains(&name))?;
    Some(format!("{flag} is a flag of {controller}, which is not part of this Pintle yet; leave it out"))
}

/// The controllers of kube-controller-manager that have no plugin here, with their other names.
pub(crate) fn controllers() -> impl Iterator<Item = (&'static str, &'static [String])> {
    UPSTREAM.controllers.iter().map(|(name, controller)| (name.as_str(), controller.aliases.as_slice()))
}

/// Kinds on whose objects nothing acts without one of these controllers, with its name.
pub(crate) fn reconciled() -> impl Iterator<Item = (&'static Kind, &'static str)> {
    let of = |(name, controller): (&'static String, &'static Controller)| {
        controller.reconciles.iter().map(move |kind| (kind, name.as_str()))
    };
    UPSTREAM.controllers.iter().flat_map(of)
}

/// A flag, and its controller.
#[cfg(test)]
pub(crate) fn any() -> (String, String) {
    let (name, controller) = UPSTREAM.controllers.iter().find(|(_, controller)| !controller.flags.is_empty()).unwrap();
    (controller.flags[0].clone(), name.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pintle_core::object::schema::KindSchema;

    use super::*;
    use crate::builtins::testing::manifests;

    #[test]
    fn each_flag_and_each_name_belongs_to_one_controller_that_is_not_built_yet() {
        let table: Upstream = serde_norway::from_str(TABLE).unwrap();
        let (mut seen, mut names, mut kinds) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (name, controller) in &table.controllers {
            for flag in &controller.flags {
                assert!(seen.insert(flag.clone()), "{flag} is in upstream.yaml twice");
                assert!(refusal(&format!("--{flag}")).is_some_and(|text| text.contains(name)), "{flag}");
            }
            for name in controller.aliases.iter().chain([name]) {
                assert!(names.insert(name.clone()), "{name} is in upstream.yaml twice");
            }
            for kind in &controller.reconciles {
                assert!(KindSchema::of_kubernetes(kind).is_some(), "{name}: there is no kind {kind}");
                assert!(kinds.insert(kind.clone()), "{kind} is in upstream.yaml twice");
            }
        }
        for flag in table.flags.iter().flat_map(|general| &general.names) {
            assert!(seen.insert(flag.clone()), "{flag} is in upstream.yaml twice");
        }
        for manifest in manifests() {
            for name in manifest.aliases.iter().chain([&manifest.name]) {
                assert!(!names.contains(name), "{name} is built: remove it from upstream.yaml");
            }
            for kind in manifest.reconciled() {
                assert!(!kinds.contains(kind), "{} acts on {kind}: remove it from upstream.yaml", manifest.name);
            }
            for flag in manifest.built_in.unwrap_or_default().flags {
                let (name, flag) = (&manifest.name, flag.name);
                assert!(!seen.contains(&flag), "{name} declares {flag}: remove it from upstream.yaml");
            }
        }
    }

    #[test]
    fn unknown_flags_are_not_reported_as_upstreams() {
        assert_eq!(refusal("--concurrent-widget-syncs"), None);
        assert_eq!(refusal("concurrent-job-syncs"), None);
        assert_eq!(refusal("--concurrent_job_syncs").is_some(), refusal("--concurrent-job-syncs").is_some());
        assert_eq!(refusal("-v"), refusal("--v").map(|text| text.replacen("--v", "-v", 1)));
    }
}
