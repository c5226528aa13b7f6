//! The message of a denial: the missing grant, and where to add it.

use super::Access;
use crate::contract::manifest::{Grant, Of};

/// A request that is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Text of the request.
    request: String,
    why: Why,
    /// The grant that would allow it.
    grant: Box<Grant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The manifest does not request the access.
    Unasked,
    /// The operator does not grant the access.
    Ungiven,
    /// The access is granted only for objects of the key, and this is not one.
    Unowned {
        /// Whether the operator's limit applies, rather than the manifest's.
        given: bool,
        why: String,
    },
    /// No grant can allow it.
    Unsound,
    /// The write replaces this list, which the plugin does not read.
    Unread(String),
}

impl Why {
    /// `whys`: the reasons why the matching grants do not apply; empty if no grant matches.
    pub(super) fn new(given: bool, whys: Vec<String>) -> Self {
        match (whys.is_empty(), given) {
            (true, false) => Self::Unasked,
            (true, true) => Self::Ungiven,
            (false, given) => Self::Unowned { given, why: whys.join("; ") },
        }
    }
}

impl Denial {
    /// `of`: the objects that the missing grant must cover.
    pub(super) fn of_access(access: &Access<'_>, why: Why, of: Of) -> Self {
        let given = matches!(why, Why::Ungiven | Why::Unowned { given: true, .. });
        let one = |text: &str| if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
        let grant = Grant {
            verbs: vec![access.verb.to_owned()],
            kinds: vec![access.kind.to_string()],
            subresources: access.subresource.map(one).unwrap_or_default(),
            // The author of a manifest cannot know the namespaces; an operator grants no more than necessary.
            namespaces: if given { one(access.namespace) } else { Vec::new() },
            signers: access.signer.map(one).unwrap_or_default(),
            of,
            ..Grant::default()
        };
        Self { request: access.to_string(), why, grant: grant.into() }
    }

    /// The same denial, for the verb that a write requires in addition to its own.
    #[must_use]
    pub fn as_taken_by(mut self, write: &Access<'_>) -> Self {
        self.request = format!("{}, which `{write}` takes,", self.request);
        self
    }

    /// Denial of a write that replaces a list of several clients (a path) that no watch of the kind reads.
    pub fn of_unread(access: &Access<'_>, list: String) -> Self {
        Self::of_access(access, Why::Unread(list), Of::Any)
    }

    /// The same denial, with a grant for a verb that the request requires in addition to its own, if the whole grant is
    /// missing.
    #[must_use]
    pub fn with_verb(mut self, verb: &str) -> Self {
        if self.is_of_all() {
            self.grant.verbs.insert(0, verb.to_owned());
        }
        self
    }

    /// The same denial, with a grant restricted to objects of the key, if the whole grant is missing. `elsewhere`: the
    /// key's object has no namespace and the requested object has one.
    #[must_use]
    pub fn narrowed(mut self, of: Of, elsewhere: bool) -> Self {
        if self.is_of_all() {
            self.grant.of = of;
            if elsewhere && self.grant.namespaces.is_empty() {
                self.grant.namespaces = vec!["*".to_owned()];
            }
        }
        self
    }

    /// Whether no grant matches the request, for objects of any owner.
    fn is_of_all(&self) -> bool {
        matches!(self.why, Why::Unasked | Why::Ungiven)
    }

    pub(super) fn of_path(path: &str, why: Why) -> Self {
        let route = path.split('?').next().unwrap_or_default();
        let (spelled, _) = path.split_at(super::must_be_spelled(path).max(route.len()));
        let grant = Grant { verbs: vec!["get".into()], paths: vec![format!("{spelled}*")], ..Grant::default() };
        Self { request: format!("get {path}"), why, grant: grant.into() }
    }

    /// Denial of a discovery need.
    pub fn of_discovery() -> Self {
        Self { request: "discovery".to_owned(), why: Why::Ungiven, grant: super::missing::of_discovery().into() }
    }

    /// The message in one line, for this plugin.
    pub fn message(&self, plugin: &str) -> String {
        let Self { request, why, grant } = self;
        let line = line(grant);
        match why {
            Why::Unasked => format!(
                "{request} is not granted to plugin {plugin}: its manifest does not ask for it; add `{line}` to `grants` of the manifest"
            ),
            Why::Ungiven => format!(
                "{request} is not granted to plugin {plugin}: its operator does not give it; add `{line}` to {}",
                place(plugin)
            ),
            Why::Unowned { given: false, why } => format!(
                "{request} is not granted to plugin {plugin}, whose manifest asks for objects of the key only: {why}; for all objects add `{line}` to `grants` of the manifest"
            ),
            Why::Unowned { given: true, why } => format!(
                "{request} is not granted to plugin {plugin}, which is given objects of the key only: {why}; for all objects add `{line}` to {}",
                place(plugin)
            ),
            Why::Unread(list) => format!(
                "{request} replaces `{list}`, which others write, too, and the manifest of plugin {plugin} does not read it: entries that it has not seen would be lost; add `{list}` to `fields` of the watch of {}",
                grant.kinds.concat()
            ),
            Why::Unsound => format!(
                "{request} is not granted to plugin {plugin}: no grant allows a path that a server could read as another one"
            ),
        }
    }
}

/// The place where an operator writes grants.
pub(super) fn place(plugin: &str) -> String {
    format!("`grants` of ControllerPlugin/{plugin} or of the plugin's spec file")
}

/// A grant as an entry of a YAML list, for copying.
pub fn line(grant: &Grant) -> String {
    let list = |values: &[String]| values.iter().map(|value| scalar(value)).collect::<Vec<_>>().join(", ");
    let mut members: Vec<String> = grant
        .lists()
        .into_iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("{name}: [{}]", list(values)))
        .collect();
    match grant.of {
        Of::Any => {}
        Of::Key => members.push("of: key".into()),
        Of::Controlled => members.push("of: controlled".into()),
    }
    if grant.adopt {
        members.push("adopt: true".into());
    }
    format!("- {{{}}}", members.join(", "))
}

/// A YAML flow string. Text that is not clearly a plain word is quoted as in JSON, which is valid YAML.
pub fn scalar(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'/' | b'_');
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_word =
        !matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null" | "yes" | "no" | "on" | "off");
    if starts && is_word && text.bytes().all(plain) {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}
