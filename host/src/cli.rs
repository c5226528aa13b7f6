//! Arguments of the `pintle` binary.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    Dev(DevArgs),
    /// Run controllers against a cluster, in the place of kube-controller-manager or beside it.
    Run(RunArgs),
    /// Show what a component file is, what it watches, and the permissions that it asks for. Does not run it.
    Inspect(InspectArgs),
    /// Show the version of this binary and of the built-in controllers.
    Version(VersionArgs),
}

/// Which controllers, from where, with which settings.
#[derive(Debug, Clone, Args)]
pub struct PluginArgs {
    /// Component files, or folders of them. One with the name of a built-in controller takes its place.
    #[arg(value_name = "FILE|FOLDER")]
    pub plugins: Vec<PathBuf>,

    /// Controllers to run, as for kube-controller-manager: `*` is all that are on by default, `foo` is on, `-foo` is off.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,

    /// A setting of a controller, for example `--set root-ca-certificate-publisher-controller.rootCa=...`. Repeatable.
    #[arg(long = "set", value_name = "CONTROLLER.SETTING=VALUE")]
    pub settings: Vec<String>,

    /// Requests per second that each controller may send to the API server. No limit if 0.
    #[arg(long, value_name = "N", default_value_t = 20.0)]
    pub kube_api_qps: f32,

    /// Requests that each controller may send at once, within the limit per second.
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub kube_api_burst: u32,

    /// Folder for compiled code; only its owner may be able to write there.
    #[arg(long, value_name = "FOLDER", env = "PINTLE_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
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

    /// File with the certificate authority that the root CA publisher gives out. By default that of the connection.
    #[arg(long, value_name = "FILE")]
    pub root_ca_file: Option<PathBuf>,

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

/// Arguments of `pintle inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The component file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

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
