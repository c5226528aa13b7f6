//! The snapshot of the cluster that a run reads.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::api::Listed;
use crate::api::meta::Resource;
use crate::document::Document;
use crate::error::Error;
use crate::need::Need;
use crate::outcome::{ApiError, Body, MutationFailure};
use crate::time::Timestamp;
use crate::types::{Kind, ObjectKey};

/// Selects by owner references; the strings are uids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedBy {
    /// The controller reference has this uid.
    Controller(String),
    /// The controller reference has this uid, or there is none.
    ControllerOrOrphan(String),
    /// Any owner reference has this uid.
    Any(String),
}

/// Selects objects to list; all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// All namespaces if absent.
    pub namespace: Option<String>,
    /// In the syntax of kubectl.
    pub label_selector: Option<String>,
    /// By owner references.
    pub owner: Option<OwnedBy>,
    /// A declared index and its value.
    pub index: Option<(String, String)>,
    /// Whole objects instead of the projection.
    pub whole: bool,
}

impl Query {
    /// Every object of the kind.
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects of one namespace.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    /// Only objects that this label selector matches, for example `app=web,tier in (a,b)`. See
    /// [`Selector`](crate::selector::Selector).
    #[must_use]
    pub fn labels(self, selector: impl ToString) -> Self {
        Self { label_selector: Some(selector.to_string()), ..self }
    }

    /// Only objects whose controller has this uid.
    #[must_use]
    pub fn controlled_by(self, uid: impl Into<String>) -> Self {
        Self { owner: Some(OwnedBy::Controller(uid.into())), ..self }
    }

    /// Only objects whose controller has this uid, and those without a controller, which could be adopted.
    #[must_use]
    pub fn controlled_by_or_orphans(self, uid: impl Into<String>) -> Self {
        Self { owner: Some(OwnedBy::ControllerOrOrphan(uid.into())), ..self }
    }

    /// Only objects with an owner with this uid.
    #[must_use]
    pub fn owned_by(self, uid: impl Into<String>) -> Self {
        Self { owner: Some(OwnedBy::Any(uid.into())), ..self }
    }

    /// Only objects for which an index of the manifest has this value.
    #[must_use]
    pub fn index(self, index: impl Into<String>, value: impl Into<String>) -> Self {
        Self { index: Some((index.into(), value.into())), ..self }
    }

    /// Whole objects instead of the projection; the watch must declare `whole`.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }
}

/// A resource of the API server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiResource {
    /// Kind of its objects.
    pub kind: Kind,
    /// Name in URLs.
    pub plural: String,
    /// Whether its objects are namespaced.
    #[serde(default)]
    pub namespaced: bool,
    /// For example `list`, `delete`.
    #[serde(default)]
    pub verbs: Vec<String>,
    /// For example `status`, `scale`.
    #[serde(default)]
    pub subresources: Vec<String>,
    /// Whether the version is the server's preferred one of the group.
    #[serde(default)]
    pub preferred: bool,
}

/// A snapshot of the cluster, for one run: repeated reads return the same result.
///
/// All reads together show one state of the host's caches, never older than this key's own last writes. Only kinds that
/// the manifest watches can be read; any other is a fault that ends the run. `wit/controller.wit` documents each read;
/// the methods in `_json` are those of the contract, the others decode.
pub trait Lister {
    /// Start time of the run, RFC 3339.
    fn now_text(&self) -> String;
    /// Time from the start of the host to the start of the run, by a monotonic clock. Only differences between values
    /// of the same host are meaningful: store one in the state, which is lost together with this clock.
    fn uptime(&self) -> Duration;
    /// The object, as JSON.
    fn get_json(&self, kind: &Kind, object: &ObjectKey) -> Option<String>;
    /// The matching objects, ordered by namespace and name, as JSON.
    fn list_json(&self, kind: &Kind, query: &Query) -> Vec<String>;
    /// The number of matching objects.
    fn count(&self, kind: &Kind, query: &Query) -> u32;
    /// Objects whose own selector matches these labels, as JSON.
    fn selecting_json(&self, kind: &Kind, namespace: &str, labels: &[(String, String)]) -> Vec<String>;
    /// Objects of any watched kind with this uid among their owners, as JSON.
    fn dependents_json(&self, uid: &str) -> Vec<String>;
    /// The object of any watched kind with this uid, as JSON.
    fn by_uid_json(&self, uid: &str) -> Option<String>;
    /// The API server's resources as of the last discovery, which was seconds ago. The manifest needs
    /// `discovery: true`.
    fn resources(&self) -> Vec<ApiResource>;
    /// The [`Lister::resources`] whose kind has this group and name, in all versions; much cheaper than the full list.
    fn resources_of(&self, group: &str, name: &str) -> Vec<ApiResource>;
    /// The plugin's configuration, as JSON.
    fn config_json(&self) -> String;
    /// The value that an earlier outcome stored under this name.
    fn state(&self, name: &str) -> Option<String>;
    /// Number of consecutive failures of this key.
    fn attempt(&self) -> u32;
    /// Failed mutations of this key's previous outcome.
    fn failures(&self) -> Vec<MutationFailure>;
    /// The answer to a need; `None` if it has not been requested yet.
    fn answer(&self, need: &Need) -> Option<Result<String, ApiError>>;

    /// Start time of the run.
    ///
    /// # Errors
    /// If the host's text is not a time, which is a bug of the host.
    fn now(&self) -> Result<Timestamp, Error> {
        let text = self.now_text();
        Timestamp::parse(&text).ok_or_else(|| Error::retry(format!("{text:?} is not a time")))
    }

    /// The object, or `None` if it is not in the cache.
    ///
    /// # Errors
    /// If it does not fit the type; a retry does not help until it changes.
    fn get<T: Resource>(&self, namespace: &str, name: &str) -> Result<Option<T>, Error> {
        self.get_json(&T::KIND, &ObjectKey::new(namespace, name)).map(|text| decode(&T::KIND, &text)).transpose()
    }

    /// The object together with its text, to write back a changed copy without losing fields that `T` does not model.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    fn get_document<T: Resource>(&self, namespace: &str, name: &str) -> Result<Option<(T, Document)>, Error> {
        let Some(text) = self.get_json(&T::KIND, &ObjectKey::new(namespace, name)) else {
            return Ok(None);
        };
        Ok(Some((decode(&T::KIND, &text)?, Document::parse(&text)?)))
    }

    /// The matching objects, ordered by namespace and name.
    ///
    /// # Errors
    /// If one does not fit the type.
    fn list<T: Listed>(&self, query: &Query) -> Result<Vec<T>, Error> {
        // Drops each text once it is decoded: both forms of many objects would take twice the memory.
        self.list_json(&T::KIND, query).into_iter().map(|text| decode(&T::KIND, &text)).collect()
    }

    /// The matching objects, whole, for a kind that is kept `whole`; ordered by namespace and name.
    ///
    /// # Errors
    /// If one does not fit the type.
    fn list_whole<T: Resource>(&self, query: &Query) -> Result<Vec<T>, Error> {
        let query = query.clone().whole();
        self.list_json(&T::KIND, &query).into_iter().map(|text| decode(&T::KIND, &text)).collect()
    }

    /// Objects in the namespace whose own selector (declared as `selects`) matches these labels.
    ///
    /// # Errors
    /// If one does not fit the type.
    fn selecting<'a, T: Listed>(
        &self,
        namespace: &str,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Vec<T>, Error> {
        let labels: Vec<_> = labels.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        self.selecting_json(&T::KIND, namespace, &labels).iter().map(|text| decode(&T::KIND, text)).collect()
    }

    /// The plugin's configuration.
    ///
    /// # Errors
    /// If the type does not fit the manifest's schema.
    fn config<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.config_json()).map_err(|error| Error::Terminal(format!("configuration: {error}")))
    }

    /// The object, read live from the API server; `None` if it does not exist there.
    ///
    /// # Errors
    /// [`Error::Needs`] in the first round: pass it on with `?`, the host then reads and runs the key again. A retry if
    /// the server returned an error.
    fn live<T: Resource>(&self, namespace: &str, name: &str) -> Result<Option<T>, Error> {
        let need = Need::live_object(&T::KIND, namespace, name);
        match self.answer(&need) {
            None => Err(Error::Needs(vec![need])),
            Some(Ok(text)) => decode(&T::KIND, &text).map(Some),
            Some(Err(error)) if error.code == 404 => Ok(None),
            Some(Err(error)) => Err(Error::retry(format!("read {} {namespace}/{name}: {}", T::KIND, error.message))),
        }
    }

    /// A subresource of an object, read live from the API server, for example `scale`; `None` if the object does not
    /// exist there.
    ///
    /// # Errors
    /// As for [`live`](Self::live).
    fn live_subresource<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Result<Option<T>, Error> {
        let need = Need::live_object(kind, namespace, name).subresource(subresource);
        match self.ask(need)? {
            Ok(text) => decode(kind, &text).map(Some),
            Err(error) if error.code == 404 => Ok(None),
            Err(error) => {
                Err(Error::retry(format!("read {subresource} of {kind} {namespace}/{name}: {}", error.message)))
            }
        }
    }

    /// The API server's answer: the status of a review, for example of a SubjectAccessReview. `review` is the object,
    /// with its spec.
    ///
    /// # Errors
    /// As for [`live`](Self::live).
    fn review<T: DeserializeOwned>(&self, kind: &Kind, namespace: &str, review: impl Body) -> Result<T, Error>
    where
        Self: Sized,
    {
        #[derive(Deserialize)]
        struct Answer<T> {
            status: T,
        }
        match self.ask(Need::review(kind, namespace, review))? {
            Ok(text) => decode::<Answer<T>>(kind, &text).map(|answer| answer.status),
            Err(error) => Err(Error::retry(format!("ask for a {}: {}", kind.name, error.message))),
        }
    }

    /// The answer to any need.
    ///
    /// # Errors
    /// [`Error::Needs`] in the first round: pass it on with `?`.
    fn ask(&self, need: Need) -> Result<Result<String, ApiError>, Error> {
        self.answer(&need).ok_or_else(|| Error::Needs(vec![need]))
    }
}

/// Decodes an object; the error has the kind and, if it can be found, the object.
///
/// # Errors
/// Terminal: the object does not fit the type until it changes.
pub fn decode<T: DeserializeOwned>(kind: &Kind, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| {
        let name = Document::parse(text).ok().and_then(|document| document.get::<String>(&["metadata", "name"]));
        Error::Terminal(format!("decode {kind} {}: {error}{}", name.unwrap_or_default(), near(text, &error)))
    })
}

/// The text before the error, because messages have no field name. Objects are in one line.
fn near(text: &str, error: &serde_json::Error) -> String {
    let end = text.floor_char_boundary(error.column().min(text.len()));
    if error.line() != 1 || end == 0 {
        return String::new();
    }
    let start = text.floor_char_boundary(end.saturating_sub(NEAR_BYTES));
    format!(", where it says ...{}", &text[start..end])
}

/// Most bytes of an object in an error.
const NEAR_BYTES: usize = 60;
