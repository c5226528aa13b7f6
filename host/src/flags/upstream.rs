//! Controllers and flags of kube-controller-manager that this host lacks, so that errors can explain the reason and the
//! remedy.
//!
//! *Flow*: the list of all controllers, which is data next to the plugins -> minus the built-in ones -> errors.
//!
//! *Not here*: the parts of the list for pages only (`host/xtask/src/upstream.rs`, which also checks its fields).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pintle_core::object::id::Kind;
use serde::Deserialize;

use crate::builtins::Catalogue;

/// The list in the file.
#[derive(Debug, Default, Deserialize)]
struct Table {
    areas: Vec<Area>,
    flags: Vec<General>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Area {
    #[serde(default)]
    cloud_providers: bool,
    controllers: Vec<Controller>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Controller {
    name: String,
    aliases: Vec<String>,
    flags: Vec<String>,
    /// Kinds that no other controller acts on.
    reconciles: Vec<Kind>,
    #[serde(rename = "offByDefault")]
    is_off_by_default: bool,
    /// Whether it belongs to a cloud provider, so that kube-controller-manager does not have its name.
    #[serde(skip)]
    is_of_cloud: bool,
}

/// Flags with their alternatives, as the end of a sentence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct General {
    names: Vec<String>,
    instead: String,
}

/// Controllers without a plugin, by name, and flags of kube-controller-manager that belong to no controller.
#[derive(Debug, Default)]
struct Upstream {
    controllers: BTreeMap<String, Controller>,
    flags: Vec<General>,
}

impl Upstream {
    /// The list without these built-in controllers, their flags and their kinds.
    fn without(table: Table, built_in: &Catalogue) -> Self {
        let is_carried = |flag: &String| built_in.flags().iter().any(|carried| carried.flag.name == *flag);
        let missing = table.areas.into_iter().flat_map(|Area { cloud_providers: is_of_cloud, controllers }| {
            controllers.into_iter().map(move |controller| Controller { is_of_cloud, ..controller })
        });
        let missing = missing.filter(|controller| !built_in.has(&controller.name)).map(|mut controller| {
            controller.flags.retain(|flag| !is_carried(flag));
            controller.reconciles.retain(|kind| built_in.reconciled().all(|other| other != kind));
            (controller.name.clone(), controller)
        });
        Self { controllers: missing.collect(), flags: table.flags }
    }

    /// The controllers that no cloud provider has.
    fn of_kube_controller_manager(&self) -> impl Iterator<Item = (&String, &Controller)> {
        self.controllers.iter().filter(|(_, controller)| !controller.is_of_cloud)
    }
}

const TABLE: &str = include_str!("../../../plugins/upstream.yaml");

// A test parses it.
static UPSTREAM: LazyLock<Upstream> =
    LazyLock::new(|| Upstream::without(serde_norway::from_str(TABLE).unwrap_or_default(), Catalogue::carried()));

/// The error for an unknown flag, if kube-controller-manager has it. `flag` begins with `--`, or is `-v`.
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

/// The controllers of kube-controller-manager without a plugin here, with their aliases.
pub(crate) fn controllers() -> impl Iterator<Item = (&'static str, &'static [String])> {
    UPSTREAM.of_kube_controller_manager().map(|(name, controller)| (name.as_str(), controller.aliases.as_slice()))
}

/// The controllers that kube-controller-manager runs by default, or with certain flags, and that have no plugin here.
pub(crate) fn missing() -> Vec<&'static str> {
    let all = UPSTREAM.of_kube_controller_manager();
    all.filter(|(_, controller)| !controller.is_off_by_default).map(|(name, _)| name.as_str()).collect()
}

/// Kinds that only one of these controllers acts on, with its name.
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
    use crate::builtins::testing::{manifest, manifests};

    fn table() -> Table {
        serde_norway::from_str(TABLE).unwrap()
    }

    #[test]
    fn each_flag_and_each_name_belongs_to_one_controller_that_is_not_built_yet() {
        let built_in = Catalogue::new(manifests());
        let missing = Upstream::without(table(), &built_in);
        assert!(!missing.controllers.is_empty(), "every controller is built: remove the list");
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for general in &missing.flags {
            for flag in &general.names {
                assert!(seen.insert(flag), "{flag} is in upstream.yaml twice");
            }
        }
        let (mut names, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for (name, controller) in &missing.controllers {
            for flag in &controller.flags {
                assert!(seen.insert(flag), "{flag} is in upstream.yaml twice");
                assert!(refusal(&format!("--{flag}")).is_some_and(|text| text.contains(name)), "{flag}");
            }
            for name in controller.aliases.iter().chain([name]) {
                assert!(names.insert(name), "{name} is in upstream.yaml twice");
            }
            for kind in &controller.reconciles {
                assert!(KindSchema::of_kubernetes(kind).is_some(), "{name}: there is no kind {kind}");
                assert!(kinds.insert(kind), "{kind} is in upstream.yaml twice");
            }
        }
        for manifest in built_in.manifests() {
            for name in manifest.aliases.iter().chain([&manifest.name]) {
                assert!(!names.contains(name), "{name} is the name of two controllers");
            }
        }
    }

    #[test]
    fn a_controller_of_the_list_is_missing_until_a_plugin_has_its_name() {
        let list = || -> Table {
            serde_norway::from_str(
                "{areas: [{name: a, controllers: [
                   {name: web-controller, aliases: [web], flags: [web-syncs, shared], reconciles: [v1/Service]},
                   {name: other-controller, aliases: [other], flags: [other-syncs, shared], reconciles: [v1/Service, v1/Node]}]}],
                  flags: []}",
            )
            .unwrap()
        };
        let missing = |built_in: &Catalogue| {
            let missing = Upstream::without(list(), built_in).controllers.into_values();
            missing.map(|one| format!("{} {:?} {}", one.name, one.flags, one.reconciles.len())).collect::<Vec<_>>()
        };
        assert_eq!(
            missing(&Catalogue::new([])),
            ["other-controller [\"other-syncs\", \"shared\"] 2", "web-controller [\"web-syncs\", \"shared\"] 1"]
        );
        let web = manifest(
            "{name: web-controller, version: '1', contract: '0.2', queues: [{name: q}],
              watches: [{kind: v1/Service, enqueue: [{to: self}]}],
              builtIn: {flags: [{name: shared, type: int32, default: 5, minimum: 1, help: Workers., sets: {concurrency: [q]}}]}}",
        );
        // The plugin's own flags and kinds count, not its entry: the other controller keeps neither its flag nor its
        // kind.
        assert_eq!(missing(&Catalogue::new([web])), ["other-controller [\"other-syncs\"] 1"]);
    }

    #[test]
    fn unknown_flags_are_not_reported_as_upstreams() {
        assert_eq!(refusal("--concurrent-widget-syncs"), None);
        assert_eq!(refusal("concurrent-job-syncs"), None);
        assert_eq!(refusal("--concurrent_job_syncs").is_some(), refusal("--concurrent-job-syncs").is_some());
        assert_eq!(refusal("-v"), refusal("--v").map(|text| text.replacen("--v", "-v", 1)));
    }
}
