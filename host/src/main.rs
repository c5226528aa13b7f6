//! The `pintle-host` binary. Images and releases name it `pintle`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle::main(|cli: pintle::cli::Cli| pintle::execute::<pintle::cli::Cli>(cli.command))
}
