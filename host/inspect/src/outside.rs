//! Requests of a manifest outside of the API server, and how an operator binds them: keys, authorities and endpoints.
//! The API server's roles do not cover them.

use pintle_core::contract::manifest::{Manifest, SettingType};
use pintle_core::policy::outside::{authority_flag, endpoint_flag, key_flag};

/// One request.
pub(crate) struct Request {
    /// The request, for example `key signs tokens`.
    pub(crate) what: String,
    /// The author's description; may be empty.
    pub(crate) description: String,
    /// The flag of `pintle run` that binds it.
    pub(crate) flag: String,
}

/// The requests of a manifest.
pub(crate) fn requests(manifest: &Manifest) -> Vec<Request> {
    let plugin = &manifest.name;
    let secrets = manifest.config.iter().filter_map(|(name, setting)| {
        let (what, flag) = match setting.kind {
            SettingType::Key => (format!("key {name}: signs tokens"), key_flag(plugin, name)),
            SettingType::Authority => (format!("authority {name}: signs certificates"), authority_flag(plugin, name)),
            _ => return None,
        };
        Some(Request { what, description: setting.description.clone(), flag: format!("--set '{flag}'") })
    });
    let endpoints = manifest.endpoints.iter().map(|(name, endpoint)| Request {
        what: format!("endpoint {name}: calls {}", endpoint.operations.join(", ")),
        description: endpoint.description.clone(),
        flag: format!("--endpoint '{}'", endpoint_flag(plugin, name)),
    });
    secrets.chain(endpoints).collect()
}
