//! Arguments about registries, keys and signatures.

use std::path::PathBuf;

use clap::Args;
use pintle_oci::{ArtifactRef, ComponentSource};

use super::Output;

/// How registries are talked to.
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectArgs {
    /// A registry that is to be talked to without TLS, for example `registry.internal:5000`. Repeatable. One on this machine (localhost,
    /// 127.0.0.1) is anyway, unless --registry-ca-file is given.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub plain_http: Vec<String>,

    /// Certificate authorities to believe registries by, in PEM, besides those of the system.
    #[arg(long, value_name = "FILE")]
    pub registry_ca_file: Option<PathBuf>,
}

/// How registries are talked to, and whose components are taken. Credentials are those of `docker login`.
#[derive(Debug, Clone, Default, Args)]
pub struct RegistryArgs {
    /// Public key in PEM (ECDSA on P-256); repeatable. Once one is given, whatever is not signed by one of them is refused: a component
    /// from a registry needs a signature as `pintle sign` or `cosign sign --key` makes it, a file NAME.wasm one in NAME.wasm.sig
    /// beside it, a key of a ConfigMap one under the key KEY.sig. A host is bound by it whichever way a component comes.
    #[arg(long, value_name = "FILE")]
    pub verify_key: Vec<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub connect: ConnectArgs,
}

/// Arguments of `pintle push`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pintle push widgets.wasm oci://registry.example.com/team/widgets:1.2.0 --sign-key release.key
  SOURCE_DATE_EPOCH=0 pintle push widgets.wasm oci://localhost:5000/widgets:dev   # the same bytes, the same digest

Credentials are those of `docker login REGISTRY`: $DOCKER_CONFIG/config.json or ~/.docker/config.json, and its helpers.
Layout: that of CNCF TAG Runtime for Wasm (config application/vnd.wasm.config.v0+json, one layer application/wasm).")]
pub struct PushArgs {
    /// The component file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where to: `oci://REGISTRY/REPOSITORY:TAG`.
    #[arg(value_name = "oci://REF")]
    pub to: ArtifactRef,

    /// Who has made it, for the artifact's config.
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,

    /// Private key in PEM (PKCS#8, ECDSA on P-256, without password) to sign with, before the tag leads to the component.
    #[arg(long, value_name = "FILE")]
    pub sign_key: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub connect: ConnectArgs,

    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Arguments of `pintle pull`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pintle pull oci://registry.example.com/team/widgets:1.2.0
  pintle pull oci://registry.example.com/team/widgets@sha256:DIGEST -o widgets.wasm --verify-key release.pub")]
pub struct PullArgs {
    /// What: `oci://REGISTRY/REPOSITORY:TAG`, with `@sha256:DIGEST` to take nothing else.
    #[arg(value_name = "oci://REF")]
    pub from: ArtifactRef,

    /// Where to write it; NAME.wasm here by default, after the plugin's name. What is there is replaced.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: RegistryArgs,
}

/// Arguments of `pintle sign`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pintle sign oci://registry.example.com/team/widgets@sha256:DIGEST --sign-key release.key
  pintle sign widgets.wasm --sign-key release.key      # writes widgets.wasm.sig

`cosign verify --key release.pub --insecure-ignore-tlog=true` and `cosign verify-blob` take these signatures.")]
pub struct SignArgs {
    /// A component file, or a component in a registry. A tag is resolved; what is signed is the digest that is printed.
    #[arg(value_name = "FILE|oci://REF", value_parser = ComponentSource::parse)]
    pub what: ComponentSource,

    /// Private key in PEM (PKCS#8, ECDSA on P-256, without password), which only its owner may be able to read.
    #[arg(long, value_name = "FILE")]
    pub sign_key: PathBuf,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub connect: ConnectArgs,
}

/// Arguments of `pintle verify`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pintle verify oci://registry.example.com/team/widgets:1.2.0 --verify-key release.pub")]
pub struct VerifyArgs {
    /// A component file, or a component in a registry.
    #[arg(value_name = "FILE|oci://REF", value_parser = ComponentSource::parse)]
    pub what: ComponentSource,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: RegistryArgs,
}

/// Arguments of `pintle keygen`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pintle keygen release      # writes release.key, for --sign-key, and release.pub, for --verify-key

The private key is not encrypted: keep it where only those who sign can read it.")]
pub struct KeygenArgs {
    /// What the files are called, without `.key` and `.pub`.
    #[arg(value_name = "NAME", default_value = "pintle")]
    pub prefix: PathBuf,
}
