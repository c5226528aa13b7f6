//! The host at a glance, as an operator sees it: `pintle top` in a terminal, and the web page in a browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::browser::Browser;
use pintle_tests::pintle::Answer;
use pintle_tests::screen::Screen;
use pintle_tests::{
    ApiClient, HostProcess, PATIENCE, PatchKind, TestCluster, components, eventually, pintle, target_dir,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// What no page and no terminal may take for more than text. API servers accept it as the name of a role.
const MARKUP: &str = "<img src=x onerror=document.title='owned'>";
/// Where the tests leave their photographs.
fn photographs() -> Result<PathBuf> {
    let folder = target_dir().join("photographs");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A host under load, with a plugin whose texts are markup.
struct Busy {
    cluster: TestCluster,
    host: HostProcess,
    url: String,
    load: JoinHandle<()>,
    _held: TcpSocket,
    folder: tempfile::TempDir,
}

impl Busy {
    async fn start(flags: &[&str]) -> Result<Busy> {
        let cluster = TestCluster::embedded().await?.with_nodes(|_| {}).await?;
        let folder = tempfile::tempdir()?;
        let component = folder.path().join("failing.wasm");
        let hostile = components::with_manifest(&components::guest("failing")?, |manifest| {
            let watch = &mut manifest["watches"][0];
            watch["kind"] = "rbac.authorization.k8s.io/v1/ClusterRole".into();
            watch["fields"] = json!(["metadata.annotations"]);
        })?;
        std::fs::write(&component, hostile)?;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": MARKUP, "labels": {"fail": "x"}, "annotations": {"mode": "retry"}}, "rules": [],
        });
        cluster.client.create(ROLES, &role).await?;
        let held = TcpSocket::new_v4()?;
        held.set_reuseport(true)?;
        held.bind("127.0.0.1:0".parse()?)?;
        let port = held.local_addr()?.port();
        let mut all = vec![
            HostProcess::controllers(&["deployment", "replicaset", "namespace"]),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--permit-port-sharing".to_owned(),
            component.display().to_string(),
        ];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let mut host = cluster.host(&all)?;
        host.ready().await?;
        let load = tokio::spawn(scale(cluster.client.clone()));
        let url = format!("https://127.0.0.1:{port}/debug/pintle/");
        Ok(Busy { cluster, host, url, load, _held: held, folder })
    }

    fn top(&self, arguments: &[&str]) -> Result<Command> {
        top(self.host.socket(), arguments)
    }

    async fn stop(self) {
        self.load.abort();
        self.host.stop().await;
        self.cluster.stop().await;
    }
}

fn top(socket: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = pintle::command(["top"])?;
    command.args(arguments).arg("--admin-socket").arg(socket).env_remove("NO_COLOR");
    Ok(command)
}

/// Scales Deployments up and down without end.
async fn scale(client: ApiClient) {
    for name in ["web", "shop"] {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            }},
        });
        // Failures show as plugins that have nothing to do.
        let _ = client.create(DEPLOYMENTS, &deployment).await;
    }
    let mut n = 0;
    loop {
        n += 1;
        let name = ["web", "shop"][n % 2];
        let replicas = json!({"spec": {"replicas": 1 + n % 9}});
        let _ = client.patch(&format!("{DEPLOYMENTS}/{name}"), PatchKind::Merge, &replicas).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn overview(command: &mut Command) -> Result<Value> {
    Answer::of(command)?.json()
}

/// The row of a plugin.
fn row<'s>(screen: &'s str, plugin: &str) -> Option<&'s str> {
    screen.lines().find(|line| line.trim_start_matches("> ").trim_start().starts_with(plugin))
}

#[tokio::test(flavor = "multi_thread")]
async fn pintle_top_shows_a_host_that_goes_away_and_comes_back_and_restores_the_terminal() -> Result<()> {
    let mut busy = Busy::start(&[]).await?;
    // Once, as text and as JSON.
    let text = Answer::of(&mut busy.top(&[])?)?.success()?;
    ensure!(text.contains("No leader election: this host works alone"), "{text}");
    ensure!(row(&text, "replicaset-controller").is_some_and(|row| row.contains("Running")), "{text}");
    let counts = eventually(PATIENCE, "runs, failures and memory", async || {
        let found = overview(&mut busy.top(&["-o", "json"])?)?;
        let plugin =
            |name: &str| found["plugins"].as_array().and_then(|all| all.iter().find(|p| p["name"] == name)).cloned();
        let (sets, failing) = (plugin("replicaset-controller").context("none")?, plugin("failing").context("none")?);
        let is_counted = sets["runsPerSecond"].as_f64() > Some(0.1)
            && sets["latency"]["p99Seconds"].as_f64() > Some(0.0)
            && sets["memoryBytes"].as_u64() > Some(1000)
            && failing["runs"]["error"].as_u64() > Some(0)
            && found["host"]["residentBytes"].as_u64() > Some(10 << 20)
            && found["series"]["secondsAgo"].as_array().is_some_and(|points| points.len() > 2);
        ensure!(is_counted, "{found:#}");
        Ok(Some(found))
    });
    counts.await?;

    let mut screen = Screen::start(&busy.top(&["--interval=300ms"])?, 20, 120)?;
    let first = screen.shows("the table", |text| row(text, "replicaset-controller").is_some()).await?;
    ensure!(first.contains("NAME▲") && first.contains("API server answers"), "{first}");
    // Runs go on.
    let runs = |text: &str| row(text, "replicaset-controller").map(str::to_owned);
    screen.shows("other values", |text| runs(text).is_some_and(|row| Some(row) != runs(&first))).await?;
    // Right, three times: DELAYED, where the failing plugin is first.
    screen.press("\x1b[C\x1b[C\x1b[C")?;
    let line = |text: &str, name: &str| text.lines().position(|line| line.contains(name));
    let is_sorted = |text: &str| line(text, "failing") < line(text, "replicaset-controller");
    screen.shows("another order", |text| text.contains("DELAYED▼") && is_sorted(text)).await?;
    screen.press("/replica\r")?;
    screen.shows("one plugin", |text| text.contains("Filter: replica") && row(text, "failing").is_none()).await?;
    screen.press("\x1b")?;
    screen.shows("all plugins", |text| row(text, "failing").is_some()).await?;
    screen.press("/fail\r")?;
    screen.shows("the failing plugin", |text| text.contains("Filter: fail ") && row(text, "replica").is_none()).await?;
    screen.press("\r")?;
    let key = format!("ClusterRole {MARKUP}");
    let detail = screen.shows("the detail", |text| text.contains(&key) && text.contains("delayed")).await?;
    ensure!(detail.contains("Last error") && detail.contains("Runs/s now"), "{detail}");
    screen.press("\x1b")?;
    // Two keys that arrive together would be one.
    screen.shows("the table", |text| text.contains("DELAYED▼") && !text.contains("Last error")).await?;
    screen.press("\x1b")?;
    screen.shows("all plugins", |text| row(text, "replicaset-controller").is_some()).await?;
    // A smaller terminal shows less.
    screen.resize(8, 50)?;
    screen.shows("fewer columns", |text| !text.contains("DELAYED") && text.contains("RUNS/S")).await?;
    screen.resize(20, 120)?;
    screen
        .shows("all columns", |text| text.contains("DELAYED") && row(text, "replicaset-controller").is_some())
        .await?;

    // The host is gone, and comes back.
    busy.host.kill();
    let is_gone = |text: &str| {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        words.contains("has ended") && words.contains("trying again")
    };
    let gone = screen.shows("that the host has ended", is_gone).await?;
    ensure!(row(&gone, "replicaset-controller").is_some(), "the last values are gone: {gone}");
    busy.host.restart()?;
    screen.shows("the host again", |text| !text.contains("again.")).await?;
    ensure!(screen.left().is_err(), "the program does not use modes and a screen of its own");
    screen.press("q")?;
    ensure!(screen.ended().await?.success());
    screen.is_restored().await?;

    for end in [None, Some(Signal::TERM), Some(Signal::HUP), Some(Signal::INT)] {
        let mut screen = Screen::start(&busy.top(&[])?, 20, 120)?;
        screen.shows("the table", |text| row(text, "replicaset-controller").is_some()).await?;
        match end {
            None => screen.press("\x03")?,
            Some(signal) => screen.signal(signal)?,
        }
        ensure!(screen.ended().await?.success(), "{end:?}");
        screen.is_restored().await.with_context(|| format!("after {end:?}"))?;
    }
    busy.stop().await;
    Ok(())
}

#[test]
fn without_a_host_pintle_top_says_what_to_do() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let answer = Answer::of(&mut top(&folder.path().join("none.sock"), &[])?)?;
    ensure!(answer.code == Some(1) && answer.errors.contains("start `pintle run` or `pintle dev`"), "{answer:?}");
    ensure!(answer.errors.lines().count() == 1 && answer.output.is_empty(), "{answer:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_shows_who_leads() -> Result<()> {
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let flags = [HostProcess::controllers(&["replicaset"]), "--leader-elect=true".to_owned()];
    let start = || HostProcess::start(&cluster.kubeconfig(), &flags);
    let role = async |host: &HostProcess, wanted: &str| {
        eventually(PATIENCE, wanted, async || {
            let text = Answer::of(&mut top(host.socket(), &["--once"])?)?.success()?;
            ensure!(text.contains(wanted), "{text}");
            // Afterwards: a term may begin between the two.
            let found = overview(&mut top(host.socket(), &["-o", "json"])?)?;
            Ok(Some((found["host"]["elections"][0].clone(), text)))
        })
        .await
    };
    let leader = start()?;
    let (leads, _) = role(&leader, "Leads kube-system/kube-controller-manager as ").await?;
    let identity = leads["identity"].as_str().context("no identity")?;
    let standby = start()?;
    let line = format!("On standby for kube-system/kube-controller-manager: {identity} leads");
    let (waits, text) = role(&standby, &line).await?;
    ensure!(leads["leads"] == true && waits["leads"] == false && waits["holder"] == identity, "{leads} {waits}");
    ensure!(text.contains("replicaset-controller"), "{text}");
    leader.stop().await;
    role(&standby, "Leads kube-system/kube-controller-manager as ").await?;
    standby.stop().await;
    cluster.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_web_page_shows_a_host_under_load_and_takes_no_text_for_markup() -> Result<()> {
    let mut busy = Busy::start(&["--leader-elect=true"]).await?;
    let mut browser = Browser::start().await?;
    browser.look(1280, 900, false).await?;
    browser.open(&busy.url).await?;
    let rows = "document.querySelectorAll('#plugins tbody tr').length";
    browser.becomes(&format!("{rows} === 4")).await?;
    browser
        .becomes("document.getElementById('role').textContent.startsWith('Leads kube-system/kube-controller-manager')")
        .await?;

    // Each plot becomes a line of several points, and all but that of the keys leave the bottom, which is at 126.
    for plot in 0..4 {
        let line = format!(
            "document.querySelectorAll('#plots figure')[{plot}].querySelector('path.{}').getAttribute('d')",
            if plot == 1 { "second" } else { "first" }
        );
        let rises = format!("Math.min(...{line}.match(/ [0-9.]+/g).map(Number)) < 100");
        let is_long = format!("({line}.match(/L/g) ?? []).length > 0");
        browser.becomes(&format!("{is_long} && ({plot} === 2 || {rises})")).await?;
    }
    // Values change.
    let cell = "[...document.querySelectorAll('#plugins tbody tr')].find(r => r.cells[0].textContent.startsWith('replicaset')).textContent";
    let before = browser.evaluate(cell).await?;
    browser.becomes(&format!("{cell} !== {before}")).await?;

    // The keyboard sorts: the header is a button.
    browser.evaluate("document.querySelectorAll('#plugins thead button')[3].focus()").await?;
    for kind in ["keyDown", "keyUp"] {
        let enter = json!({"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"});
        browser.call("Input.dispatchKeyEvent", enter).await?;
    }
    browser
        .becomes("document.querySelectorAll('#plugins thead th')[3].getAttribute('aria-sort') === 'descending'")
        .await?;
    browser.becomes("document.querySelector('#plugins tbody tr').cells[0].textContent === 'failing'").await?;
    browser.evaluate("[document.getElementById('filter').value = 'replica', document.getElementById('filter').dispatchEvent(new Event('input'))]").await?;
    browser.becomes(&format!("{rows} === 1")).await?;
    browser.evaluate("[document.getElementById('filter').value = '', document.getElementById('filter').dispatchEvent(new Event('input'))]").await?;

    // The detail of the plugin whose key and error are markup.
    browser
        .evaluate(
            "[...document.querySelectorAll('#plugins tbody button')].find(b => b.textContent === 'failing').click()",
        )
        .await?;
    let markup = Value::from(MARKUP);
    browser.becomes(&format!("document.getElementById('keys').tBodies[0].textContent.includes({markup})")).await?;
    browser.becomes(&format!("document.getElementById('detail-error').textContent.includes({markup})")).await?;
    ensure!(browser.evaluate("document.querySelectorAll('img').length").await? == 0, "markup was taken for an image");
    ensure!(browser.evaluate("document.title").await? == "Pintle");

    let folder = photographs()?;
    for (name, width, dark) in
        [("top-page-light", 1280, false), ("top-page-dark", 1280, true), ("top-page-narrow", 420, false)]
    {
        browser.look(width, 900, dark).await?;
        // The plots are drawn again for the new width.
        browser.becomes("[...document.querySelectorAll('#plots svg')].every(s => Math.abs(s.viewBox.baseVal.width - Math.max(160, s.clientWidth)) < 2)").await?;
        browser.photograph(&folder.join(format!("{name}.png"))).await?;
        let overflow =
            browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth").await?;
        ensure!(overflow == 0, "{name}: the page is {overflow} pixels too wide");
    }
    let complaints = browser.complaints();
    ensure!(complaints.is_empty(), "{complaints:#?}\n{}", busy.host.log_tail());
    let elsewhere: Vec<String> = browser.requests().into_iter().filter(|url| !url.starts_with(&busy.url)).collect();
    ensure!(elsewhere.is_empty(), "{elsewhere:#?}");

    // The host is gone, and comes back.
    busy.host.kill();
    browser.becomes("!document.getElementById('notice').hidden && document.getElementById('notice').textContent.includes('does not answer')").await?;
    ensure!(browser.evaluate(rows).await? == 4, "the last values are gone");
    busy.host.restart()?;
    browser.becomes("document.getElementById('notice').hidden").await?;

    // For the record: the terminal.
    let screen = Screen::start(&busy.top(&[])?, 24, 118)?;
    screen.shows("a rate", |text| row(text, "replicaset-controller").is_some_and(|row| row.contains("ms"))).await?;
    let html = busy.folder.path().join("screen.html");
    std::fs::write(&html, screen.html())?;
    browser.look(1120, 500, true).await?;
    browser.open(&format!("file://{}", html.display())).await?;
    browser.becomes("document.querySelector('pre') !== null").await?;
    browser.photograph(&folder.join("top-terminal.png")).await?;
    busy.stop().await;
    Ok(())
}
