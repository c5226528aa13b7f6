//! Commands for plugin authors, which need no cluster: `pintle new`, `crds`, `build`, `package`, `schema` and `test`.

use std::path::PathBuf;
use std::time::Instant;

use pintle::{config, logging, output};
use pintle_author::cases::{self, Options};
use pintle_author::crds;
use pintle_author::package;
use pintle_build::{Built, CustomKind, Project, Scaffold};
use pintle_oci::{Digest, Proof, detached, stderr, write};
use serde_json::{Value, json};

use crate::cli::author::{BuildArgs, CrdsArgs, Document, NewArgs, PackageArgs, SchemaArgs};
use crate::cli::test::TestArgs;

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

/// Prints the differences of definitions, if that is the error, which is one line.
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
    // A leading `.` is omitted.
    let folder = args.folder.strip_prefix(".").unwrap_or(&args.folder);
    let file = args.output.clone().unwrap_or_else(|| folder.join(format!("{name}.wasm")));
    write(&file, &bytes)?;
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
            // A signature covers all bytes.
            let is_changed = args.plugin.is_dir() || args.manifest.is_some();
            let proof = if is_changed { Proof::default() } else { detached(&args.plugin)? };
            package::config_map(to, &component, &found, proof.of_component())?.into_bytes()
        }
    };
    write(&args.output, &content)?;
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
