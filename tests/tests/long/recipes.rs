//! The recipes (`host/docs/recipes.md`) and the other pages for operators: their marked blocks run unchanged, in their order, on a real
//! control plane. Hosts and plugins have the permissions that the pages give them, and no others.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pintle_tests::audited::{Audited, in_force, items, rbac};
use pintle_tests::collector::Collector;
use pintle_tests::pintle::{self, Answer};
use pintle_tests::registry::{Access, Registry};
use pintle_tests::tutorial::{Machine, Page, Player, ports};
use pintle_tests::{PATIENCE, eventually, kubectl, workspace_dir};
use serde_json::Value;

const PAGE: &str = "host/docs/recipes.md";
const REFERENCE: &str = "host/docs/reference.md";

/// A host that runs already, as the recipes have it.
const HOST: [&str; 3] =
    ["--controllers=deployment,replicaset", "--beside-kube-controller-manager", "--use-service-account-credentials"];

/// A page, by its path.
fn read(page: &str) -> Result<String> {
    fs::read_to_string(workspace_dir().join(page)).with_context(|| format!("read {page}"))
}

/// The page's `widgets.wasm`: what `pintle new` makes, in the folder.
fn widgets(folder: &Path) -> Result<Value> {
    let project = folder.join("project");
    let mut new = pintle::command(["new", "widgets", "--lang", "go", "--dir"])?;
    Answer::of(new.arg(&project))?.success()?;
    Answer::of(pintle::command(["build"])?.current_dir(&project))?.success()?;
    let file = folder.join("widgets.wasm");
    fs::copy(project.join("widgets.wasm"), &file).context("copy the component")?;
    Answer::of(pintle::command(["inspect", "-o", "json"])?.arg(&file))?.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipes_work_by_the_permissions_that_they_give() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let cluster = Audited::start().await?;
    cluster.create("host.json", &items(&rbac(&[&HOST[..], &["-o", "json"]].concat())?)?).await?;
    // As of the first plugin of the cluster: a new kind is served a moment after it is defined.
    let definition = cluster.write("definition.yaml", &pintle::run(["crd"])?)?.display().to_string();
    kubectl(&cluster.plane.kubeconfig(), &["apply", "-f", &definition]).await?;
    eventually(PATIENCE, "the kind to be served", async || {
        cluster.client.list("/apis/pintle.dev/v1alpha1/controllerplugins").await.map(Some)
    })
    .await?;
    let flags = HOST.map(str::to_owned).into_iter().chain([format!("--plain-http={}", registry.host())]);
    let (host, _) = cluster.host(&flags.collect::<Vec<_>>()).await?;
    let machine = Machine::plain()?
        .with_variable("KUBECONFIG", cluster.plane.kubeconfig())
        .with_variable("PINTLE_ADMIN_SOCKET", host.socket())
        .with_variable("PINTLE_PLAIN_HTTP", registry.host());
    let found = widgets(&machine.home())?;
    let pushed = format!("oci://{}/team/widgets:1.2.0", registry.host());
    let mut push = machine.command("pintle");
    let said = Answer::of(push.args(["push", "widgets.wasm", &pushed]))?.success()?;
    let digest_of = |text: &str| Some(format!("@sha256:{}", text.split("@sha256:").nth(1)?.get(..64)?));
    let pushed = digest_of(&said).context("no digest was pushed")?;
    for namespace in ["default", "shop"] {
        if namespace != "default" {
            cluster.client.create_namespace(namespace).await?;
        }
        let service = ["create", "service", "clusterip", "web", "--tcp=80", "-n", namespace];
        kubectl(&cluster.plane.kubeconfig(), &service).await?;
    }

    let text = read(PAGE)?;
    let digest =
        text.split("\n  digest: ").nth(1).and_then(|rest| rest.lines().next()).context("no digest on the page")?;
    let built = format!("sha256:{}", found["digest"].as_str().context("no digest")?.trim_start_matches("sha256:"));
    let text = text.replace("registry.example.com", &registry.host()).replace(digest, &built);
    // What this recipe looks up is there a moment after the plugin is loaded.
    let (before, after) = text.split_once("\n## Find out why a key fails\n").context("no recipe for keys that fail")?;
    Player::new(&machine)?.follow(&Page::marked(before)?).await.context(PAGE).with_context(|| host.log_tail())?;
    eventually(PATIENCE, "a run that failed", async || {
        let found = host.plugin(&["failures", "widgets"])?;
        Ok(found.to_string().contains("\"web\"").then_some(()))
    })
    .await
    .with_context(|| host.log_tail())?;
    Player::new(&machine)?.follow(&Page::marked(after)?).await.context(PAGE).with_context(|| host.log_tail())?;

    let text = read(REFERENCE)?;
    let digest = digest_of(&text).context("no digest on the page")?;
    let text = text.replace("registry.example.com", &registry.host()).replace(&digest, &pushed);
    Player::new(&machine)?.follow(&Page::marked(&text)?).await.context(REFERENCE).with_context(|| host.log_tail())?;

    // The plugin has written by its own account, and the API server has refused nothing that the page is for.
    let deeds = cluster.deeds_in_the_end()?;
    let is_of_plugin = |what: &str| deeds.iter().any(|deed| deed.account == "pintle-widgets" && deed.what == what);
    ensure!(is_of_plugin("patch configmaps"), "{deeds:#?}");
    host.stop().await;
    cluster.plane.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_run_as_the_pages_show_by_the_account_that_operators_make() -> Result<()> {
    let _alone = ports().await?;
    let cluster = Audited::start().await?;
    let kubeconfig = cluster.plane.kubeconfig();
    // What makes the service accounts of Namespaces.
    let _others = cluster.plane.start_kcm(&["*", "-deployment-controller", "-replicaset-controller"], &[]).await?;
    let collector = Collector::start(([127, 0, 0, 1], 0).into()).await?;
    let machine = || Ok::<_, anyhow::Error>(Machine::plain()?.with_variable("KUBECONFIG", &kubeconfig));
    let own = machine()?;
    let operators = read("host/docs/operators.md")?;
    let (account, _) = operators.split_once("\n**3. ").context("no third step")?;
    let mut pages = vec![("host/docs/operators.md", account.to_owned())];
    for page in ["host/docs/configuration.md", "host/docs/tracing.md", "host/docs/high-availability.md"] {
        pages.push((page, read(page)?.replace("collector.monitoring:4317", &collector.address.to_string())));
    }
    for (page, text) in pages {
        Player::new(&own)?.follow(&Page::marked(&text)?).await.context(page)?;
    }
    let spans = collector.spans();
    for name in ["reconcile deployment-controller", "create apps/v1/ReplicaSet", "create v1/Pod"] {
        let found = spans.iter().any(|span| span.name == name && span.error.is_none());
        ensure!(found, "no {name}: {spans:#?}");
    }

    let flags = HOST.map(str::to_owned).into_iter().chain(["--secure-port=10258".to_owned()]);
    let (host, _) = cluster.host(&flags.collect::<Vec<_>>()).await?;
    let top = read("host/docs/top.md")?.replace("10257", "10258");
    let (permission, look) = top.split_once("\n```sh run\ntoken=").context("no look at the page")?;
    let look = format!("```sh run\ntoken={look}");
    let visitor = machine()?.with_program("curl")?.with_variable("PINTLE_ADMIN_SOCKET", host.socket());
    Player::new(&visitor)?.follow(&Page::marked(permission)?).await.context("host/docs/top.md")?;
    let mut given = Vec::new();
    for kind in ["clusterroles", "clusterrolebindings"] {
        given.push(cluster.client.get(&format!("/apis/rbac.authorization.k8s.io/v1/{kind}/pintle-page")).await?);
    }
    in_force(&cluster.client, &given).await?;
    Player::new(&visitor)?.follow(&Page::marked(&look)?).await.context("host/docs/top.md")?;

    cluster.deeds_in_the_end()?;
    host.stop().await;
    cluster.plane.stop().await;
    Ok(())
}
