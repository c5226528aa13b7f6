//! Arguments of `pintle plugin`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use pintle_oci::ComponentSource;

use super::oci::RegistryArgs;
use crate::output::Output;
use crate::{complete, flags};

/// Arguments of `pintle plugin`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PluginCommand {
    /// Admin socket of the running host (its --admin-socket). Default: `$XDG_RUNTIME_DIR/pintle/admin.sock`; without that variable
    /// `/run/pintle/admin.sock` for root, and a per-user folder in the temporary folder for other users.
    #[arg(long, global = true, value_name = "PATH", env = "PINTLE_ADMIN_SOCKET")]
    pub admin_socket: Option<PathBuf>,

    /// How long to wait for the host, for example `5m`; by default as long as it takes. The host continues in the
    /// background after that; see `pintle plugin describe`.
    #[arg(long, global = true, value_name = "DURATION", value_parser = flags::timeout)]
    pub timeout: Option<Duration>,

    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

const EXAMPLES: &str = "Examples:
  # What runs, in which version, and how it is
  pintle plugin list
  pintle plugin describe replicaset-controller

  # Try a new build beside the old one for 200 runs, switch, and wait until it is proven
  pintle plugin swap replicaset-controller new.wasm --shadow 200 --wait proven --timeout 30m
  pintle plugin diff replicaset-controller

  # What the runs that failed saw, as cases to play with `pintle test`
  pintle plugin failures widgets --save cases

  # Back to the version before
  pintle plugin rollback replicaset-controller

  # A plugin of your own, with what it may do, and its end
  pintle plugin load widgets.wasm --spec widgets.yaml
  pintle plugin unload widgets";

/// Operations on the plugins of a running host.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the plugins of the running host.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  pintle plugin list\n  pintle plugin list --watch\n  pintle plugin list -o yaml"
    )]
    List(ListArgs),
    /// Show details of a plugin: versions, conditions, queues, faults, its last swap, and the requests of its sources that were rejected.
    #[command(after_help = "Example:\n  pintle plugin describe deployment-controller")]
    Describe(NameArgs),
    /// Load a component as a new plugin. The answer says whether it is ready; one that is loaded and not ready is a success (exit code 0),
    /// because it becomes ready with what it waits for.
    #[command(after_help = "Examples:\n  pintle plugin load widgets.wasm
  pintle plugin load oci://registry.example.com/team/widgets:1.2.0 --spec widgets.yaml
  pintle plugin load widgets.wasm --spec widgets.yaml \\
    --digest sha256:0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8")]
    Load(LoadArgs),
    /// Replace the running version of a plugin. Queues, caches and state are kept; a failing version is rolled back.
    #[command(after_help = "Examples:
  # At once; the new version is watched for 100 runs and a minute
  pintle plugin swap replicaset-controller new.wasm

  # Run both beside each other first; any difference keeps the old one
  pintle plugin swap replicaset-controller new.wasm --shadow 500 --shadow-for 10m

  # For a script: success only once the new version has proven itself
  pintle plugin swap replicaset-controller new.wasm --probation-runs 50 --probation-for 30s \\
    --wait proven --timeout 10m")]
    Swap(SwapArgs),
    /// Go back to the version before the last swap.
    #[command(after_help = "Example:\n  pintle plugin rollback replicaset-controller")]
    Rollback(NameArgs),
    /// Pause a plugin until the host restarts: it stays loaded with warm caches, and its queues fill. What lasts is `disabled: true` in its
    /// ControllerPlugin or in its file of the plugin folder.
    #[command(after_help = "Example:\n  pintle plugin disable garbage-collector-controller --why 'restoring a backup'")]
    Disable(DisableArgs),
    /// Resume a plugin, including one that was quarantined or disabled because of faults. If its ControllerPlugin or file disables it, it
    /// runs until that changes, and has the condition Overridden.
    #[command(after_help = "Example:\n  pintle plugin enable garbage-collector-controller")]
    Enable(NameArgs),
    /// Let a new version delete what was held: in its probation it may delete only a few objects, or a small share of those that the
    /// plugin owns, in a minute. Holds for all that the version deletes from now on. `pintle plugin describe NAME` shows what is held.
    #[command(after_help = "Example:\n  pintle plugin approve widgets")]
    Approve(NameArgs),
    /// Unload a plugin. To unload a plugin of the plugin folder or of a ControllerPlugin, remove the file or the resource.
    /// `pintle plugin load builtin:NAME` loads a built-in plugin again.
    #[command(after_help = "Example:\n  pintle plugin unload widgets")]
    Unload(NameArgs),
    /// Show the differences between two versions that shadow mode found.
    #[command(
        after_help = "Examples:\n  pintle plugin diff replicaset-controller\n  pintle plugin diff replicaset-controller -o json"
    )]
    Diff(NameArgs),
    /// Show the last failed runs, and save what they read as cases for `pintle test`. A host keeps 20 runs of each plugin, and 32 MiB in
    /// total, in memory; repeated failures are counted.
    #[command(after_help = "Examples:
  pintle plugin failures
  pintle plugin failures widgets --save cases
  pintle plugin failures widgets --key default/web --save cases")]
    Failures(FailuresArgs),
}

/// Output options.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Arguments of `pintle plugin list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// After the list, print each plugin again when it changes, until the command is interrupted.
    #[arg(short, long)]
    pub watch: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}

/// A plugin.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Name of the plugin, or its alias, such as `deployment`.
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::plugins))]
    pub name: String,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}

/// Arguments of `pintle plugin disable`.
#[derive(Debug, Args)]
pub struct DisableArgs {
    /// Name of the plugin, or its alias.
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::plugins))]
    pub name: String,

    /// Reason, shown by `pintle plugin describe`.
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
    /// Name of the plugin, or its alias.
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::plugins))]
    pub name: String,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub component: ComponentArgs,

    /// Shadow runs before the switch: the new version runs beside the old one, and its outcomes are compared, not written.
    #[arg(long, value_name = "RUNS")]
    pub shadow: Option<u32>,

    /// Maximum duration of shadow mode; `0` waits for all shadow runs. Default 1m.
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    pub shadow_for: Option<Duration>,

    /// Maximum number of shadow runs with different outcomes; with more, the old version stays. Default 0.
    #[arg(long, value_name = "N")]
    pub max_differences: Option<u32>,

    /// Minimum number of runs in probation. Default 100.
    #[arg(long, value_name = "N")]
    pub probation_runs: Option<u32>,

    /// Minimum duration of probation. Default 1m.
    #[arg(long, value_name = "DURATION", value_parser = flags::duration)]
    pub probation_for: Option<Duration>,

    /// Maximum number of faults in probation; with more, the version is rolled back. Default 2.
    #[arg(long, value_name = "N")]
    pub max_faults: Option<u32>,

    /// Maximum number of objects that the new version deletes in a minute of its probation; more are held until `pintle plugin approve`,
    /// unless they are a small share of what the plugin owns. Default 5.
    #[arg(long, value_name = "N")]
    pub max_deletions: Option<u32>,

    /// When to report success.
    #[arg(long, value_name = "STAGE", value_enum, default_value_t = Until::Switched)]
    pub wait: Until,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}

/// A component with its spec.
#[derive(Debug, Args)]
pub struct ComponentArgs {
    /// A component file, or a component in a registry, which the command reads or pulls and sends to the host; or a built-in component
    /// of the host.
    #[arg(value_name = "FILE|oci://REF|builtin:NAME", value_parser = Wanted::parse)]
    pub component: Wanted,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: RegistryArgs,

    /// Spec in YAML: `config`, `grants`, `limits`, `strategy`, `failurePolicy`, ...; or a ControllerPlugin with it, as `pintle scaffold`
    /// prints. Without it, a swap keeps the spec of the running version.
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,

    /// Expected SHA-256 of the component, in hexadecimal.
    #[arg(long, value_name = "DIGEST")]
    pub digest: Option<String>,
}

/// A component to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// One that is built into the host, by the name of its plugin.
    Builtin(String),
    /// One that the command uploads.
    Sent(ComponentSource),
}

impl Wanted {
    /// Parses an argument of the command line.
    ///
    /// # Errors
    /// As [`ComponentSource::parse`].
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("builtin:") {
            Some(name) => Ok(Self::Builtin(name.to_owned())),
            None => ComponentSource::parse(text).map(Self::Sent),
        }
    }
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// The new version has taken over.
    Switched,
    /// The new version has passed probation. A rollback is a failure.
    Proven,
}

/// Arguments of `pintle plugin failures`.
#[derive(Debug, Args)]
pub struct FailuresArgs {
    /// Name of the plugin, or its alias. Default: all plugins.
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::plugins))]
    pub name: Option<String>,

    /// Show only runs for this object: `web` or `default/web`.
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub key: Option<String>,

    /// Save each run as a case for `pintle test --cases FOLDER`: a file with what the run read, and how it failed as comments. Runs that
    /// were saved before are left unchanged.
    #[arg(long, value_name = "FOLDER", requires = "name")]
    pub save: Option<PathBuf>,

    /// Show values of Secrets and of settings from files. By default they are masked.
    #[arg(long, requires = "save")]
    pub secrets: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub output: OutputArgs,
}
