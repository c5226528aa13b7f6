//! The container image: one layer with the binary, what names its user, and certificate authorities. There is no shell and no base image.
//!
//! The file is both an OCI image layout and what `docker load` takes (`manifest.json`), as `docker save` writes it.
//!
//! *Source*: OCI Image Format Specification 1.1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::tree::{Tree, compressed};
use crate::root;

/// User and group of the process. Names are of use to people only.
pub const USER: u64 = 65532;

/// Where the binary is.
pub const BINARY: &str = "/usr/local/bin/pintle";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The digest of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The certificate authorities that Mozilla trusts, as PEM: for registries. The version is that of a crate.
fn authorities() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text += "-----BEGIN CERTIFICATE-----\n";
        let encoded = STANDARD.encode(certificate);
        for line in encoded.as_bytes().chunks(64) {
            text.extend(line.iter().map(|byte| char::from(*byte)));
            text.push('\n');
        }
        text += "-----END CERTIFICATE-----\n";
    }
    text
}

/// What the container sees.
fn files(binary: &[u8]) -> anyhow::Result<Tree> {
    let mut tree = Tree::default();
    for folder in [
        "etc",
        "etc/ssl",
        "etc/ssl/certs",
        "usr",
        "usr/local",
        "usr/local/bin",
        "usr/share",
        "usr/share/doc",
        "usr/share/doc/pintle",
    ] {
        tree.add_empty(folder, 0o755, 0);
    }
    // For the admin socket, if the root is writable; otherwise a volume is mounted there. Compiled plugins are not kept: volumes of Pods
    // are writable for everybody, which the cache of compiled code refuses.
    tree.add_empty("run", 0o755, USER);
    tree.add(&BINARY[1..], 0o755, binary.to_vec());
    tree.add(
        "etc/passwd",
        0o644,
        format!("root:x:0:0:root:/:/sbin/nologin\npintle:x:{USER}:{USER}::/:/sbin/nologin\n").into(),
    );
    tree.add("etc/group", 0o644, format!("root:x:0:\npintle:x:{USER}:\n").into());
    tree.add("etc/ssl/certs/ca-certificates.crt", 0o644, authorities().into());
    tree.add("usr/share/doc/pintle/LICENSE", 0o644, std::fs::read(root().join("LICENSE"))?);
    Ok(tree)
}

fn config(architecture: &str, version: &str, layer: &str) -> Value {
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            // A number, so that a kubelet knows that it is not root.
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/local/bin", "XDG_RUNTIME_DIR=/run"],
            "Entrypoint": [BINARY],
            "Cmd": ["run"],
            "WorkingDir": "/",
            "ExposedPorts": {"10257/tcp": {}},
            "Labels": {
                "org.opencontainers.image.title": "pintle",
                "org.opencontainers.image.description": "Runs Kubernetes controllers as sandboxed WebAssembly components",
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.version": version,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created_by": "cargo xtask release"}],
    })
}

/// The image of a binary as an archive. The same arguments give the same bytes.
///
/// # Errors
/// The licence cannot be read.
pub fn archive(binary: &[u8], architecture: &str, version: &str) -> anyhow::Result<Vec<u8>> {
    let files = files(binary)?.archived()?;
    let layer = compressed(&files)?;
    let config = serde_json::to_vec(&config(architecture, version, &sha256(&files)))?;
    let describe = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len()});
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": describe(CONFIG, &config), "layers": [describe(LAYER, &layer)],
    }))?;
    let mut described = describe(MANIFEST, &manifest);
    described["platform"] = json!({"os": "linux", "architecture": architecture});
    described["annotations"] = json!({
        "org.opencontainers.image.ref.name": version,
        // What containerd calls it when it imports the file: as the manifests do.
        "io.containerd.image.name": format!("docker.io/library/pintle:{version}"),
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]});
    let blob = |bytes: &[u8]| format!("blobs/sha256/{}", sha256(bytes));
    let for_docker =
        json!([{"Config": blob(&config), "RepoTags": [format!("pintle:{version}")], "Layers": [blob(&layer)]}]);
    let mut archive = Tree::default();
    archive.add("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
    archive.add("index.json", 0o644, serde_json::to_vec(&index)?);
    archive.add("manifest.json", 0o644, serde_json::to_vec(&for_docker)?);
    for bytes in [config, layer, manifest] {
        archive.add(&blob(&bytes), 0o644, bytes);
    }
    archive.archived()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use anyhow::{Context, Result, ensure};
    use flate2::read::GzDecoder;

    use super::*;

    /// Contents by name.
    type Contents = BTreeMap<String, Vec<u8>>;

    /// Type, mode, user, group and name of each entry; and what files hold.
    fn list(archive: &[u8]) -> Result<(Vec<String>, Contents)> {
        let (mut lines, mut contents) = (Vec::new(), BTreeMap::new());
        for entry in tar::Archive::new(archive).entries()? {
            let mut entry = entry?;
            let header = entry.header().clone();
            let name = entry.path()?.to_string_lossy().into_owned();
            let kind = if header.entry_type().is_dir() { 'd' } else { '-' };
            lines.push(format!("{kind} {:04o} {}:{} {name}", header.mode()?, header.uid()?, header.gid()?));
            ensure!(header.mtime()? == 0, "{name} has a time");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            contents.insert(name, bytes);
        }
        Ok((lines, contents))
    }

    fn blob(contents: &Contents, descriptor: &Value) -> Result<Vec<u8>> {
        let digest = descriptor["digest"].as_str().context("no digest")?.trim_start_matches("sha256:");
        let bytes = contents.get(&format!("blobs/sha256/{digest}")).context("a blob is missing")?;
        ensure!(sha256(bytes) == digest, "a digest is wrong");
        ensure!(descriptor["size"] == bytes.len(), "a size is wrong");
        Ok(bytes.clone())
    }

    #[test]
    fn the_layer_has_exactly_these_files() -> Result<()> {
        let (blobs, contents) = list(&archive(b"the binary", "amd64", "1.2.3")?)?;
        ensure!(blobs.len() == 6, "{blobs:?}");
        let index: Value = serde_json::from_slice(&contents["index.json"])?;
        let manifest: Value = serde_json::from_slice(&blob(&contents, &index["manifests"][0])?)?;
        let config: Value = serde_json::from_slice(&blob(&contents, &manifest["config"])?)?;
        let mut layer = Vec::new();
        GzDecoder::new(&*blob(&contents, &manifest["layers"][0])?).read_to_end(&mut layer)?;
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&layer))]));
        let (files, contents) = list(&layer)?;
        let wanted = [
            "d 0755 0:0 etc/",
            "- 0644 0:0 etc/group",
            "- 0644 0:0 etc/passwd",
            "d 0755 0:0 etc/ssl/",
            "d 0755 0:0 etc/ssl/certs/",
            "- 0644 0:0 etc/ssl/certs/ca-certificates.crt",
            "d 0755 65532:65532 run/",
            "d 0755 0:0 usr/",
            "d 0755 0:0 usr/local/",
            "d 0755 0:0 usr/local/bin/",
            "- 0755 0:0 usr/local/bin/pintle",
            "d 0755 0:0 usr/share/",
            "d 0755 0:0 usr/share/doc/",
            "d 0755 0:0 usr/share/doc/pintle/",
            "- 0644 0:0 usr/share/doc/pintle/LICENSE",
        ];
        assert_eq!(files, wanted);
        assert_eq!(contents["usr/local/bin/pintle"], b"the binary");
        let authorities = String::from_utf8(contents["etc/ssl/certs/ca-certificates.crt"].clone())?;
        ensure!(authorities.matches("BEGIN CERTIFICATE").count() > 50, "too few authorities");
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!([BINARY]));
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.version"], "1.2.3");
        assert_eq!((&config["architecture"], &config["os"]), (&json!("amd64"), &json!("linux")));
        Ok(())
    }

    #[test]
    fn the_same_binary_gives_the_same_image() -> Result<()> {
        let first = archive(b"the binary", "amd64", "1.2.3")?;
        ensure!(first == archive(b"the binary", "amd64", "1.2.3")?, "it differs");
        ensure!(first != archive(b"the binary!", "amd64", "1.2.3")?, "another binary makes no difference");
        Ok(())
    }
}
