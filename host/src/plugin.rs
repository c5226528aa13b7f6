//! `pintle plugin`: manages the plugins of a running host.

use std::io::Write as _;
use std::time::Duration;

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_client::{Client, failures, path, show};
use pintle_core::lifecycle::{Stage, SwapReport};
use pintle_oci::{ComponentSource, Evidence, Fetcher, Pulled, read_source, stderr};
use pintle_sources::admin::socket;
use pintle_sources::folder;
use pintle_sources::wire::{ApplyRequest, Description, DiffAnswer, DisableRequest, Listing, Overrides};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::cli::Output;
use crate::cli::failures::FailuresArgs;
use crate::cli::plugin::{Action, ComponentArgs, DisableArgs, LoadArgs, NameArgs, PluginCommand, SwapArgs, Until};
use crate::output;

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
        Action::Failures(args) => self::failures(&client, args).await,
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
    let (request, digest) = request(&args.component, Overrides::default()).await?;
    let report = client.swap("/v1/plugins", &request, &digest, |stage| tell(said(stage))).await?;
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
    let path = path(&args.name, "/swap");
    let mut report = client.swap(&path, &request, &digest, |stage| tell(said(stage))).await?;
    if args.wait == Until::Proven {
        tell(&show::report(&report));
        report = client.proven(&args.name, &report).await?;
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

async fn failures(client: &Client, args: &FailuresArgs) -> anyhow::Result<()> {
    let found = failures::fetch(client, &args.name, args.key.as_deref()).await?;
    let list = || failures::list(&args.name, &found, &jiff::Timestamp::now());
    let Some(folder) = &args.save else { return answer(args.output.output, &found, list) };
    let cases = failures::save(client, &args.name, &found, folder, args.secrets).await?;
    answer(args.output.output, &json!({ "cases": cases }), || {
        if cases.is_empty() { list() } else { failures::saved(folder, &cases) }
    })
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
        bail!("{origin} is empty");
    }
    let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let origin = match &args.component {
        ComponentSource::Path(file) => std::path::absolute(file).map_or(origin, |file| file.display().to_string()),
        ComponentSource::Registry(_) => origin,
    };
    Ok((ApplyRequest { origin, component: STANDARD.encode(bytes), spec, overrides, proof }, digest))
}

fn said(stage: Stage) -> &'static str {
    match stage {
        Stage::Validating => "validating ...",
        Stage::Compiling => "compiling ...",
        Stage::Syncing => "syncing the caches of new watches ...",
        Stage::Shadowing => "running beside the old version ...",
        Stage::Probation => "on probation ...",
    }
}

/// Tells of progress, where it does not mix with the answer.
fn tell(text: &str) {
    // Without standard error there is no place left for progress.
    let _ = writeln!(std::io::stderr(), "{text}");
}
