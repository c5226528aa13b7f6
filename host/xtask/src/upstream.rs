//! Every controller of kube-controller-manager (`plugins/upstream.yaml`), and which of them are built.
//!
//! *Invariant*: an entry with the name of a plugin has only its area, so that the list needs no change when a
//! controller is built.

use std::fs;

use anyhow::Context;
use pintle_core::contract::manifest::Manifest;
use pintle_core::object::id::Kind;
use serde::Deserialize;

use crate::guests::{self, Source};
use crate::root;

/// The list, relative to the root of the repository.
pub const PATH: &str = "plugins/upstream.yaml";

/// The list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// In the order of pages.
    pub areas: Vec<Area>,
    /// Flags of kube-controller-manager itself that Pintle does not have.
    pub flags: Vec<General>,
}

/// A group of controllers on a page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Area {
    /// For readers.
    pub name: String,
    /// Whether they belong to cloud providers; kube-controller-manager does not run them.
    #[serde(default)]
    pub cloud_providers: bool,
    /// In the order of pages.
    pub controllers: Vec<Entry>,
}

/// A controller of the list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Entry {
    /// Its full name.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Its flags.
    pub flags: Vec<String>,
    /// Kinds that no other controller acts on.
    pub reconciles: Vec<Kind>,
    /// The effect of its absence, for users of the embedded cluster.
    pub without: String,
    /// Whether it is off by default upstream.
    pub off_by_default: bool,
    /// Whether it runs upstream only with certain flags.
    pub needs_flags: bool,
    /// Its difficulty.
    pub hard_part: String,
    /// The parts of the contract, of the manifest and of the SDK for it.
    pub carried_by: String,
    /// The guest below `tests/guests/shape-*` with this difficulty.
    pub shape: String,
}

/// Flags with their alternatives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct General {
    /// Without the leading dashes.
    pub names: Vec<String>,
    /// The end of a sentence.
    pub instead: String,
}

impl Upstream {
    /// Reads the list.
    ///
    /// # Errors
    /// It cannot be read, or has an unknown field.
    pub fn read() -> anyhow::Result<Self> {
        let text = fs::read_to_string(root().join(PATH)).with_context(|| format!("read {PATH}"))?;
        serde_norway::from_str(&text).with_context(|| format!("read {PATH}"))
    }

    /// The controllers of kube-controller-manager, and those of cloud providers.
    pub fn controllers(&self) -> impl Iterator<Item = &Entry> {
        self.areas.iter().flat_map(|area| &area.controllers)
    }

    /// The list with the built controllers in their positions, and those missing from it at the end.
    pub fn with<'a>(&'a self, built: &'a [Manifest]) -> Vec<Listed<'a>> {
        let listed = |area: &'a Area| {
            let state = |entry: &'a Entry| match built.iter().find(|manifest| manifest.name == entry.name) {
                Some(manifest) => State::Built { manifest, is_off_upstream: entry.off_by_default },
                None => State::Missing(entry),
            };
            let controllers = area.controllers.iter().map(state).collect();
            Listed { area: &area.name, cloud_providers: area.cloud_providers, controllers }
        };
        let mut all: Vec<Listed<'a>> = self.areas.iter().map(listed).collect();
        let is_other = |manifest: &&Manifest| self.controllers().all(|entry| entry.name != manifest.name);
        let others = built.iter().filter(is_other);
        let others: Vec<State<'a>> = others.map(|manifest| State::Built { manifest, is_off_upstream: false }).collect();
        if !others.is_empty() {
            all.push(Listed { area: "other", cloud_providers: false, controllers: others });
        }
        all
    }

    /// Counts the controllers of kube-controller-manager, and the built ones. Those of cloud providers do not count.
    pub fn count(&self, built: &[Manifest]) -> Count {
        let own = self.areas.iter().filter(|area| !area.cloud_providers).flat_map(|area| &area.controllers);
        let is_built = |entry: &&Entry| built.iter().any(|manifest| manifest.name == entry.name);
        Count { built: own.clone().filter(is_built).count(), all: own.count() }
    }
}

/// See [`Upstream::count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Those with a plugin.
    pub built: usize,
    /// All.
    pub all: usize,
}

/// An area with its controllers.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    /// For readers.
    pub area: &'a str,
    /// As in [`Area`].
    pub cloud_providers: bool,
    /// In the order of pages.
    pub controllers: Vec<State<'a>>,
}

/// A controller of a page.
#[derive(Clone, Copy, Debug)]
pub enum State<'a> {
    /// A plugin has its name.
    Built {
        /// Of the plugin.
        manifest: &'a Manifest,
        /// Whether it is off by default upstream.
        is_off_upstream: bool,
    },
    /// No plugin has its name.
    Missing(&'a Entry),
}

impl<'a> Listed<'a> {
    /// The manifests of the built ones, and whether upstream has them off by default.
    pub fn built(&self) -> impl Iterator<Item = (&'a Manifest, bool)> {
        self.controllers.iter().filter_map(|state| match state {
            State::Built { manifest, is_off_upstream } => Some((*manifest, *is_off_upstream)),
            State::Missing(_) => None,
        })
    }

    /// The ones that are not built.
    pub fn missing(&self) -> impl Iterator<Item = &'a Entry> {
        self.controllers.iter().filter_map(|state| match state {
            State::Missing(entry) => Some(*entry),
            State::Built { .. } => None,
        })
    }
}

/// The manifests of the built-in controllers.
///
/// # Errors
/// One cannot be read.
pub fn built_in() -> anyhow::Result<Vec<Manifest>> {
    let parsed = guests::sources(guests::Set::Plugins)?.into_iter().map(|Source { name, manifest, .. }| {
        Manifest::parse(&manifest).with_context(|| format!("read the manifest of {name}"))
    });
    parsed.collect()
}
