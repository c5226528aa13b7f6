//! `pintle push`, `pull`, `sign`, `verify` and `keygen`.

use std::fmt::Display;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pintle_author::package::write;
use pintle_oci::{
    About, Artifact, ComponentSource, ConnectOptions, Digest, Evidence, Fetcher, Options, Registries, SigningKey,
    add_signature, beside, component_of, generate, read_component, read_source, stderr,
};
use serde_json::json;

use crate::cli::oci::{ConnectArgs, KeygenArgs, PullArgs, PushArgs, RegistryArgs, SignArgs, VerifyArgs, WaitArgs};
use crate::output;

impl From<&ConnectArgs> for ConnectOptions {
    fn from(args: &ConnectArgs) -> Self {
        let (plain_http, token_servers) = (args.plain_http.clone(), args.registry_token_server.clone());
        Self { plain_http, token_servers, ca_file: args.registry_ca_file.clone() }
    }
}

impl From<&RegistryArgs> for Options {
    fn from(args: &RegistryArgs) -> Self {
        Self { verify_keys: args.verify_key.clone(), connect: (&args.connect).into() }
    }
}

/// Runs a command that waits for the registry of a component.
pub(crate) async fn within(
    args: &WaitArgs,
    component: &impl Display,
    command: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let Some(timeout) = args.timeout else { return command.await };
    match tokio::time::timeout(timeout, command).await {
        Ok(result) => result,
        Err(_) => bail!("{component}: not done within {timeout:?} (--timeout); waited for its registry"),
    }
}

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

pub(crate) async fn pull(args: &PullArgs) -> anyhow::Result<()> {
    let fetcher = Fetcher::new(&args.registry, None, stderr)?;
    let pulled = fetcher.pull(&args.from).await?;
    fetcher.trust().check(&pulled.origin, &pulled.bytes, &Evidence::Shown(pulled.proof))?;
    let file = match &args.output {
        Some(file) => file.clone(),
        None => {
            let found = pintle_wasm::inspect(&pulled.origin, &pulled.bytes)
                .context("it has no name that a file could have; name one with -o FILE")?;
            format!("{}.wasm", found.manifest.name).into()
        }
    };
    write(&file, &pulled.bytes)?;
    output::line(&format!("{} from {}", file.display(), pulled.origin))
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

pub(crate) async fn verify(args: &VerifyArgs) -> anyhow::Result<()> {
    let fetcher = Fetcher::new(&args.registry, None, stderr)?;
    if !fetcher.trust().demands() {
        bail!("name the key that must have signed it with --verify-key FILE");
    }
    let found = read_source(&fetcher, &args.what).await?;
    let origin = found.origin;
    fetcher.trust().check(&origin, &found.bytes, &Evidence::Shown(found.proof))?;
    output::line(&format!("{origin} is signed; the component is {}", Digest::of(&found.bytes)))
}

pub(crate) fn keygen(args: &KeygenArgs) -> anyhow::Result<()> {
    let (private, public) = generate(&args.prefix)?;
    output::line(&format!("{} signs (keep it to yourself), {} verifies", private.display(), public.display()))
}
