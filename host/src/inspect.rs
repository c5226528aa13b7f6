//! Commands that examine a component without running it: `pintle inspect` and `pintle scaffold`.

use pintle_inspect::{Inspected, Resource};
use pintle_oci::{Evidence, Fetcher, Pulled, read_source, stderr};
use pintle_wasm::Inspection;

use crate::cli::InspectArgs;
use crate::output;

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

/// Verified signatures of a component.
struct Signatures {
    n_signatures: usize,
    is_verified: bool,
}

/// Reads a component without running it, and its origin.
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
