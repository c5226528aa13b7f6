//! Commands for authors of plugins; they need no cluster: `pintle new`, `crds`, `build`, `package`, `test`, `inspect` and `scaffold`.

use std::path::PathBuf;
use std::time::Instant;

use pintle_author::cases::{self, Options};
use pintle_author::crds;
use pintle_author::inspect::{Inspected, Resource};
use pintle_author::package;
use pintle_build::{Built, CustomKind, Project, Scaffold};
use pintle_oci::{Digest, Evidence, Fetcher, Proof, Pulled, detached, read_source, stderr};
use pintle_wasm::Inspection;
use serde_json::{Value, json};

use crate::cli::InspectArgs;
use crate::cli::author::{BuildArgs, CrdsArgs, Document, NewArgs, PackageArgs, SchemaArgs};
use crate::cli::test::TestArgs;
use crate::{config, logging, output};

pub(crate) fn new(args: &NewArgs) -> anyhow::Result<()> {
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let parse = |kind: &String| CustomKind::parse(kind, args.plural.as_deref(), args.cluster_scoped);
    let kind = args.kind.as_ref().map(parse).transpose()?;
    let schemas = [Document::Manifest, Document::Case].map(|document| (document.word(), schema_of(document)));
    let scaffold = Scaffold {
        name: &args.name,
        language: args.lang,
        folder: &folder,
        kind: kind.as_ref(),
        example: args.example,
        schemas: &schemas,
    };
    scaffold.write()?;
    let mut text = format!("{} is a plugin in {}. Next:\n\n  cd {0}\n", folder.display(), args.lang);
    for step in scaffold.next_steps() {
        text += &format!("  {step}\n");
    }
    output::line(text.trim_end())
}

pub(crate) fn schema(args: &SchemaArgs) -> anyhow::Result<()> {
    output::json(&schema_of(args.document))
}

fn schema_of(document: Document) -> Value {
    match document {
        Document::Manifest => pintle_core::contract::manifest::schema(),
        Document::Case => cases::schema(),
        Document::Host => config::schema::schema(),
    }
}

/// Prints how definitions differ from the types, if that is the error, which is one line.
fn with_diff(error: anyhow::Error) -> anyhow::Error {
    if let Some(drift) = error.downcast_ref::<crds::Drift>() {
        drift.diff.lines().for_each(stderr);
    }
    error
}

pub(crate) fn crds(args: &CrdsArgs) -> anyhow::Result<()> {
    output::line(&crds::run(&args.folder, args.check).map_err(with_diff)?.join("\n"))
}

pub(crate) fn build(args: &BuildArgs) -> anyhow::Result<()> {
    let begun = Instant::now();
    let project = Project::open(&args.folder, args.lang)?;
    let Built { name, bytes } = package::component(&project)?;
    // `.` in front of a name says nothing.
    let folder = args.folder.strip_prefix(".").unwrap_or(&args.folder);
    let file = args.output.clone().unwrap_or_else(|| folder.join(format!("{name}.wasm")));
    package::write(&file, &bytes)?;
    let (language, size, took) = (project.language, bytes.len(), begun.elapsed());
    let report = json!({
        "file": file,
        "name": name,
        "language": language.word(),
        "sizeBytes": size,
        "digest": Digest::of(&bytes).to_string(),
        "seconds": took.as_secs_f64(),
    });
    output::answer(args.format, &report, || {
        format!("{}: {name}, {language}, {size} bytes, built in {:.1} s", file.display(), took.as_secs_f64())
    })
}

pub(crate) fn package(args: &PackageArgs) -> anyhow::Result<()> {
    let (component, found) = package::package(&args.plugin, args.manifest.as_deref()).map_err(with_diff)?;
    let content = match &args.config_map {
        None => component,
        Some(to) => {
            // A signature is one of all bytes.
            let is_changed = args.plugin.is_dir() || args.manifest.is_some();
            let proof = if is_changed { Proof::default() } else { detached(&args.plugin)? };
            package::config_map(to, &component, &found, proof.of_component())?.into_bytes()
        }
    };
    package::write(&args.output, &content)?;
    let (file, manifest) = (args.output.display(), &found.manifest);
    let (name, version, digest) = (&manifest.name, &manifest.version, found.digest);
    let report = json!({
        "file": args.output,
        "name": name,
        "version": version,
        "sizeBytes": found.size_bytes,
        "fileBytes": content.len(),
        "digest": format!("sha256:{digest}"),
    });
    let size = found.size_bytes;
    output::answer(args.format, &report, || match &args.config_map {
        None => format!("{file}: {name} {version}, {size} bytes, sha256:{digest}"),
        Some(to) => format!(
            "{file}: ConfigMap {}/{}, key {name}.wasm: {name} {version}, {size} bytes before compression, sha256:{digest}",
            to.namespace, to.name
        ),
    })
}

pub(crate) async fn test(args: &TestArgs) -> anyhow::Result<()> {
    let options = Options {
        plugin: args.plugin.clone(),
        cases: args.cases.clone(),
        crds: args.crds.clone(),
        filter: args.filter.clone(),
        update: args.update,
        n_runs: args.runs,
        settle: args.settle,
    };
    if let Some(folder) = &args.export {
        logging::quiet()?;
        let lines = cases::export(&options, folder).await.map_err(with_diff)?;
        return output::line(&lines.join("\n"));
    }
    logging::quiet()?;
    let report = cases::test(&options).await.map_err(with_diff)?;
    output::answer(args.output, &report.json(), || report.text())?;
    report.verdict()
}

pub(crate) async fn inspect(args: &InspectArgs) -> anyhow::Result<()> {
    let (file, found, signatures) = look_at(args).await?;
    let Signatures { n_signatures, is_verified } = signatures;
    let inspected = Inspected { file: &file, found: &found, n_signatures, is_verified };
    output::answer(args.output, &inspected.json(), || inspected.text())
}

pub(crate) async fn scaffold(args: &InspectArgs) -> anyhow::Result<()> {
    let (_, found, _) = look_at(args).await?;
    let resource = Resource { found: &found, source: &args.component };
    output::answer(args.output, &resource.json(), || resource.text())
}

/// Signatures of a component, of which one is by a key of the command line.
struct Signatures {
    n_signatures: usize,
    is_verified: bool,
}

/// Reads a component without running it, and where it is from.
///
/// # Errors
/// It cannot be read, is not signed by a key of the command line, or is not a plugin.
async fn look_at(args: &InspectArgs) -> anyhow::Result<(String, Inspection, Signatures)> {
    let fetcher = Fetcher::new(&args.registry, None, stderr)?;
    let Pulled { origin, bytes, proof } = read_source(&fetcher, &args.component).await?;
    let n_signatures = proof.n_signatures();
    fetcher.trust().check(&origin, &bytes, &Evidence::Shown(proof))?;
    let found = pintle_wasm::inspect(&origin, &bytes)?;
    Ok((origin, found, Signatures { n_signatures, is_verified: fetcher.trust().demands() }))
}
