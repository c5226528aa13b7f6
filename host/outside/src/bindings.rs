//! Bindings by plugin and name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pintle_core::contract::manifest::SettingType;
use pintle_core::ports::outside::{Authority, Bound, Endpoint, Outside, SigningKey};
use serde::Deserialize;
use serde_json::Value;

use crate::authority::AuthorityFiles;
use crate::endpoint::{BoundEndpoint, EndpointConfig};
use crate::files::BindError;
use crate::jwt::TokenKey;

/// Name of the plugin, and the name in its manifest.
type Name = (String, String);

/// The operator's bindings.
#[derive(Default)]
pub struct Bindings {
    keys: BTreeMap<Name, Arc<TokenKey>>,
    authorities: BTreeMap<Name, Arc<AuthorityFiles>>,
    endpoints: BTreeMap<Name, Arc<BoundEndpoint>>,
}

/// The files of a setting of type `key` or `authority`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// A private key.
    Key {
        /// In PEM.
        file: PathBuf,
    },
    /// A certificate and its private key.
    Authority {
        /// In PEM.
        certificate: PathBuf,
        /// In PEM.
        key: PathBuf,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFiles {
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorityPair {
    certificate: PathBuf,
    key: PathBuf,
}

/// The files in the value of a setting with this type.
///
/// # Errors
/// The valid form. A retry does not help.
pub fn secret(kind: SettingType, value: &Value) -> Result<Secret, String> {
    match kind {
        SettingType::Key => serde_json::from_value(value.clone())
            .map(|KeyFiles { file }| Secret::Key { file })
            .map_err(|why| format!(r#"write a key as {{"file": "/path/of/key.pem"}}: {why}"#)),
        SettingType::Authority => serde_json::from_value(value.clone())
            .map(|AuthorityPair { certificate, key }| Secret::Authority { certificate, key })
            .map_err(|why| {
                format!(
                    r#"write an authority as {{"certificate": "/path/of/ca.crt", "key": "/path/of/ca.key"}}: {why}"#
                )
            }),
        _ => Err("it is neither a key nor an authority".to_owned()),
    }
}

impl Bindings {
    /// Binds a setting of a plugin to files, which are read immediately.
    ///
    /// # Errors
    /// A file is unreadable or has invalid content.
    pub fn bind_secret(&mut self, plugin: &str, setting: &str, secret: Secret) -> Result<(), BindError> {
        let name = (plugin.to_owned(), setting.to_owned());
        match secret {
            Secret::Key { file } => drop(self.keys.insert(name, Arc::new(TokenKey::open(file)?))),
            Secret::Authority { certificate, key } => {
                self.authorities.insert(name, Arc::new(AuthorityFiles::open(certificate, key)?));
            }
        }
        Ok(())
    }

    /// Binds an endpoint of a plugin to an address; its files are read immediately. Nothing is sent.
    ///
    /// # Errors
    /// The address is not allowed, or a file is unusable.
    pub fn bind_endpoint(&mut self, plugin: &str, endpoint: &str, config: &EndpointConfig) -> Result<(), BindError> {
        let bound = BoundEndpoint::open(config)?;
        self.endpoints.insert((plugin.to_owned(), endpoint.to_owned()), Arc::new(bound));
        Ok(())
    }
}

fn of<T>(map: &BTreeMap<Name, Arc<T>>, plugin: &str, name: &str) -> Option<Arc<T>> {
    map.get(&(plugin.to_owned(), name.to_owned())).cloned()
}

impl Outside for Bindings {
    fn key(&self, plugin: &str, setting: &str) -> Option<Arc<dyn SigningKey>> {
        of(&self.keys, plugin, setting).map(|key| key as Arc<dyn SigningKey>)
    }

    fn authority(&self, plugin: &str, setting: &str) -> Option<Arc<dyn Authority>> {
        of(&self.authorities, plugin, setting).map(|authority| authority as Arc<dyn Authority>)
    }

    fn endpoint(&self, plugin: &str, endpoint: &str) -> Option<Arc<dyn Endpoint>> {
        of(&self.endpoints, plugin, endpoint).map(|endpoint| endpoint as Arc<dyn Endpoint>)
    }

    fn bound(&self, plugin: &str) -> Vec<Bound> {
        let bound =
            |kind: &str, name: &str, place: String| Bound { kind: kind.to_owned(), name: name.to_owned(), place };
        let is_of = |of: &Name| of.0 == plugin;
        let keys =
            self.keys.iter().filter(|(name, _)| is_of(name)).map(|(name, key)| bound("key", &name.1, key.shown()));
        let authorities = self.authorities.iter().filter(|(name, _)| is_of(name));
        let authorities = authorities.map(|(name, authority)| bound("authority", &name.1, authority.shown()));
        let endpoints = self.endpoints.iter().filter(|(name, _)| is_of(name));
        let endpoints = endpoints.map(|(name, endpoint)| bound("endpoint", &name.1, endpoint.shown()));
        keys.chain(authorities).chain(endpoints).collect()
    }
}
