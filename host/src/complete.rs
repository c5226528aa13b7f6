//! `pintle completion` and `pintle man`: shell completions and manual pages, generated from the command line
//! definition.
//!
//! The shell script runs this program for each completion, with [`VARIABLE`], so that plugin names come from the
//! running host.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};
use pintle_client::Client;
use pintle_sources::admin::socket;
use pintle_sources::wire::Listing;

use crate::cli::{CompletionArgs, ManArgs};
use crate::output;

/// The environment variable with which a shell requests completions. Its value is the name of the shell.
const VARIABLE: &str = "PINTLE_COMPLETE";

/// Timeout for reading the plugin names.
const PATIENCE: Duration = Duration::from_secs(1);

/// Handles a completion request of a shell, and exits. Otherwise does nothing.
pub(crate) fn answer_shell<C: CommandFactory>() {
    CompleteEnv::with_factory(C::command).var(VARIABLE).complete();
}

/// Plugin names with this prefix, from the host at the default admin socket, or at the one of the environment.
pub(crate) fn plugins(begin: &OsStr) -> Vec<CompletionCandidate> {
    let begin = begin.to_string_lossy();
    let names = listing().into_iter().flat_map(|listing| listing.items).map(|plugin| plugin.name);
    names.filter(|name| name.starts_with(&*begin)).map(CompletionCandidate::new).collect()
}

/// The plugins of the host. `None`: no host responds in time, and there are no names to complete.
fn listing() -> Option<Listing> {
    let path = std::env::var_os("PINTLE_ADMIN_SOCKET").map_or_else(socket::default_path, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let client = Client::new(path);
    runtime.block_on(async { tokio::time::timeout(PATIENCE, client.get("/v1/plugins")).await }).ok()?.ok()
}

pub(crate) fn completion(args: &CompletionArgs) -> anyhow::Result<()> {
    output::line(script(args.shell)?.trim_end())
}

fn script(shell: Shell) -> anyhow::Result<String> {
    let (shells, name) = (Shells::builtins(), shell.to_string());
    let of_shell = shells.completer(&name).with_context(|| format!("there are no completions for {name}"))?;
    let mut script = Vec::new();
    of_shell.write_registration(VARIABLE, "pintle", "pintle", "pintle", &mut script).context("write the script")?;
    String::from_utf8(script).context("write the script")
}

pub(crate) fn man<C: CommandFactory>(args: &ManArgs) -> anyhow::Result<()> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    clap_mangen::generate_to(C::command(), folder).with_context(|| format!("write to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::cli::Cli;

    /// The completions after these words.
    fn completed(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let last = words.len() - 1;
        let found = clap_complete::engine::complete(&mut Cli::command(), words, last, None).unwrap();
        found.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn commands_and_the_flags_of_controllers_are_completed() {
        assert_eq!(completed(&["pintle", "plugin", "disa"]), ["disable"]);
        for flag in ["--beside-kube-controller-manager", "--concurrent-deployment-syncs"] {
            assert_eq!(completed(&["pintle", "run", &flag[..flag.len() - 4]]), [flag]);
        }
    }

    #[test]
    fn the_script_of_every_shell_asks_this_program() {
        for shell in Shell::value_variants() {
            let script = super::script(*shell).unwrap();
            assert!(script.contains(VARIABLE), "{shell}: {script}");
        }
    }

    #[test]
    fn each_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        man::<Cli>(&ManArgs { folder: folder.path().join("man1") }).unwrap();
        for page in ["pintle", "pintle-run", "pintle-plugin", "pintle-plugin-swap"] {
            let text = fs::read_to_string(folder.path().join(format!("man1/{page}.1"))).unwrap();
            assert!(text.contains(".SH NAME"), "{page}");
        }
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let why = man::<Cli>(&ManArgs { folder: file.clone() }).unwrap_err();
        assert_eq!(why.to_string(), format!("create {}", file.display()));
    }
}
