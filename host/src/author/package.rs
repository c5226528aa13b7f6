//! `pintle package`.

use anyhow::Context as _;
use pintle_build::Project;

use super::build::{component, write};
use crate::cli::author::PackageArgs;
use crate::output;

/// A component that a host takes, as a file and by its digest.
pub(crate) fn package(args: &PackageArgs) -> anyhow::Result<()> {
    let shown = args.plugin.display().to_string();
    let bytes = if args.plugin.is_dir() {
        component(&Project::open(&args.plugin, None)?)?.bytes
    } else {
        std::fs::read(&args.plugin).with_context(|| format!("read {shown}"))?
    };
    let found = pintle_wasm::inspect(&shown, &bytes)?;
    write(&args.output, &bytes)?;
    let (file, manifest) = (args.output.display(), &found.manifest);
    output::line(&format!(
        "{file}: {} {}, {} bytes, sha256:{}",
        manifest.name,
        manifest.version,
        bytes.len(),
        found.digest
    ))
}
