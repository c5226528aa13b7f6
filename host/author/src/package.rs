//! `pintle build` and `pintle package`: components as files.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_build::{Built, Project};
use pintle_wasm::{Inspection, LoadError, LoadProblem};
use serde_json::{Map, json};

use crate::crds::{self, DIFF_LINES};

/// The API server's limit for all values of a ConfigMap (`MaxSecretSize` in `pkg/apis/core`).
const MAX_CONFIG_MAP_BYTES: usize = 1 << 20;

/// Builds a plugin, and inspects the component as a host does when it loads it.
///
/// # Errors
/// It does not build, or no host would load the result.
pub fn component(project: &Project) -> anyhow::Result<Built> {
    let built = pintle_build::build(project)?;
    pintle_wasm::inspect(&built.name, &built.bytes)?;
    Ok(built)
}

/// The component of a plugin's folder, which is built, or of a component file. `manifest`: the file of a manifest to
/// add to a component file without one.
///
/// # Errors
/// It does not build, its definitions differ from its types, no host would load it, it has a manifest already, or a
/// file cannot be read.
pub fn package(plugin: &Path, manifest: Option<&Path>) -> anyhow::Result<(Vec<u8>, Inspection)> {
    let shown = plugin.display().to_string();
    let bytes = if let Some(manifest) = manifest {
        with_manifest(plugin, manifest)?
    } else if plugin.is_dir() {
        let project = Project::open(plugin, None)?;
        crds::check(&project, DIFF_LINES)?;
        component(&project)?.bytes
    } else {
        std::fs::read(plugin).with_context(|| format!("read {shown}"))?
    };
    let found = pintle_wasm::inspect(&shown, &bytes)?;
    Ok((bytes, found))
}

/// A component file with an added manifest; it must not have one already.
fn with_manifest(plugin: &Path, manifest: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = plugin.display().to_string();
    ensure!(
        !plugin.is_dir(),
        "{shown} is a directory, whose manifest is its manifest.yaml: leave out --manifest, or name a component file"
    );
    let (json, _) = pintle_build::manifest_json(manifest)?;
    let mut component = std::fs::read(plugin).with_context(|| format!("read {shown}"))?;
    match pintle_wasm::inspect(&shown, &component) {
        Err(LoadError { problem: LoadProblem::NoManifest, .. }) => {}
        Err(why) => return Err(why.into()),
        Ok(found) => bail!(
            "{shown} contains a manifest already, of {} {}: leave out --manifest, or name the file that the toolchain made",
            found.manifest.name,
            found.manifest.version
        ),
    }
    pintle_build::add_manifest(&mut component, &json);
    Ok(component)
}

/// Namespace and name of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl FromStr for ConfigMapName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= 253
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
        };
        match text.split_once('/') {
            Some((namespace, name)) if is_name(namespace) && is_name(name) => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("write NAMESPACE/NAME, with lowercase letters, digits, `-` and `.`".to_owned()),
        }
    }
}

/// A ConfigMap, in YAML, with a compressed component under the key `NAME.wasm`, with the name of its plugin, and with
/// its optional signature (base64, as written by `pintle sign`), under `NAME.wasm.sig`.
///
/// # Errors
/// It does not fit into a ConfigMap.
pub fn config_map(
    to: &ConfigMapName,
    component: &[u8],
    found: &Inspection,
    signature: Option<&str>,
) -> anyhow::Result<String> {
    let key = format!("{}.wasm", found.manifest.name);
    let compressed = pintle_oci::compressed(component).context("compress the component")?;
    let mut data = Map::new();
    if let Some(signature) = signature {
        data.insert(format!("{key}.sig"), signature.into());
    }
    // The API server limits the size of the values.
    let size = compressed.len() + signature.map_or(0, str::len);
    ensure!(
        size <= MAX_CONFIG_MAP_BYTES,
        "{} has {} bytes compressed, and a ConfigMap holds {MAX_CONFIG_MAP_BYTES}: push it to a registry (`pintle push {key} oci://REGISTRY/REPOSITORY:TAG`), and name that as `oci` in the ControllerPlugin's spec.source",
        found.manifest.name,
        compressed.len()
    );
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": to.name, "namespace": to.namespace},
        "binaryData": {key: STANDARD.encode(&compressed)},
    });
    if !data.is_empty() {
        object["data"] = data.into();
    }
    serde_norway::to_string(&object).context("write the ConfigMap")
}
