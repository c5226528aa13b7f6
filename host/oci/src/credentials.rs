//! Registry credentials from the files of `docker login`: `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`, and
//! the configured credential helpers.

use std::path::{Path, PathBuf};

use crate::error::{Error, Reason};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use docker_credential::{CredentialRetrievalError as Why, DockerCredential};

/// Key of docker's own registry in the configuration.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// Credentials for a registry.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    Anonymous,
    Basic { name: String, password: String },
}

impl Credentials {
    /// The value of `Authorization`; empty without credentials.
    pub(crate) fn basic(&self) -> String {
        match self {
            Self::Anonymous => String::new(),
            Self::Basic { name, password } => format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))),
        }
    }
}

/// The credentials for a registry; anonymous if none are configured. May block: helpers are programs.
///
/// # Errors
/// The credentials are unusable.
pub(crate) fn of(registry: &str) -> Result<Credentials, Error> {
    let server = if registry == "docker.io" { DOCKER_HUB } else { registry };
    // The library reports a missing, an unreadable and a malformed file with the same error.
    let Some(file) = config_file().filter(|file| file.exists()) else { return Ok(Credentials::Anonymous) };
    of_answer(docker_credential::get_credential(server), registry, &file)
}

fn of_answer(answer: Result<DockerCredential, Why>, registry: &str, file: &Path) -> Result<Credentials, Error> {
    let unusable = |why: String| {
        let file = file.display();
        Err(Error::new(
            Reason::RegistryDenied,
            format!("the credentials for {registry} in {file} cannot be used: {why}"),
        ))
    };
    match answer {
        Ok(DockerCredential::UsernamePassword(name, password)) => Ok(Credentials::Basic { name, password }),
        Ok(DockerCredential::IdentityToken(_)) => unusable(
            "they are an identity token, which is not supported; log in with a user name and a password".to_owned(),
        ),
        Err(Why::NoCredentialConfigured | Why::ConfigNotFound) => Ok(Credentials::Anonymous),
        // Docker's credential helper protocol defines this text for missing credentials.
        Err(Why::HelperFailure { stdout, .. }) if stdout.contains("credentials not found") => {
            Ok(Credentials::Anonymous)
        }
        // The helper's output may contain secrets.
        Err(Why::HelperFailure { helper, .. }) => {
            unusable(format!("the helper {helper} failed; run it manually to see its error"))
        }
        Err(why) => unusable(why.to_string()),
    }
}

fn config_file() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".docker")));
    Some(folder?.join("config.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_credentials_are_anonymous_and_unusable_ones_are_an_error() {
        let of = |answer| match of_answer(answer, "r.example.com", Path::new("/c.json")) {
            Ok(Credentials::Basic { name, password }) => format!("{name}/{password}"),
            Ok(Credentials::Anonymous) => "anonymous".to_owned(),
            Err(why) => why.message,
        };
        let failed = |stdout: &str| Why::HelperFailure {
            helper: "docker-credential-x".into(),
            stdout: stdout.into(),
            stderr: String::new(),
        };
        assert_eq!(of(Ok(DockerCredential::UsernamePassword("a".into(), "b".into()))), "a/b");
        assert_eq!(of(Err(Why::NoCredentialConfigured)), "anonymous");
        assert_eq!(of(Err(failed("credentials not found in native keychain"))), "anonymous");
        let told = of(Err(failed("secret")));
        assert!(told.contains("docker-credential-x") && !told.contains("secret"), "{told}");
        assert!(of(Ok(DockerCredential::IdentityToken("t".into()))).contains("identity token"));
        assert!(
            of(Err(Why::ConfigReadError)).starts_with("the credentials for r.example.com in /c.json cannot be used")
        );
    }
}
