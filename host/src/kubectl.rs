//! `kubectl pintle`: this binary with the name `kubectl-pintle`, which kubectl finds on the PATH.
//!
//! ```text
//! kubectl pintle top --context=a
//!   └ kubectl --context=a get leases ...                                   who leads: PODNAME_UUID
//!   └ kubectl --context=a exec -n pintle-system PODNAME -c pintle -it -- pintle top
//! ```
//!
//! Only kubectl connects to the cluster, so all of its connection options and its user's permissions apply.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, anyhow, bail};
use clap::{CommandFactory as _, Parser as _};
use pintle_core::policy::election::Lease;
use pintle_oci::ComponentSource;
use serde_json::Value;

use crate::cli::kubectl::{HostCommand, KubectlArgs, KubectlCli, PlaceArgs};
use crate::cli::leader::default_lease;
use crate::cli::plugin::{Action, ComponentArgs, Wanted};
use crate::{beside, output};

/// The file name that kubectl looks for: `kubectl pintle` runs it.
const NAME: &str = "kubectl-pintle";

/// Whether the process was started as a kubectl plugin. `given`: the command line, starting with the program.
pub(crate) fn is_called(given: &[OsString]) -> bool {
    given.first().and_then(|program| Path::new(program).file_name()).is_some_and(|name| name == NAME)
}

/// Runs the command line, starting with the program. Returns on errors only: kubectl replaces this process.
pub(crate) fn main(given: &[OsString]) -> ExitCode {
    let cli = match KubectlCli::try_parse_from(given) {
        Ok(cli) => cli,
        Err(why) => return output::usage(&why, given, None),
    };
    let words = words_of_host(given.get(1..).unwrap_or_default());
    let Err(why) = run(&cli, words);
    output::error(&why);
    ExitCode::FAILURE
}

fn run(cli: &KubectlCli, words: Vec<OsString>) -> anyhow::Result<std::convert::Infallible> {
    if let Some(why) = needs_files(&cli.command) {
        bail!("{why}");
    }
    let kubectl = Kubectl(&cli.kubectl);
    let pod = match &cli.place.pod {
        Some(pod) => pod.clone(),
        None => leader(&kubectl, &cli.place)?,
    };
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let why = kubectl.command(exec(&cli.place, &pod, is_terminal, words)).exec();
    Err(not_started(&why))
}

/// kubectl, with the user's flags.
struct Kubectl<'a>(&'a KubectlArgs);

impl Kubectl<'_> {
    fn command(&self, words: impl IntoIterator<Item = OsString>) -> Command {
        let mut command = Command::new("kubectl");
        command.args(flags(self.0)).args(words);
        command
    }

    /// The output of kubectl.
    fn output(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = self.command(words.iter().map(OsString::from)).output().map_err(|why| not_started(&why))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            // kubectl's last line is the error; earlier lines are log lines.
            bail!("`kubectl {}`: {}", words.join(" "), errors.trim().lines().next_back().unwrap_or("no reason given"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn not_started(why: &std::io::Error) -> anyhow::Error {
    match why.kind() {
        ErrorKind::NotFound => anyhow!("there is no kubectl on the PATH: install it"),
        _ => anyhow!("cannot start kubectl: {why}"),
    }
}

fn flags(args: &KubectlArgs) -> Vec<OsString> {
    let KubectlArgs { kubeconfig, context, cluster, user, as_user, as_group } = args;
    let single =
        [("kubeconfig", kubeconfig), ("context", context), ("cluster", cluster), ("user", user), ("as", as_user)];
    let single = single.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let groups = as_group.iter().map(|group| ("as-group", group));
    single.chain(groups).map(|(name, value)| format!("--{name}={value}").into()).collect()
}

/// kubectl's arguments to run `pintle` in a Pod. `is_terminal`: whether standard input is a terminal; then Ctrl-C also
/// ends the command in the Pod.
fn exec(place: &PlaceArgs, pod: &str, is_terminal: bool, words: Vec<OsString>) -> Vec<OsString> {
    let own = ["exec", "-n", &place.namespace, pod, "-c", &place.container];
    let terminal = is_terminal.then_some("-it");
    let own = own.into_iter().chain(terminal).chain(["--", "pintle"]);
    own.map(OsString::from).chain(words).collect()
}

/// The words of a command line without the flags of [`KubectlArgs`] and [`PlaceArgs`]. Every word is valid.
fn words_of_host(given: &[OsString]) -> Vec<OsString> {
    let command = KubectlCli::command();
    let own: Vec<&clap::Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).collect();
    let is_long = |name: &str| own.iter().any(|arg| arg.get_long() == Some(name));
    let is_short =
        |word: &str| own.iter().any(|arg| arg.get_short().is_some() && word.chars().next() == arg.get_short());
    let mut kept = Vec::new();
    let mut words = given.iter();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        if text == "--" {
            kept.push(word.clone());
            kept.extend(words.cloned());
            break;
        }
        let (is_own, has_value) = match (text.strip_prefix("--"), text.strip_prefix('-')) {
            (Some(long), _) => (is_long(long.split('=').next().unwrap_or_default()), long.contains('=')),
            (None, Some(short)) => (is_short(short), short.chars().count() > 1),
            (None, None) => (false, false),
        };
        if !is_own {
            kept.push(word.clone());
        } else if !has_value {
            words.next();
        }
    }
    kept
}

/// Why a command cannot run in a Pod: it needs local files.
fn needs_files(command: &HostCommand) -> Option<String> {
    let HostCommand::Plugin(command) = command else { return None };
    let component = |args: &ComponentArgs| match (&args.component, &args.spec) {
        (Wanted::Sent(ComponentSource::Path(file)), _) | (_, Some(file)) => Some(format!(
            "{} is a file of this machine, and the command runs in a Pod: `pintle push` the component and name it with oci://, or apply the ControllerPlugin that `pintle scaffold` prints",
            file.display()
        )),
        _ => None,
    };
    match &command.action {
        Action::Load(args) => component(&args.component),
        Action::Swap(args) => component(&args.component),
        Action::Failures(args) if args.save.is_some() => {
            Some("--save writes to a folder of this machine, and the command runs in a Pod: leave it out".to_owned())
        }
        _ => None,
    }
}

/// The Pod of the leading host.
fn leader(kubectl: &Kubectl<'_>, place: &PlaceArgs) -> anyhow::Result<String> {
    let namespace = &place.leader_elect_resource_namespace;
    let names = match &place.leader_elect_resource_name {
        Some(name) => vec![name.clone()],
        None => vec![default_lease(&place.plugin_class), beside::NAME.to_owned()],
    };
    let mut words = vec!["get", "leases.coordination.k8s.io", "-n", namespace, "--ignore-not-found", "-o", "json"];
    words.extend(names.iter().map(String::as_str));
    let leases = leases(&kubectl.output(&words)?)?;
    let pod = pod(&leases, namespace, &names)?;
    let words = ["get", "pods", "-n", &place.namespace, "--ignore-not-found", "-o", "name", &pod];
    if kubectl.output(&words)?.trim().is_empty() {
        bail!(
            "{pod} leads, and is no Pod of the namespace {}: name that of its Pods with -n, or run `pintle` on that machine if the host runs outside of the cluster. A Pod that has just gone holds the Lease for some seconds",
            place.namespace
        );
    }
    Ok(pod)
}

/// Parses the output of `kubectl get -o json`: one object, a list, or nothing.
fn leases(text: &str) -> anyhow::Result<Vec<Lease>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let answer: Value = serde_json::from_str(text).context("read what kubectl printed")?;
    let items = match answer["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![answer],
    };
    items.iter().map(|item| Lease::parse(&item.to_string()).map_err(|why| anyhow!("not a Lease: {why}"))).collect()
}

/// The Pod of the first Lease held by a Pintle.
fn pod(leases: &[Lease], namespace: &str, names: &[String]) -> anyhow::Result<String> {
    match leases.iter().find(|lease| lease.is_of_pintle()) {
        // `PODNAME_UUID`: the host name of a Pod is its name.
        Some(lease) => Ok(lease.holder().split('_').next().unwrap_or_default().to_owned()),
        None => bail!(
            "no Pintle leads: no one holds the Lease {namespace}/{}. Look at its Pods (`kubectl get pods -n pintle-system`), or name another Lease with --leader-elect-resource-name, or a Pod with --pod",
            names.join(" or ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn parse(line: &str) -> KubectlCli {
        KubectlCli::try_parse_from(words(line)).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    #[test]
    fn the_command_line_is_sound() {
        KubectlCli::command().debug_assert();
    }

    #[test]
    fn the_name_of_the_program_decides() {
        for (program, expected) in [
            ("kubectl-pintle", true),
            ("/usr/local/bin/kubectl-pintle", true),
            ("pintle", false),
            ("/kubectl-pintle/pintle", false),
        ] {
            assert_eq!(is_called(&words(program)), expected, "{program}");
        }
        assert!(!is_called(&[]));
    }

    #[test]
    fn kubectl_gets_its_flags_and_the_pod_the_rest() {
        for (line, expected) in [
            ("top", "exec -n pintle-system p -c pintle -- pintle top"),
            ("--context a top --once -n other", "--context=a exec -n other p -c pintle -- pintle top --once"),
            (
                "plugin -nother disable web --why=-n --kubeconfig=/k -c=x --as bob --as-group=a --as-group b",
                "--kubeconfig=/k --as=bob --as-group=a --as-group=b exec -n other p -c x -- pintle plugin disable web --why=-n",
            ),
            ("plugin ls -o yaml -w", "exec -n pintle-system p -c pintle -- pintle plugin ls -o yaml -w"),
            (
                "plugin describe --cluster c --user u --leader-elect-resource-name l --plugin-class b -- web",
                "--cluster=c --user=u exec -n pintle-system p -c pintle -- pintle plugin describe -- web",
            ),
        ] {
            let cli = parse(&format!("kubectl-pintle {line}"));
            let mut made = flags(&cli.kubectl);
            made.extend(exec(&cli.place, "p", false, words_of_host(&words(line))));
            assert_eq!(made, words(expected), "{line}");
        }
        let top = exec(&parse("kubectl-pintle top").place, "p", true, words("top"));
        assert_eq!(top, words("exec -n pintle-system p -c pintle -it -- pintle top"));
    }

    #[test]
    fn what_asks_no_host_is_refused() {
        for line in ["run", "dev", "rbac", "", "top --contxt=a"] {
            assert!(KubectlCli::try_parse_from(words(&format!("kubectl-pintle {line}"))).is_err(), "{line}");
        }
    }

    #[test]
    fn files_of_this_machine_are_not_in_the_pod() {
        for (line, expected) in [
            ("plugin load widgets.wasm", Some("widgets.wasm")),
            ("plugin swap web new.wasm", Some("new.wasm")),
            ("plugin load oci://a.example/b:1 --spec spec.yaml", Some("spec.yaml")),
            ("plugin failures web --save cases", Some("--save")),
            ("plugin load oci://a.example/b:1", None),
            ("plugin load builtin:job-controller", None),
            ("plugin failures web", None),
            ("top", None),
        ] {
            let why = needs_files(&parse(&format!("kubectl-pintle {line}")).command);
            assert_eq!(why.as_deref().and_then(|why| why.split(' ').next()), expected, "{line}");
        }
    }

    #[test]
    fn the_leader_is_the_holder_of_a_lease_that_a_pintle_took() {
        let lease = |holder: &str, of_pintle: bool| {
            let annotation = if of_pintle { holder } else { "pintle-0_old" };
            json!({"kind": "Lease", "metadata": {"annotations": {"pintle.dev/holder": annotation}}, "spec": {"holderIdentity": holder}})
        };
        let list = |items: &[Value]| json!({"kind": "List", "items": items}).to_string();
        let names = ["pintle".to_owned(), beside::NAME.to_owned()];
        let pod = |text: &str| pod(&leases(text).unwrap(), "kube-system", &names).map_err(|why| why.to_string());
        let pintle = lease("pintle-1_5b1c", true);
        assert_eq!(pod(&pintle.to_string()).unwrap(), "pintle-1");
        assert_eq!(pod(&list(std::slice::from_ref(&pintle))).unwrap(), "pintle-1");
        // Of the two, the one held by a Pintle.
        assert_eq!(pod(&list(&[lease("", true), pintle.clone()])).unwrap(), "pintle-1");
        assert_eq!(pod(&list(&[pintle, lease("master_1", false)])).unwrap(), "pintle-1");
        for nobody in [String::new(), list(&[]), list(&[lease("master_1", false)]), lease("", true).to_string()] {
            let why = pod(&nobody).unwrap_err();
            assert!(why.contains("the Lease kube-system/pintle or kube-controller-manager"), "{why}");
        }
        assert!(leases("Error").is_err());
    }
}
