//! Arguments about registries, keys and signatures.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pintle_oci::{ArtifactRef, ComponentSource};

use crate::flags;

/// How registries are talked to.
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectArgs {
    /// Registry to use without TLS, for example `localhost:5000`. Repeatable. Without it every registry needs TLS, one on this machine too.
    #[arg(long, value_name = "HOST[:PORT]", env = "PINTLE_PLAIN_HTTP", value_delimiter = ',')]
    pub plain_http: Vec<String>,

    /// Token server, on another host than its registry, that may see the registry's credentials. Repeatable. Those of Docker Hub and
    /// GitLab are known.
    #[arg(long, value_name = "HOST")]
    pub registry_token_server: Vec<String>,

    /// Certificate authorities for registries, in PEM, in addition to those of the system.
    #[arg(long, value_name = "FILE")]
    pub registry_ca_file: Option<PathBuf>,
}

/// How long a command waits for a registry.
#[derive(Debug, Clone, Default, Args)]
pub struct WaitArgs {
    /// How long to wait for the registry, for example `5m`. By default a minute for each small request, and 15 minutes for a component.
    #[arg(long, value_name = "DURATION", value_parser = flags::timeout)]
    pub timeout: Option<Duration>,
}

/// How registries are talked to, and whose components are taken. Credentials are those of `docker login`.
#[derive(Debug, Clone, Default, Args)]
pub struct RegistryArgs {
    /// Public key in PEM (ECDSA on P-256); repeatable. With at least one key, the host runs only components signed with one of these keys,
    /// whatever their source. A component in a registry needs a signature by `pintle sign` or `cosign sign --key`, a file NAME.wasm
    /// needs NAME.wasm.sig beside it, and a key of a ConfigMap needs the key KEY.sig.
    #[arg(long, value_name = "FILE")]
    pub verify_key: Vec<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub connect: ConnectArgs,
}

/// Arguments of `pintle pull`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pintle pull oci://registry.example.com/team/widgets:1.2.0
  pintle pull oci://registry.example.com/team/widgets@sha256:DIGEST -o widgets.wasm \\
    --verify-key release.pub")]
pub struct PullArgs {
    /// Source: `oci://REGISTRY/REPOSITORY:TAG`, optionally with `@sha256:DIGEST`.
    #[arg(value_name = "oci://REF")]
    pub from: ArtifactRef,

    /// Output file. Default: NAME.wasm in the current folder, with the plugin's name. An existing file is replaced.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: RegistryArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub wait: WaitArgs,
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

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub wait: WaitArgs,
}
