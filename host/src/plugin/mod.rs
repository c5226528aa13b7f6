//! `pintle plugin`: what an operator does to the plugins of a running host.

mod client;
mod failures;
mod show;
mod times;

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_core::lifecycle::{Stage, SwapReport, SwapResult};
use pintle_oci::{ComponentSource, Evidence, Fetcher, MAX_COMPONENT_BYTES, Pulled, read_source, stderr};
use pintle_sources::admin::socket;
use pintle_sources::folder;
use pintle_sources::wire::{ApplyRequest, Description, DiffAnswer, DisableRequest, Listing, Overrides, PluginStatus};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::client::Client;
use crate::cli::Output;
use crate::cli::plugin::{Action, ComponentArgs, DisableArgs, LoadArgs, NameArgs, PluginCommand, SwapArgs, Until};
use crate::output;

/// How often to ask how far a swap is.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) async fn plugin(command: &PluginCommand) -> anyhow::Result<()> {
    let client = Client::new(command.admin_socket.clone().unwrap_or_else(socket::default_path));
    match &command.action {
        Action::List(args) => {
            let listing: Listing = client.get("/v1/plugins").await?;
            match args.output {
                Output::Json => output::json(&listing),
                Output::Text => output::line(&show::listing(&listing, &jiff::Timestamp::now())),
            }
        }
        Action::Describe(args) => {
            let found: Description = client.get(&path(&args.name, "")).await?;
            match args.output.output {
                Output::Json => output::json(&found),
                Output::Text => output::line(&show::description(&found)),
            }
        }
        Action::Load(args) => load(&client, args).await,
        Action::Swap(args) => swap(&client, args).await,
        Action::Rollback(args) => rollback(&client, args).await,
        Action::Disable(args) => disable(&client, args).await,
        Action::Enable(args) => {
            let found: Description = client.post(&path(&args.name, "/enable"), &Value::Null).await?;
            answer(args.output.output, &found, || format!("plugin {} is enabled", args.name))
        }
        Action::Unload(args) => {
            let gone: Value = client.delete(&path(&args.name, "")).await?;
            answer(args.output.output, &gone, || format!("plugin {} is unloaded", args.name))
        }
        Action::Failures(args) => failures::failures(&client, args).await,
        Action::Diff(args) => {
            let found: DiffAnswer = client.get(&path(&args.name, "/diff")).await?;
            match args.output.output {
                Output::Json => output::json(&found),
                Output::Text => output::line(&show::diff(&args.name, found.shadow.as_ref())),
            }
        }
    }
}

async fn load(client: &Client, args: &LoadArgs) -> anyhow::Result<()> {
    let request = request(&args.component, Overrides::default()).await?;
    let digest = request.1;
    let report =
        followed(client, client.post("/v1/plugins", &request.0), |plugin| is_incoming(plugin, &digest)).await?;
    answer(args.output.output, &report, || show::report(&report))
}

async fn swap(client: &Client, args: &SwapArgs) -> anyhow::Result<()> {
    let millis = |duration: Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
    let overrides = Overrides {
        digest: None,
        shadow_runs: args.shadow,
        shadow_for_ms: args.shadow_for.map(millis),
        max_differences: args.max_differences,
        probation_runs: args.probation_runs,
        probation_for_ms: args.probation_for.map(millis),
        max_faults: args.max_faults,
    };
    let (request, digest) = request(&args.component, overrides).await?;
    let path_of = path(&args.name, "/swap");
    let swapping = client.post(&path_of, &request);
    let mut report = followed(client, swapping, |plugin| is_incoming(plugin, &digest)).await?;
    if args.wait == Until::Proven {
        tell(&show::report(&report));
        report = proven(client, &args.name, &report).await?;
    }
    answer(args.output.output, &report, || show::report(&report))
}

async fn rollback(client: &Client, args: &NameArgs) -> anyhow::Result<()> {
    let report: SwapReport = client.post(&path(&args.name, "/rollback"), &Value::Null).await?;
    answer(args.output.output, &report, || show::report(&report))
}

async fn disable(client: &Client, args: &DisableArgs) -> anyhow::Result<()> {
    let request = DisableRequest { why: args.why.clone() };
    let found: Description = client.post(&path(&args.name, "/disable"), &request).await?;
    answer(args.output.output, &found, || format!("plugin {} is disabled", args.name))
}

fn answer(form: Output, value: &impl serde::Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    match form {
        Output::Json => output::json(value),
        Output::Text => output::line(&text()),
    }
}

/// The request, and the component's digest.
async fn request(args: &ComponentArgs, mut overrides: Overrides) -> anyhow::Result<(ApplyRequest, String)> {
    overrides.digest.clone_from(&args.digest);
    let fetcher = Fetcher::new(&args.registry, None, stderr)?;
    let Pulled { origin, bytes, proof } = read_source(&fetcher, &args.component).await?;
    fetcher.trust().check(&origin, &bytes, &Evidence::Shown(proof.clone()))?;
    let spec = args.spec.as_deref().map(folder::read_spec).transpose().map_err(anyhow::Error::new)?;
    if bytes.is_empty() {
        bail!("{origin} is empty; a component has at most {MAX_COMPONENT_BYTES} bytes, and at least some");
    }
    let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let origin = match &args.component {
        ComponentSource::Path(file) => std::path::absolute(file).map_or(origin, |file| file.display().to_string()),
        ComponentSource::Registry(_) => origin,
    };
    Ok((ApplyRequest { origin, component: STANDARD.encode(bytes), spec, overrides, proof }, digest))
}

fn path(name: &str, rest: &str) -> String {
    // Whatever is not a name of a plugin must not be taken for another path.
    let mut path = String::from("/v1/plugins/");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path + rest
}

fn is_incoming(plugin: &PluginStatus, digest: &str) -> bool {
    plugin.incoming.as_ref().is_some_and(|incoming| incoming.digest == digest)
}

/// Waits for a swap, and tells meanwhile how far it is.
async fn followed(
    client: &Client,
    swap: impl Future<Output = anyhow::Result<SwapReport>>,
    ours: impl Fn(&PluginStatus) -> bool,
) -> anyhow::Result<SwapReport> {
    tokio::pin!(swap);
    let mut told = None;
    loop {
        tokio::select! {
            report = &mut swap => return report,
            () = tokio::time::sleep(LOOK) => {}
        }
        // Only to be told; if it cannot be asked, the swap itself will say so.
        let Ok(listing) = client.get::<Listing>("/v1/plugins").await else { continue };
        let stage = listing.items.iter().find(|plugin| ours(plugin)).and_then(|plugin| plugin.stage);
        if stage.is_some() && stage != told {
            told = stage;
            tell(stage.map_or("", said));
        }
    }
}

fn said(stage: Stage) -> &'static str {
    match stage {
        Stage::Validating => "validating ...",
        Stage::Compiling => "compiling ...",
        Stage::Syncing => "filling the caches of new watches ...",
        Stage::Shadowing => "running beside the old version ...",
        Stage::Probation => "on probation ...",
    }
}

/// Waits until the version that has just taken over is proven.
async fn proven(client: &Client, name: &str, switched: &SwapReport) -> anyhow::Result<SwapReport> {
    let digest = switched.to.as_ref().map(|to| to.digest.as_str());
    loop {
        let found: Description = client.get(&path(name, "")).await?;
        let last = found.plugin.and_then(|plugin| plugin.last_swap).context("the host knows of no swap any more")?;
        if last.to.as_ref().map(|to| to.digest.as_str()) != digest {
            bail!("another swap of {name} came in between: {}", show::report(&last));
        }
        match last.result {
            SwapResult::Proven => return Ok(last),
            SwapResult::RolledBack | SwapResult::Refused => bail!("{}: {}", last.reason, show::report(&last)),
            SwapResult::Switched => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Tells of progress, where it does not mix with the answer.
fn tell(text: &str) {
    // With standard error gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}
