//! The artifact format of a component: the OCI layout shared by Wasm tools.
//!
//! An artifact has one manifest, a config that lists the component's imports and exports, and the component as its only
//! layer.
//!
//! *Source*: CNCF TAG Runtime, "Wasm OCI Artifact layout".

use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;
use pintle_core::contract::manifest::Manifest as PluginManifest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::compression::compressed;
use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::file::MAX_COMPONENT_BYTES;

/// Media type of manifests.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of configs that mark an artifact as Wasm.
pub(crate) const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of components.
pub(crate) const COMPONENT: &str = "application/wasm";
/// Media type of a layer with a compressed component. Other tools read only the one above.
pub(crate) const COMPRESSED: &str = "application/wasm+zstd";
/// Annotation of a compressed layer: the digest of the component itself.
const COMPONENT_DIGEST: &str = "dev.pintle.component.digest";
/// Longest manifest: the minimum that every registry must accept, by the distribution specification.
pub(crate) const MAX_MANIFEST_BYTES: usize = 4 << 20;

/// Metadata of a component, for its artifact.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The plugin's manifest.
    pub manifest: &'a PluginManifest,
    /// Names of imported interfaces and functions.
    pub imports: &'a [String],
    /// Names of exported functions and interfaces.
    pub exports: &'a [String],
}

/// The documents pushed with the component.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The OCI manifest: JSON.
    pub manifest: Vec<u8>,
    /// The config: JSON.
    pub config: Vec<u8>,
    /// The layer: the component, compressed on request.
    pub layer: Vec<u8>,
}

impl Artifact {
    /// Describes `component` as an artifact. The same arguments give the same bytes. `compress`: with Zstandard, which only Pintle reads.
    ///
    /// # Errors
    /// There is not enough memory to compress it.
    pub fn new(
        component: Vec<u8>,
        about: About<'_>,
        author: Option<&str>,
        created: Timestamp,
        compress: bool,
    ) -> io::Result<Self> {
        let digest = Digest::of(&component);
        let layer = if compress { compressed(&component)? } else { component };
        let created = format!("{created:.0}");
        let mut config = json!({
            "created": created,
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [digest.to_string()],
            "component": {"exports": about.exports, "imports": about.imports, "target": null},
        });
        if let Some(author) = author {
            config["author"] = author.into();
        }
        let config = serde_json::to_vec(&config)?;
        let manifest = about.manifest;
        let mut annotations = Map::new();
        let mut annotate = |name: &str, text: &str| {
            if !text.is_empty() {
                annotations.insert(format!("org.opencontainers.image.{name}"), Value::from(text));
            }
        };
        annotate("created", &created);
        annotate("title", &manifest.name);
        annotate("version", &manifest.version);
        annotate("description", &manifest.description);
        annotate("authors", author.unwrap_or_default());
        let mut of_layer = json!({
            "mediaType": COMPONENT,
            "digest": Digest::of(&layer).to_string(),
            "size": layer.len(),
            // The file name used by other tools when they save the component.
            "annotations": {"org.opencontainers.image.title": format!("{}.wasm", manifest.name)},
        });
        if compress {
            of_layer["mediaType"] = COMPRESSED.into();
            of_layer["annotations"] = json!({ COMPONENT_DIGEST: digest.to_string() });
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": Digest::of(&config).to_string(), "size": config.len()},
            "layers": [of_layer],
            "annotations": annotations,
        });
        Ok(Self { manifest: serde_json::to_vec(&manifest)?, config, layer })
    }
}

/// A parsed manifest.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) media_type: String,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// A manifest's description of a blob.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Manifest {
    /// # Errors
    /// The kind of the document; a retry does not help.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|why| format!("its manifest is not JSON: {why}"))?;
        if value["manifests"].is_array() {
            return Err("it is an index of several artifacts; name one of them by its digest".to_owned());
        }
        let manifest: Self =
            serde_json::from_value(value).map_err(|why| format!("its manifest is not an OCI manifest: {why}"))?;
        if manifest.schema_version != 2 || !matches!(manifest.media_type.as_str(), "" | MANIFEST) {
            return Err(format!(
                "its manifest has media type {:?}, schema version {}; expected {MANIFEST}",
                manifest.media_type, manifest.schema_version
            ));
        }
        Ok(manifest)
    }
}

/// The component that a manifest describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Digest of the blob.
    pub blob: Digest,
    /// Length of the blob in bytes.
    pub size: u64,
    /// Digest of the component, which differs from that of the blob if it is compressed.
    pub component: Digest,
}

/// The component of a manifest. Errors contain `what`.
///
/// # Errors
/// The manifest does not describe a Wasm artifact with one component that this host accepts; a retry does not help.
pub fn component_of(what: &str, manifest: &[u8]) -> Result<Layer, Error> {
    let wrong = |why: String| Error::new(Reason::NotWasm, format!("{what}: {why}"));
    let Manifest { config, layers, .. } = Manifest::parse(manifest).map_err(wrong)?;
    if config.media_type != CONFIG {
        return Err(wrong(format!("it is not a Wasm artifact: its config is {}, not {CONFIG}", config.media_type)));
    }
    let [layer] = layers.as_slice() else {
        return Err(wrong(format!("it has {} layers; a component artifact has one", layers.len())));
    };
    let blob = layer.digest.parse().map_err(wrong)?;
    let component = match &*layer.media_type {
        COMPONENT => blob,
        COMPRESSED => {
            let named = layer.annotations.get(COMPONENT_DIGEST);
            let named = named.ok_or_else(|| wrong(format!("its layer has no annotation {COMPONENT_DIGEST}")))?;
            named.parse().map_err(|why| wrong(format!("{COMPONENT_DIGEST}: {why}")))?
        }
        other => return Err(wrong(format!("its layer is {other}, not {COMPONENT}"))),
    };
    if layer.size > MAX_COMPONENT_BYTES as u64 {
        let text = format!("{what}: the component has {} bytes; the maximum is {MAX_COMPONENT_BYTES}", layer.size);
        return Err(Error::new(Reason::TooLarge, text));
    }
    Ok(Layer { blob, size: layer.size, component })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn descriptor(media_type: &str, size: u64) -> Value {
        json!({"mediaType": media_type, "digest": Digest::of(b"x").to_string(), "size": size})
    }

    fn check(manifest: Value, expected: Expect) {
        let text = match component_of("oci://r/a:1", manifest.to_string().as_bytes()) {
            Ok(Layer { blob, size, component }) => {
                format!("{} {size} {}", blob == Digest::of(b"x"), component == Digest::of(b"y"))
            }
            Err(why) => format!("{}: {}", why.reason, why.message),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn a_wasm_artifact_has_one_component() {
        let good = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(CONFIG, 1), "layers": [descriptor(COMPONENT, 7)],
        });
        check(good.clone(), expect!["true 7 false"]);
        let with = |path: &str, value: Value| {
            let mut changed = good.clone();
            *changed.pointer_mut(path).unwrap() = value;
            changed
        };
        check(
            with("/config", descriptor("application/vnd.oci.image.config.v1+json", 1)),
            expect![
                "NotWasm: oci://r/a:1: it is not a Wasm artifact: its config is application/vnd.oci.image.config.v1+json, not application/vnd.wasm.config.v0+json"
            ],
        );
        check(
            with("/layers", json!([])),
            expect!["NotWasm: oci://r/a:1: it has 0 layers; a component artifact has one"],
        );
        check(
            with("/layers", json!([descriptor(COMPONENT, 1), descriptor(COMPONENT, 1)])),
            expect!["NotWasm: oci://r/a:1: it has 2 layers; a component artifact has one"],
        );
        check(
            with("/layers/0/mediaType", json!("application/vnd.oci.image.layer.v1.tar+gzip")),
            expect![
                "NotWasm: oci://r/a:1: its layer is application/vnd.oci.image.layer.v1.tar+gzip, not application/wasm"
            ],
        );
        check(
            with("/layers/0/digest", json!("sha512:00")),
            expect![[
                r#"NotWasm: oci://r/a:1: "sha512:00" is not a digest; write sha256: and 64 digits of 0-9 and a-f"#
            ]],
        );
        check(
            with("/layers/0/size", json!((64 << 20) + 1)),
            expect!["TooLarge: oci://r/a:1: the component has 67108865 bytes; the maximum is 67108864"],
        );
        check(
            with("/schemaVersion", json!(1)),
            expect![[
                r#"NotWasm: oci://r/a:1: its manifest has media type "application/vnd.oci.image.manifest.v1+json", schema version 1; expected application/vnd.oci.image.manifest.v1+json"#
            ]],
        );
        check(
            json!({"schemaVersion": 2, "manifests": []}),
            expect!["NotWasm: oci://r/a:1: it is an index of several artifacts; name one of them by its digest"],
        );
        check(
            json!([]),
            expect![
                "NotWasm: oci://r/a:1: its manifest is not an OCI manifest: invalid length 0, expected struct Manifest with 4 elements"
            ],
        );
    }
}
