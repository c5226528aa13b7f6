//! What is scaled: the kind of the reference, by discovery, and its scale, by the API server.
//!
//! *Source*: `scaleForResourceMappings` of upstream's `horizontal.go`, and `scale/client.go` of client-go. There each version of a kind is
//! tried, and the request is always for the version that the server prefers; here it is sent once for each resource of the kind.

use pintle_sdk::document::Document;
use pintle_sdk::{ApiResource, Kind, Lister, Mutation, Need, group_version};
use plugin_lib::selector::Selector;

use crate::metrics::{Request, refusal};
use crate::types::Reference;

/// The scale of an object.
pub(crate) struct Scale {
    pub(crate) kind: Kind,
    pub(crate) replicas: i32,
    pub(crate) status_replicas: i32,
    /// As text, and parsed; none if it has none.
    pub(crate) selector: Option<(String, Selector)>,
    document: Document,
}

/// Why there is no scale.
pub(crate) enum NoScale {
    /// It is not read yet.
    Needs(Vec<Need>),
    /// The reference is malformed.
    Reference(String),
    /// Discovery does not have the kind.
    Kind(String),
    /// The API server refuses.
    Refused(String),
}

/// The group of an `apiVersion`; the version does not matter.
///
/// # Errors
/// The text of upstream's error.
pub(crate) fn group(api_version: &str) -> Result<&str, String> {
    group_version(api_version).map(|(group, _)| group)
}

/// The resources of a kind, each in the version that the API server prefers.
///
/// # Errors
/// The text of upstream's error.
pub(crate) fn resources(lister: &impl Lister, group: &str, kind: &str) -> Result<Vec<ApiResource>, String> {
    let mut found: Vec<ApiResource> = Vec::new();
    for resource in lister.resources_of(group, kind) {
        match found.iter_mut().find(|one| one.plural == resource.plural) {
            Some(one) if resource.preferred => *one = resource,
            Some(_) => {}
            None => found.push(resource),
        }
    }
    if found.is_empty() { Err(format!("no matches for kind {kind:?} in group {group:?}")) } else { Ok(found) }
}

/// Reads the scale of the object that the reference names.
pub(crate) fn scale(lister: &impl Lister, namespace: &str, target: &Reference) -> Result<Scale, NoScale> {
    let group = group(&target.api_version).map_err(NoScale::Reference)?;
    let resources = resources(lister, group, &target.kind).map_err(NoScale::Kind)?;
    let mut first_error = None;
    for resource in resources {
        match read(lister, &resource, namespace, &target.name) {
            Err(NoScale::Refused(error)) => first_error = first_error.or(Some(error)),
            other => return other,
        }
    }
    Err(NoScale::Refused(first_error.unwrap_or_else(|| "unrecognized resource".into())))
}

fn read(lister: &impl Lister, resource: &ApiResource, namespace: &str, name: &str) -> Result<Scale, NoScale> {
    let request = Request { resource: &resource.plural, group: "", name };
    if !resource.namespaced {
        // There is no such path.
        return Err(NoScale::Refused(request.not_found()));
    }
    let need = Need::live_object(&resource.kind, namespace, name).subresource("scale");
    match lister.answer(&need) {
        None => Err(NoScale::Needs(vec![need])),
        Some(Ok(text)) => Scale::parse(resource.kind.clone(), &text).map_err(NoScale::Refused),
        Some(Err(error)) => Err(NoScale::Refused(refusal(&error, &request))),
    }
}

/// Reads the scale again, of a kind that is known.
pub(crate) fn scale_of(lister: &impl Lister, kind: &Kind, namespace: &str, name: &str) -> Result<Scale, NoScale> {
    let need = Need::live_object(kind, namespace, name).subresource("scale");
    match lister.answer(&need) {
        None => Err(NoScale::Needs(vec![need])),
        Some(Ok(text)) => Scale::parse(kind.clone(), &text).map_err(NoScale::Refused),
        Some(Err(error)) => Err(NoScale::Refused(error.message)),
    }
}

impl Scale {
    fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        let document = Document::parse(text).map_err(|error| format!("decode the scale: {error}"))?;
        let number = |path| document.get::<i32>(path).unwrap_or_default();
        let text: String = document.get(&["status", "selector"]).unwrap_or_default();
        // As client-go, which converts each scale to its internal type.
        let selector = (!text.is_empty()).then(|| Selector::parse(&text)).transpose();
        let selector = selector.map_err(|error| {
            format!(
                "received an object from a /scale endpoint which was not convertible to autoscaling Scale: \
                 failed to parse target selector: couldn't parse the selector string \"{text}\": {error}"
            )
        })?;
        let selector = selector.map(|selector| (text, selector));
        Ok(Self {
            kind,
            replicas: number(&["spec", "replicas"]),
            status_replicas: number(&["status", "replicas"]),
            selector,
            document,
        })
    }

    /// The write that sets the number of replicas.
    pub(crate) fn update(mut self, replicas: i32) -> Mutation {
        self.document.set(&["spec", "replicas"], &replicas);
        Mutation::update(&self.kind, self.document).subresource("scale")
    }
}
