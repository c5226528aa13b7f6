//! Arguments of the `pintle` binary for developers.

pub mod author;
pub mod oci;
pub mod test;
pub mod types;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use pintle::cli::CommandLine;
use pintle::cli::{LogArgs, PluginArgs, tracing};
use pintle::flags;

/// Runs Kubernetes controllers as sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "pintle", version, about, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl CommandLine for Cli {
    const MISSING: Option<&str> = None;

    fn of_host(&mut self) -> Option<&mut pintle::cli::Command> {
        match &mut self.command {
            Command::Host(command) => Some(command),
            _ => None,
        }
    }

    fn plugins(&mut self) -> Option<&mut PluginArgs> {
        match &mut self.command {
            Command::Dev(args) => Some(&mut args.plugins),
            Command::Host(pintle::cli::Command::Run(args)) => Some(&mut args.plugins),
            _ => None,
        }
    }
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
    Dev(Box<DevArgs>),
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
    /// Sign a component in a registry, or a file, in cosign's format.
    Sign(oci::SignArgs),
    /// Create a key pair for signing components.
    Keygen(oci::KeygenArgs),
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    Host(pintle::cli::Command),
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use serde_json::{Value, json};

    use super::*;

    /// Width of help that is not printed on a terminal, and of most terminals.
    const COLUMNS: usize = 100;

    /// A wrapped line would be another command, or no comment.
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
        let Ok(Command::Host(pintle::cli::Command::Run(run))) = parse("run") else { panic!("run does not parse") };
        assert_eq!((dev.plugins.kube_api_qps, run.plugins.kube_api_qps), (0.0, 20.0));
        let easy = |args: &PluginArgs| (args.grant_requested, args.install_crd, args.allow_unpinned);
        assert_eq!((easy(&dev.plugins), easy(&run.plugins)), ((true, true, true), (false, false, false)));
        assert_eq!((dev.plugins.controllers, run.plugins.controllers), (vec!["*".to_owned()], Vec::new()));
        assert_eq!(run.plugins.controller_flags, Default::default());
    }

    #[test]
    fn the_configuration_of_a_development_cluster_has_what_run_has_too() {
        let words = ["pintle", "dev", "--plugin=folder", "w.wasm"].map(Into::into);
        let Ok(Cli { command: Command::Dev(args) }) = pintle::config::parse(words) else { panic!("not dev") };
        let file = args.plugins.effective.file(false);
        assert_eq!(file["clientConnection"], json!({"qps": 0, "burst": 30}));
        assert_eq!(file["serving"], Value::Null);
        let components = file["plugins"]["components"].as_array().unwrap();
        assert!(components.len() == 1 && components[0].as_str().unwrap().ends_with("/w.wasm"), "{components:?}");
    }

    #[test]
    fn a_mistake_about_the_language_lists_the_languages() {
        for (words, expected) in [
            (
                &["pintle", "new", "widgets"][..],
                "the following required arguments were not provided: --lang <rust|go|ts|js|python>; see `pintle new --help`",
            ),
            (
                &["pintle", "new", "widgets", "--lang", "perl"],
                "invalid value 'perl' for '--lang <rust|go|ts|js|python>' [possible values: rust, go, ts, js, python]",
            ),
        ] {
            let why = Cli::try_parse_from(words).unwrap_err();
            assert_eq!(pintle::output::refused(&why, &[]), expected);
        }
    }
}
