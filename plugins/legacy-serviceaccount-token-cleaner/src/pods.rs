//! The Secrets that Pods refer to.

use crate::types::{Pod, PodSpecContainersEnv, PodSpecContainersEnvFrom, PodSpecVolumes};

/// The names of all Secrets that a Pod refers to.
#[doc(alias = "VisitPodSecretNames")]
pub(crate) fn secret_names(pod: &Pod) -> impl Iterator<Item = &str> {
    let spec = &pod.spec;
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let ephemeral = &spec.ephemeral_containers;
    let pull = spec.image_pull_secrets.iter().map(|secret| secret.name.as_str());
    let names = containers.flat_map(|container| of_container(&container.env, &container.env_from));
    let names = names.chain(ephemeral.iter().flat_map(|container| of_container(&container.env, &container.env_from)));
    pull.chain(names).chain(spec.volumes.iter().flat_map(of_volume)).filter(|name| !name.is_empty())
}

#[doc(alias = "visitContainerSecretNames")]
fn of_container<'a>(
    env: &'a [PodSpecContainersEnv],
    env_from: &'a [PodSpecContainersEnvFrom],
) -> impl Iterator<Item = &'a str> {
    let all = env_from.iter().filter_map(|from| from.secret_ref.as_ref()).map(|secret| secret.name.as_str());
    let keys = env.iter().filter_map(|env| env.value_from.as_ref()?.secret_key_ref.as_ref());
    all.chain(keys.map(|key| key.name.as_str()))
}

/// The names in one volume, which has one source.
fn of_volume(volume: &PodSpecVolumes) -> Vec<&str> {
    let projected = volume.projected.iter().flat_map(|projected| &projected.sources);
    let mut names: Vec<&str> =
        projected.filter_map(|source| source.secret.as_ref()).map(|secret| secret.name.as_str()).collect();
    let references = [
        volume.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.csi.as_ref().and_then(|source| source.node_publish_secret_ref.as_ref()),
        volume.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.rbd.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.scale_io.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.storageos.as_ref().and_then(|source| source.secret_ref.as_ref()),
    ];
    names.extend(references.into_iter().flatten().map(|secret| secret.name.as_str()));
    names.extend(volume.azure_file.as_ref().map(|source| source.secret_name.as_str()));
    names.extend(volume.secret.as_ref().map(|source| source.secret_name.as_str()));
    names
}
