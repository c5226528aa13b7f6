//! The host as a program: arguments and wiring of the cluster binary. `host/desk` adds the commands for developers.
//!
//! *Flow*: [`cli`] defines the arguments, [`config`] parses them with the file of `--config`, [`execute`] runs one
//! command. [`plugins`] finds and loads components, [`host`] connects the API server, the sandbox and the runtime.
//!
//! While the host runs, [`pintle_sources`] adds plugins. [`plugin`] is the command-line client of the admin API.
//! [`oci`] has the registry commands, [`inspect`] those that examine components, [`complete`] completions and manual
//! pages. [`kubectl`] is the kubectl plugin.
//!
//! *Invariants*: every failure ends in one line on standard error and exit code 1; decisions are made elsewhere.

mod beside;
mod builtins;
pub mod cli;
mod complete;
pub mod config;
pub mod flags;
pub mod host;
pub mod inputs;
mod inspect;
mod kubectl;
mod leader;
pub mod logging;
pub mod oci;
pub mod output;
mod outside;
mod plugin;
pub mod plugins;
mod rbac;
pub mod run;
pub mod serve;
mod slow;
mod sources;
pub mod stop;
mod top;
pub mod traces;
pub mod unattended;
mod version;

#[doc(hidden)]
pub use pintle_sources::folder::parse_spec;

use std::process::ExitCode;

use anyhow::Context as _;
use pintle_core::policy::roles;

use crate::cli::{Command, CommandLine};

/// Returns freed memory to the system, which matters after a relist; the default allocator keeps it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Entry point of a binary: parses its command line, runs the command, and reports an error.
pub fn main<C: CommandLine>(execute: fn(C) -> anyhow::Result<()>) -> ExitCode {
    complete::answer_shell::<C>();
    let given: Vec<_> = std::env::args_os().collect();
    if kubectl::is_called(&given) {
        return kubectl::main(&given);
    }
    let cli = match config::parse(given) {
        Ok(cli) => cli,
        Err(why) => return why.report(C::MISSING),
    };
    match execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            output::error(&why);
            ExitCode::FAILURE
        }
    }
}

/// Runs one command of the command line `C` to completion.
///
/// # Errors
/// The error that ended the command; its text is for the user.
pub fn execute<C: CommandLine>(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(args) => {
            let of_file = args.of_file.clone();
            roles::set_arguments(args.of_roles.clone());
            on_runtime(run::run(*args)).map_err(|why| of_file.explain(why))
        }
        Command::Plugin(args) => on_runtime(plugin::plugin(&args)),
        Command::Top(args) => on_runtime(top::top(&args)),
        Command::Crd => output::line(pintle_sources::resource::crd::YAML.trim_end()),
        Command::Pull(args) => on_runtime(oci::within(&args.wait, &args.from, oci::pull(&args))),
        Command::Verify(args) => on_runtime(oci::within(&args.wait, &args.what, oci::verify(&args))),
        Command::Inspect(args) => on_runtime(inspect::inspect(&args)),
        Command::Scaffold(args) => on_runtime(inspect::scaffold(&args)),
        Command::Rbac(args) => on_runtime(rbac::rbac(&args)).map_err(|why| args.of_file.explain(why)),
        Command::Version(args) => on_runtime(version::version(&args)),
        Command::Completion(args) => complete::completion(&args),
        Command::Man(args) => complete::man::<C>(&args),
    }
}

/// Runs an asynchronous command.
///
/// # Errors
/// Those of the command, or the runtime does not start.
pub fn on_runtime(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the async runtime")?;
    let result = runtime.block_on(command);
    // A thread blocked by an unresponsive file system would keep the process alive.
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
                // Until the end of the test.
                tokio::task::spawn_blocking(move || blocked.recv());
                Ok(())
            };
            let _ = end.send(super::on_runtime(command).is_ok());
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(300)), Ok(true));
        drop(release);
    }
}
