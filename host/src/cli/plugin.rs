//! Arguments of `pintle plugin`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use pintle_oci::ComponentSource;

use super::Output;
use super::failures::FailuresArgs;
use super::oci::RegistryArgs;
use crate::flags;

/// Arguments of `pintle plugin`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PluginCommand {
    /// Socket of the running host, as its own --admin-socket names it. By default `$XDG_RUNTIME_DIR/pintle/admin.sock`; without that
    /// variable `/run/pintle/admin.sock` for root, and for others a folder of their own in the folder for temporary files.
    #[arg(long, global = true, value_name = "PATH", env = "PINTLE_ADMIN_SOCKET")]
    pub admin_socket: Option<PathBuf>,

    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

const EXAMPLES: &str = "Examples:
  # What runs, in which version, and how it is
  pintle plugin list
  pintle plugin describe replicaset-controller

  # Try a new build beside the old one for 200 runs, then switch, and wait until it has proven itself
  pintle plugin swap replicaset-controller new.wasm --shadow 200 --wait proven
  pintle plugin diff replicaset-controller

  # What the runs that failed saw, as cases to play with `pintle test`
  pintle plugin failures widgets --save cases

  # Back to the version before
  pintle plugin rollback replicaset-controller

  # A plugin of your own, with what it may do, and its end
  pintle plugin load widgets.wasm --spec widgets.yaml
  pintle plugin unload widgets";

/// What can be done to the plugins of a running host.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the plugins of the running host.
    #[command(visible_alias = "ls", after_help = "Examples:\n  pintle plugin list\n  pintle plugin list -o json")]
    List(OutputArgs),
    /// Show all about a plugin: versions, conditions, queues, faults, its last swap, and what its sources ask for in vain.
    #[command(after_help = "Example:\n  pintle plugin describe deployment-controller")]
    Describe(NameArgs),
    /// Load a component under a name that is not loaded yet.
    #[command(after_help = "Examples:\n  pintle plugin load widgets.wasm
  pintle plugin load oci://registry.example.com/team/widgets:1.2.0 --spec widgets.yaml
  pintle plugin load widgets.wasm --spec widgets.yaml --digest sha256:0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8")]
    Load(LoadArgs),
    /// Replace the running version of a plugin. Its queues, caches and state stay; it is rolled back if the new version fails.
    #[command(after_help = "Examples:
  # At once; the new version is watched for 100 runs and a minute
  pintle plugin swap replicaset-controller new.wasm

  # Run both beside each other first; any difference keeps the old one
  pintle plugin swap replicaset-controller new.wasm --shadow 500 --shadow-for 10m

  # For a script: success only once the new version has proven itself
  pintle plugin swap replicaset-controller new.wasm --probation-runs 50 --probation-for 30s --wait proven")]
    Swap(SwapArgs),
    /// Go back to the version before the last swap.
    #[command(after_help = "Example:\n  pintle plugin rollback replicaset-controller")]
    Rollback(NameArgs),
    /// Let a plugin take no more keys. It stays loaded, its queues fill, its caches stay warm.
    #[command(after_help = "Example:\n  pintle plugin disable garbage-collector-controller --why 'restoring a backup'")]
    Disable(DisableArgs),
    /// Let a plugin take keys again, also one that was quarantined or disabled because of faults.
    #[command(after_help = "Example:\n  pintle plugin enable garbage-collector-controller")]
    Enable(NameArgs),
    /// End a plugin. One that a file or a ControllerPlugin stands for is ended by removing that.
    #[command(after_help = "Example:\n  pintle plugin unload widgets")]
    Unload(NameArgs),
    /// Show where old and new version disagreed while one was the other's shadow.
    #[command(
        after_help = "Examples:\n  pintle plugin diff replicaset-controller\n  pintle plugin diff replicaset-controller -o json"
    )]
    Diff(NameArgs),
    /// Show the last runs that failed, and save what they saw as cases for `pintle test`. A host keeps 20 runs of each plugin, and 32 MiB
    /// of all, in memory; a run that fails as one before it is counted.
    #[command(after_help = "Examples:
  pintle plugin failures widgets
  pintle plugin failures widgets --save cases
  pintle plugin failures widgets --key default/web --save cases")]
    Failures(FailuresArgs),
}

/// How to answer.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// A plugin.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Name of the plugin.
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}

/// Arguments of `pintle plugin disable`.
#[derive(Debug, Args)]
pub struct DisableArgs {
    /// Name of the plugin.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Why, for whoever looks at it later.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub why: String,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}

/// Arguments of `pintle plugin load`.
#[derive(Debug, Args)]
pub struct LoadArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub component: ComponentArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}

/// Arguments of `pintle plugin swap`.
#[derive(Debug, Args)]
pub struct SwapArgs {
    /// Name of the plugin.
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub component: ComponentArgs,

    /// Run the new version beside the old one for so many runs first; what it wants is compared and not written.
    #[arg(long, value_name = "RUNS")]
    pub shadow: Option<u32>,

    /// End that after this time, however many runs there were; `0` waits for the runs. Default 1m.
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    pub shadow_for: Option<Duration>,

    /// Runs whose outcomes may differ; more of them, and the old version stays. Default 0.
    #[arg(long, value_name = "N")]
    pub max_differences: Option<u32>,

    /// Watch the new version for at least so many runs. Default 100.
    #[arg(long, value_name = "N")]
    pub probation_runs: Option<u32>,

    /// Watch it for at least this time. Default 1m.
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    pub probation_for: Option<Duration>,

    /// Faults that are borne in that time; one more, and the old version comes back. Default 2.
    #[arg(long, value_name = "N")]
    pub max_faults: Option<u32>,

    /// What to wait for before success is told.
    #[arg(long, value_name = "STAGE", value_enum, default_value_t = Until::Switched)]
    pub wait: Until,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}

/// A component, with what is said of it.
#[derive(Debug, Args)]
pub struct ComponentArgs {
    /// The component: a file, or one in a registry. It is read or pulled here and sent to the host, which need not be able to.
    #[arg(value_name = "FILE|oci://REF", value_parser = ComponentSource::parse)]
    pub component: ComponentSource,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: RegistryArgs,

    /// What the operator says of it, in YAML: `config`, `grants`, `limits`, `strategy`, `failurePolicy`, ... Without it, a swap keeps
    /// what holds for the running version.
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,

    /// SHA-256 that the component must have, in hexadecimal.
    #[arg(long, value_name = "DIGEST")]
    pub digest: Option<String>,
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// The new version has taken over.
    Switched,
    /// It has proven itself, or was rolled back, which is a failure.
    Proven,
}
