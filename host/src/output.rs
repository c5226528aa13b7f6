//! Output to the terminal.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use pintle_core::text::{printable, printable_json, printable_lines};
use serde::Serialize;

use crate::flags::upstream;

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For humans.
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// Writes one line to standard output. A closed pipe (`pintle ... | head`) is not an error.
///
/// # Errors
/// Standard output is not writable.
pub fn line(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{}", printable_lines(text)) {
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("write to standard output"),
    }
}

/// Writes a JSON document to standard output.
///
/// # Errors
/// Standard output is not writable.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("write JSON")?;
    line(&printable_json(&text))
}

/// Writes a YAML document to standard output.
///
/// # Errors
/// Standard output is not writable.
pub fn yaml(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_norway::to_string(value).context("write YAML")?;
    line(text.trim_end())
}

/// Writes a result in the given format; `text` is the form for humans.
///
/// # Errors
/// Standard output is not writable.
pub fn answer(form: Output, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    match form {
        Output::Json => json(value),
        Output::Yaml => yaml(value),
        Output::Text => line(text().trim_end()),
    }
}

/// Writes an error with its causes to standard error, in one line.
pub fn error(why: &anyhow::Error) {
    // Without standard error, there is nowhere to report the failure.
    let _ = writeln!(io::stderr(), "pintle: {}", printable(&one_line(why), usize::MAX));
}

/// Writes a progress line to standard error, separate from the result.
pub fn progress(text: &str) {
    // Without standard error, there is nowhere to report the failure.
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}

/// Prints the parser's result if it is not a command: help and version unchanged, an error in one line. `given`: the
/// command line. `missing`: the binary that has the commands missing here.
pub fn usage(why: &clap::Error, given: &[OsString], missing: Option<&str>) -> ExitCode {
    let asked = !why.use_stderr();
    if asked || why.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Without a terminal, there is nowhere to report the failure.
        let _ = why.print();
        return if asked { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let missing = missing.filter(|_| why.kind() == ErrorKind::InvalidSubcommand);
    let remark = missing.map_or_else(String::new, |missing| format!(". {}", missing.replace('\n', " ")));
    let _ = writeln!(io::stderr(), "pintle: {}{remark}", refused(why, given));
    ExitCode::FAILURE
}

/// The error in one line.
pub fn refused(why: &clap::Error, given: &[OsString]) -> String {
    of_upstream(why, given).unwrap_or_else(|| mistake(&why.to_string()))
}

/// Reports all flags in the command line that kube-controller-manager has and this host lacks.
fn of_upstream(why: &clap::Error, given: &[OsString]) -> Option<String> {
    let first = match (why.kind(), why.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => upstream::refusal(flag)?,
        _ => return None,
    };
    let flags = given.iter().filter_map(|word| word.to_str()?.starts_with("--").then_some(word.to_str()?));
    let flags = flags.map(|word| word.split('=').next().unwrap_or(word));
    let mut all: Vec<String> = Vec::new();
    for refusal in flags.filter_map(upstream::refusal) {
        if !all.contains(&refusal) {
            all.push(refusal);
        }
    }
    Some(if all.contains(&first) { all.join("; ") } else { first })
}

/// The error and the remedy in one line, with the command for more help.
fn mistake(text: &str) -> String {
    let (what, usage) = text.split_once("Usage:").unwrap_or((text, ""));
    let lines = what.lines().map(str::trim).filter(|line| {
        // An argument that begins with `--` is never a value here.
        let is_useless =
            line.is_empty() || line.starts_with("tip: to pass '") || line.starts_with("For more information");
        !is_useless
    });
    let mut sentence = String::new();
    for line in lines {
        let separator = match sentence.chars().last() {
            None => "",
            Some(':') => " ",
            _ if line.starts_with('[') => " ",
            // The missing arguments, one in each line.
            Some('>') if line.starts_with(['<', '-']) => ", ",
            Some(_) => "; ",
        };
        sentence = sentence + separator + line;
    }
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    if sentence.contains("[possible values: ") {
        return sentence.to_owned();
    }
    let words = usage.split_whitespace().take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    let command = words.take_while(|word| !word.starts_with('-')).collect::<Vec<_>>().join(" ");
    let help = if command.is_empty() { "--help".to_owned() } else { format!("`{command} --help`") };
    format!("{sentence}; see {help}")
}

/// An error with its causes, without duplicates.
pub(crate) fn one_line(why: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in why.chain() {
        let cause = cause.to_string();
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn a_flag_of_a_controller_that_is_not_built_yet_is_rejected_with_its_name() {
        let refused = |argument: &str| {
            let why = crate::cli::Cli::try_parse_from(["pintle", "run", argument, "5"]).unwrap_err();
            super::refused(&why, &[])
        };
        let (flag, controller) = upstream::any();
        let expected =
            format!("--{flag} is a flag of {controller}, which is not part of this Pintle yet; leave it out");
        assert_eq!(refused(&format!("--{flag}")), expected);
        assert_eq!(refused(&format!("--{flag}=5")), expected);
        assert_eq!(refused("--widgets"), "unexpected argument '--widgets' found; see `pintle run --help`");
    }

    #[test]
    fn a_flag_of_kube_controller_manager_itself_is_rejected_with_what_to_do() {
        let why = crate::cli::Cli::try_parse_from(["pintle", "run", "--cluster-name=a"]).unwrap_err();
        expect!["--cluster-name is a flag of kube-controller-manager that Pintle does not have: only controllers of cloud providers read it: leave it out"].assert_eq(&super::refused(&why, &[]));
    }

    /// Flags of a kubeadm manifest, and some that operators add.
    const KUBEADM: [&str; 23] = [
        "--allocate-node-cidrs=true",
        "--attach-detach-reconcile-sync-period=1m",
        "--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--bind-address=127.0.0.1",
        "--client-ca-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-cidr=10.244.0.0/16",
        "--cluster-name=kubernetes",
        "--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt",
        "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key",
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--feature-gates=AllAlpha=false",
        "--kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--leader-elect=true",
        "--node-cidr-mask-size-ipv4=24",
        "--profiling=false",
        "--requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt",
        "--root-ca-file=/etc/kubernetes/pki/ca.crt",
        "--service-account-private-key-file=/etc/kubernetes/pki/sa.key",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--tls-min-version=VersionTLS12",
        "--use-service-account-credentials=true",
        "--v=2",
    ];

    #[test]
    fn all_flags_of_a_manifest_of_kubeadm_that_are_not_there_are_reported_at_once() {
        let words = ["pintle", "run"].into_iter().chain(KUBEADM).map(OsString::from);
        // Those of controllers that are built, which a test binary does not carry.
        let built = [
            "--allocate-node-cidrs",
            "--cluster-cidr",
            "--cluster-signing-",
            "--node-cidr-mask-size",
            "--root-ca-file",
            "--service-account-private-key-file",
            "--service-cluster-ip-range",
        ];
        let is_built = |word: &OsString| built.iter().any(|flag| word.to_string_lossy().starts_with(flag));
        let words: Vec<OsString> = words.filter(|word| !is_built(word)).collect();
        let why = crate::cli::Cli::try_parse_from(&words).unwrap_err();
        expect![[r#"
            --attach-detach-reconcile-sync-period is a flag of persistentvolume-attach-detach-controller, which is not part of this Pintle yet; leave it out;
            --cluster-name is a flag of kube-controller-manager that Pintle does not have: only controllers of cloud providers read it: leave it out"#]].assert_eq(&super::refused(&why, &words).replace("; --", ";\n--"));
    }

    #[test]
    fn a_mistake_is_one_sentence_with_the_command_that_helps() {
        let check = |arguments: &[&str], expected: Expect| {
            let why = crate::cli::Cli::try_parse_from([&["pintle"], arguments].concat()).unwrap_err();
            expected.assert_eq(&super::refused(&why, &[]));
        };
        check(
            &["plugin", "describe"],
            expect!["the following required arguments were not provided: <NAME>; see `pintle plugin describe --help`"],
        );
        check(
            &["plugin", "swap"],
            expect![
                "the following required arguments were not provided: <NAME>, <FILE|oci://REF|builtin:NAME>; see `pintle plugin swap --help`"
            ],
        );
        check(
            &["plugin", "lst"],
            expect![
                "unrecognized subcommand 'lst'; tip: some similar subcommands exist: 'ls', 'list'; see `pintle plugin --help`"
            ],
        );
        check(
            &["plugin", "list", "-o", "xml"],
            expect![
                "invalid value 'xml' for '--output <OUTPUT>' [possible values: text, json, yaml]; tip: a similar value exists: 'yaml'"
            ],
        );
        check(
            &["run", "--kubeconfi", "x"],
            expect![
                "unexpected argument '--kubeconfi' found; tip: a similar argument exists: '--kubeconfig'; see `pintle run --help`"
            ],
        );
        check(
            &["run", "--kube-api-burst", "-1"],
            expect!["invalid value '-1' for '--kube-api-burst <N>': -1 is not in 1..=2147483647; see --help"],
        );
    }

    #[test]
    fn an_error_is_one_line_that_says_nothing_twice() {
        let why = anyhow::anyhow!("no such file").context("read a.wasm: no such file").context("load plugin");
        assert_eq!(one_line(&why), "load plugin: read a.wasm: no such file");
    }
}
