//! Request paths.

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1` or `/apis/{group}/{version}`, as an apiVersion.
    Version(String),
    /// Anything below a version.
    Object(ObjectPath),
    /// `/healthz`, `/version`, ...
    Other(String),
}

/// A resource, an object or a subresource.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct ObjectPath {
    pub(crate) api_version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The deprecated `/watch/` prefix.
    pub(crate) watch: bool,
}

/// Parses a path that is still percent-encoded.
pub(crate) fn parse(path: &str) -> Path {
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["api"] => Path::CoreVersions,
        ["apis"] => Path::Groups,
        ["api", version] => Path::Version((*version).to_owned()),
        ["api", version, rest @ ..] => object((*version).to_owned(), rest, path),
        ["apis", group] => Path::Group((*group).to_owned()),
        ["apis", group, version] => Path::Version(format!("{group}/{version}")),
        ["apis", group, version, rest @ ..] => object(format!("{group}/{version}"), rest, path),
        _ => Path::Other(path.to_owned()),
    }
}

fn object(api_version: String, rest: &[&str], path: &str) -> Path {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    // `namespaces/x/status` is a subresource of a Namespace, `namespaces/x/pods` a resource in one.
    let (namespace, rest) = match rest {
        ["namespaces", _, "status" | "finalize", ..] => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        rest => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(*name), None),
        [plural, name, subresource] => (plural, Some(*name), Some(*subresource)),
        [plural, name, subresource @ ("proxy" | "log" | "exec" | "attach" | "portforward"), ..] => {
            (plural, Some(*name), Some(*subresource))
        }
        _ => return Path::Other(path.to_owned()),
    };
    Path::Object(ObjectPath {
        api_version,
        namespace,
        plural: (*plural).to_owned(),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        watch,
    })
}

/// Decodes `%XX`; invalid escapes stay as they are.
pub(crate) fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(path: &str) -> ObjectPath {
        match parse(path) {
            Path::Object(path) => path,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_are_decoded() {
        let found = object("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode");
        assert_eq!(found.name.as_deref(), Some("system:node"));
    }
}
