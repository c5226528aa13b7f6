//! Arguments of the commands that publish components.

use std::path::PathBuf;

use clap::Args;
use pintle::cli::oci::{ConnectArgs, WaitArgs};
use pintle::output::Output;
use pintle_oci::{ArtifactRef, ComponentSource};

/// Arguments of `pintle push`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pintle push widgets.wasm oci://registry.example.com/team/widgets:1.2.0 --sign-key release.key
  # The same bytes, the same digest
  SOURCE_DATE_EPOCH=0 pintle push widgets.wasm oci://localhost:5000/widgets:dev \\
    --plain-http localhost:5000

Credentials are those of `docker login REGISTRY`: $DOCKER_CONFIG/config.json or ~/.docker/config.json, and its helpers.
Layout: that of CNCF TAG Runtime for Wasm (config application/vnd.wasm.config.v0+json, one layer application/wasm;
with --compress application/wasm+zstd).")]
pub struct PushArgs {
    /// The component file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Destination: `oci://REGISTRY/REPOSITORY:TAG`.
    #[arg(value_name = "oci://REF")]
    pub to: ArtifactRef,

    /// Author, for the artifact's configuration.
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,

    /// Compress the component with Zstandard, to about a third. Pintle reads it; other Wasm tools read only uncompressed artifacts.
    #[arg(long)]
    pub compress: bool,

    /// Private key in PEM (PKCS#8, ECDSA on P-256, without password) to sign with, before the tag is set.
    #[arg(long, value_name = "FILE")]
    pub sign_key: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub connect: ConnectArgs,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub wait: WaitArgs,
}

/// Arguments of `pintle sign`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pintle sign oci://registry.example.com/team/widgets@sha256:DIGEST --sign-key release.key
  pintle sign widgets.wasm --sign-key release.key      # writes widgets.wasm.sig

`cosign verify --key release.pub --insecure-ignore-tlog=true` and `cosign verify-blob` take these signatures.")]
pub struct SignArgs {
    /// A component file, or a component in a registry. A tag is resolved; the command signs and prints the digest.
    #[arg(value_name = "FILE|oci://REF", value_parser = ComponentSource::parse)]
    pub what: ComponentSource,

    /// Private key in PEM (PKCS#8, ECDSA on P-256, without password). Only its owner may have read permission.
    #[arg(long, value_name = "FILE")]
    pub sign_key: PathBuf,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub connect: ConnectArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub wait: WaitArgs,
}

/// Arguments of `pintle keygen`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pintle keygen release      # writes release.key, for --sign-key, and release.pub, for --verify-key

The private key is not encrypted: keep it where only those who sign can read it.")]
pub struct KeygenArgs {
    /// Name of the files, without `.key` and `.pub`.
    #[arg(value_name = "NAME", default_value = "pintle")]
    pub prefix: PathBuf,
}
