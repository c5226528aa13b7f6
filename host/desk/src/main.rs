//! The `pintle` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle::main(pintle_desk::execute)
}
