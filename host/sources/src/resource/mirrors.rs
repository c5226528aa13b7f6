//! Mirrors: `ControllerPlugin`s that the host itself creates for its built-in controllers, so that the cluster lists them, too.
//!
//! ```text
//! resources of the class, built-in controllers ──> Mirrors ──create, delete──> MirrorWriter
//! ```
//!
//! Invariants:
//! 1. A resource is a mirror only while it has the annotation and its spec says nothing else than that the host runs its built-in
//!    controller. With any other spec it is a declaration.
//! 2. A mirror claims nothing, and nothing is applied from it.
//! 3. A resource that is not a mirror of the host's class is never deleted, and a mirror only in the version that was seen.
//! 4. Hosts of one class with different controllers do not fight: a host deletes the mirror of a controller once, until it runs the controller again.
//!
//! Not here: the requests ([`super::mirror_writer`]), the status of mirrors ([`super::status`]).
//!
//! *Source*: the mirror Pods of the kubelet, which show static Pods in the cluster. Unlike them, a mirror that is edited takes effect.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::control::BuiltIn;

/// The annotation of a mirror.
pub(crate) const ANNOTATION: &str = "pintle.dev/mirror";
/// What kubectl compares with what it applies: without it, `kubectl apply` of another source would add to the source of the mirror.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Least time between two requests about one mirror. It doubles with each request.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest one: a missing permission costs one request in this time for each built-in controller.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// After so long without a request, pauses begin with the first one again.
const CALM: Duration = Duration::from_secs(600);
/// How long the cache may take to show a mirror that was created, before it counts as deleted.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// Whether a resource is a mirror, of a host of the class that its spec names.
pub(crate) fn is_mirror(name: &str, annotations: &BTreeMap<String, String>, spec: &Value) -> bool {
    if !annotations.contains_key(ANNOTATION) {
        return false;
    }
    let mut spec = spec.clone();
    let class = spec.as_object_mut().and_then(|spec| spec.remove("class"));
    class.is_none_or(|class| class.is_string()) && spec == json!({"source": {"builtin": name}})
}

/// The mirror of a built-in controller.
pub(super) fn object(name: &str, class: &str) -> Value {
    let mut object = json!({
        "apiVersion": "pintle.dev/v1alpha1",
        "kind": "ControllerPlugin",
        "metadata": {"name": name, "annotations": {ANNOTATION: "built-in"}},
        "spec": {"source": {"builtin": name}, "class": class},
    });
    let applied = object.to_string();
    object["metadata"]["annotations"][LAST_APPLIED] = applied.into();
    object
}

/// What there is of a resource of one name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen<'a> {
    /// No resource.
    Nothing,
    /// A mirror of the host's class.
    Mirror {
        /// Its uid.
        uid: &'a str,
        /// Its version.
        resource_version: &'a str,
    },
    /// A declaration, or a resource of another class.
    Other,
}

/// A request about a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Creates the mirror.
    Create,
    /// Deletes the mirror with this uid, in this version.
    Delete {
        /// Its uid.
        uid: String,
        /// A mirror that was edited meanwhile is a declaration.
        resource_version: String,
    },
}

/// What to do about the mirror of one name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Never,
    /// To ask again at this time.
    At(Instant),
    /// To send this. [`Mirrors::ended`] has to follow.
    Now(Request),
}

/// What was done about the mirrors of this host.
#[derive(Default)]
pub(super) struct Mirrors {
    by_name: BTreeMap<String, Requests>,
}

/// The requests about the mirror of one name.
struct Requests {
    is_busy: bool,
    last: Instant,
    /// Until the next one.
    pause: Duration,
    /// Since when the cache should show the mirror that was created; absent if it has.
    created: Option<Instant>,
    /// Whether this host deleted the mirror, and has not run the controller since.
    was_deleted: bool,
}

impl Mirrors {
    /// Decides about one name. `built_in`: whether the host runs its built-in controller of this name; one that it does not start has a
    /// mirror with the reason, too.
    pub(super) fn due(&mut self, name: &str, seen: Seen<'_>, built_in: BuiltIn, now: Instant) -> Due {
        let before = self.by_name.get_mut(name);
        let was_deleted = before.is_some_and(|before| {
            before.was_deleted &= !matches!(built_in, BuiltIn::Runs | BuiltIn::NotStarted);
            before.created = before.created.filter(|_| matches!(seen, Seen::Nothing));
            before.was_deleted
        });
        let request = match (seen, built_in) {
            (Seen::Nothing, BuiltIn::Runs | BuiltIn::NotStarted) => Request::Create,
            (Seen::Mirror { uid, resource_version }, BuiltIn::Absent) if !was_deleted => {
                Request::Delete { uid: uid.to_owned(), resource_version: resource_version.to_owned() }
            }
            _ => return Due::Never,
        };
        let mut pause = FIRST_PAUSE;
        if let Some(before) = self.by_name.get(name) {
            if before.is_busy {
                return Due::Never;
            }
            let next = before.created.map_or(before.last + before.pause, |created| created + SHOWN_WITHIN);
            if now < next {
                return Due::At(next);
            }
            if now < before.last + CALM {
                pause = (before.pause * 2).min(MAX_PAUSE);
            }
        }
        let requests = Requests { is_busy: true, last: now, pause, created: None, was_deleted };
        self.by_name.insert(name.to_owned(), requests);
        Due::Now(request)
    }

    /// Takes note of the end of a request.
    pub(super) fn ended(&mut self, name: &str, request: &Request, succeeded: bool, now: Instant) {
        let Some(requests) = self.by_name.get_mut(name) else { return };
        requests.is_busy = false;
        match request {
            Request::Create => requests.created = succeeded.then_some(now),
            Request::Delete { .. } => requests.was_deleted |= succeeded,
        }
    }

    /// Takes note that a request was not sent, because another host leads.
    pub(super) fn not_leading(&mut self, name: &str) {
        if let Some(requests) = self.by_name.get_mut(name) {
            requests.is_busy = false;
            requests.pause = FIRST_PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIRROR: Seen<'_> = Seen::Mirror { uid: "u", resource_version: "7" };

    fn annotations(of: &Value) -> BTreeMap<String, String> {
        serde_json::from_value(of["metadata"]["annotations"].clone()).unwrap_or_default()
    }

    fn delete() -> Due {
        Due::Now(Request::Delete { uid: "u".to_owned(), resource_version: "7".to_owned() })
    }

    #[test]
    fn a_resource_is_a_mirror_while_it_has_the_annotation_and_says_nothing_else() {
        let mirror = object("p", "blue");
        let is = |change: fn(&mut Value)| {
            let mut object = mirror.clone();
            change(&mut object);
            is_mirror("p", &annotations(&object), &object["spec"])
        };
        assert!(is(|_| ()));
        assert!(is(|object| object["metadata"]["annotations"][ANNOTATION] = "true".into()));
        assert!(is(|object| object["spec"] = json!({"source": {"builtin": "p"}})), "the class of most hosts");
        assert!(!is(|object| drop(object["metadata"]["annotations"].as_object_mut().unwrap().remove(ANNOTATION))));
        assert!(!is(|object| drop(object["metadata"].as_object_mut().unwrap().remove("annotations"))));
        assert!(!is(|object| object["spec"]["disabled"] = true.into()));
        assert!(!is(|object| object["spec"]["disabled"] = false.into()), "whoever says so declares it");
        assert!(!is(|object| object["spec"]["limits"] = json!({"deadlineMs": 5})));
        assert!(!is(|object| object["spec"]["class"] = 5.into()));
        assert!(!is(|object| object["spec"]["source"] = json!({"builtin": "q"})));
        assert!(!is(|object| object["spec"]["source"] = json!({"oci": "oci://registry.example.com/p:1"})));
        assert!(!is(|object| object["spec"] = Value::Null));
    }

    #[test]
    fn kubectl_apply_can_replace_the_source_and_takes_the_annotation_away() {
        let mirror = object("p", "default");
        let applied: Value = serde_json::from_str(&annotations(&mirror)[LAST_APPLIED]).unwrap();
        assert_eq!((&applied["spec"], &applied["metadata"]["name"]), (&mirror["spec"], &json!("p")));
        assert_eq!(annotations(&applied), [(ANNOTATION.to_owned(), "built-in".to_owned())].into());
    }

    #[test]
    fn a_mirror_is_made_of_what_runs_without_a_resource_and_deleted_when_it_is_absent() {
        let now = Instant::now();
        let table = [
            (Seen::Nothing, BuiltIn::Runs, Due::Now(Request::Create)),
            (Seen::Nothing, BuiltIn::NotStarted, Due::Now(Request::Create)),
            (MIRROR, BuiltIn::NotStarted, Due::Never),
            (Seen::Other, BuiltIn::NotStarted, Due::Never),
            (Seen::Nothing, BuiltIn::Replaced, Due::Never),
            (Seen::Nothing, BuiltIn::Absent, Due::Never),
            (MIRROR, BuiltIn::Runs, Due::Never),
            (MIRROR, BuiltIn::Replaced, Due::Never),
            (MIRROR, BuiltIn::Absent, delete()),
            (Seen::Other, BuiltIn::Runs, Due::Never),
            (Seen::Other, BuiltIn::Replaced, Due::Never),
            (Seen::Other, BuiltIn::Absent, Due::Never),
        ];
        for (seen, built_in, due) in table {
            assert_eq!(Mirrors::default().due("p", seen, built_in, now), due, "{seen:?}, {built_in:?}");
        }
    }

    #[test]
    fn requests_about_one_mirror_are_further_and_further_apart() {
        let (mut mirrors, begin) = (Mirrors::default(), Instant::now());
        let mut now = begin;
        let mut pauses = Vec::new();
        for _ in 0..11 {
            assert_eq!(mirrors.due("p", Seen::Nothing, BuiltIn::Runs, now), Due::Now(Request::Create));
            assert_eq!(mirrors.due("p", Seen::Nothing, BuiltIn::Runs, now), Due::Never, "it is under way");
            mirrors.ended("p", &Request::Create, false, now);
            let Due::At(next) = mirrors.due("p", Seen::Nothing, BuiltIn::Runs, now) else { panic!("no pause") };
            pauses.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(
            mirrors.due("q", Seen::Nothing, BuiltIn::Runs, begin),
            Due::Now(Request::Create),
            "others do not wait"
        );
        now += CALM;
        assert_eq!(mirrors.due("p", Seen::Nothing, BuiltIn::Runs, now), Due::Now(Request::Create));
        mirrors.ended("p", &Request::Create, true, now);
        let mut due = |seen| mirrors.due("p", seen, BuiltIn::Runs, now);
        assert_eq!(due(Seen::Nothing), Due::At(now + SHOWN_WITHIN), "the cache may be late");
        assert_eq!(due(MIRROR), Due::Never);
        assert_eq!(due(Seen::Nothing), Due::At(now + FIRST_PAUSE), "it was deleted");
    }

    #[test]
    fn a_request_that_was_not_sent_costs_the_first_pause_alone() {
        let (mut mirrors, mut now) = (Mirrors::default(), Instant::now());
        for _ in 0..5 {
            assert_eq!(mirrors.due("p", Seen::Nothing, BuiltIn::Runs, now), Due::Now(Request::Create));
            mirrors.not_leading("p");
            now += FIRST_PAUSE;
        }
    }

    #[test]
    fn a_mirror_that_another_host_of_the_class_creates_again_stays() {
        let (mut mirrors, mut now) = (Mirrors::default(), Instant::now());
        let mut later = || {
            now += CALM;
            now
        };
        let Due::Now(request) = mirrors.due("p", MIRROR, BuiltIn::Absent, later()) else { panic!("it stays") };
        mirrors.ended("p", &request, false, later());
        assert_eq!(mirrors.due("p", MIRROR, BuiltIn::Absent, later()), delete(), "the request failed");
        mirrors.ended("p", &request, true, later());
        assert_eq!(mirrors.due("p", MIRROR, BuiltIn::Absent, later()), Due::Never);
        // The controller was loaded again, and unloaded.
        assert_eq!(mirrors.due("p", MIRROR, BuiltIn::Runs, later()), Due::Never);
        assert_eq!(mirrors.due("p", MIRROR, BuiltIn::Absent, later()), delete());
    }
}
