//! Arguments of the `pintle` binary.

pub mod author;
pub mod failures;
pub mod kubectl;
pub mod leader;
pub mod log;
pub mod oci;
pub mod plugin;
pub mod rbac;
pub mod serve;
pub mod test;
pub mod top;
pub mod tracing;
pub mod types;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use clap::builder::RangedI64ValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use pintle_core::contract::manifest::Limits;
use pintle_oci::ComponentSource;
use pintle_sources::admin::socket::Place;
use pintle_sources::resource::DEFAULT_CLASS;

use crate::config::OfFile;
use crate::config::effective::Effective;
use crate::flags::{self, controllers::ControllerFlags};

pub use self::log::{LogArgs, LogFormat};

/// Runs Kubernetes controllers as sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "pintle", version, about, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start an embedded cluster with the built-in controllers, for development and trials. Nothing else needs to be installed.
    ///
    /// It enforces no RBAC, webhooks or admission policies, and runs no containers; `host/docs/embedded-cluster.md` lists what it lacks.
    // No rate limit: this is a local cluster, and no other process runs its controllers.
    #[command(
        mut_arg("controllers", |arg| arg.default_value("*")),
        mut_arg("kube_api_qps", |arg| arg.default_value("0")),
        mut_arg("grant_requested", |arg| arg.default_value("true")),
        mut_arg("allow_unpinned", |arg| arg.default_value("true")),
        mut_arg("install_crd", |arg| arg.default_value("true"))
    )]
    Dev(DevArgs),
    /// Run controllers against a cluster, instead of kube-controller-manager or beside it.
    Run(RunArgs),
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
    /// Create the folder of a new plugin: a small working controller with cases, native tests and the SDK of its language.
    #[command(after_help = "Examples:
  # A controller of a built-in kind
  pintle new service-ports --lang go

  # A controller with a kind of its own
  pintle new teams --lang python --kind example.org/v1/Team
  pintle new people --lang ts --kind example.org/v1/Person --plural people --cluster-scoped")]
    New(author::NewArgs),
    /// Generate the CustomResourceDefinitions in the folder `crds` of a plugin from the types of its language.
    ///
    /// Files without the first line that this command writes are not changed.
    /// `pintle test` and `pintle package` fail if the files are not what the types give.
    #[command(after_help = "Examples:
  # After a change of the types
  pintle crds

  # In a pipeline: what differs, without writing
  pintle crds --check services/teams")]
    Crds(author::CrdsArgs),
    /// Build a plugin, in any supported language, into a component. Reports missing toolchains.
    Build(author::BuildArgs),
    /// Package a plugin for distribution: builds it if needed, validates it as a host would, and prints its digest.
    Package(author::PackageArgs),
    /// Run the cases of a plugin as the host would, and check that its outcomes are deterministic.
    Test(test::TestArgs),
    /// Print the JSON Schema of manifests, of cases or of the file of `pintle run --config`, for editors. `pintle new` writes the first two
    /// to the folder `.pintle/schemas`.
    Schema(author::SchemaArgs),
    /// Write the types of kinds in the language of a plugin, from CustomResourceDefinitions or OpenAPI documents.
    Types(types::TypesArgs),
    /// Push a component to an OCI registry, and print its digest.
    Push(oci::PushArgs),
    /// Pull a component from an OCI registry into a file.
    Pull(oci::PullArgs),
    /// Sign a component in a registry, or a file, in cosign's format.
    Sign(oci::SignArgs),
    /// Check that a component is signed by one of the given keys.
    Verify(oci::VerifyArgs),
    /// Create a key pair for signing components.
    Keygen(oci::KeygenArgs),
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

    /// Admin socket for `pintle plugin`; `off` disables it. Default: `$XDG_RUNTIME_DIR/pintle/admin.sock`; without that variable
    /// `/run/pintle/admin.sock` for root, and a per-user folder in the temporary folder for other users.
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

/// Arguments of `pintle dev`.
#[derive(Debug, Args)]
pub struct DevArgs {
    /// Where to write the kubeconfig; it is removed at the end. A file that `pintle dev` has not written is never replaced or removed.
    #[arg(long, value_name = "FILE", default_value = "pintle.kubeconfig")]
    pub kubeconfig: PathBuf,

    /// Port of the embedded API server on loopback; 0 selects a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,

    /// A plugin under development. A folder with manifest.yaml and sources, in any language that `pintle build` supports, is rebuilt and
    /// swapped in on every save; a component file is swapped in when it changes. Repeatable.
    // Components built here are not signed.
    #[arg(long, value_name = "FOLDER|FILE", conflicts_with = "verify_key")]
    pub plugin: Vec<PathBuf>,

    /// A folder of CustomResourceDefinitions, which are applied at the start, and again when a file changes. The folder `crds` of a plugin
    /// under development, or beside its component, is applied in any case. Repeatable.
    #[arg(long, value_name = "FOLDER")]
    pub crds: Vec<PathBuf>,

    /// Write a file for programs when everything runs, the plugins of --plugin included: JSON with the addresses and paths of this run,
    /// or with `error` if a plugin does not build or load. It is removed at the end.
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,

    /// Stop when standard input ends: a program that starts `pintle dev` with a pipe takes it along, however it ends.
    #[arg(long)]
    pub stop_with_stdin: bool,

    /// Number of simulated nodes.
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true)]
    pub nodes: u32,

    /// Time from binding a Pod until it is ready, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub ready_delay_ms: u32,

    /// Address of plain HTTP on loopback, for /metrics, probes and the other pages; by default a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = flags::loopback)]
    pub serve: SocketAddr,

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
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For humans.
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Of help that is not printed on a terminal, and of most terminals.
    const COLUMNS: usize = 100;

    /// A line that is wrapped is another command, or no comment.
    #[test]
    fn no_line_of_an_example_is_wrapped() {
        fn check(command: &clap::Command) {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let is_example = |line: &&str| line.starts_with("  ") && line.chars().count() > COLUMNS;
            let long: Vec<&str> = examples.lines().filter(is_example).collect();
            assert!(long.is_empty(), "{}: {long:#?}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn only_a_real_cluster_has_a_rate_limit_and_strict_defaults() {
        let parse = |command: &str| Cli::try_parse_from(["pintle", command]).map(|cli| cli.command);
        let Ok(Command::Dev(dev)) = parse("dev") else { panic!("dev does not parse") };
        let Ok(Command::Run(run)) = parse("run") else { panic!("run does not parse") };
        assert_eq!((dev.plugins.kube_api_qps, run.plugins.kube_api_qps), (0.0, 20.0));
        let easy = |args: &PluginArgs| (args.grant_requested, args.install_crd, args.allow_unpinned);
        assert_eq!((easy(&dev.plugins), easy(&run.plugins)), ((true, true, true), (false, false, false)));
        assert_eq!((dev.plugins.controllers, run.plugins.controllers), (vec!["*".to_owned()], Vec::new()));
        assert_eq!(run.plugins.controller_flags, ControllerFlags::default());
    }
}
