//! `pintle inspect`.

use std::fmt::Write as _;

use pintle_core::manifest::{Grant, Manifest, Watch};
use serde_json::json;

use crate::cli::{InspectArgs, Output};
use crate::oci::{self, Evidence, Fetcher, Pulled};
use crate::output;

pub(crate) async fn inspect(args: &InspectArgs) -> anyhow::Result<()> {
    let fetcher = Fetcher::new(&args.registry, None, oci::stderr)?;
    let Pulled { origin: file, bytes, proof } = oci::read_source(&fetcher, &args.component).await?;
    fetcher.trust().check(&file, &bytes, &Evidence::Shown(proof))?;
    let found = pintle_wasm::inspect(&file, &bytes)?;
    match args.output {
        Output::Json => output::json(&json!({
            "file": file,
            "digest": found.digest,
            "sizeBytes": bytes.len(),
            "imports": found.imports,
            "exports": found.exports,
            "manifest": *found.manifest,
        })),
        Output::Text => {
            let mut text = format!(
                "{} {} (contract {})\n{}\n\nfile       {file}, {} bytes, {}\nimports    {}\nexports    {}\n",
                found.manifest.name,
                found.manifest.version,
                found.manifest.contract,
                found.manifest.description,
                bytes.len(),
                found.digest,
                found.imports.join(", "),
                found.exports.join(", "),
            );
            describe(&mut text, &found.manifest);
            output::line(text.trim_end())
        }
    }
}

/// Writing to a String does not fail, so results are dropped here.
fn describe(text: &mut String, manifest: &Manifest) {
    let _ = writeln!(text, "\nwatches");
    for watch in &manifest.watches {
        let _ = writeln!(text, "  {}", describe_watch(watch));
    }
    let _ = writeln!(text, "\nqueues");
    for queue in &manifest.queues {
        let _ = writeln!(text, "  {}, {} at once", queue.name, queue.concurrency);
    }
    let _ = writeln!(text, "\npermissions that it asks for");
    for watch in &manifest.watches {
        let kind = watch.kind.as_ref().map_or_else(|| "*".to_owned(), ToString::to_string);
        let _ = writeln!(text, "  list, watch {kind}{}", within(watch.namespace.iter()));
    }
    for grant in &manifest.grants {
        let _ = writeln!(text, "  {}", describe_grant(grant));
    }
    if !manifest.config.is_empty() {
        let _ = writeln!(text, "\nsettings");
        for (name, setting) in &manifest.config {
            let default =
                setting.default.as_ref().map_or_else(|| "required".to_owned(), |value| format!("default {value}"));
            let _ = writeln!(text, "  {name}, {default}: {}", setting.description);
        }
    }
}

fn describe_watch(watch: &Watch) -> String {
    let mut text = match (&watch.kind, &watch.every) {
        (Some(kind), _) => kind.to_string(),
        (None, Some(every)) if every.verbs.is_empty() => "every kind".to_owned(),
        (None, Some(every)) => format!("every kind that offers {}", every.verbs.join(", ")),
        (None, None) => String::new(),
    };
    text += &within(watch.namespace.iter());
    for selector in [&watch.label_selector, &watch.field_selector].into_iter().flatten() {
        text += &format!(" where {selector}");
    }
    text += if watch.whole { ", whole objects" } else { ", projected" };
    text
}

fn describe_grant(grant: &Grant) -> String {
    let mut text = grant.verbs.join(", ");
    for target in grant.kinds.iter().chain(&grant.paths) {
        text += &format!(" {target}");
    }
    if !grant.subresources.is_empty() {
        text += &format!(" (subresource {})", grant.subresources.join(", "));
    }
    text += &within(grant.namespaces.iter());
    if !grant.names.is_empty() {
        text += &format!(" named {}", grant.names.join(", "));
    }
    text
}

fn within<'a>(namespaces: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = namespaces.map(String::as_str).collect();
    if names.is_empty() { String::new() } else { format!(" in {}", names.join(", ")) }
}
