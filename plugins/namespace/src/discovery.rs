//! The kinds that a namespace can contain now. Objects of an undiscovered kind would be left behind.
//!
//! *Source*: discovery of client-go, and its errors.

use pintle_sdk::{ApiResource, Error, Lister, Need};

/// Result of a discovery.
#[derive(Debug)]
pub(crate) struct Discovered {
    /// Resources of all versions that succeeded.
    pub(crate) resources: Vec<ApiResource>,
    /// Message about versions that failed.
    pub(crate) trouble: Option<String>,
    /// Versions that failed; `None` if the whole discovery failed.
    pub(crate) failed: Option<Vec<String>>,
}

/// Runs the discovery, or reuses the failed versions of an earlier one in the round.
///
/// # Errors
/// The discovery is needed first.
#[doc(alias = "ServerPreferredNamespacedResources")]
pub(crate) fn discover(earlier: Option<Vec<String>>, lister: &impl Lister) -> Result<Discovered, Error> {
    let mut failed: Vec<String> = match earlier {
        Some(failed) => failed,
        None => match lister.ask(Need::Discovery)? {
            Ok(text) => serde_json::from_str(&text)?,
            Err(error) => return Ok(Discovered { resources: Vec::new(), trouble: Some(error.message), failed: None }),
        },
    };
    failed.sort();
    let mut resources = lister.resources();
    resources.retain(|resource| !failed.contains(&resource.kind.api_version()));
    let trouble = (!failed.is_empty()).then(|| {
        let reasons: Vec<String> =
            failed.iter().map(|version| format!("{version}: stale GroupVersion discovery: {version}")).collect();
        let text = format!("unable to retrieve the complete list of server APIs: {}", reasons.join(", "));
        format!("Discovery failed for some groups, {} failing: {text}", failed.len())
    });
    Ok(Discovered { resources, trouble, failed: Some(failed) })
}
