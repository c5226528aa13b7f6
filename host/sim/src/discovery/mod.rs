//! The kinds that the embedded cluster serves, built in and custom, and their discovery documents.
//!
//! *Flow*: [`Registry::builtin`] is read once from `builtin.txt`; each established, changed or removed
//! CustomResourceDefinition creates a new registry. Requests look up a [`Resource`] in the current registry.
//!
//! *Invariants*: 1. a registry is immutable once shared; 2. two served versions of one kind have the same [`Resource::storage`].
//!
//! *Not here*: schemas of kinds (`schema`), validation of custom definitions (`crd`).

pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod documents;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::server::status::GroupResource;

const BUILTIN: &str = include_str!("builtin.txt");

/// One served version of one resource.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name, as in paths.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Kind.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Verbs in the alphabetical order of discovery.
    pub verbs: Vec<&'static str>,
    /// Abbreviations for kubectl.
    pub short_names: Vec<String>,
    /// Groups of kinds for kubectl (`all`).
    pub categories: Vec<String>,
    /// A completed delete returns the object instead of a `Status`.
    pub returns_deleted: bool,
    /// A PUT of a missing object creates it.
    pub create_on_update: bool,
    /// A PUT must contain the resourceVersion that it replaces.
    pub conditional_update: bool,
    /// `metadata.generation` counts changes outside metadata and status.
    pub counts_generations: bool,
    /// A delete without a propagation policy orphans dependents.
    pub orphans_by_default: bool,
    /// Opaque hash for clients that migrate storage.
    pub storage_version_hash: String,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Name of the table in the store: the same for every version of the kind.
    pub storage: Arc<str>,
    /// Storage version.
    pub storage_version: (String, String),
    /// Kind in the storage version's group.
    pub crd: Option<Arc<crd::CrdVersion>>,
}

/// One subresource.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`, `scale`, ...
    pub name: String,
    /// Group of its kind.
    pub group: String,
    /// Version of its kind.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Verbs.
    pub verbs: Vec<&'static str>,
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// `v1` or `apps/v1` of the stored objects.
    pub fn storage_api_version(&self) -> String {
        api_version(&self.storage_version.0, &self.storage_version.1)
    }

    /// Group and plural, the form in messages.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.plural.clone() }
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether this is the storage version.
    pub fn is_storage_version(&self) -> bool {
        self.group == self.storage_version.0 && self.version == self.storage_version.1
    }

    /// Whether objects of this resource are stored (reviews and bindings are not).
    pub fn is_stored(&self) -> bool {
        self.verbs.contains(&"list") && self.plural != "componentstatuses"
    }
}

/// `v1` for the core group, `group/version` for others.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// All served resources at one time.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// In the order of discovery: core first, groups by priority, preferred version of a group first.
    resources: Vec<Arc<Resource>>,
    by_path: HashMap<String, HashMap<String, Arc<Resource>>>,
}

impl Registry {
    /// The kinds that are built in.
    pub fn builtin() -> Self {
        Self::new(parse(BUILTIN))
    }

    /// A registry of `resources`, in the order of discovery.
    pub fn new(resources: Vec<Arc<Resource>>) -> Self {
        let mut by_path: HashMap<String, HashMap<String, Arc<Resource>>> = HashMap::new();
        for resource in &resources {
            by_path.entry(resource.api_version()).or_default().insert(resource.plural.clone(), Arc::clone(resource));
        }
        Self { resources, by_path }
    }

    /// This registry with other custom resources after the built-in ones.
    pub fn with_custom(&self, custom: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        Self::new(self.resources.iter().filter(|resource| resource.crd.is_none()).cloned().chain(custom).collect())
    }

    /// All resources in the order of discovery.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// The resource with that plural name in `api_version`.
    pub fn by_plural(&self, api_version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(api_version)?.get(plural)
    }

    /// Whether anything is served in `api_version`.
    pub fn has_version(&self, api_version: &str) -> bool {
        self.by_path.contains_key(api_version)
    }

    /// Group names (core left out) with their versions, preferred first.
    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for resource in self.resources.iter().filter(|resource| !resource.group.is_empty()) {
            let index = groups.iter().position(|(name, _)| *name == resource.group).unwrap_or_else(|| {
                groups.push((&resource.group, Vec::new()));
                groups.len() - 1
            });
            if let Some((_, versions)) = groups.get_mut(index)
                && !versions.contains(&resource.version.as_str())
            {
                versions.push(&resource.version);
            }
        }
        groups
    }
}

fn parse(text: &str) -> Vec<Arc<Resource>> {
    let mut resources: Vec<Resource> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(name) = words.first().and_then(|word| word.strip_prefix('/')) {
            if let (Some(resource), [_, version, kind, verbs]) = (resources.last_mut(), words.as_slice()) {
                let (group, version) = split_version(version);
                resource.subresources.push(Subresource {
                    name: name.to_owned(),
                    group,
                    version,
                    kind: (*kind).to_owned(),
                    verbs: parse_verbs(verbs),
                });
            }
        } else if let [version, plural, singular, kind, scope, verbs, short, categories, flags, hash] = words.as_slice()
        {
            let (group, version) = split_version(version);
            // Events are one table that two groups serve; every other kind is stored in its preferred version.
            let storage_version = match *plural {
                "events" => (String::new(), "v1".to_owned()),
                "horizontalpodautoscalers" => (group.clone(), "v2".to_owned()),
                _ => (group.clone(), version.clone()),
            };
            let storage = if storage_version.0.is_empty() {
                (*plural).to_owned()
            } else {
                format!("{plural}.{}", storage_version.0)
            };
            resources.push(Resource {
                group,
                version,
                plural: (*plural).to_owned(),
                singular: (*singular).to_owned(),
                kind: (*kind).to_owned(),
                list_kind: format!("{kind}List"),
                namespaced: *scope == "ns",
                verbs: parse_verbs(verbs),
                short_names: parse_list(short),
                categories: parse_list(categories),
                returns_deleted: flags.contains('r'),
                create_on_update: flags.contains('c'),
                conditional_update: flags.contains('x'),
                counts_generations: flags.contains('g'),
                orphans_by_default: flags.contains('o'),
                storage_version_hash: if *hash == "-" { String::new() } else { (*hash).to_owned() },
                subresources: Vec::new(),
                storage: storage.into(),
                storage_version,
                crd: None,
            });
        }
    }
    resources.into_iter().map(Arc::new).collect()
}

fn split_version(text: &str) -> (String, String) {
    match text.split_once('/') {
        Some(("core", version)) => (String::new(), version.to_owned()),
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text.to_owned()),
    }
}

fn parse_list(text: &str) -> Vec<String> {
    if text == "-" { Vec::new() } else { text.split(',').map(str::to_owned).collect() }
}

fn parse_verbs(text: &str) -> Vec<&'static str> {
    text.chars()
        .filter_map(|letter| {
            Some(match letter {
                'c' => "create",
                'd' => "delete",
                'D' => "deletecollection",
                'g' => "get",
                'l' => "list",
                'p' => "patch",
                'u' => "update",
                'w' => "watch",
                _ => return None,
            })
        })
        .collect()
}

/// The selectable fields of an object, with their values.
pub(crate) fn selectable_fields(resource: &Resource, object: &Value) -> Vec<(Box<str>, Box<str>)> {
    let mut out = Vec::new();
    let mut put = |name: &str, path: &[&str], default: &str| {
        let mut at = Some(object);
        for step in path {
            at = at.and_then(|value| value.get(step));
        }
        let value: Box<str> = match at {
            None | Some(Value::Null) => default.into(),
            Some(Value::String(text)) => text.as_str().into(),
            Some(other) => other.to_string().into(),
        };
        out.push((name.into(), value));
    };
    match &*resource.storage {
        "pods" => {
            put("spec.nodeName", &["spec", "nodeName"], "");
            put("spec.restartPolicy", &["spec", "restartPolicy"], "");
            put("spec.schedulerName", &["spec", "schedulerName"], "");
            put("spec.serviceAccountName", &["spec", "serviceAccountName"], "");
            put("spec.hostNetwork", &["spec", "hostNetwork"], "false");
            put("status.phase", &["status", "phase"], "");
            put("status.podIP", &["status", "podIP"], "");
            put("status.nominatedNodeName", &["status", "nominatedNodeName"], "");
        }
        "events" => {
            for field in ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"] {
                put(&format!("involvedObject.{field}"), &["involvedObject", field], "");
            }
            put("reason", &["reason"], "");
            put("reportingComponent", &["reportingComponent"], "");
            let source = object.pointer("/source/component").and_then(Value::as_str).unwrap_or("");
            if source.is_empty() {
                put("source", &["reportingComponent"], "")
            } else {
                put("source", &["source", "component"], "")
            }
            put("type", &["type"], "");
        }
        "nodes" => put("spec.unschedulable", &["spec", "unschedulable"], "false"),
        "secrets" => put("type", &["type"], ""),
        "namespaces" => put("status.phase", &["status", "phase"], ""),
        "services" => {
            put("spec.clusterIP", &["spec", "clusterIP"], "");
            put("spec.type", &["spec", "type"], "");
        }
        "replicationcontrollers" | "replicasets.apps" => put("status.replicas", &["status", "replicas"], "0"),
        "jobs.batch" => put("status.successful", &["status", "succeeded"], "0"),
        "certificatesigningrequests.certificates.k8s.io" | "clustertrustbundles.certificates.k8s.io" => {
            put("spec.signerName", &["spec", "signerName"], "")
        }
        _ => {
            if let Some(crd) = &resource.crd {
                for path in &crd.selectable_fields {
                    let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
                    put(path.trim_start_matches('.'), &steps, "");
                }
            }
        }
    }
    out
}
