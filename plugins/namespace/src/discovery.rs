//! Whether the host knows every API group that the server has.
//!
//! The host hands out what its last discovery found. A group that did not answer then (an aggregated API that is down) is missing
//! there, and its objects would stay behind when the namespace goes. So the server's own list of groups is compared.
//!
//! *Source*: upstream's discovery fails for such groups, and so does the deletion.

use std::collections::BTreeSet;

use pintle_sdk::{ApiResource, Error, Lister, Need};
use serde::Deserialize;

/// List of the API groups, the core group left out.
pub(crate) const PATH: &str = "/apis";

#[derive(Debug, Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default)]
    preferred_version: Version,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    group_version: String,
}

/// Message about groups of which the host knows nothing; `None` if there are none.
///
/// # Errors
/// The list of groups is needed first.
pub(crate) fn gaps(resources: &[ApiResource], lister: &impl Lister) -> Result<Option<String>, Error> {
    let groups: Groups = match lister.ask(Need::RawPath(PATH.into()))? {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) => return Ok(Some(error.message)),
    };
    let known: BTreeSet<&str> = resources.iter().map(|resource| &*resource.kind.group).collect();
    let unknown: Vec<String> = groups
        .groups
        .iter()
        .filter(|group| !known.contains(group.name.as_str()))
        .map(|group| format!("{}: no answer to discovery", group.preferred_version.group_version))
        .collect();
    Ok((!unknown.is_empty()).then(|| {
        let text = format!("unable to retrieve the complete list of server APIs: {}", unknown.join(", "));
        format!("Discovery failed for some groups, {} failing: {text}", unknown.len())
    }))
}
