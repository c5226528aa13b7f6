//! `pintle rbac`: the roles that the API server must give, and the accounts that they are bound to, as YAML or JSON that
//! `kubectl apply` and `kubectl auth reconcile` take.

use anyhow::{Context as _, bail};
use pintle_author::rbac::{self, Account, ElectionNames, Host, Names};
use pintle_core::contract::manifest::Manifest;
use pintle_core::policy::controllers_flag::ControllersFlag;
use pintle_kube::{Connection, Source};
use pintle_oci::{self as oci, Fetcher};
use serde_json::json;

use crate::beside::Stance;
use crate::builtins::Catalogue;
use crate::cli::rbac::{RbacArgs, RbacOutput};
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
            let source = Source::File { path: path.clone(), context: args.context.clone() };
            let connection = Connection::open(&source).await?;
            connection.check().await?;
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
            let documents: Result<Vec<String>, _> = objects.iter().map(serde_norway::to_string).collect();
            let notes: String = rbac::notes(&chosen).iter().map(|note| format!("# {note}\n")).collect();
            output::line((notes + &documents.context("write YAML")?.join("---\n")).trim_end())
        }
    }
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
