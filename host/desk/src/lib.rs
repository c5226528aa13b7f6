//! Developer tools besides a host: the embedded cluster of [`dev`], and the commands for plugin authors ([`author`],
//! [`types`], [`oci`]). No process in a cluster links any of it.

mod author;
pub mod cli;
mod dev;
mod oci;
mod types;
mod unattended;

use pintle::on_runtime;

use crate::cli::{Cli, Command};

/// Runs one command to completion.
///
/// # Errors
/// The error that ended the command; its text is for the user.
pub fn execute(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Dev(args) => on_runtime(dev::dev(&args)),
        Command::Host(command) => pintle::execute::<Cli>(command),
        Command::New(args) => author::new(&args),
        Command::Crds(args) => author::crds(&args),
        Command::Build(args) => author::build(&args),
        Command::Package(args) => author::package(&args),
        Command::Test(args) => on_runtime(author::test(&args)),
        Command::Schema(args) => author::schema(&args),
        Command::Types(args) => on_runtime(types::types(&args)),
        Command::Push(args) => on_runtime(oci::within(&args.wait, &args.to, oci::push(&args))),
        Command::Sign(args) => on_runtime(oci::within(&args.wait, &args.what, oci::sign(&args))),
        Command::Keygen(args) => oci::keygen(&args),
    }
}
