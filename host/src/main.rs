//! The `pintle-host` binary. In images and releases it has the name `pintle`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle::main(|cli: pintle::cli::Cli| pintle::execute::<pintle::cli::Cli>(cli.command))
}
