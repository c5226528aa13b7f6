//! Arguments of the `pintle` binary.

pub mod author;
pub mod failures;
pub mod oci;
pub mod plugin;
pub mod test;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedI64ValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use pintle_core::manifest::Limits;
use pintle_oci::ComponentSource;

use crate::admin::socket::Place;
use crate::flags::{self, controllers::ControllerFlags};

/// Runs Kubernetes controllers as sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "pintle", version, about, disable_help_subcommand = true, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start an embedded cluster with the built-in controllers, to try things out. Needs nothing installed.
    // Nobody is to be spared here, and who tries a thousand Pods does not want to wait for a minute.
    #[command(
        mut_arg("kube_api_qps", |arg| arg.default_value("0")),
        mut_arg("grant_requested", |arg| arg.default_value("true")),
        mut_arg("install_crd", |arg| arg.default_value("true"))
    )]
    Dev(DevArgs),
    /// Run controllers against a cluster, in the place of kube-controller-manager or beside it.
    Run(RunArgs),
    /// Manage the plugins of a running host: list, load, swap, roll back, disable, unload.
    Plugin(plugin::PluginCommand),
    /// Print the definition of the ControllerPlugin resource, for `kubectl apply -f -`.
    Crd,
    /// Make the folder of a new plugin: a small controller that works, with cases, native tests, and the SDK of its language.
    New(author::NewArgs),
    /// Build a plugin in whatever language into a component. Its toolchain must be installed; what is missing is said.
    Build(author::BuildArgs),
    /// Make the file of a plugin that is given to others: built if it is a folder, looked at as a host would, and told by its digest.
    Package(author::PackageArgs),
    /// Run the cases of a plugin as the host would run them, and check that it gives the same outcome each time.
    Test(test::TestArgs),
    /// Print the JSON Schema of manifests, for editors.
    Schema,
    /// Push a component to an OCI registry; prints the digest that it is known by.
    Push(oci::PushArgs),
    /// Pull a component from an OCI registry into a file.
    Pull(oci::PullArgs),
    /// Sign a component in a registry, or a file, in cosign's format.
    Sign(oci::SignArgs),
    /// Check that a component is signed by one of the given keys.
    Verify(oci::VerifyArgs),
    /// Make a pair of keys to sign components with.
    Keygen(oci::KeygenArgs),
    /// Show what a component is, what it watches, and the permissions that it asks for. Does not run it.
    Inspect(InspectArgs),
    /// Print the roles that controllers need of the API server, and the service accounts that they are bound to.
    Rbac(RbacArgs),
    /// Show the version of this binary and of the built-in controllers.
    Version(VersionArgs),
}

/// Which controllers, from where, with which settings.
#[derive(Debug, Clone, Args)]
pub struct PluginArgs {
    /// Component files, folders of them, or components in registries. One with the name of a built-in controller takes its place. What is
    /// pinned (`oci://REGISTRY/REPOSITORY@sha256:DIGEST`) and was pulled before starts without the registry; a tag is looked up.
    #[arg(value_name = "FILE|FOLDER|oci://REF", value_parser = ComponentSource::parse)]
    pub plugins: Vec<ComponentSource>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: oci::RegistryArgs,

    /// Controllers to run, as for kube-controller-manager: `*` is all that are on by default, `foo` is on, `-foo` is off.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,

    /// A setting of a controller, for example `--set root-ca-certificate-publisher-controller.rootCa=...`. Repeatable.
    #[arg(long = "set", value_name = "CONTROLLER.SETTING=VALUE")]
    pub settings: Vec<String>,

    /// Requests per second that each controller may send to the API server. No limit if 0.
    #[arg(long, value_name = "N", default_value = "20", value_parser = flags::rate, allow_negative_numbers = true)]
    pub kube_api_qps: f32,

    /// Requests that each controller may send at once, within the limit per second.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = workers(), allow_negative_numbers = true)]
    pub kube_api_burst: u32,

    /// Time between starting one controller and the next, at most doubled by chance, for example `1s`.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = flags::duration, allow_hyphen_values = true)]
    pub controller_start_interval: Duration,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub controller_flags: ControllerFlags,

    /// Folder of components that is watched while the host runs: NAME.wasm, and beside it NAME.yaml with what the operator says of it.
    /// New files are loaded, changed ones swapped in, removed ones unloaded. They take the place of what is named above.
    #[arg(long, value_name = "FOLDER")]
    pub plugin_dir: Option<PathBuf>,

    /// Socket for `pintle plugin`; `off` for none. By default `$XDG_RUNTIME_DIR/pintle/admin.sock`; without that variable
    /// `/run/pintle/admin.sock` for root, and for others a folder of their own in the folder for temporary files.
    #[arg(long, value_name = "PATH|off")]
    pub admin_socket: Option<Place>,

    /// Give a plugin that is loaded while the host runs all that its manifest asks for, if its spec says nothing of grants. Otherwise it
    /// is loaded only if it asks for no more than the version that it replaces.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub grant_requested: bool,

    /// Create the definition of the ControllerPlugin resource in the cluster, or bring it up to date. Without that definition nobody can
    /// say in the cluster what this host runs; it may also come from `pintle crd`, at any time.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub install_crd: bool,

    /// The most that any plugin gets, whatever its manifest or its spec asks for, for example
    /// `deadlineMs=2000,memoryBytes=134217728`. A plugin that asks for more is not loaded; one that says nothing gets no more.
    /// Limits: deadlineMs, memoryBytes, mutations, outcomeBytes, hostCalls, readBytes, logLines, stateBytes.
    #[arg(long, value_name = "LIMIT=NUMBER,...", value_parser = flags::limits, default_value = "", hide_default_value = true)]
    pub max_limits: Limits,

    /// Folder for compiled code and for what was pulled from registries; only its owner may be able to write there.
    #[arg(long, value_name = "FOLDER", env = "PINTLE_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
}

/// At least one.
fn workers() -> RangedI64ValueParser<u32> {
    // Upstream's type of these numbers.
    clap::value_parser!(u32).range(1..=i64::from(i32::MAX))
}

/// How to log.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// What to log: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,pintle_runtime=debug`.
    #[arg(long, value_name = "FILTER", env = "PINTLE_LOG", default_value = "info")]
    pub log: String,

    /// Form of log lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Forms of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For humans.
    Text,
    /// One JSON object per line.
    Json,
}

/// Arguments of `pintle dev`.
#[derive(Debug, Args)]
pub struct DevArgs {
    /// Where to write the kubeconfig.
    #[arg(long, value_name = "FILE", default_value = "pintle.kubeconfig")]
    pub kubeconfig: PathBuf,

    /// Port of the embedded API server on loopback; a free one if 0.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,

    /// A plugin that you work on: a folder with manifest.yaml and sources in any language that `pintle build` takes, which is rebuilt and
    /// swapped in whenever you save, or a component, which is swapped in when it changes. Repeatable.
    // What is built here is not signed.
    #[arg(long, value_name = "FOLDER|FILE", conflicts_with = "verify_key")]
    pub plugin: Vec<PathBuf>,

    /// Simulated nodes.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub nodes: u32,

    /// How long a Pod takes from being bound to being ready, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub ready_delay_ms: u32,

    /// Where to serve /metrics and /healthz; a free port of loopback by default.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub serve: SocketAddr,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub plugins: PluginArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub log: LogArgs,
}

/// Arguments of `pintle run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Kubeconfig of the cluster. Without it, the service account of the Pod that this runs in.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; its current one by default.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// The same as naming it without the flag: a component file, a folder of them, or a component in a registry. Repeatable.
    #[arg(long = "plugin", value_name = "FILE|FOLDER|oci://REF", value_parser = ComponentSource::parse)]
    pub more_plugins: Vec<ComponentSource>,

    /// Whether each controller writes, records events and reads live under a service account of its own in kube-system, as
    /// kube-controller-manager's controllers do. `pintle rbac` with this flag prints the roles for it.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub use_service_account_credentials: bool,

    /// Where to serve /metrics and /healthz.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10257")]
    pub serve: SocketAddr,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub plugins: PluginArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub log: LogArgs,
}

/// Arguments of `pintle rbac`.
#[derive(Debug, Args)]
pub struct RbacArgs {
    /// Component files, folders of them, or components in registries. One with the name of a built-in controller takes its place.
    #[arg(value_name = "FILE|FOLDER|oci://REF", value_parser = ComponentSource::parse)]
    pub plugins: Vec<ComponentSource>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: oci::RegistryArgs,

    /// Controllers to print roles of, as for `pintle run`: `*` is all, `foo` is on, `-foo` is off.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,

    /// Roles for a host that runs with this flag: each controller's role is bound to an account of its own, not to the host's.
    #[arg(
        long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set
    )]
    pub use_service_account_credentials: bool,

    /// The account that the host itself runs under.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/pintle")]
    pub service_account: String,

    /// Kubeconfig of a cluster that knows how the resources of custom kinds are named. Without it they are guessed from the kinds.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; its current one by default.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub context: Option<String>,

    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = RbacOutput::Yaml)]
    pub output: RbacOutput,
}

/// Forms of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RbacOutput {
    /// One document for each object.
    Yaml,
    /// One `List`.
    Json,
}

/// Arguments of `pintle inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The component file, or a component in a registry.
    #[arg(value_name = "FILE|oci://REF", value_parser = ComponentSource::parse)]
    pub component: ComponentSource,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub registry: oci::RegistryArgs,

    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Arguments of `pintle version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Forms of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For humans.
    Text,
    /// One JSON document.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_real_cluster_is_spared() {
        let parse = |command: &str| Cli::try_parse_from(["pintle", command]).map(|cli| cli.command);
        let Ok(Command::Dev(dev)) = parse("dev") else { panic!("dev does not parse") };
        let Ok(Command::Run(run)) = parse("run") else { panic!("run does not parse") };
        assert_eq!((dev.plugins.kube_api_qps, run.plugins.kube_api_qps), (0.0, 20.0));
        let easy = |args: &PluginArgs| (args.grant_requested, args.install_crd);
        assert_eq!((easy(&dev.plugins), easy(&run.plugins)), ((true, true), (false, false)));
        assert_eq!(run.plugins.controller_flags, ControllerFlags::default());
    }
}
