//! Arguments of `pintle rbac`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args, ValueEnum};
use pintle_oci::ComponentSource;
use pintle_sources::resource::DEFAULT_CLASS;

use super::{leader, oci};
use crate::config::arguments::OfFile;
use crate::flags::{self, gates::FeatureGates};

/// Arguments of `pintle rbac`.
#[derive(Debug, Args)]
pub struct RbacArgs {
    /// Configuration file of the host (its --config): its components, controllers, Lease, class and service accounts are those of the
    /// roles. Flags take precedence.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What the file has set.
    #[arg(skip)]
    pub of_file: Arc<OfFile>,

    /// Component files, folders of component files, or components in registries. A component with the name of a built-in controller replaces it.
    #[arg(value_name = "FILE|FOLDER|oci://REF", value_parser = ComponentSource::parse)]
    pub plugins: Vec<ComponentSource>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: oci::RegistryArgs,

    /// Built-in controllers to print roles for, as in `pintle run`: `*` means all, `foo` enables foo, `-foo` disables it. Default: `*`, or
    /// none if components are named.
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub controllers: Vec<String>,

    /// Roles for a host that runs with this flag: each role is bound to the controller's own service account.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub use_service_account_credentials: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub lease: leader::LeaseArgs,

    /// Roles for a host that runs with this flag: it has its own Lease.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub beside_kube_controller_manager: bool,

    /// Roles for a host that runs with these feature gates: with CoordinatedLeaderElection it has a LeaseCandidate.
    #[arg(long, value_name = "GATE=BOOL,...", value_parser = flags::gates::parse)]
    pub feature_gates: Vec<FeatureGates>,

    /// Class of the host, part of the default name of its Lease.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CLASS, value_parser = flags::class)]
    pub plugin_class: String,

    /// Service account of the host.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/pintle")]
    pub service_account: String,

    /// Kubeconfig of a cluster whose discovery gives the resource names of custom kinds. Without it they are guessed from the kinds.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t = RbacOutput::Yaml)]
    pub output: RbacOutput,
}

/// Output formats of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RbacOutput {
    /// One document for each object.
    Yaml,
    /// One `List`.
    Json,
}
