//! A real registry (Debian's `docker-registry`) as a child process that does not outlive its test.
//!
//! Flow: configuration and storage lie in a folder of their own; the registry listens on a free port of loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::ports::free_ports;
use crate::process::Guarded;
use crate::{PATIENCE, eventually, target_dir};

/// The program, and Debian's package that has it.
const PROGRAM: &str = "docker-registry";
/// Name and password of [`Access::Password`].
pub const USER: (&str, &str) = ("pusher", "right");
/// Their line of an htpasswd file, with few rounds of bcrypt.
const HTPASSWD: &str = "pusher:$2y$04$eJeSvg60ZCqEkNyd9ohILuaH7DU1BhT0NEQzlisqeYA.0CWInW0A.\n";

/// Who gets in, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without TLS.
    Open,
    /// Only [`USER`], without TLS.
    Password,
    /// Everybody, with TLS.
    Tls,
}

/// A running registry.
#[derive(Debug)]
pub struct Registry {
    _process: Guarded,
    access: Access,
    port: u16,
    folder: TempDir,
}

impl Registry {
    /// Starts one, and waits until it listens.
    ///
    /// # Errors
    /// `docker-registry` is not installed, or does not start.
    pub async fn start(access: Access) -> Result<Registry> {
        let target = target_dir();
        std::fs::create_dir_all(&target).context("make the target folder")?;
        let folder = tempfile::Builder::new().prefix("registry-").tempdir_in(target)?;
        let at = |name: &str| folder.path().join(name);
        let [port] = free_ports()?;
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": at("storage")}},
            "http": {"addr": format!("127.0.0.1:{port}")},
        });
        match access {
            Access::Open => {}
            Access::Password => {
                std::fs::write(at("htpasswd"), HTPASSWD)?;
                config["auth"] = json!({"htpasswd": {"realm": "test", "path": at("htpasswd")}});
            }
            Access::Tls => {
                certificates(folder.path())?;
                config["http"]["tls"] = json!({"certificate": at("server.crt"), "key": at("server.key")});
            }
        }
        // Whatever is JSON is YAML.
        std::fs::write(at("config.yml"), config.to_string())?;
        let mut serve = Command::new(PROGRAM);
        let process =
            Guarded::tied(PROGRAM, serve.arg("serve").arg(at("config.yml")), &at("log")).with_context(|| {
                format!("{PROGRAM} is not installed: `cargo xtask test` does, or `apt-get install {PROGRAM}`")
            })?;
        let registry = Registry { _process: process, access, port, folder };
        eventually(PATIENCE, "the registry to listen", async || {
            Ok(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok())
        })
        .await
        .with_context(|| std::fs::read_to_string(registry.folder.path().join("log")).unwrap_or_default())?;
        Ok(registry)
    }

    /// Host and port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Host and port, if it is used without TLS.
    pub fn plain_http(&self) -> Option<String> {
        (self.access != Access::Tls).then(|| self.host())
    }

    /// The authority that vouches for it, of [`Access::Tls`].
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// Where it keeps the blob of this digest (`sha256:...`).
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self.folder.path().join("storage/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }

    /// The manifest that a tag leads to, as it lies there.
    ///
    /// # Errors
    /// There is none.
    pub fn manifest(&self, repository: &str, tag: &str) -> Result<Value> {
        let digest =
            std::fs::read_to_string(self.link(repository, tag)).with_context(|| format!("{repository}:{tag}"))?;
        Ok(serde_json::from_slice(&std::fs::read(self.blob(&digest))?)?)
    }

    /// Puts a manifest under a tag, past every check that a registry makes; answers its digest.
    ///
    /// # Errors
    /// The storage cannot be written.
    pub fn put_manifest(&self, repository: &str, tag: &str, manifest: &Value) -> Result<String> {
        let bytes = serde_json::to_vec(manifest)?;
        let hex: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let digest = format!("sha256:{hex}");
        let manifests = self.folder.path().join("storage/docker/registry/v2/repositories").join(repository);
        let manifests = manifests.join("_manifests");
        ensure!(manifests.exists(), "there is no repository {repository}");
        let files = [
            (self.blob(&digest), bytes.as_slice()),
            (manifests.join("revisions/sha256").join(&hex).join("link"), digest.as_bytes()),
            (manifests.join("tags").join(tag).join("index/sha256").join(&hex).join("link"), digest.as_bytes()),
            (self.link(repository, tag), digest.as_bytes()),
        ];
        for (file, bytes) in files {
            std::fs::create_dir_all(file.parent().context("no folder")?)?;
            std::fs::write(file, bytes)?;
        }
        Ok(digest)
    }

    fn link(&self, repository: &str, tag: &str) -> PathBuf {
        let repositories = self.folder.path().join("storage/docker/registry/v2/repositories");
        repositories.join(repository).join("_manifests/tags").join(tag).join("current/link")
    }
}

/// An authority, and a certificate of it for this machine.
fn certificates(folder: &Path) -> Result<()> {
    let authority = authority()?;
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
    std::fs::write(folder.join("ca.crt"), authority.pem())?;
    std::fs::write(folder.join("server.crt"), server.pem())?;
    std::fs::write(folder.join("server.key"), key.serialize_pem())?;
    Ok(())
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

/// The certificate of an authority that has signed nothing, in PEM.
///
/// # Errors
/// No key can be made.
pub fn other_authority() -> Result<String> {
    Ok(authority()?.pem())
}
