//! `pintle rbac`: prints the roles that a host needs, and the accounts that they are bound to, as YAML or JSON for
//! `kubectl apply` and `kubectl auth reconcile`.

use std::borrow::Cow;

use anyhow::{Context as _, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command};
use pintle_core::contract::manifest::Manifest;
use pintle_inspect::rbac::{self, Account, ElectionNames, Host, Names};
use pintle_kube::Connection;
use pintle_oci::{self as oci, Fetcher};
use serde_json::{Value, json};

use crate::beside::Stance;
use crate::builtins::Catalogue;
use crate::cli::oci::RegistryArgs;
use crate::cli::rbac::{RbacArgs, RbacOutput};
use crate::flags::controllers_flag::ControllersFlag;
use crate::flags::gates::{COORDINATED_LEADER_ELECTION, FeatureGates};
use crate::{output, plugins};

pub(crate) async fn rbac(args: &RbacArgs) -> anyhow::Result<()> {
    let account = host_account(&args.service_account)?;
    let flag = ControllersFlag::beside(!args.plugins.is_empty(), &args.controllers)?;
    let fetcher = Fetcher::new(&args.registry, None, oci::stderr)?;
    let candidates = plugins::candidates(&args.plugins, &fetcher).await?;
    plugins::check_names(&flag, &candidates)?;
    let enabled = candidates.iter().filter(|candidate| candidate.is_enabled(&flag));
    let chosen: Vec<&Manifest> = enabled.map(|candidate| &*candidate.manifest).collect();
    if chosen.is_empty() {
        bail!("no controller is left: --controllers is {:?}", args.controllers.join(","));
    }
    let names = match &args.kubeconfig {
        None => Names::default(),
        Some(path) => {
            let connection = Connection::to(path, args.context.as_deref()).await?;
            Names::of_cluster(connection.reader().discover().await.context("ask the cluster for its resources")?)
        }
    };
    let accounts = Catalogue::carried().accounts();
    let is_built_in = chosen.iter().any(|manifest| accounts.is_built_in(&manifest.name));
    let stance = Stance::of(is_built_in, args.beside_kube_controller_manager, &flag, args.lease.leader_elect);
    let replaces = stance.replaces();
    let groups = args.lease.groups(replaces)?;
    let election = args.lease.is_on().then(|| {
        let (namespace, name) = args.lease.of_host(replaces, &args.plugin_class);
        let gates = args.feature_gates.iter().cloned().fold(FeatureGates::default(), FeatureGates::merge);
        let leases = groups.ids().map(|group| groups.lease(group, &name)).collect();
        let coordinated = gates.is_on(COORDINATED_LEADER_ELECTION);
        ElectionNames { namespace, leases, coordinated }
    });
    let host = Host {
        account,
        own_accounts: args.use_service_account_credentials,
        election,
        looks_for_kube_controller_manager: stance != Stance::Beside,
    };
    let objects = rbac::objects(&chosen, &names, &host, &accounts)?;
    match args.output {
        RbacOutput::Json => output::json(&json!({"apiVersion": "v1", "kind": "List", "items": objects})),
        RbacOutput::Yaml => {
            let documents: Vec<String> = objects.iter().map(document).collect::<anyhow::Result<_>>()?;
            let notes: String = rbac::notes(&chosen).iter().map(|note| format!("# {note}\n")).collect();
            output::line((notes + &documents.join("---\n")).trim_end())
        }
    }
}

/// An object as YAML, with one rule per line.
fn document(object: &Value) -> anyhow::Result<String> {
    let mut rest = object.clone();
    let rules = rest.as_object_mut().and_then(|fields| fields.remove("rules"));
    let mut text = serde_norway::to_string(&rest).context("write YAML")?;
    if let Some(rules) = rules {
        text += "rules:\n";
        for rule in rules.as_array().into_iter().flatten().filter_map(Value::as_object) {
            let fields = rule.iter().map(|(name, list)| {
                let words = list.as_array().into_iter().flatten().filter_map(Value::as_str).map(word);
                format!("{name}: [{}]", words.collect::<Vec<_>>().join(", "))
            });
            text += &format!("- {{{}}}\n", fields.collect::<Vec<_>>().join(", "));
        }
    }
    Ok(text)
}

/// An item of a YAML list, quoted unless it is a name or a path.
fn word(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c))
        && text.chars().any(|c| c.is_ascii_alphabetic())
        && serde_norway::from_str::<Value>(text).is_ok_and(|value| value == text);
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// `NAMESPACE/NAME`.
fn host_account(text: &str) -> anyhow::Result<Account> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Account { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => bail!("--service-account {text:?}: write NAMESPACE/NAME, for example kube-system/pintle"),
    }
}

/// Flags of `pintle rbac` that are not flags of a host: the cluster to query, and a file that sets the other flags.
const OF_THE_COMMAND: [&str; 3] = ["config", "kubeconfig", "context"];

/// The shell-quoted arguments with which `pintle rbac` prints the roles of a host. `command` has parsed the command
/// line of `pintle run`, with the fields of its file.
pub(crate) fn arguments(command: &Command, matches: &ArgMatches) -> String {
    let (Some((name, matches)), Some(rbac)) = (matches.subcommand(), command.find_subcommand("rbac")) else {
        return String::new();
    };
    let Some(host) = command.find_subcommand(name) else { return String::new() };
    let given = |id: &str| -> Vec<String> {
        let is_given = matches!(matches.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable));
        let values = is_given.then(|| matches.get_raw(id)).flatten().into_iter().flatten();
        values.map(|value| value.to_string_lossy().into_owned()).collect()
    };
    let components: Vec<String> = ["plugins", "more_plugins", "plugin_dir"].into_iter().flat_map(given).collect();
    let registry = RegistryArgs::augment_args(Command::new("registry"));
    let mut words = Vec::new();
    for arg in rbac.get_arguments() {
        let Some(long) = arg.get_long().filter(|long| !OF_THE_COMMAND.contains(long)) else { continue };
        // Keys and registries matter for components only.
        if components.is_empty() && registry.get_arguments().any(|arg| arg.get_long() == Some(long)) {
            continue;
        }
        let Some(same) = host.get_arguments().find(|arg| arg.get_long() == Some(long)) else { continue };
        let values = given(same.get_id().as_str());
        match arg.get_value_delimiter() {
            _ if values == ["true"] => words.push(format!("--{long}")),
            Some(delimiter) if !values.is_empty() => {
                words.push(format!("--{long}={}", quoted(&values.join(&delimiter.to_string()))));
            }
            _ => words.extend(values.iter().map(|value| format!("--{long}={}", quoted(value)))),
        }
    }
    // With a plugin folder only, all built-in controllers run too.
    let is_folder_alone = given("plugins").is_empty() && given("more_plugins").is_empty();
    if is_folder_alone && !components.is_empty() && given("controllers").is_empty() {
        words.push("--controllers='*'".to_owned());
    }
    words.extend(components.iter().map(|component| quoted(component).into_owned()));
    words.join(" ")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> Cow<'_, str> {
    // An argument cannot contain a zero byte.
    shlex::try_quote(word).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::{Value, json};

    use super::document;
    use crate::cli::{Cli, Command};
    use crate::config;

    fn of_host(line: &str) -> String {
        let words = format!("pintle run {line}");
        match config::parse::<Cli>(words.split_whitespace().map(Into::into)).unwrap().command {
            Command::Run(args) => args.of_roles,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_rule_is_a_line_that_reads_back_as_it_is() {
        let odd = ["", "*", "pods/*", "system:node", "no", "1e3", ".5", "a,b", "-", "~", "get"];
        let role = json!({"kind": "Role", "metadata": {"name": "r"}, "rules": [
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": odd},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]});
        let text = document(&role).unwrap();
        assert_eq!(serde_norway::from_str::<Value>(&text).unwrap(), role);
        assert!(text.ends_with("\n- {nonResourceURLs: [/metrics], verbs: [get]}\n"), "{text}");
    }

    #[test]
    fn the_roles_of_a_host_are_those_of_its_flags() {
        for (line, expected) in [
            ("", ""),
            ("--kubeconfig=/k --context=c --secure-port=0 --verify-key=/key", ""),
            ("--controllers=*,-job-controller", "'--controllers=*,-job-controller'"),
            (
                "--controllers=deployment --controllers=replicaset --beside-kube-controller-manager --plugin-class=blue",
                "--controllers=deployment,replicaset --beside-kube-controller-manager --plugin-class=blue",
            ),
            (
                "--use-service-account-credentials --leader-elect --leader-elect-resource-name=l --leader-elect-resource-namespace=n",
                "--use-service-account-credentials --leader-elect --leader-elect-resource-name=l --leader-elect-resource-namespace=n",
            ),
            ("--leader-elect=false", "--leader-elect=false"),
            (
                "--leader-elect-group=a=job-controller,cronjob-controller --leader-elect-group=b=x --beside-kube-controller-manager",
                "--leader-elect-group=a=job-controller,cronjob-controller --leader-elect-group=b=x --beside-kube-controller-manager",
            ),
            ("--feature-gates=CoordinatedLeaderElection=true", "--feature-gates=CoordinatedLeaderElection=true"),
            ("a.wasm --plugin=b.wasm --verify-key=/key", "--verify-key=/key a.wasm b.wasm"),
            ("--plugin-dir=/plugins", "'--controllers=*' /plugins"),
        ] {
            let arguments = of_host(line);
            let words = |text: &str| shlex::split(text).unwrap().into_iter().collect::<std::collections::BTreeSet<_>>();
            assert_eq!(words(&arguments), words(expected), "{line}: {arguments}");
            let parsed =
                Cli::try_parse_from(["pintle".to_owned(), "rbac".to_owned()].into_iter().chain(words(&arguments)));
            assert!(parsed.is_ok(), "{arguments}: {parsed:?}");
        }
    }

    #[test]
    fn the_roles_of_a_host_are_those_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host.yaml");
        let text = "apiVersion: pintle.dev/v1alpha1\nkind: HostConfiguration\nleaderElection: {resourceName: mine}\n";
        std::fs::write(&file, text).unwrap();
        let line = format!("--config={} --controllers=deployment", file.display());
        assert_eq!(of_host(&line), "--controllers=deployment --leader-elect-resource-name=mine");
    }
}
