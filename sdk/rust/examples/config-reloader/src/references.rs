//! References of Pods to ConfigMaps.

use std::collections::BTreeMap;

use crate::DeploymentSpecTemplateSpec;

/// Names of ConfigMaps, and whether they are optional: only if every reference is.
pub(crate) fn config_maps(pods: &DeploymentSpecTemplateSpec) -> BTreeMap<&str, bool> {
    let in_volumes = pods.volumes.iter().flat_map(|volume| {
        let projected = volume.projected.iter().flat_map(|projected| &projected.sources);
        let projected = projected.filter_map(|source| source.config_map.as_ref()).map(|map| (&map.name, map.optional));
        volume.config_map.iter().map(|map| (&map.name, map.optional)).chain(projected)
    });
    let in_environments = pods.init_containers.iter().chain(&pods.containers).flat_map(|container| {
        let whole = container.env_from.iter().filter_map(|from| from.config_map_ref.as_ref());
        let keys =
            container.env.iter().filter_map(|variable| variable.value_from.as_ref()?.config_map_key_ref.as_ref());
        whole.map(|map| (&map.name, map.optional)).chain(keys.map(|key| (&key.name, key.optional)))
    });
    let mut names = BTreeMap::new();
    for (name, optional) in in_volumes.chain(in_environments) {
        *names.entry(name.as_str()).or_insert(true) &= optional == Some(true);
    }
    names
}
