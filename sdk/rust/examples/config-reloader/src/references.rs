//! Where Pods name ConfigMaps.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    volumes: Vec<Volume>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    config_map: Option<Reference>,
    projected: Projected,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Projected {
    sources: Vec<Source>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Source {
    config_map: Option<Reference>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    env_from: Vec<EnvFrom>,
    env: Vec<Env>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EnvFrom {
    config_map_ref: Option<Reference>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Env {
    value_from: ValueFrom,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ValueFrom {
    config_map_key_ref: Option<Reference>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    name: String,
    optional: bool,
}

impl PodSpec {
    /// Names of ConfigMaps, and whether the Pods can do without: only if every reference says so.
    pub(crate) fn config_maps(&self) -> BTreeMap<&str, bool> {
        let in_volumes = self.volumes.iter().flat_map(|volume| {
            let projected = volume.projected.sources.iter().map(|source| &source.config_map);
            std::iter::once(&volume.config_map).chain(projected)
        });
        let containers = self.init_containers.iter().chain(&self.containers);
        let in_environments = containers.flat_map(|container| {
            let whole = container.env_from.iter().map(|from| &from.config_map_ref);
            whole.chain(container.env.iter().map(|variable| &variable.value_from.config_map_key_ref))
        });
        let mut names = BTreeMap::new();
        for Reference { name, optional } in in_volumes.chain(in_environments).flatten() {
            *names.entry(name.as_str()).or_insert(true) &= *optional;
        }
        names
    }
}
