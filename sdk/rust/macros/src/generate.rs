//! Generates Rust code for the kinds of a manifest.
//!
//! A struct is named after the kind and the path to it, as in `PodStatusConditions`, because different paths read
//! different fields of the same API type. Where the same fields are read (of containers and init containers), the first
//! path gives the name. A few types that helpers of the SDK use are the SDK's own ([`SHARED`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::input::{Entry, Reads};
use crate::manifest::{Manifest, Watch};
use crate::path::{self, Tree, join};
use crate::rust::{camel_case, field_name, key_name, scalar, type_name};
use crate::schema::{Field, Schema, Shape, Type, nearest};

/// API types that the SDK provides, used where all of the type is declared.
const SHARED: [(&str, &str); 4] = [
    ("meta.v1.ObjectMeta", "::pintle_sdk::api::meta::ObjectMeta"),
    ("meta.v1.OwnerReference", "::pintle_sdk::api::meta::OwnerReference"),
    ("meta.v1.LabelSelector", "::pintle_sdk::api::meta::LabelSelector"),
    ("core.v1.PodTemplateSpec", "::pintle_sdk::api::core::PodTemplateSpec"),
];
const CONDITION: &str = "::pintle_sdk::api::meta::Condition";
const CONDITION_FIELDS: [&str; 8] = [
    "type",
    "status",
    "observedGeneration",
    "lastProbeTime",
    "lastUpdateTime",
    "lastTransitionTime",
    "reason",
    "message",
];

/// Fields that every object has, whether declared or not.
const IDENTITY: [&str; 6] =
    ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"];

/// An error message, and its entry.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) entry: Option<usize>,
    pub(crate) message: String,
}

/// Generates the types of all watched Kubernetes kinds, and of the entries.
pub(crate) fn generate(schema: &Schema, manifest: Option<&Manifest>, entries: &[Entry]) -> Result<String, Error> {
    let mut code = Code::new(schema);
    for watch in manifest.map_or(&[][..], |manifest| &manifest.watches) {
        let is_unread = |entry: &Entry| entry.kind == watch.kind && matches!(entry.reads, Reads::Nothing);
        // A version that another Kubernetes release serves.
        if entries.iter().any(is_unread) && schema.kind(&watch.kind).is_err() {
            continue;
        }
        let is_replaced = entries.iter().any(|entry| entry.kind == watch.kind && entry.name.is_none());
        let reads: Vec<_> = watch.fields.iter().map(|field| (field.clone(), None)).collect();
        let fail = |message| Error { entry: None, message };
        // All paths are checked, including those that the code does not read.
        let tree = code.tree(&watch.kind, &reads).map_err(fail)?;
        if let Some(tree) = tree.filter(|_| !is_replaced) {
            code.object(&watch.kind, None, &tree, true).map_err(fail)?;
        }
    }
    for (i, entry) in entries.iter().enumerate() {
        code.entry(manifest, entry).map_err(|message| Error { entry: Some(i), message })?;
    }
    Ok(code.text)
}

struct Code<'a> {
    schema: &'a Schema,
    /// The current kind.
    kind: String,
    /// API types that enclose the current one.
    open: Vec<&'static str>,
    /// API type and its fields -> the struct of the current kind.
    written: BTreeMap<(&'static str, Tree), String>,
    /// Names of generated types.
    names: BTreeSet<String>,
    text: String,
}

impl<'a> Code<'a> {
    fn new(schema: &'a Schema) -> Self {
        Self {
            schema,
            kind: String::new(),
            open: Vec::new(),
            written: BTreeMap::new(),
            names: BTreeSet::new(),
            text: String::new(),
        }
    }

    fn entry(&mut self, manifest: Option<&Manifest>, entry: &Entry) -> Result<(), String> {
        let kind = &entry.kind;
        let watch = match manifest {
            None => None,
            Some(manifest) => Some(manifest.watch(kind).ok_or_else(|| format!("the manifest does not watch {kind}"))?),
        };
        let reads = match &entry.reads {
            Reads::Paths(reads) => reads,
            Reads::Nothing => return Ok(()),
            Reads::Shared { name, listed } => {
                if let Some(Watch { fields, .. }) = watch.filter(|watch| !watch.whole || *listed) {
                    let reads = format!("<{name} as ::pintle_sdk::api::Projection>::FIELDS");
                    let _ =
                        writeln!(self.text, "const _: () = ::pintle_sdk::api::assert_declared({reads}, &{fields:?});");
                }
                return Ok(());
            }
        };
        let tree = self.tree(kind, reads)?;
        let tree =
            tree.ok_or_else(|| format!("{kind} is not a kind of Kubernetes; derive Deserialize and use resource!"))?;
        let Some(watch) = watch else { return self.object(kind, entry.name.as_deref(), &tree, true) };
        let mut declared = Tree::empty();
        for path in IDENTITY.into_iter().chain(watch.fields.iter().map(String::as_str)) {
            declared.insert(&path::names(path)?, None);
        }
        let beyond = tree.beyond(&declared, "");
        match beyond.as_ref().filter(|_| !watch.whole) {
            Some(path) => {
                Err(format!("{path} of {kind} is not declared; add it to `fields` of the kind in the manifest"))
            }
            None => self.object(kind, entry.name.as_deref(), &tree, beyond.is_none()),
        }
    }

    /// The paths, if the kind is a Kubernetes kind that has them.
    fn tree(&self, kind: &str, paths: &[(String, Option<String>)]) -> Result<Option<Tree>, String> {
        let Some(object) = self.schema.kind(kind)? else { return Ok(None) };
        let mut tree = Tree::empty();
        for (path, kind_of_field) in paths {
            let names = path::names(path).map_err(|error| format!("{kind}: {error}"))?;
            self.check(object, &names).map_err(|error| format!("{path} of {kind} does not exist: {error}"))?;
            tree.insert(&names, kind_of_field.as_deref());
        }
        Ok(Some(tree))
    }

    fn check(&self, object: &'static str, names: &[&str]) -> Result<(), String> {
        let mut shape = Shape::Struct(object);
        for (i, name) in names.iter().enumerate() {
            while let Shape::List(item) = shape {
                shape = self.schema.type_of(item).shape;
            }
            shape = match shape {
                Shape::Map(value) => self.schema.type_of(value).shape,
                Shape::Struct(owner) => match self.schema.fields(owner).find(|field| field.name == *name) {
                    Some(field) => field.kind.shape,
                    None => {
                        let nearest = nearest(name, self.schema.fields(owner).map(|field| field.name));
                        let owner = owner.rsplit('.').next().unwrap_or(owner);
                        return Err(format!("{owner} has no field {name}; nearest: {nearest}"));
                    }
                },
                Shape::Scalar("any") => return Ok(()),
                Shape::Scalar(scalar) => return Err(format!("{} is a {scalar}, without fields", names[i - 1])),
                Shape::List(_) => return Ok(()),
            };
        }
        Ok(())
    }

    /// Generates the type of a kind. `listed`: lists have all of its fields.
    fn object(&mut self, kind: &str, name: Option<&str>, tree: &Tree, listed: bool) -> Result<(), String> {
        let object = self.schema.kind(kind)?.unwrap_or_default();
        let (group_version, kind_name) = kind.rsplit_once('/').unwrap_or(("", kind));
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let name = name.unwrap_or(kind_name);
        kind.clone_into(&mut self.kind);
        self.written.clear();
        let mut reads = Vec::new();
        tree.paths("", &mut reads);
        let mut tree = tree.clone();
        for path in IDENTITY.iter().filter(|path| path.starts_with("metadata.")) {
            tree.insert(&path::names(path)?, None);
        }
        self.structure(name, object, &tree, "")?;
        let Tree::Fields(fields) = tree else { return Ok(()) };
        let metadata = match &fields["metadata"] {
            Tree::All(None) => SHARED[0].1.to_owned(),
            Tree::All(Some(own)) => own.clone(),
            Tree::Fields(fields) => {
                let metadata = format!("{name}Metadata");
                self.metadata(&metadata, fields);
                metadata
            }
        };
        let listed = if listed { format!("impl ::pintle_sdk::api::Listed for {name} {{}}\n") } else { String::new() };
        let _ = write!(
            self.text,
            "impl ::pintle_sdk::api::meta::Resource for {name} {{
    const KIND: ::pintle_sdk::Kind = ::pintle_sdk::Kind::new({group:?}, {version:?}, {kind_name:?});
    type Metadata = {metadata};
    fn metadata(&self) -> &{metadata} {{
        &self.metadata
    }}
}}
{listed}impl ::pintle_sdk::api::Projection for {name} {{
    const FIELDS: &'static [&'static str] = &{reads:?};
}}
"
        );
        if kind == "v1/Pod" {
            self.pod_states(name, &fields);
        }
        Ok(())
    }

    /// Generates a struct with these fields.
    fn structure(&mut self, name: &str, owner: &'static str, tree: &Tree, path: &str) -> Result<(), String> {
        let fields: BTreeMap<&str, Field> = self.schema.fields(owner).map(|field| (field.name, field)).collect();
        let mut members = Vec::new();
        match tree {
            Tree::All(_) => {
                let all = Tree::All(None);
                for field in fields.values() {
                    members.push(self.member(name, *field, &all, path, true)?);
                }
            }
            Tree::Fields(trees) => {
                for (field, tree) in trees {
                    members.push(self.member(name, fields[field.as_str()], tree, path, false)?);
                }
            }
        }
        self.write(name, path, &members, matches!(tree, Tree::All(_)))
    }

    /// Generates a struct for some keys of a map.
    fn keys(&mut self, name: &str, value: Type, keys: &BTreeMap<String, Tree>, path: &str) -> Result<(), String> {
        let mut members = Vec::new();
        for (key, tree) in keys {
            let field = key_name(key);
            let path = join(path, key);
            let kind = self.type_of(&format!("{name}{}", type_name(&field)), value, tree, &path)?;
            members.push(Member::new(field, key, format!("::core::option::Option<{kind}>"), path));
        }
        self.write(name, path, &members, false)
    }

    fn write(&mut self, name: &str, path: &str, members: &[Member], complete: bool) -> Result<(), String> {
        if !self.names.insert(name.to_owned()) {
            return Err(format!("two types are named {name}; write {:?} as AnotherName: [...]", self.kind));
        }
        let kind = &self.kind;
        let of = if path.is_empty() { "The declared fields".to_owned() } else { format!("`{path}`") };
        let serialize = if complete { ", ::pintle_sdk::serde::Serialize" } else { "" };
        let _ = write!(
            self.text,
            "/// {of} of {kind}.
#[derive(Clone, Debug, Default, PartialEq, ::pintle_sdk::serde::Deserialize{serialize})]
#[serde(crate = \"::pintle_sdk::serde\", default, rename_all = \"camelCase\")]
#[allow(dead_code, reason = \"the host's rules need fields that the code does not read\")]
pub struct {name} {{
"
        );
        for Member { field, kind, path, attributes } in members {
            let _ = writeln!(self.text, "    /// `{path}`.");
            if !attributes.is_empty() {
                let _ = writeln!(self.text, "    #[serde({})]", attributes.join(", "));
            }
            let _ = writeln!(self.text, "    pub {field}: {kind},");
        }
        self.text.push_str("}\n");
        Ok(())
    }

    fn member(&mut self, name: &str, field: Field, tree: &Tree, path: &str, complete: bool) -> Result<Member, String> {
        let rust = field_name(field.name);
        let path = join(path, field.name);
        let inner = self.type_of(&format!("{name}{}", type_name(&rust)), field.kind, tree, &path)?;
        let is_own = matches!(tree, Tree::All(Some(_)));
        let is_time = matches!(field.kind.shape, Shape::Scalar("time"));
        let is_many = matches!(field.kind.shape, Shape::List(_) | Shape::Map(_));
        let is_option = !is_own && !is_many && (field.kind.optional || is_time);
        let kind = if is_option { format!("::core::option::Option<{inner}>") } else { inner };
        let mut member = Member::new(rust, field.name, kind, path);
        if is_many && field.always_written && !is_own {
            // Go writes an empty list or map as null, unless it is omitted.
            member.attributes.push("deserialize_with = \"::pintle_sdk::api::or_default\"".to_owned());
        }
        let is_plain_struct = matches!(field.kind.shape, Shape::Struct(_)) && !is_option;
        if complete && !field.always_written && !is_plain_struct {
            member.attributes.push("skip_serializing_if = \"::pintle_sdk::api::is_default\"".to_owned());
        }
        Ok(member)
    }

    /// The type at a path. A struct is generated and named `name`.
    fn type_of(&mut self, name: &str, kind: Type, tree: &Tree, path: &str) -> Result<String, String> {
        if let Tree::All(Some(own)) = tree {
            return Ok(own.clone());
        }
        Ok(match (kind.shape, tree) {
            (Shape::Scalar(kind), _) => scalar(kind).to_owned(),
            (Shape::List(item), _) => {
                format!("::std::vec::Vec<{}>", self.type_of(name, self.schema.type_of(item), tree, path)?)
            }
            (Shape::Map(value), Tree::All(_)) => {
                let value = self.type_of(name, self.schema.type_of(value), tree, path)?;
                format!("::std::collections::BTreeMap<::std::string::String, {value}>")
            }
            (Shape::Map(value), Tree::Fields(keys)) => {
                self.keys(name, self.schema.type_of(value), keys, path)?;
                name.to_owned()
            }
            (Shape::Struct(owner), Tree::All(_)) if self.shared(owner).is_some() => {
                self.shared(owner).unwrap_or_default().to_owned()
            }
            // A recursive type would be infinite.
            (Shape::Struct(owner), Tree::All(_)) if self.open.contains(&owner) => scalar("any").to_owned(),
            (Shape::Struct(owner), _) => {
                if let Some(same) = self.written.get(&(owner, tree.clone())) {
                    return Ok(same.clone());
                }
                self.open.push(owner);
                self.structure(name, owner, tree, path)?;
                self.open.pop();
                self.written.insert((owner, tree.clone()), name.to_owned());
                name.to_owned()
            }
        })
    }

    fn shared(&self, owner: &str) -> Option<&'static str> {
        let is_condition = || {
            owner.ends_with("Condition")
                && self.schema.fields(owner).all(|field| CONDITION_FIELDS.contains(&field.name))
        };
        let shared = SHARED.iter().find(|(name, _)| *name == owner).map(|(_, shared)| *shared);
        shared.or_else(|| is_condition().then_some(CONDITION))
    }

    /// Implements the metadata traits of the SDK's helpers, as far as the fields are declared.
    fn metadata(&mut self, name: &str, fields: &BTreeMap<String, Tree>) {
        let mut methods = String::new();
        let mut traits = String::new();
        let mut has = |of: &str, method: &str| {
            let _ = write!(traits, "impl ::pintle_sdk::api::meta::{of} for {name} {{\n    {method}\n}}\n");
        };
        if matches!(fields.get("labels"), Some(Tree::All(None))) {
            let map = "::std::collections::BTreeMap<::std::string::String, ::std::string::String>";
            has("HasLabels", &format!("fn labels(&self) -> &{map} {{ &self.labels }}"));
        }
        if fields.contains_key("finalizers") {
            has("HasFinalizers", "fn finalizers(&self) -> &[::std::string::String] { &self.finalizers }");
        }
        if fields.contains_key("deletionTimestamp") {
            methods.push_str(
                "    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
",
            );
            let time = "::core::option::Option<::pintle_sdk::time::Timestamp>";
            has(
                "HasDeletionTimestamp",
                &format!("fn deletion_timestamp(&self) -> {time} {{ self.deletion_timestamp }}"),
            );
        }
        let reference = match fields.get("ownerReferences") {
            Some(Tree::All(None)) => Some((SHARED[1].1.to_owned(), true)),
            Some(Tree::Fields(parts)) if parts.contains_key("controller") => {
                Some((format!("{name}OwnerReferences"), parts.contains_key("uid")))
            }
            _ => None,
        };
        if let Some((reference, has_uid)) = reference {
            let _ = write!(
                methods,
                "    /// The controller reference.
    pub fn controller(&self) -> ::core::option::Option<&{reference}> {{
        self.owner_references.iter().find(|reference| reference.controller == ::core::option::Option::Some(true))
    }}
"
            );
            if has_uid {
                methods.push_str(
                    "    /// Whether its controller has this uid.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|reference| reference.uid == uid)
    }
",
                );
                let uid = "self.controller().map(|reference| reference.uid.as_str())";
                has("HasController", &format!("fn controller_uid(&self) -> ::core::option::Option<&str> {{ {uid} }}"));
            }
        }
        let _ = write!(
            self.text,
            "#[allow(dead_code, reason = \"not every plugin needs every method\")]
impl {name} {{
    /// Namespace and name.
    pub fn key(&self) -> ::pintle_sdk::ObjectKey {{
        ::pintle_sdk::ObjectKey::new(&self.namespace, &self.name)
    }}
{methods}}}
impl ::pintle_sdk::api::meta::Metadata for {name} {{
    fn name(&self) -> &str {{ &self.name }}
    fn namespace(&self) -> &str {{ &self.namespace }}
    fn uid(&self) -> &str {{ &self.uid }}
    fn resource_version(&self) -> &str {{ &self.resource_version }}
}}
{traits}"
        );
    }

    /// Implements the Pod traits of the SDK's helpers, as far as the fields are declared.
    fn pod_states(&mut self, name: &str, fields: &BTreeMap<String, Tree>) {
        let has = |path: &[&str]| {
            let mut trees = fields;
            for name in path {
                match trees.get(*name) {
                    Some(Tree::Fields(inner)) => trees = inner,
                    Some(Tree::All(own)) => return own.is_none(),
                    None => return false,
                }
            }
            true
        };
        let mut write = |of: &str, method: &str| {
            let _ = write!(self.text, "impl ::pintle_sdk::pods::{of} for {name} {{\n    {method}\n}}\n");
        };
        if has(&["status", "phase"]) {
            write("HasPhase", "fn phase(&self) -> &str { &self.status.phase }");
        }
        if has(&["metadata", "deletionTimestamp"]) {
            write("MayBeDeleting", "fn is_deleting(&self) -> bool { self.metadata.is_deleting() }");
        }
        let part = |part: &str| has(&["status", "conditions", part]);
        if part("type") && part("status") && part("lastTransitionTime") {
            let ready = "condition.type_ == \"Ready\" && condition.status == \"True\"";
            let find = format!("self.status.conditions.iter().find(|condition| {ready})");
            let time = "::core::option::Option<::pintle_sdk::time::Timestamp>";
            let since = format!("::core::option::Option<{time}>");
            let method = format!(
                "fn ready(&self) -> {since} {{\n        {find}.map(|condition| condition.last_transition_time)\n    }}"
            );
            write("HasReadiness", &method);
            if ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
                .iter()
                .all(|time| has(&["metadata", time]))
            {
                write("HasEndTimes", END_TIMES);
            }
        }
        if part("type") && part("status") {
            write("HasConditions", HAS_CONDITION);
        }
        let ends = |statuses: &str| {
            ["exitCode", "finishedAt"].iter().all(|part| has(&["status", statuses, "state", "terminated", part]))
                && has(&["status", statuses, "name"])
        };
        let init = |part: &str| has(&["spec", "initContainers", part]);
        if ends("containerStatuses") && ends("initContainerStatuses") && init("name") && init("restartPolicy") {
            write("HasContainers", CONTAINERS);
        }
    }
}

const HAS_CONDITION: &str = r#"fn condition(&self, kind: &str) -> ::core::option::Option<&str> {
        let found = self.status.conditions.iter().find(|condition| condition.type_ == kind)?;
        ::core::option::Option::Some(found.status.as_str())
    }"#;

const END_TIMES: &str = r#"fn not_ready_since(&self) -> ::core::option::Option<::pintle_sdk::time::Timestamp> {
        let ready = self.status.conditions.iter().find(|condition| condition.type_ == "Ready")?;
        if ready.status == "False" { ready.last_transition_time } else { ::core::option::Option::None }
    }
    fn deletion(&self) -> ::core::option::Option<(::pintle_sdk::time::Timestamp, ::core::time::Duration)> {
        let grace = self.metadata.deletion_grace_period_seconds.unwrap_or_default();
        let grace = ::core::convert::TryInto::try_into(grace).unwrap_or_default();
        ::core::option::Option::Some((self.metadata.deletion_timestamp?, ::core::time::Duration::from_secs(grace)))
    }
    fn created(&self) -> ::core::option::Option<::pintle_sdk::time::Timestamp> { self.metadata.creation_timestamp }"#;

const CONTAINERS: &str = r#"fn containers(&self) -> ::std::vec::Vec<::pintle_sdk::pods::Container<'_>> {
        use ::pintle_sdk::pods::{Container, Exit, Role};
        let mut all = ::std::vec::Vec::new();
        for status in &self.status.container_statuses {
            let exit = status.state.terminated.as_ref().map(|end| Exit { code: end.exit_code, at: end.finished_at });
            all.push(Container { name: &status.name, role: Role::Main, exit });
        }
        for status in &self.status.init_container_statuses {
            let exit = status.state.terminated.as_ref().map(|end| Exit { code: end.exit_code, at: end.finished_at });
            let spec = self.spec.init_containers.iter().find(|spec| spec.name == status.name);
            let is_sidecar = spec.is_some_and(|spec| spec.restart_policy.as_deref() == ::core::option::Option::Some("Always"));
            all.push(Container { name: &status.name, role: if is_sidecar { Role::Sidecar } else { Role::Init }, exit });
        }
        all
    }"#;

struct Member {
    field: String,
    kind: String,
    path: String,
    attributes: Vec<String>,
}

impl Member {
    fn new(field: String, name: &str, kind: String, path: String) -> Self {
        let attributes = if camel_case(&field) == name { Vec::new() } else { vec![format!("rename = {name:?}")] };
        Self { field, kind, path, attributes }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    fn check(file: &str, text: &str) {
        expect_file![format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"))].assert_eq(text);
    }

    fn run(manifest: &str, entries: &str) -> Result<String, String> {
        let manifest = (!manifest.is_empty()).then(|| Manifest::parse(manifest).unwrap());
        let input: crate::input::Input = syn::parse_str(entries).unwrap();
        let code =
            generate(&Schema::of_kubernetes(), manifest.as_ref(), &input.entries).map_err(|error| error.message)?;
        code.parse::<proc_macro2::TokenStream>().map_err(|error| error.to_string())?;
        Ok(code)
    }

    fn watch(kind: &str, rest: &str) -> String {
        format!("watches: [{{kind: {kind}, {rest}}}]")
    }

    #[test]
    fn a_type_has_the_fields_of_the_manifest() {
        let manifest = "
watches:
  - kind: v1/Pod
    fields:
      - metadata.labels
      - metadata.annotations['example.com/keep-me']
      - metadata.ownerReferences.uid
      - metadata.ownerReferences.controller
      - metadata.deletionTimestamp
      - spec.initContainers.restartPolicy
      - status.phase
      - status.conditions.type
      - status.conditions.status
      - status.conditions.lastTransitionTime
  - {kind: example.com/v1/Widget, fields: [spec.anything]}
  - {every: {verbs: [delete]}, fields: [metadata.finalizers]}
";
        check("pod.txt", &run(manifest, "").unwrap());
    }

    #[test]
    fn a_field_that_is_declared_as_a_whole_can_be_written() {
        let manifest = "
watches:
  - {kind: apps/v1/Deployment, fields: [spec.selector, spec.strategy, spec.template, status.conditions]}
  - {kind: rbac.authorization.k8s.io/v1/Role, fields: [metadata.ownerReferences, rules]}
";
        check("whole.txt", &run(manifest, "").unwrap());
    }

    #[test]
    fn an_entry_says_what_is_read() {
        let manifest = "
watches:
  - {kind: apps/v1/ReplicaSet, whole: true, fields: [spec.selector]}
  - {kind: v1/Pod, fields: [status.phase, metadata.labels]}
  - {kind: v1/Secret, fields: [data]}
  - {kind: apps/v1beta0/ReplicaSet, fields: [spec.replicas]}
";
        let entries = r#"
            "apps/v1/ReplicaSet": ["spec.replicas", "status": engine::Status<u8>],
            "apps/v1/ReplicaSet" as Sibling: ["spec.selector.matchLabels"],
            "apps/v1/ReplicaSet" = engine::ReplicaSet,
            "apps/v1/ReplicaSet" = [engine::Listed],
            "v1/Pod" = engine::Pod,
            "v1/Secret" = _,
            "apps/v1beta0/ReplicaSet" = _,
        "#;
        check("entries.txt", &run(manifest, entries).unwrap());
    }

    #[test]
    fn a_type_within_itself_ends() {
        let crd = "apiextensions.k8s.io/v1/CustomResourceDefinition";
        let code = run(&watch(crd, "fields: [spec.versions.schema]"), "").unwrap();
        assert!(code.contains("pub not: ::core::option::Option<::pintle_sdk::api::meta::Raw>"), "{code}");
    }

    #[test]
    fn every_kind_of_kubernetes_has_a_type() {
        let kinds: Vec<&str> =
            include_str!("kubernetes.txt").lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
        assert!(kinds.len() > 80, "{}", kinds.len());
        for kind in kinds {
            let object = Schema::of_kubernetes().kind(kind).unwrap().unwrap();
            let is_own = |name: &&str| !["apiVersion", "kind", "metadata"].contains(name);
            let fields: Vec<_> =
                Schema::of_kubernetes().fields(object).map(|field| field.name).filter(is_own).collect();
            run(&watch(kind, &format!("fields: {fields:?}")), "").unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
    }

    #[test]
    fn what_does_not_exist_is_an_error_with_the_nearest_names() {
        let errors = [
            (watch("v1/Pod", "fields: [spec.nodName]"), ""),
            (watch("v1/Pod", "fields: [status.conditions.reson]"), ""),
            (watch("v1/Pod", "fields: [status.phase.x]"), ""),
            (watch("v1/Pod", "fields: [metadata..labels]"), ""),
            (watch("apps/v1/Deploymnet", ""), ""),
            (watch("v1/Pod", "fields: [status.phase]"), r#""v1/Pod": ["status.reason"]"#),
            (watch("v1/Pod", "fields: [status.phase]"), r#""v1/Pod": ["status"]"#),
            (watch("v1/Pod", "whole: true"), r#""v1/Pod": ["status.reasons"]"#),
            (watch("v1/Pod", ""), r#""v1/Node": []"#),
            (watch("v1/Pod", ""), r#""v1/Pod" as A: [], "v1/Pod" as A: []"#),
            (String::new(), r#""example.com/v1/Widget": []"#),
        ];
        let errors: Vec<_> = errors.iter().map(|(manifest, entries)| run(manifest, entries).unwrap_err()).collect();
        check("errors.txt", &(errors.join("\n") + "\n"));
    }
}
