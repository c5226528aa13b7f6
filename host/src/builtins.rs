//! The built-in components, and the flags, gates and accounts that their controllers add to the host.
//!
//! *Flow*: `build.rs` embeds the components with their manifests; [`Catalogue`] returns the `builtIn` sections of these
//! manifests by plugin name.
//!
//! *Invariants*:
//! 1. The [`Catalogue`] contains only embedded manifests: no other component can use accounts of `kube-system`, raise
//!    the limits of its client or add flags.
//! 2. A component that replaces a built-in controller is governed by that controller's section, whatever its own one
//!    contains.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pintle_core::contract::manifest::{BuiltIn, FeatureGate, Flag, Manifest};
use pintle_core::object::id::Kind;
use pintle_core::policy::account::Accounts;

/// File name (without `.wasm`), bytes and manifest of each built-in component; see `build.rs`.
pub(crate) static BUILTINS: &[(&str, &[u8], &str)] = include!(concat!(env!("OUT_DIR"), "/builtins.rs"));

/// The manifests of the built-in components.
pub(crate) struct Catalogue {
    by_name: BTreeMap<String, Manifest>,
    flags: Vec<CarriedFlag>,
}

/// A flag of built-in controllers.
pub(crate) struct CarriedFlag {
    /// The first controller that declares it.
    pub(crate) plugin: String,
    pub(crate) flag: Flag,
    /// Its name with `_` for `-`, which kube-controller-manager accepts as well.
    pub(crate) underscored: String,
}

impl Catalogue {
    /// The catalogue of this binary.
    pub(crate) fn carried() -> &'static Self {
        static CARRIED: LazyLock<Catalogue> = LazyLock::new(|| {
            // An invalid component is reported by name when it is loaded.
            Catalogue::new(BUILTINS.iter().filter_map(|(_, _, manifest)| Manifest::parse(manifest.as_bytes()).ok()))
        });
        &CARRIED
    }

    pub(crate) fn new(manifests: impl IntoIterator<Item = Manifest>) -> Self {
        let by_name: BTreeMap<String, Manifest> =
            manifests.into_iter().map(|manifest| (manifest.name.clone(), manifest)).collect();
        let mut flags: Vec<CarriedFlag> = Vec::new();
        for manifest in by_name.values() {
            for flag in manifest.built_in.iter().flat_map(|section| &section.flags) {
                match flags.iter_mut().find(|known| known.flag.name == flag.name) {
                    // A flag of several controllers is a field of the last one.
                    Some(known) => known.plugin.clone_from(&manifest.name),
                    None => {
                        let (plugin, underscored) = (manifest.name.clone(), flag.name.replace('-', "_"));
                        flags.push(CarriedFlag { plugin, flag: flag.clone(), underscored });
                    }
                }
            }
        }
        Self { by_name, flags }
    }

    /// The `builtIn` section of the controller with this name; `None` if it is not built in.
    pub(crate) fn section(&self, plugin: &str) -> Option<&BuiltIn> {
        self.by_name.get(plugin)?.built_in.as_ref()
    }

    /// The manifests.
    pub(crate) fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.by_name.values()
    }

    /// `source.component` of events, by plugin name.
    pub(crate) fn event_sources(&self) -> BTreeMap<String, String> {
        let named =
            self.manifests().filter_map(|manifest| Some((manifest.name.clone(), manifest.event_source.clone()?)));
        named.collect()
    }

    /// Whether a built-in controller has this name.
    pub(crate) fn has(&self, plugin: &str) -> bool {
        self.by_name.contains_key(plugin)
    }

    /// The controller that acts on objects of a matching kind.
    pub(crate) fn acting_on(&self, kind: impl Fn(&Kind) -> bool) -> Option<&str> {
        let found = self.by_name.values().find(|manifest| manifest.reconciled().any(&kind));
        found.map(|manifest| manifest.name.as_str())
    }

    /// The kinds of objects that built-in controllers act on.
    pub(crate) fn reconciled(&self) -> impl Iterator<Item = &Kind> {
        self.by_name.values().flat_map(Manifest::reconciled)
    }

    /// All flags, without duplicates.
    pub(crate) fn flags(&self) -> &[CarriedFlag] {
        &self.flags
    }

    /// The feature gates of every controller.
    pub(crate) fn gates(&self) -> impl Iterator<Item = &FeatureGate> {
        self.by_name.values().flat_map(|manifest| &manifest.built_in).flat_map(|section| &section.feature_gates)
    }

    /// The accounts of plugins.
    pub(crate) fn accounts(&self) -> Accounts {
        Accounts::of_built_ins(self.by_name.values())
    }

    /// The warning about a component whose `builtIn` section is ignored.
    pub(crate) fn ignored(&self, manifest: &Manifest) -> Option<&'static str> {
        let section = manifest.built_in.as_ref()?;
        match self.by_name.get(&manifest.name) {
            Some(carried) if carried.built_in.as_ref() == Some(section) => None,
            Some(_) => Some(
                "`builtIn` of the manifest is ignored: the section of the built-in controller with this name applies",
            ),
            None => Some("`builtIn` of the manifest is ignored: it applies only to built-in controllers"),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The root of the repository.
    pub(crate) fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// The manifests of the built-in controllers in the repository; a test binary may have none.
    pub(crate) fn manifests() -> Vec<Manifest> {
        let folders = fs::read_dir(root().join("plugins")).unwrap();
        let mut files: Vec<PathBuf> = folders.map(|folder| folder.unwrap().path().join("manifest.yaml")).collect();
        files.retain(|file| file.is_file());
        files.sort();
        files.iter().map(|file| manifest(&fs::read_to_string(file).unwrap())).collect()
    }

    pub(crate) fn manifest(yaml: &str) -> Manifest {
        let json: serde_json::Value = serde_norway::from_str(yaml).unwrap();
        Manifest::parse(json.to_string().as_bytes()).unwrap()
    }

    /// A manifest with this name and this `builtIn` section.
    pub(crate) fn with_section(name: &str, section: &str) -> Manifest {
        manifest(&format!(
            "{{name: {name}, version: '1', contract: '0.2', watches: [], queues: [{{name: q}}, {{name: slow, concurrency: 1}}],
              config: {{ca: {{type: string}}, graceMs: {{type: integer, default: 60000}}, on: {{type: boolean, default: true}}}}, builtIn: {section}}}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::testing::{manifests, root, with_section};
    use super::*;

    #[test]
    fn controllers_that_share_a_flag_declare_it_equally() {
        let manifests = manifests();
        assert!(manifests.len() > 5, "only {} manifests found", manifests.len());
        let flags = |manifest: &Manifest| manifest.built_in.clone().unwrap_or_default().flags;
        for (i, one) in manifests.iter().enumerate() {
            for flag in flags(one) {
                for other in &manifests[i + 1..] {
                    let conflict = flags(other).into_iter().find(|of| of.name == flag.name && !of.agrees_with(&flag));
                    assert_eq!(conflict, None, "{} and {} declare it differently", one.name, other.name);
                }
            }
        }
    }

    #[test]
    fn only_the_section_of_a_built_in_component_applies() {
        let catalogue =
            Catalogue::new([with_section("widgets", "{serviceAccount: widget-controller, client: {qps: 20}}")]);
        let own = with_section("widgets", "{serviceAccount: widget-controller, client: {qps: 20}}");
        assert_eq!(catalogue.ignored(&own), None);
        let greedy =
            with_section("widgets", "{serviceAccount: clusterrole-aggregation-controller, client: {qps: 1000}}");
        assert!(
            catalogue.ignored(&greedy).is_some_and(|why| why.contains("built-in controller with this name applies"))
        );
        let foreign = with_section("gadgets", "{serviceAccount: clusterrole-aggregation-controller}");
        assert!(catalogue.ignored(&foreign).is_some_and(|why| why.contains("it applies only to built-in controllers")));
        assert_eq!(catalogue.ignored(&Manifest { built_in: None, ..greedy }), None);
        assert_eq!(catalogue.section("widgets").map(|section| section.client.qps), Some(20));
        assert_eq!(catalogue.section("gadgets"), None);
        let accounts = catalogue.accounts();
        assert_eq!((&*accounts.of("widgets"), &*accounts.of("gadgets")), ("widget-controller", "pintle-gadgets"));
    }

    /// Calls `see` with each source file below `folder`, except tests.
    fn sources(folder: &Path, see: &mut dyn FnMut(&Path)) {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_test = name.contains("test") || name == "benches";
            match path.is_dir() {
                true if !is_test && name != "target" => sources(&path, see),
                false if !is_test && name.ends_with(".rs") => see(&path),
                _ => {}
            }
        }
    }

    /// Only the controller's own folder has code about it.
    #[test]
    fn the_host_knows_no_controller_by_name() {
        let mut words = Vec::new();
        for manifest in manifests() {
            let section = manifest.built_in.unwrap_or_default();
            words.extend(
                [Some(manifest.name), section.service_account].into_iter().flatten().map(|name| format!("{name:?}")),
            );
            words.extend(
                section.flags.iter().flat_map(|flag| [format!("--{}", flag.name), flag.name.replace('-', "_")]),
            );
        }
        let (mut found, mut n_files) = (Vec::new(), 0);
        sources(&root().join("host"), &mut |path| {
            n_files += 1;
            let text = fs::read_to_string(path).unwrap();
            // Unit tests are at the end of a file.
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            found.extend(
                words.iter().filter(|word| text.contains(*word)).map(|word| format!("{}: {word}", path.display())),
            );
        });
        assert!(n_files > 100, "only {n_files} source files found");
        assert!(found.is_empty(), "{found:#?}");
    }
}
