//! The same controller in every language, one after the other on the real control plane, beside the built-in ones: each brings up an
//! application of its own within its grants, leaves what the languages before it have made as it is, and all of them clean up.

use anyhow::{Context, Result, ensure};
use pintle_tests::components;
use pintle_tests::languages::built;
use pintle_tests::scenarios::Subject;
use pintle_tests::scenarios::subject::{CONTROLLERS, Running};
use pintle_tests::webapps::{CLAIMS, WEBAPPS, define, ready};
use pintle_tests::{ApiClient, PATIENCE, PatchKind, TestCluster, eventually};
use serde_json::json;

/// Where the children of an application are.
const CHILDREN: [&str; 4] = [
    "/api/v1/namespaces/default/configmaps",
    "/apis/apps/v1/namespaces/default/deployments",
    "/api/v1/namespaces/default/services",
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
];

/// Everything that controllers of WebApps have made in the default namespace, and the WebApps, with their versions.
async fn versions(client: &ApiClient) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for path in CHILDREN.into_iter().chain([WEBAPPS, CLAIMS]) {
        for object in client.list(path).await? {
            let meta = &object["metadata"];
            let owner = &meta["ownerReferences"][0]["kind"];
            if path == WEBAPPS || path == CLAIMS || owner == "WebApp" {
                all.push(format!("{path}/{} {}", meta["name"], meta["resourceVersion"]));
            }
        }
    }
    Ok(all)
}

/// The hash of the configuration on the Pods.
async fn hash(client: &ApiClient, name: &str) -> Result<String> {
    let deployment = client.get(&format!("{}/{name}", CHILDREN[1])).await?;
    let hash = &deployment["spec"]["template"]["metadata"]["annotations"]["example.com/config-hash"];
    Ok(hash.as_str().context("no hash")?.to_owned())
}

async fn bring_up(client: &ApiClient, name: &str) -> Result<()> {
    let spec = json!({"image": "registry.example/web:1", "replicas": 2, "host": format!("{name}.example.org"), "config": {"A": "1"}});
    let app = json!({"apiVersion": "example.com/v1", "kind": "WebApp", "metadata": {"name": name}, "spec": spec});
    client.create(WEBAPPS, &app).await?;
    let app = ready(client, name).await?;
    assert_eq!(app["status"]["url"], format!("http://{name}.example.org"));
    assert_eq!(app["status"]["availableReplicas"], 2);
    let before = hash(client, name).await?;
    let config = json!({"spec": {"config": {"A": "2"}}});
    client.patch(&format!("{WEBAPPS}/{name}"), PatchKind::Merge, &config).await?;
    ready(client, name).await?;
    ensure!(hash(client, name).await? != before, "the Pods were not rolled");
    Ok(())
}

async fn delete(client: &ApiClient, name: &str) -> Result<()> {
    client.delete(&format!("{WEBAPPS}/{name}"), None).await?;
    let app = format!("{WEBAPPS}/{name}");
    let claim = format!("{CLAIMS}/{name}.example.org");
    let child = format!("{}/{name}", CHILDREN[1]);
    eventually(PATIENCE, "all of the WebApp to be gone", || async {
        for path in [&app, &claim, &child] {
            if client.find(path).await?.is_some() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

/// With what the host says of the plugin, if something is wrong.
async fn with_log<T>(running: &Running, language: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    work.await.with_context(|| format!("{language}; the log of pintle ends with:\n{}\n", running.process().log_tail()))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_language_runs_applications_and_leaves_those_of_the_others_alone() -> Result<()> {
    let built = built()?;
    let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
    let client = cluster.client.clone();
    define(&client).await?;
    for (i, language) in built.iter().enumerate() {
        let before = versions(&client).await?;
        let flag = language.component.display().to_string();
        let manifest = components::manifest_of(&std::fs::read(&language.component)?)?;
        let plugin = manifest["name"].as_str().context("a manifest without a name")?;
        let controllers: Vec<&str> = CONTROLLERS.iter().copied().chain([plugin]).collect();
        let running = Subject::pintle()?.start_with(cluster.plane()?, &controllers, &[&flag]).await?;
        let name = format!("from-{}", language.language);
        with_log(&running, &language.language, async {
            bring_up(&client, &name).await?;
            let after = versions(&client).await?;
            let touched: Vec<&String> = before.iter().filter(|object| !after.contains(object)).collect();
            ensure!(touched.is_empty(), "what others had made was written: {touched:?}");
            if i + 1 == built.len() {
                for language in built {
                    delete(&client, &format!("from-{}", language.language)).await?;
                }
                let left = versions(&client).await?;
                ensure!(left.is_empty(), "left: {left:?}");
            }
            Ok(())
        })
        .await?;
        running.stop().await;
        println!("{name}: up, rolled, {} objects of others untouched", before.len());
    }
    cluster.stop().await;
    Ok(())
}
