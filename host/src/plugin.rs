//! `pintle plugin`: manages the plugins of a running host.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_client::show::{self, Changes};
use pintle_client::{Client, Waiting, failures, path};
use pintle_core::lifecycle::SwapReport;
use pintle_oci::{ComponentSource, Evidence, Fetcher, Pulled, read_source, stderr};
use pintle_sources::admin::socket;
use pintle_sources::folder;
use pintle_sources::wire::{ApplyRequest, Description, DiffAnswer, DisableRequest, Listing, Overrides, PluginStatus};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::cli::plugin::{
    Action, ComponentArgs, DisableArgs, FailuresArgs, ListArgs, LoadArgs, NameArgs, PluginCommand, SwapArgs, Until,
    Wanted,
};
use crate::output::{self, Output};

pub(crate) async fn plugin(command: &PluginCommand) -> anyhow::Result<()> {
    let client = Client::new(command.admin_socket.clone().unwrap_or_else(socket::default_path));
    let mut waiting = Waiting::new("the host to answer", output::progress);
    let Some(timeout) = command.timeout else { return act(&client, &command.action, &mut waiting).await };
    match tokio::time::timeout(timeout, act(&client, &command.action, &mut waiting)).await {
        Ok(result) => result,
        Err(_) => {
            let what = waiting.what();
            bail!(
                "no result within {timeout:?} (--timeout); waited for: {what}. The host continues in the background; see `pintle plugin list`"
            )
        }
    }
}

async fn act(client: &Client, action: &Action, waiting: &mut Waiting) -> anyhow::Result<()> {
    match action {
        Action::List(args) => list(client, args, waiting).await,
        Action::Describe(args) => {
            let found: Description = client.get(&path(&args.name, "")).await?;
            output::answer(args.output.output, &found, || show::description(&found))
        }
        Action::Load(args) => load(client, args, waiting).await,
        Action::Swap(args) => swap(client, args, waiting).await,
        Action::Rollback(args) => rollback(client, args, waiting).await,
        Action::Disable(args) => disable(client, args).await,
        Action::Enable(args) => {
            let found: Description = client.post(&path(&args.name, "/enable"), &Value::Null).await?;
            output::answer(args.output.output, &found, || {
                format!("plugin {} is enabled", full_name(&found, &args.name))
            })
        }
        Action::Approve(args) => {
            let found: Description = client.post(&path(&args.name, "/approve"), &Value::Null).await?;
            output::answer(args.output.output, &found, || {
                format!("plugin {} may delete what its new version wants", full_name(&found, &args.name))
            })
        }
        Action::Unload(args) => {
            let found: Description = client.get(&path(&args.name, "")).await?;
            let name = full_name(&found, &args.name);
            let gone: Value = client.delete(&path(name, "")).await?;
            output::answer(args.output.output, &gone, || format!("plugin {name} is unloaded"))
        }
        Action::Failures(args) => self::failures(client, args).await,
        Action::Diff(args) => {
            let found: DiffAnswer = client.get(&path(&args.name, "/diff")).await?;
            output::answer(args.output.output, &found, || show::diff(&args.name, found.shadow.as_ref()))
        }
    }
}

/// Polling interval of a watched list.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

async fn list(client: &Client, args: &ListArgs, waiting: &mut Waiting) -> anyhow::Result<()> {
    let form = args.output.output;
    let mut listing: Listing = client.get("/v1/plugins").await?;
    output::answer(form, &listing, || show::listing(&listing, &jiff::Timestamp::now()))?;
    if !args.watch {
        return Ok(());
    }
    waiting.begin("plugins to change");
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        let next: Listing = client.get("/v1/plugins").await?;
        let changes = Changes::between(&listing, &next);
        if !changes.is_empty() {
            output::answer(form, &changes, || changes.rows(&jiff::Timestamp::now()))?;
        }
        listing = next;
    }
}

async fn load(client: &Client, args: &LoadArgs, waiting: &mut Waiting) -> anyhow::Result<()> {
    let (request, digest) = request(&args.component, Overrides::default()).await?;
    waiting.begin("the host to validate and compile it");
    let report = client.swap("/v1/plugins", &request, |plugin| is_incoming(plugin, digest.as_deref()), waiting).await?;
    end(client, args.output.output, &report).await
}

async fn swap(client: &Client, args: &SwapArgs, waiting: &mut Waiting) -> anyhow::Result<()> {
    let millis = |duration: Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
    let overrides = Overrides {
        shadow_runs: args.shadow,
        shadow_for_ms: args.shadow_for.map(millis),
        max_differences: args.max_differences,
        probation_runs: args.probation_runs,
        probation_for_ms: args.probation_for.map(millis),
        max_faults: args.max_faults,
        max_deletions: args.max_deletions,
        ..Overrides::NONE
    };
    let (request, digest) = request(&args.component, overrides).await?;
    let path = path(&args.name, "/swap");
    waiting.begin("the host to validate and compile it");
    let mut report = client.swap(&path, &request, |plugin| is_incoming(plugin, digest.as_deref()), waiting).await?;
    if args.wait == Until::Proven {
        output::progress(&show::report(&report));
        report = client.proven(&args.name, &report, waiting).await?;
    }
    end(client, args.output.output, &report).await
}

async fn rollback(client: &Client, args: &NameArgs, waiting: &mut Waiting) -> anyhow::Result<()> {
    waiting.begin("the previous version to take over");
    let path = path(&args.name, "/rollback");
    let report = client
        .swap(&path, &Value::Null, |plugin| plugin.name == args.name || plugin.aliases.contains(&args.name), waiting)
        .await?;
    end(client, args.output.output, &report).await
}

/// Prints the result of a swap, and in text form also the state of the plugin. A version that has taken over is a
/// success, ready or not.
async fn end(client: &Client, form: Output, report: &SwapReport) -> anyhow::Result<()> {
    let Some(digest) = report.to.as_ref().map(|to| &to.digest).filter(|_| form == Output::Text) else {
        return output::answer(form, report, || show::report(report));
    };
    // It has taken over, even if this request fails.
    let listing = client.get::<Listing>("/v1/plugins").await.unwrap_or_default();
    let plugin = listing.items.iter().find(|plugin| plugin.current.digest == *digest);
    output::line(&show::outcome(report, plugin))
}

async fn disable(client: &Client, args: &DisableArgs) -> anyhow::Result<()> {
    let request = DisableRequest { why: args.why.clone() };
    let found: Description = client.post(&path(&args.name, "/disable"), &request).await?;
    output::answer(args.output.output, &found, || {
        let source = found.plugin.as_ref().map_or("", |plugin| plugin.source.as_str());
        disabled(full_name(&found, &args.name), source)
    })
}

async fn failures(client: &Client, args: &FailuresArgs) -> anyhow::Result<()> {
    let now = jiff::Timestamp::now();
    let key = args.key.as_deref();
    // Scripts and pagers get full messages.
    let width = io::stdout().is_terminal().then_some(failures::SHORT_MESSAGE);
    let Some(name) = &args.name else {
        let listing: Listing = client.get("/v1/plugins").await?;
        let mut found = BTreeMap::new();
        for plugin in listing.items {
            found.insert(plugin.name.clone(), failures::fetch(client, &plugin.name, key).await?);
        }
        return output::answer(args.output.output, &json!({ "plugins": found }), || {
            failures::list_all(&found, &now, width)
        });
    };
    let found = failures::fetch(client, name, key).await?;
    let list = || failures::list(name, &found, &now, width);
    let Some(folder) = &args.save else { return output::answer(args.output.output, &found, list) };
    let cases = failures::save(client, name, &found, folder, args.secrets).await?;
    output::answer(args.output.output, &json!({ "cases": cases }), || {
        if cases.is_empty() { list() } else { failures::saved(folder, &cases) }
    })
}

/// The request, and the digest of its component; that of a built-in one is known to the host only.
async fn request(args: &ComponentArgs, mut overrides: Overrides) -> anyhow::Result<(ApplyRequest, Option<String>)> {
    overrides.digest.clone_from(&args.digest);
    let spec = || args.spec.as_deref().map(folder::read_spec).transpose().map_err(anyhow::Error::new);
    let component = match &args.component {
        Wanted::Sent(component) => component,
        Wanted::Builtin(name) => {
            let (origin, builtin) = (format!("built-in {name}"), Some(name.clone()));
            let request = ApplyRequest { origin, builtin, spec: spec()?, overrides, ..ApplyRequest::default() };
            return Ok((request, None));
        }
    };
    let fetcher = Fetcher::new(&args.registry, None, stderr)?;
    let Pulled { origin, bytes, proof } = read_source(&fetcher, component).await?;
    fetcher.trust().check(&origin, &bytes, &Evidence::Shown(proof.clone()))?;
    let spec = spec()?;
    if bytes.is_empty() {
        bail!("{origin} is empty");
    }
    let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let origin = match component {
        ComponentSource::Path(file) => std::path::absolute(file).map_or(origin, |file| file.display().to_string()),
        ComponentSource::Registry(_) => origin,
    };
    let component = STANDARD.encode(bytes);
    Ok((ApplyRequest { origin, component, builtin: None, spec, overrides, proof }, Some(digest)))
}

fn is_incoming(plugin: &PluginStatus, digest: Option<&str>) -> bool {
    plugin.incoming.as_ref().is_some_and(|incoming| digest.is_none_or(|digest| incoming.digest == digest))
}

/// The full name of a plugin, given its name or an alias.
fn full_name<'a>(found: &'a Description, called: &'a str) -> &'a str {
    found.plugin.as_ref().map_or(called, |plugin| plugin.name.as_str())
}

/// Explains which state ends with the host process, and which persists.
fn disabled(name: &str, source: &str) -> String {
    let lasting = match source {
        "folder" => format!("write `disabled: true` into {name}.yaml of the plugin folder"),
        "resource" => format!("set spec.disabled of ControllerPlugin {name}"),
        source if source.starts_with("built-in") => {
            format!("apply a ControllerPlugin {name} with `source: {{builtin: {name}}}` and `disabled: true`")
        }
        _ => format!("apply a ControllerPlugin {name} with its source and `disabled: true`"),
    };
    format!("plugin {name} is disabled until the host restarts; to keep it disabled, {lasting}")
}
