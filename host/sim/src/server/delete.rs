//! Delete of one object and of a collection.
//!
//! *Flow*: options ─> preconditions ─> grace (Pods) and propagation finalizers ─> either a last update that marks the object, or the removal, or both.
//!
//! *Invariants*: 1. an object with finalizers is marked, never removed; 2. a Pod on a node is removed only when its
//! grace is 0;
//! 3. a second delete changes no finalizers.
//!
//! *Source*: `Store.Delete` and `rest.BeforeDelete` upstream; the Namespace's own delete.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{
    deletion_grace, finalizers, generation, is_deleting, mark_as_deleting, meta, metadata_mut, set_finalizers,
};
use super::reply::{Reply, parse_body};
use super::selector::Selector;
use super::status::{ApiError, GroupResource, success};
use super::{Api, Call, options};
use crate::cause::Cause;
use crate::clock::rfc3339;
use crate::discovery::Resource;
use crate::schema;
use crate::store::{CommitError, Entry, ListRange, WriteVerb};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Most recomputations of a delete after concurrent writes.
const ATTEMPTS: usize = 100;

/// `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation: Option<String>,
    pub(crate) dry_run: bool,
}

/// Result of a delete.
pub(crate) enum Deleted {
    /// The object is removed; its last state.
    Gone(Entry),
    /// The object waits for a kubelet, a finalizer or the deletion of a namespace's content.
    Pending(Entry),
    /// Dry run: the last state that it would have.
    DryRun(Value),
}

impl DeleteOptions {
    pub(crate) fn parse(call: &Call) -> Result<Self, ApiError> {
        let mut options = Self { dry_run: call.query.dry_run(), ..Self::default() };
        let mut dry_run = options::dry_run(call.query.all("dryRun"));
        if call.body.is_empty() {
            let query = &call.query;
            options.grace = query.get("gracePeriodSeconds").and_then(|text| text.parse().ok());
            options.propagation = query.get("propagationPolicy").map(str::to_owned);
            options.orphan_dependents = query.get("orphanDependents").map(|_| query.flag("orphanDependents"));
        } else {
            let body = parse_body(&call.headers, &call.body)?;
            if let Some(schema) = schema::named("meta.v1.DeleteOptions")
                && let Some(error) = schema::type_error(&schema, &body)
            {
                return Err(ApiError::bad_request(error));
            }
            let text = |field: &str| body[field].as_str().unwrap_or("");
            if !matches!(text("kind"), "" | "DeleteOptions") {
                return Err(ApiError::bad_request(format!("expected DeleteOptions, found {}", text("kind"))));
            }
            options.read(&body);
            let given = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
            dry_run = dry_run.or_else(|| options::dry_run(given));
        }
        options.check(dry_run)?;
        Ok(options)
    }

    /// Reads a `DeleteOptions` object.
    pub(crate) fn read(&mut self, body: &Value) {
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        self.grace = body["gracePeriodSeconds"].as_i64().or(self.grace);
        self.uid = text("/preconditions/uid");
        self.resource_version = text("/preconditions/resourceVersion");
        self.orphan_dependents = body["orphanDependents"].as_bool();
        self.propagation = text("/propagationPolicy");
        self.dry_run |= body["dryRun"].as_array().is_some_and(|list| list.iter().any(|item| item == "All"));
    }

    fn check(&self, dry_run: Option<Cause>) -> Result<(), ApiError> {
        let mut causes = Vec::new();
        if let Some(policy) = &self.propagation {
            let (field, given) = ("propagationPolicy", json!(policy));
            if self.orphan_dependents.is_some() {
                causes.push(Cause::invalid(
                    field,
                    &given,
                    "orphanDependents and deletionPropagation cannot be both set",
                ));
            }
            if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
                causes.push(Cause::unsupported(field, &given, &["Foreground", "Background", "Orphan", "nil"]));
            }
        }
        causes.extend(dry_run);
        options::refuse("DeleteOptions", causes)
    }

    /// The finalizers of an object after this delete, and whether they differ.
    fn propagation_finalizers(&self, resource: &Resource, present: &[String]) -> Vec<String> {
        let has = |name: &str| present.iter().any(|finalizer| finalizer == name);
        // Events have no dependents.
        let supported = &*resource.storage != "events";
        let (orphan, foreground) = match (self.orphan_dependents, self.propagation.as_deref()) {
            _ if !supported => (false, false),
            (Some(orphan), _) => (orphan, false),
            (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
            (None, None) if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND) && !has(ORPHAN)),
            (None, None) => (resource.orphans_by_default, false),
        };
        let mut wanted: Vec<String> =
            present.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned().collect();
        wanted.extend(orphan.then(|| ORPHAN.to_owned()));
        wanted.extend(foreground.then(|| FOREGROUND.to_owned()));
        let same = wanted.len() == present.len() && wanted.iter().all(|finalizer| present.contains(finalizer));
        if same { present.to_vec() } else { wanted }
    }

    fn check_preconditions(&self, resource: &Resource, object: &Value) -> Result<(), ApiError> {
        for (what, field, wanted, happened) in [
            ("UID", "uid", &self.uid, "deleted and then recreated"),
            ("ResourceVersion", "resourceVersion", &self.resource_version, "modified"),
        ] {
            if let Some(wanted) = wanted
                && wanted != meta(object, field)
            {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({}). The object might have been {happened}",
                    meta(object, field)
                );
                // Upstream has the kind here, where other messages have the resource.
                let about = match &*resource.storage {
                    "namespaces" => resource.group_resource(),
                    _ => GroupResource { group: resource.group.clone(), resource: resource.kind.clone() },
                };
                return Err(ApiError::conflict(&about, meta(object, "name"), &why));
            }
        }
        Ok(())
    }
}

/// The first effect of a delete on an object.
enum Step {
    /// None: a deletion is in progress and this one does not shorten it.
    Wait,
    /// Stores this state; then removes the object if the flag is set.
    Mark(Value, bool),
    /// Removes the object as it is.
    Remove,
}

fn first_step(resource: &Resource, object: &Value, options: &DeleteOptions, now: Timestamp) -> Step {
    let mut marked = object.clone();
    let mut graceful = None;
    if &*resource.storage == "pods" {
        match pod_grace(object, options, now) {
            PodGrace::Pending => return Step::Wait,
            PodGrace::Now => {}
            PodGrace::Until { seconds, end } => {
                if !is_deleting(object) && generation(object) > 0 {
                    let next = generation(object) + 1;
                    metadata_mut(&mut marked).insert("generation".into(), json!(next));
                }
                let metadata = metadata_mut(&mut marked);
                metadata.insert("deletionTimestamp".into(), json!(rfc3339(end)));
                metadata.insert("deletionGracePeriodSeconds".into(), json!(seconds));
                graceful = Some(seconds);
            }
        }
    }
    let present = finalizers(object);
    let mut wanted = options.propagation_finalizers(resource, &present);
    super::crds::hold(resource, object, &mut wanted);
    if wanted != present {
        set_finalizers(&mut marked, &wanted);
    }
    match (graceful, wanted.is_empty()) {
        (Some(seconds), _) => Step::Mark(marked, seconds == 0 && wanted.is_empty()),
        (None, false) => {
            mark_as_deleting(&mut marked, now);
            if marked == *object { Step::Wait } else { Step::Mark(marked, false) }
        }
        (None, true) => Step::Remove,
    }
}

enum PodGrace {
    /// Already being deleted, and not shortened.
    Pending,
    /// Its grace is over.
    Now,
    /// Removed at `end`, or immediately when `seconds` is 0.
    Until { seconds: i64, end: Timestamp },
}

fn pod_grace(pod: &Value, options: &DeleteOptions, now: Timestamp) -> PodGrace {
    let asked = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let after = |from: Timestamp, seconds: i64| {
        from.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
    };
    if is_deleting(pod) {
        let Some(before) = deletion_grace(pod).filter(|grace| *grace != 0) else { return PodGrace::Now };
        return match asked {
            Some(mut seconds) if seconds < before => {
                let stamp: Timestamp = meta(pod, "deletionTimestamp").parse().unwrap_or(now);
                let mut end = after(stamp, seconds - before);
                if end < now {
                    end = now;
                    if seconds != 0 {
                        seconds = 1;
                    }
                }
                PodGrace::Until { seconds, end }
            }
            _ => PodGrace::Pending,
        };
    }
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("");
    let on_node = pod.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty());
    let seconds = if !on_node || matches!(phase, "Failed" | "Succeeded") {
        0
    } else {
        asked.or_else(|| pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64)).unwrap_or(0)
    };
    let seconds = if seconds < 0 { 1 } else { seconds };
    PodGrace::Until { seconds, end: after(now, seconds) }
}

impl Api {
    pub(crate) fn delete(&self, call: &Call) -> Result<Reply, ApiError> {
        let options = DeleteOptions::parse(call)?;
        let deleted = self.delete_object(call, &call.key(), &options, WriteVerb::Delete)?;
        let resource = &call.resource;
        let accepted = options.orphan_dependents == Some(false);
        Ok(match deleted {
            Deleted::Gone(entry) if !resource.returns_deleted => {
                let status = success(&resource.group_resource(), &entry.version.name, &entry.version.uid);
                Reply::json(200, call.accept.format, &status)
            }
            Deleted::Gone(entry) => self.reply_object(call, 200, &entry.version),
            Deleted::Pending(entry) => self.reply_object(call, if accepted { 202 } else { 200 }, &entry.version),
            Deleted::DryRun(value) if !resource.returns_deleted && finalizers(&value).is_empty() => {
                let status = success(&resource.group_resource(), meta(&value, "name"), meta(&value, "uid"));
                Reply::json(200, call.accept.format, &status)
            }
            Deleted::DryRun(value) => self.reply_value(call, 200, &value),
        })
    }

    pub(crate) fn delete_collection(&self, call: &Call) -> Result<Reply, ApiError> {
        let query = &call.query;
        let selector = Selector::parse(&call.resource, query.get("labelSelector"), query.get("fieldSelector"))?;
        let options = DeleteOptions::parse(call)?;
        let range = ListRange { namespace: call.namespace(), at: None, after: None, limit: None };
        let listed = self.store.list(&call.resource.storage, &range, |version| selector.matches(version))?;
        // As upstream, the response shows the objects before the delete.
        let mut gone = Vec::new();
        for item in &listed.items {
            match self.delete_object(call, &item.key, &options, WriteVerb::DeleteCollection) {
                Ok(_) => gone.push(std::sync::Arc::clone(item)),
                // Another client has deleted it.
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let meta = super::shape::ListMeta { rv: listed.rv, next: None, remaining: None };
        self.reply_list(call, &meta, &gone)
    }

    /// Deletes one object as far as possible.
    pub(crate) fn delete_object(
        &self,
        call: &Call,
        key: &str,
        options: &DeleteOptions,
        verb: WriteVerb,
    ) -> Result<Deleted, ApiError> {
        let resource = &call.resource;
        let name = key.rsplit('/').next().unwrap_or(key);
        let missing = || ApiError::not_found(&resource.group_resource(), name);
        if &*resource.storage == "namespaces" && matches!(name, "default" | "kube-system" | "kube-public") {
            return Err(ApiError::forbidden(&resource.group_resource(), name, "this namespace may not be deleted"));
        }
        // After this delete has marked the object, the client's precondition on the version is met.
        let mut marked_rv = None;
        for _ in 0..ATTEMPTS {
            let entry = self.store.get(&resource.storage, key).ok_or_else(missing)?;
            if marked_rv != Some(entry.version.rv) {
                options.check_preconditions(resource, &entry.value)?;
            }
            let now = self.clock.now();
            let step = match &*resource.storage {
                "namespaces" => namespace_step(resource, &entry.value, options, now),
                _ => first_step(resource, &entry.value, options, now),
            };
            let step = match step {
                // The zero grace is stored now, so there is nothing left to wait for.
                Step::Mark(..) if marked_rv == Some(entry.version.rv) => Step::Remove,
                step => step,
            };
            if options.dry_run {
                return Ok(Deleted::DryRun(match step {
                    Step::Wait | Step::Remove => (*entry.value).clone(),
                    Step::Mark(value, _) => value,
                }));
            }
            let ctx = self.context(call, verb);
            let (committed, gone) = match step {
                Step::Wait => return Ok(Deleted::Pending(entry)),
                Step::Remove => (self.store.remove(&ctx, key, entry.version.rv, (*entry.value).clone()), true),
                Step::Mark(value, then_remove) => {
                    let committed = self.store.replace(&ctx, key, entry.version.rv, value);
                    if then_remove && let Ok(entry) = &committed {
                        marked_rv = Some(entry.version.rv);
                        continue;
                    }
                    (committed, false)
                }
            };
            match committed {
                Ok(entry) if gone => {
                    self.after_removal(resource, &entry.value);
                    return Ok(Deleted::Gone(entry));
                }
                Ok(entry) => {
                    self.after_commit(resource, &entry.value);
                    return Ok(Deleted::Pending(entry));
                }
                Err(CommitError::Changed) => {}
                Err(CommitError::Missing) => return Err(missing()),
                Err(CommitError::Api(error)) => return Err(error),
                Err(CommitError::Exists) => return Err(ApiError::internal("a delete found its name taken")),
            }
        }
        Err(ApiError::modified(&resource.group_resource(), name))
    }
}

/// A Namespace is marked first, and removed after its finalizers.
fn namespace_step(resource: &Resource, namespace: &Value, options: &DeleteOptions, now: Timestamp) -> Step {
    let waits = namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if is_deleting(namespace) {
        return if waits { Step::Wait } else { first_step(resource, namespace, options, now) };
    }
    let mut marked = namespace.clone();
    metadata_mut(&mut marked).insert("deletionTimestamp".into(), json!(rfc3339(now)));
    marked["status"]["phase"] = json!("Terminating");
    let present = finalizers(namespace);
    let wanted = options.propagation_finalizers(resource, &present);
    if wanted != present {
        set_finalizers(&mut marked, &wanted);
    }
    Step::Mark(marked, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Registry;

    fn resource(api_version: &str, plural: &str) -> std::sync::Arc<Resource> {
        Registry::builtin().by_plural(api_version, plural).cloned().unwrap()
    }

    fn step(plural: &str, object: Value, options: &DeleteOptions) -> (String, Option<Value>) {
        let version = if plural == "pods" || plural == "replicationcontrollers" { "v1" } else { "apps/v1" };
        match first_step(&resource(version, plural), &object, options, Timestamp::UNIX_EPOCH) {
            Step::Wait => ("wait".into(), None),
            Step::Mark(value, then) => (if then { "mark, remove" } else { "mark" }.into(), Some(value)),
            Step::Remove => ("remove".into(), None),
        }
    }

    #[test]
    fn a_pod_on_a_node_waits_for_its_kubelet_and_one_without_goes_at_once() {
        let pod = |node: &str| json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}});
        let (what, marked) = step("pods", pod("n"), &DeleteOptions::default());
        assert_eq!(what, "mark");
        let marked = marked.unwrap();
        assert_eq!(marked["metadata"]["deletionTimestamp"], "1970-01-01T00:00:30Z");
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
        assert_eq!(step("pods", marked.clone(), &DeleteOptions::default()).0, "wait");
        let kubelet = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
        assert_eq!(step("pods", marked, &kubelet).0, "mark, remove");
        assert_eq!(step("pods", pod(""), &DeleteOptions::default()).0, "mark, remove");
    }
}
