//! `pintle completion` and `pintle man`: what shells and manual readers need, from the definition of the command line.

use std::fs;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::{Cli, CompletionArgs, ManArgs};
use crate::output;

pub(crate) fn completion(args: &CompletionArgs) -> anyhow::Result<()> {
    output::line(script(args.shell)?.trim_end())
}

fn script(shell: Shell) -> anyhow::Result<String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "pintle", &mut script);
    String::from_utf8(script).context("write the script")
}

pub(crate) fn man(args: &ManArgs) -> anyhow::Result<()> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(|| format!("write to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn completions_of_every_shell_know_the_flags_of_controllers() {
        for shell in Shell::value_variants() {
            let script = super::script(*shell).unwrap();
            for flag in ["beside-kube-controller-manager", "concurrent-deployment-syncs"] {
                assert!(script.contains(flag), "{shell}: {flag}");
            }
        }
    }

    #[test]
    fn each_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        man(&ManArgs { folder: folder.path().join("man1") }).unwrap();
        for page in ["pintle", "pintle-run", "pintle-plugin", "pintle-plugin-swap"] {
            let text = fs::read_to_string(folder.path().join(format!("man1/{page}.1"))).unwrap();
            assert!(text.contains(".SH NAME"), "{page}");
        }
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let why = man(&ManArgs { folder: file.clone() }).unwrap_err();
        assert_eq!(why.to_string(), format!("create {}", file.display()));
    }
}
