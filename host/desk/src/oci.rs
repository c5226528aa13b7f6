//! `pintle push`, `sign` and `keygen`.

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
pub(crate) use pintle::oci::within;
use pintle::output;
use pintle_oci::{
    About, Artifact, ComponentSource, Digest, Registries, SigningKey, add_signature, beside, component_of, generate,
    read_component, stderr, write,
};
use serde_json::json;

use crate::cli::oci::{KeygenArgs, PushArgs, SignArgs};

pub(crate) async fn push(args: &PushArgs) -> anyhow::Result<()> {
    let to = &args.to;
    if !to.is_by_tag_only() {
        bail!("{to}: write oci://REGISTRY/REPOSITORY:TAG; the digest is what comes out of it");
    }
    let key = args.sign_key.as_deref().map(SigningKey::read).transpose()?;
    let file = args.file.display().to_string();
    let component = read_component(&args.file)?;
    // Users who pull it should be able to run it.
    let found = pintle_wasm::inspect(&file, &component)?;
    let about = About { manifest: &found.manifest, imports: &found.imports, exports: &found.exports };
    if args.compress {
        stderr(&format!("compressing {file}"));
    }
    let artifact = Artifact::new(component, about, args.author.as_deref(), created()?, args.compress);
    let artifact = artifact.context("make the artifact")?;
    let n_bytes = artifact.layer.len();
    let digest = Digest::of(&artifact.manifest);
    let pinned = to.pinned(digest);
    let session = Registries::new(&args.connect)?.open(to, stderr).await?;
    session.push_blob(artifact.config).await?;
    session.push_blob(artifact.layer).await?;
    if let Some(key) = &key {
        // Signed first, so that the tag never points to an unsigned component.
        add_signature(&session, key, &pinned, digest).await?;
    }
    session.push_manifest(to, &artifact.manifest).await?;
    let result = json!({
        "reference": pinned.to_string(),
        "digest": digest.to_string(),
        "component": format!("sha256:{}", found.digest),
        "sizeBytes": n_bytes,
        "signed": key.is_some(),
    });
    output::answer(args.output, &result, || pinned.to_string())
}

/// Creation time of an artifact.
fn created() -> anyhow::Result<Timestamp> {
    let Some(seconds) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(Timestamp::now()) };
    let parsed = seconds.to_str().and_then(|text| Timestamp::from_second(text.parse().ok()?).ok());
    parsed.with_context(|| format!("SOURCE_DATE_EPOCH is {seconds:?}; it must be a number of seconds since 1970"))
}

pub(crate) async fn sign(args: &SignArgs) -> anyhow::Result<()> {
    let key = SigningKey::read(&args.sign_key)?;
    match &args.what {
        ComponentSource::Path(file) => {
            let signature = STANDARD.encode(key.sign(&read_component(file)?)?);
            let to = beside(file);
            write(&to, signature.as_bytes())?;
            output::line(&to.display().to_string())
        }
        ComponentSource::Registry(reference) => {
            let session = Registries::new(&args.connect)?.open(reference, stderr).await?;
            let (manifest, digest) = session.manifest(reference).await?;
            let pinned = reference.pinned(digest);
            component_of(&pinned.to_string(), &manifest)?;
            add_signature(&session, &key, &pinned, digest).await?;
            output::line(&format!("signed {pinned}"))
        }
    }
}

pub(crate) fn keygen(args: &KeygenArgs) -> anyhow::Result<()> {
    let (private, public) = generate(&args.prefix)?;
    output::line(&format!("{} signs (keep it to yourself), {} verifies", private.display(), public.display()))
}
