//! Request paths and query strings.

use std::fmt::Write as _;

use pintle_core::object::id::Kind;
use pintle_core::ports::api::{ApiResource, ListWatchTarget};

/// Path of a collection, or of an object or its subresource.
pub(crate) struct Place<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) plural: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) subresource: Option<&'a str>,
}

impl<'a> Place<'a> {
    pub(crate) fn object(resource: &'a ApiResource, namespace: &'a str, name: &'a str) -> Self {
        Self {
            kind: &resource.kind,
            plural: &resource.plural,
            namespace: Some(namespace).filter(|_| resource.namespaced),
            name: Some(name).filter(|name| !name.is_empty()),
            subresource: None,
        }
    }

    pub(crate) fn collection(target: &'a ListWatchTarget) -> Self {
        Self {
            kind: &target.kind,
            plural: &target.plural,
            namespace: target.namespace.as_deref(),
            name: None,
            subresource: None,
        }
    }

    /// The path, followed by `?` for parameters.
    pub(crate) fn url(&self) -> String {
        let mut url = String::with_capacity(96);
        if self.kind.group.is_empty() {
            url.push_str("/api/");
        } else {
            url.push_str("/apis/");
            segment(&mut url, &self.kind.group);
            url.push('/');
        }
        segment(&mut url, &self.kind.version);
        if let Some(namespace) = self.namespace.filter(|namespace| !namespace.is_empty()) {
            url.push_str("/namespaces/");
            segment(&mut url, namespace);
        }
        url.push('/');
        segment(&mut url, self.plural);
        for part in [self.name, self.subresource].into_iter().flatten() {
            url.push('/');
            segment(&mut url, part);
        }
        url.push('?');
        url
    }
}

/// Appends `name=value&`, escaped.
pub(crate) fn param(url: &mut String, name: &str, value: &str) {
    url.push_str(name);
    url.push('=');
    segment(url, value);
    url.push('&');
}

/// Appends the selectors of a target.
pub(crate) fn selectors(url: &mut String, target: &ListWatchTarget) {
    if let Some(selector) = &target.label_selector {
        param(url, "labelSelector", selector);
    }
    if let Some(selector) = &target.field_selector {
        param(url, "fieldSelector", selector);
    }
}

/// Percent-encodes a name as one path segment. Names also come from guests, so no name may leave its segment.
fn segment(url: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => url.push(char::from(byte)),
            // A segment of dots only would be a relative step.
            b'.' if text.bytes().any(|other| other != b'.') => url.push('.'),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(url, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_group_scope_and_subresource() {
        let pod = Kind::new("", "v1", "Pod");
        let deployment = Kind::new("apps", "v1", "Deployment");
        let place =
            |kind, plural, namespace, name, subresource| Place { kind, plural, namespace, name, subresource }.url();
        assert_eq!(place(&pod, "pods", None, None, None), "/api/v1/pods?");
        assert_eq!(place(&pod, "pods", Some("a"), Some("b"), Some("status")), "/api/v1/namespaces/a/pods/b/status?");
        assert_eq!(place(&deployment, "deployments", Some("a"), None, None), "/apis/apps/v1/namespaces/a/deployments?");
    }

    #[test]
    fn a_name_cannot_leave_its_segment() {
        let pod = Kind::new("", "v1", "Pod");
        let url = |name| {
            Place { kind: &pod, plural: "pods", namespace: Some("a"), name: Some(name), subresource: None }.url()
        };
        assert_eq!(url("../../secrets"), "/api/v1/namespaces/a/pods/..%2F..%2Fsecrets?");
        assert_eq!(url(".."), "/api/v1/namespaces/a/pods/%2E%2E?");
        assert_eq!(url("a?b=c#d"), "/api/v1/namespaces/a/pods/a%3Fb%3Dc%23d?");
    }
}
