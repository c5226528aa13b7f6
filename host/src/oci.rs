//! `pintle pull` and `pintle verify`.

use std::fmt::Display;

use anyhow::{Context as _, bail};
use pintle_oci::{ConnectOptions, Digest, Evidence, Fetcher, Options, read_source, stderr, write};

use crate::cli::oci::{ConnectArgs, PullArgs, RegistryArgs, VerifyArgs, WaitArgs};
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

/// Runs an asynchronous command that uses a registry.
///
/// # Errors
/// Those of the command, or it has not ended within `--timeout`.
pub async fn within(
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
