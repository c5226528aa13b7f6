//! The `pintle` binary: arguments and wiring.
//!
//! *Flow*: [`cli`] has the arguments, [`config`] parses them with the file of `--config`, [`execute`] runs one command. [`plugins`] finds and loads components, [`host`] wires the API
//! server, the sandbox and the runtime together, [`dev`] adds the embedded cluster.
//!
//! While the host runs, plugins come in through [`pintle_sources`]. [`plugin`] is the command line's end of the admin API. [`oci`] has the commands for registries, keys and signatures, [`author`] and [`types`] those for authors,
//! [`complete`] completions and manual pages. [`kubectl`] is the command line of the plugin of kubectl.
//!
//! *Invariants*: every failure ends in one line on standard error and exit code 1; decisions are made elsewhere.

mod author;
mod beside;
mod builtins;
pub mod cli;
pub mod complete;
pub mod config;
mod dev;
mod flags;
mod host;
mod inputs;
pub mod kubectl;
mod leader;
mod logging;
mod oci;
pub mod output;
mod outside;
mod plugin;
mod plugins;
mod rbac;
pub mod run;
mod serve;
mod slow;
mod sources;
mod stop;
mod top;
mod traces;
mod types;
mod unattended;
mod version;

#[doc(hidden)]
pub use pintle_sources::folder::parse_spec;

use anyhow::Context as _;
use pintle_core::policy::roles;

use crate::cli::{Cli, Command};

/// Runs one command to completion.
///
/// # Errors
/// The error that ended the command; its text is for the user.
pub fn execute(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Dev(args) => on_runtime(dev::dev(&args)),
        Command::Run(args) => {
            let of_file = args.of_file.clone();
            roles::set_arguments(args.of_roles.clone());
            on_runtime(run::run(args)).map_err(|why| of_file.explain(why))
        }
        Command::Plugin(args) => on_runtime(plugin::plugin(&args)),
        Command::Top(args) => on_runtime(top::top(&args)),
        Command::Crd => output::line(pintle_sources::resource::crd::YAML.trim_end()),
        Command::New(args) => author::new(&args),
        Command::Crds(args) => author::crds(&args),
        Command::Build(args) => author::build(&args),
        Command::Package(args) => author::package(&args),
        Command::Test(args) => on_runtime(author::test(&args)),
        Command::Schema(args) => author::schema(&args),
        Command::Types(args) => on_runtime(types::types(&args)),
        Command::Push(args) => on_runtime(oci::within(&args.wait, &args.to, oci::push(&args))),
        Command::Pull(args) => on_runtime(oci::within(&args.wait, &args.from, oci::pull(&args))),
        Command::Sign(args) => on_runtime(oci::within(&args.wait, &args.what, oci::sign(&args))),
        Command::Verify(args) => on_runtime(oci::within(&args.wait, &args.what, oci::verify(&args))),
        Command::Keygen(args) => oci::keygen(&args),
        Command::Inspect(args) => on_runtime(author::inspect(&args)),
        Command::Scaffold(args) => on_runtime(author::scaffold(&args)),
        Command::Rbac(args) => on_runtime(rbac::rbac(&args)).map_err(|why| args.of_file.explain(why)),
        Command::Version(args) => version::version(&args),
        Command::Completion(args) => complete::completion(&args),
        Command::Man(args) => complete::man(&args),
    }
}

fn on_runtime(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the async runtime")?;
    let result = runtime.block_on(command);
    // A thread that waits for a file system without an answer would keep the process.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_thread_that_is_blocked_does_not_delay_the_end_of_a_command() {
        let (release, blocked) = channel::<()>();
        let (end, ended) = channel();
        std::thread::spawn(move || {
            let command = async {
                // Until the test has ended.
                tokio::task::spawn_blocking(move || blocked.recv());
                Ok(())
            };
            let _ = end.send(super::on_runtime(command).is_ok());
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(300)), Ok(true));
        drop(release);
    }
}
