//! `/flagz` and `/statusz`: formats and content negotiation.
//!
//! Source: k8s.io/apiserver/pkg/server/flagz, .../statusz (texts, and objects of `config.k8s.io`), and
//! .../pkg/endpoints/handlers/negotiation. Upstream separates names from values with one of four random separators, so
//! that no client parses the text; here it is always the same one of them. A host is not written in Go, so there is no
//! Go version.
//! parses the text; here it is always the same one of them. A host is not written in Go, so there is no version of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

const GROUP: &str = "config.k8s.io";
/// The deprecated and the current version.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];
/// Most alternatives of an `Accept` header that are considered.
const MAX_ALTERNATIVES: usize = 32;

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For humans.
    Text,
    /// An object of this version, in JSON.
    Json(&'static str),
    /// An object of this version, in YAML.
    Yaml(&'static str),
}

impl Form {
    /// Whether the client should use a newer version.
    pub fn is_deprecated(self) -> bool {
        matches!(self, Self::Json(version) | Self::Yaml(version) if version == VERSIONS[0])
    }
}

/// The preferred format of an `Accept` header, for an object of this kind. `None`: the client accepts neither text nor
/// the object.
pub fn negotiate(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let mut alternatives: Vec<(f64, Option<Form>)> =
        accept.split(',').take(MAX_ALTERNATIVES).map(|one| alternative(one, kind)).collect();
    // Stable: the first of equal ones.
    alternatives.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    alternatives.into_iter().find_map(|(quality, form)| form.filter(|_| quality > 0.0))
}

/// The quality of an alternative, and its format, if supported.
fn alternative(text: &str, kind: &str) -> (f64, Option<Form>) {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
    let (mut quality, mut target) = (1.0, BTreeMap::new());
    for part in parts {
        match part.split_once('=') {
            Some(("q", value)) => quality = value.parse().unwrap_or(1.0),
            Some((name @ ("as" | "g" | "v"), value)) => drop(target.insert(name, value)),
            _ => {}
        }
    }
    let version = VERSIONS.into_iter().find(|version| {
        target.get("as") == Some(&kind) && target.get("g") == Some(&GROUP) && target.get("v") == Some(version)
    });
    let form = match (&*media_type, version) {
        ("text/plain" | "text/*" | "*/*", _) if target.is_empty() => Some(Form::Text),
        ("application/json" | "application/*" | "*/*", Some(version)) => Some(Form::Json(version)),
        ("application/yaml", Some(version)) => Some(Form::Yaml(version)),
        _ => None,
    };
    (quality, form)
}

/// The body of a 406 response.
pub fn not_acceptable() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "only the following media types are accepted: application/json, application/yaml, text/plain",
        "reason": "NotAcceptable", "code": 406,
    })
}

fn header(component: &str, page: &str) -> String {
    format!(
        "\n{component} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\n"
    )
}

fn object(version: &str, kind: &str, component: &str, fields: Value) -> Value {
    let mut object = json!({
        "kind": kind, "apiVersion": format!("{GROUP}/{version}"), "metadata": {"name": component},
    });
    if let (Value::Object(object), Value::Object(mut fields)) = (&mut object, fields) {
        object.append(&mut fields);
    }
    object
}

/// `/flagz` for humans.
pub fn flagz_text(component: &str, flags: &BTreeMap<String, String>) -> String {
    let flags: String = flags.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    header(component, "flagz") + &flags
}

/// `/flagz` as an object.
pub fn flagz_object(version: &str, component: &str, flags: &BTreeMap<String, String>) -> Value {
    object(version, "Flagz", component, json!({ "flags": flags }))
}

/// The content of `/statusz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// When the host started.
    pub started: Timestamp,
    /// Time since the start.
    pub up: Duration,
    /// Version of the host.
    pub version: String,
    /// The Kubernetes version that it emulates, for example `1.37`.
    pub emulates: String,
    /// Served paths.
    pub paths: Vec<&'static str>,
}

impl Status {
    /// The first segments of the paths, without duplicates.
    fn folders(&self) -> Vec<String> {
        let folders = self.paths.iter().filter_map(|path| path.split('/').nth(1)).filter(|folder| !folder.is_empty());
        folders.map(|folder| format!("/{folder}")).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// For humans.
    pub fn text(&self, component: &str) -> String {
        let started = self.started.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y");
        let up = self.up.as_secs();
        let (hours, minutes, seconds) = (up / 3600, (up / 60) % 60, up % 60);
        format!(
            "{}\nStarted: {started}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\nBinary version: {}\nEmulation version: {}\nPaths: {}\n",
            header(component, "statusz"),
            self.version,
            self.emulates,
            self.folders().join(" "),
        )
    }

    /// As an object.
    pub fn object(&self, version: &str, component: &str) -> Value {
        let started = self.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let fields = json!({
            "startTime": started, "uptimeSeconds": self.up.as_secs(), "goVersion": "",
            "binaryVersion": self.version, "emulationVersion": self.emulates, "paths": self.folders(),
        });
        object(version, "Statusz", component, fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BETA: &str = "as=Flagz;v=v1beta1;g=config.k8s.io";

    #[test]
    fn text_is_for_humans_and_objects_for_those_who_name_them() {
        for (accept, form) in [
            (String::new(), Some(Form::Text)),
            ("*/*".into(), Some(Form::Text)),
            ("text/html, text/plain;q=0.5".into(), Some(Form::Text)),
            (format!("application/json;{BETA}"), Some(Form::Json("v1beta1"))),
            (format!("application/yaml; {BETA}"), Some(Form::Yaml("v1beta1"))),
            ("application/json;as=Flagz;v=v1alpha1;g=config.k8s.io".into(), Some(Form::Json("v1alpha1"))),
            (format!("text/plain;q=0.1, application/json;{BETA};q=0.9"), Some(Form::Json("v1beta1"))),
            (format!("text/plain, application/json;{BETA}"), Some(Form::Text)),
            ("application/json".into(), None),
            ("application/json;as=Flagz;v=v2;g=config.k8s.io".into(), None),
            ("application/json;as=Statusz;v=v1beta1;g=config.k8s.io".into(), None),
            (format!("text/plain;{BETA}"), None),
            ("text/plain;q=0".into(), None),
            ("application/vnd.kubernetes.protobuf".into(), None),
        ] {
            assert_eq!(negotiate(&accept, "Flagz"), form, "{accept}");
        }
        assert!(Form::Yaml("v1alpha1").is_deprecated() && !Form::Json("v1beta1").is_deprecated());
    }

    #[test]
    fn flags_have_upstreams_forms() {
        let flags = BTreeMap::from([("secure-port".to_owned(), "10257".to_owned()), ("a".to_owned(), String::new())]);
        assert_eq!(
            flagz_text("pintle", &flags),
            "\npintle flagz\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\na=\nsecure-port=10257\n"
        );
        assert_eq!(
            flagz_object("v1beta1", "pintle", &flags),
            json!({
                "kind": "Flagz", "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "pintle"},
                "flags": {"a": "", "secure-port": "10257"},
            })
        );
    }

    #[test]
    fn the_status_has_upstreams_forms() {
        let status = Status {
            started: "2026-11-03T04:05:06.7Z".parse().unwrap(),
            up: Duration::from_secs(3600 * 30 + 60 * 5 + 7),
            version: "0.1.0".into(),
            emulates: "1.37".into(),
            paths: vec!["/metrics", "/healthz", "/metrics/slis", "/debug/controllers/NAME"],
        };
        let text = status.text("pintle");
        let (_, body) = text.split_once("only.\n").unwrap();
        assert_eq!(
            body,
            "\nStarted: Tue Nov  3 04:05:06 UTC 2026\nUp: 30 hr 05 min 07 sec\nBinary version: 0.1.0\nEmulation version: 1.37\nPaths: /debug /healthz /metrics\n"
        );
        assert_eq!(
            status.object("v1beta1", "pintle"),
            json!({
                "kind": "Statusz", "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "pintle"},
                "startTime": "2026-11-03T04:05:06Z", "uptimeSeconds": 108_307, "goVersion": "", "binaryVersion": "0.1.0",
                "emulationVersion": "1.37", "paths": ["/debug", "/healthz", "/metrics"],
            })
        );
        assert_eq!(not_acceptable()["code"], 406);
    }
}
