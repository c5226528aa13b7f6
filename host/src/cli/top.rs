//! Arguments of `pintle top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::flags;
use crate::output::Output;

/// Arguments of `pintle top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Admin socket of the running host (its --admin-socket). Default: `$XDG_RUNTIME_DIR/pintle/admin.sock`; without that variable
    /// `/run/pintle/admin.sock` for root, and a per-user folder in the temporary folder for other users.
    #[arg(long, value_name = "PATH", env = "PINTLE_ADMIN_SOCKET")]
    pub admin_socket: Option<PathBuf>,

    /// Time between two looks at the host, from `200ms` to `1h`.
    #[arg(long, short, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    pub interval: Duration,

    /// Print the table once and end. This is also what happens if standard output is not a terminal.
    #[arg(long)]
    pub once: bool,

    /// Output format; `json` and `yaml` print once what the table is made of, with the last minutes.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Parses an interval that is neither so short that it keeps the host busy nor too long.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = flags::duration(text)?;
    let valid = Duration::from_millis(200)..=Duration::from_secs(3600);
    if valid.contains(&interval) { Ok(interval) } else { Err("write a duration from 200ms to 1h".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_bounded() {
        for good in ["200ms", "2s", "1h"] {
            assert!(interval(good).is_ok(), "{good}");
        }
        for wrong in ["0s", "199ms", "1h1s", "x", "-1s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
