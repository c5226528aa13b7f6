//! Arguments of the `pintle` binary.

pub mod kubectl;
pub mod leader;
pub mod log;
pub mod oci;
pub mod plugin;
pub mod rbac;
pub mod serve;
pub mod top;
pub mod tracing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use clap::builder::RangedI64ValueParser;
use clap::{ArgAction, Args, Parser, Subcommand};
use pintle_core::contract::manifest::Limits;
use pintle_oci::ComponentSource;
use pintle_sources::admin::socket::Place;
use pintle_sources::resource::DEFAULT_CLASS;

use crate::config::arguments::OfFile;
use crate::config::effective::Effective;
use crate::flags::{self, controllers::ControllerFlags};
use crate::output::Output;

pub use self::log::{LogArgs, LogFormat};

/// Runs Kubernetes controllers as sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "pintle", version, about, max_term_width = 110, after_help = NO_DESK)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Why commands are missing, and which binary has them.
const NO_DESK: &str =
    "This build has what a cluster needs. The build for desks has `pintle dev` and the commands for authors of plugins:
in Pintle's repository, `cargo xtask build --release` makes it.";

/// A command line with the commands of a host.
pub trait CommandLine: Parser {
    /// The binary that has the commands missing here.
    const MISSING: Option<&str>;

    /// The command, if it is a host command.
    fn of_host(&mut self) -> Option<&mut Command>;

    /// The controllers to run, if the command runs any.
    fn plugins(&mut self) -> Option<&mut PluginArgs>;
}

impl CommandLine for Cli {
    const MISSING: Option<&str> = Some(NO_DESK);

    fn of_host(&mut self) -> Option<&mut Command> {
        Some(&mut self.command)
    }

    fn plugins(&mut self) -> Option<&mut PluginArgs> {
        match &mut self.command {
            Command::Run(args) => Some(&mut args.plugins),
            _ => None,
        }
    }
}

/// The commands of the build for clusters.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run controllers against a cluster, instead of kube-controller-manager or beside it.
    // Boxed, because there are many.
    Run(Box<RunArgs>),
    /// Manage the plugins of a running host: list, load, swap, roll back, disable, unload.
    Plugin(plugin::PluginCommand),
    /// Show a running host at a glance: its plugins with queues, runs, latency, faults and memory, and who leads.
    #[command(after_help = "Examples:
  # A live table; ? shows the keys
  pintle top

  # Once, for a script
  pintle top --once
  pintle top -o json | jq '.plugins[] | select(.faults > 0) | .name'")]
    Top(top::TopArgs),
    /// Print the CustomResourceDefinition of ControllerPlugin, for `kubectl apply -f -`.
    Crd,
    /// Pull a component from an OCI registry into a file.
    Pull(oci::PullArgs),
    /// Check that a component is signed by one of the given keys.
    Verify(oci::VerifyArgs),
    /// Show what a component is, what it watches and the permissions that it requests, without running it.
    Inspect(InspectArgs),
    /// Print the ControllerPlugin of a component, with its digest, the grants that it requests and its settings, for `kubectl apply -f -`.
    #[command(after_help = "Examples:
  # Read it, take away what the plugin shall not have, and apply it
  pintle scaffold oci://registry.example.com/team/widgets:1.2.0 > widgets.yaml
  kubectl apply -f widgets.yaml

  # Its account, and that of the host, need the rights, too
  pintle rbac --use-service-account-credentials oci://registry.example.com/team/widgets:1.2.0 \\
    | kubectl apply -l pintle.dev/controller -f -")]
    Scaffold(InspectArgs),
    /// Print the RBAC roles that controllers need, and the service accounts that they are bound to.
    Rbac(rbac::RbacArgs),
    /// Show the version of this binary and of the built-in controllers.
    Version(VersionArgs),
    /// Print the completion script of a shell.
    #[command(after_help = "Examples:
  # bash, for this shell and for later ones
  source <(pintle completion bash)
  pintle completion bash > ~/.local/share/bash-completion/completions/pintle

  # zsh, into a folder of fpath
  pintle completion zsh > \"${fpath[1]}/_pintle\"

  # fish
  pintle completion fish > ~/.config/fish/completions/pintle.fish")]
    Completion(CompletionArgs),
    /// Write the manual pages of all commands to a folder.
    #[command(after_help = "Example:\n  pintle man ~/.local/share/man/man1 && man pintle-run")]
    Man(ManArgs),
}

/// Controllers to run: components, selection and settings.
#[derive(Debug, Clone, Args)]
pub struct PluginArgs {
    /// Component files, folders of component files, or components in registries. A component with the name of a built-in controller
    /// replaces it. A reference with a digest (`oci://REGISTRY/REPOSITORY@sha256:DIGEST`) that was pulled before starts without the
    /// registry; a tag is resolved at each start.
    #[arg(value_name = "FILE|FOLDER|oci://REF", value_parser = ComponentSource::parse)]
    pub plugins: Vec<ComponentSource>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: oci::RegistryArgs,

    /// Built-in controllers to run, as in kube-controller-manager: `*` enables all that are on by default, `foo` enables foo, `-foo`
    /// disables foo, also if it is a component of the command line. `pintle run` runs `*` without components; named components run
    /// alone, and beside built-in controllers only with this flag. ControllerPlugins and the plugin folder cannot start a built-in
    /// controller, or its replacement, that the list leaves out, nor a component that it disables.
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub controllers: Vec<String>,

    /// A setting of a controller, for example `--set root-ca-certificate-publisher-controller.rootCa=...`. Repeatable.
    #[arg(long = "set", value_name = "CONTROLLER.SETTING=VALUE")]
    pub settings: Vec<String>,

    /// The address of an endpoint that a plugin declares: `--endpoint CONTROLLER.ENDPOINT=https://HOST/PATH`, or
    /// `{"url": URL, "tokenFile": FILE, "caFile": FILE}` with a token and the authorities of the endpoint. Repeatable.
    #[arg(long = "endpoint", value_name = "CONTROLLER.ENDPOINT=URL")]
    pub endpoints: Vec<String>,

    /// Maximum requests per second of each controller to the API server; 0 means no limit.
    #[arg(long, value_name = "N", default_value = "20", value_parser = flags::rate, allow_negative_numbers = true)]
    pub kube_api_qps: f32,

    /// Maximum burst of requests of each controller.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = workers(), allow_negative_numbers = true)]
    pub kube_api_burst: u32,

    /// Time between the starts of two controllers, for example `1s`; jitter up to doubles it.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = flags::duration, allow_hyphen_values = true)]
    pub controller_start_interval: Duration,

    /// How long runs in flight and their writes may take when the host stops.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = flags::duration, allow_hyphen_values = true)]
    pub controller_shutdown_timeout: Duration,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub controller_flags: ControllerFlags,

    /// Plugin folder: NAME.wasm with an optional NAME.yaml (configuration, grants, limits). The host watches it: new files are loaded,
    /// changed files swapped in, removed files unloaded. They take precedence over components on the command line.
    #[arg(long, value_name = "FOLDER")]
    pub plugin_dir: Option<PathBuf>,

    /// Admin socket for `pintle plugin`; `off` disables it. Each host of a machine needs its own. Default:
    /// `$XDG_RUNTIME_DIR/pintle/admin.sock`; without that variable `/run/pintle/admin.sock` for root, and a per-user folder in the temporary
    /// folder for other users.
    #[arg(long, value_name = "PATH|off")]
    pub admin_socket: Option<Place>,

    /// Grant a plugin that is loaded at run time everything that its manifest requests, unless its spec lists grants. Without this flag
    /// it is loaded only if it requests no more than the version that it replaces.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub grant_requested: bool,

    /// Accept ControllerPlugins whose component others can change: a tag in a registry, or a ConfigMap, without a digest. Without this
    /// flag they need a digest, or the host must run signed components only (--verify-key).
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub allow_unpinned: bool,

    /// Class of this host: it obeys the ControllerPlugins with this `spec.class`; those without a class are of the class `default`. Give
    /// each host of a cluster its own class.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CLASS, value_parser = flags::class)]
    pub plugin_class: String,

    /// Start a controller although a ControllerPlugin, or a file of the plugin folder, provides or disables the plugin of this name; it
    /// runs until that has taken effect. Without this flag nothing runs under the name until the replacement is available, so that a
    /// replaced or disabled controller does not come back after a restart.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub start_claimed: bool,

    /// Create or update the CustomResourceDefinition of ControllerPlugin in the cluster. Without it the cluster cannot configure this
    /// host's plugins; `pintle crd | kubectl apply -f -` installs it, too.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub install_crd: bool,

    /// Upper bounds for the limits of every plugin, for example `deadlineMs=2000,memoryBytes=134217728`. A plugin that requests more is
    /// rejected; a plugin that requests nothing gets at most this. The bounds can be lower or higher than the defaults:
    /// deadlineMs 300000, memoryBytes 1 GiB, mutations 10000, outcomeBytes 32 MiB, hostCalls 1000000, readBytes 1 GiB,
    /// answerBytes 64 MiB, logLines 1000, stateBytes 64 MiB, series 20000.
    #[arg(long, value_name = "LIMIT=NUMBER,...", value_parser = flags::limits, default_value = "", hide_default_value = true)]
    pub max_limits: Limits,

    /// Whether compiled functions are kept, too; for plugins that are followed.
    #[arg(skip)]
    pub keep_functions: bool,

    /// The configuration of the process, for pages.
    #[arg(skip)]
    pub effective: Arc<Effective>,

    /// Memory for the instances of all plugins, in bytes; half of what this process may use by default. Calls that could exceed it
    /// wait, except the only call of a plugin: so instances take at most this, and the `memoryBytes` of each plugin once.
    #[arg(long, value_name = "BYTES")]
    pub plugin_memory_bytes: Option<u64>,

    /// Cache folder for compiled code and pulled components. Only its owner may have write permission.
    #[arg(long, value_name = "FOLDER", env = "PINTLE_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
}

/// At least one.
fn workers() -> RangedI64ValueParser<u32> {
    // Upstream's type of these numbers.
    clap::value_parser!(u32).range(1..=i64::from(i32::MAX))
}

/// Arguments of `pintle run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file: YAML or JSON with `apiVersion: pintle.dev/v1alpha1` and `kind: HostConfiguration`. Flags take precedence over
    /// its fields. `host/docs/configuration.md` lists the fields; `pintle schema host` prints a JSON Schema for editors.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What the file has set.
    #[arg(skip)]
    pub of_file: Arc<OfFile>,

    /// The arguments of `pintle rbac` for this host, quoted for a shell.
    #[arg(skip)]
    pub of_roles: String,

    /// Kubeconfig of the cluster, or a list of files as in KUBECONFIG. Default: the service account of the Pod (in-cluster configuration).
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Address of the API server, in place of that of the kubeconfig. Without a kubeconfig, requests have no credentials.
    #[arg(long, value_name = "URL", value_parser = flags::server)]
    pub master: Option<Uri>,

    /// Form of objects in requests: JSON.
    #[arg(long, value_name = "TYPE", default_value = "application/json", value_parser = flags::content_type)]
    pub kube_api_content_type: String,

    /// Check the flags, the file of --config, the certificate of HTTPS and the components with their settings, print the configuration as
    /// such a file, with settings that may be secret, and exit. No cluster is contacted.
    #[arg(long)]
    pub check: bool,

    /// Same as the positional argument: a component file, a folder of component files, or a component in a registry. Repeatable.
    #[arg(long = "plugin", value_name = "FILE|FOLDER|oci://REF", value_parser = ComponentSource::parse)]
    pub more_plugins: Vec<ComponentSource>,

    /// Use a separate service account in kube-system for each controller's writes, events and live reads, as kube-controller-manager
    /// does. `pintle rbac` with this flag prints the roles for it.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub use_service_account_credentials: bool,

    /// Start built-in controllers although kube-controller-manager runs in the cluster. Start it with `--controllers=*,-NAME,...` for
    /// each of them first. Without this flag and --leader-elect they start only if kube-controller-manager does not hold its Lease,
    /// kube-system/kube-controller-manager, and those of a list (--controllers without `*`) only if there is no such Lease.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub beside_kube_controller_manager: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    // Boxed, as the next ones, because there are many.
    pub serving: Box<serve::ServeArgs>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub leader: Box<leader::LeaderElectArgs>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub plugins: PluginArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub tracing: tracing::TracingArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub log: LogArgs,
}

/// Arguments of `pintle inspect` and of `pintle scaffold`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// A component file, or a component in a registry.
    #[arg(value_name = "FILE|oci://REF", value_parser = ComponentSource::parse)]
    pub component: ComponentSource,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: oci::RegistryArgs,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Arguments of `pintle completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `pintle man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder of the pages, one for each command; created if it is missing.
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// Arguments of `pintle version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Kubeconfig of a cluster, whose version is printed as well.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}
