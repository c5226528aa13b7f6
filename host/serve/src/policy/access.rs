//! Authorization of paths: paths that are always allowed, the review by the API server, and the error responses.
//!
//! Source: k8s.io/apiserver: `pkg/authorization/path`, `plugin/pkg/authorizer/webhook`, `pkg/endpoints/handlers/responsewriters`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::identity::UserInfo;
use pintle_core::ports::api::{ApiError, ApiErrorClass};

/// The group with all permissions, without a review; the API server has the same rule.
pub const PRIVILEGED_GROUP: &str = "system:masters";
/// Results for longer paths are not cached, because clients choose them.
pub const MAX_REMEMBERED_PATH: usize = 10_000;

/// Paths that need no authorization: complete ones, and prefixes, which end in `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedPaths {
    whole: Vec<String>,
    beginnings: Vec<String>,
}

impl AllowedPaths {
    /// Parses the value of `--authorization-always-allow-paths`.
    ///
    /// # Errors
    /// A `*` is not at the end.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self, String> {
        let mut allowed = Self::default();
        for path in paths {
            let path = path.strip_prefix('/').unwrap_or(path);
            match path.strip_suffix('*') {
                _ if path.trim_end_matches('*').len() + 1 < path.len() || path.trim_end_matches('*').contains('*') => {
                    return Err(format!("{path:?}: write `*` only once, at the end"));
                }
                Some(beginning) => allowed.beginnings.push(beginning.to_owned()),
                None => allowed.whole.push(path.to_owned()),
            }
        }
        Ok(allowed)
    }

    /// Whether this path needs no authorization.
    pub fn allows(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.whole.iter().any(|whole| whole == path)
            || self.beginnings.iter().any(|start| path.starts_with(start.as_str()))
    }
}

/// A SubjectAccessReview for this user, verb (an HTTP method in lower case) and path.
pub fn access_review(user: &UserInfo, verb: &str, path: &str) -> Value {
    let mut spec = serde_json::to_value(user).unwrap_or_default();
    spec["nonResourceAttributes"] = json!({"path": path, "verb": verb});
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

/// Result of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessDecision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The reason; may be empty.
    pub reason: String,
}

/// Parses the response to a SubjectAccessReview. Everything except a clear permission is a denial.
///
/// # Errors
/// The response does not parse, or contradicts itself.
pub fn access_decision(answer: &str) -> Result<AccessDecision, String> {
    #[derive(Deserialize)]
    struct Review {
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        allowed: bool,
        denied: bool,
        reason: String,
    }
    let Review { status } = serde_json::from_str(answer)
        .map_err(|why| format!("the answer to a SubjectAccessReview does not parse: {why}"))?;
    match (status.allowed, status.denied) {
        (true, true) => Err("a SubjectAccessReview was answered with both allowed and denied".to_owned()),
        (allowed, _) => Ok(AccessDecision { allowed, reason: status.reason }),
    }
}

/// Most attempts of a review.
const MAX_ATTEMPTS: u32 = 5;

/// The pause before a review is retried; `None` if its failure is permanent, or after [`MAX_ATTEMPTS`]. `random` is in
/// 0..1.
///
/// Source: k8s.io/apiserver/pkg/util/webhook (`DefaultShouldRetry`, and a backoff of 500 ms, factor 1.5, jitter 0.2).
pub fn repeat_after(why: &ApiError, n_failed: u32, random: f64) -> Option<Duration> {
    use ApiErrorClass::{Server, Throttled, Timeout, Transport};
    if n_failed >= MAX_ATTEMPTS || !matches!(why.class, Server | Throttled(_) | Timeout | Transport) {
        return None;
    }
    let exponent = i32::try_from(n_failed.saturating_sub(1)).unwrap_or(0);
    let backoff = Duration::from_millis(500).mul_f64(1.5_f64.powi(exponent) * (1.0 + 0.2 * random));
    Some(why.retry_after().map_or(backoff, |requested| requested.max(backoff)))
}

/// The body of a 401 response.
pub fn unauthorized() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    })
}

/// The body of a 403 response.
pub fn forbidden(user: &UserInfo, verb: &str, path: &str, reason: &str) -> Value {
    let mut message = sanitized(&format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name));
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Forbidden", "details": {}, "code": 403,
    })
}

/// The body of a 500 response.
pub fn internal_error(path: &str, why: &str) -> String {
    sanitized(&format!("Internal Server Error: {path:?}: {why}\n"))
}

/// Text that browsers do not interpret as HTML.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of upstream's `TestNewAuthorizer`.
    #[test]
    fn paths_match_whole_or_by_their_beginning() {
        for (list, allowed, denied) in [
            (&["/"][..], &["", "/"][..], &["/a", "//"][..]),
            (&["/healthz", "livez"], &["/healthz", "healthz", "/livez"], &["/healthz/a", "/healthzz", "/metrics", ""]),
            (&["/healthz/*"], &["/healthz/", "/healthz/a", "/healthz/a/b"], &["/healthz", "/health"]),
            (&["*"], &["/", "/anything"], &[]),
            (&[], &[], &["", "/", "/healthz"]),
        ] {
            let paths = AllowedPaths::new(list.iter().copied()).unwrap();
            for path in allowed {
                assert!(paths.allows(path), "{list:?} {path:?}");
            }
            for path in denied {
                assert!(!paths.allows(path), "{list:?} {path:?}");
            }
        }
        for wrong in ["/a*b", "/*/b", "/a**", "**"] {
            assert!(AllowedPaths::new([wrong]).unwrap_err().contains("at the end"), "{wrong}");
        }
    }

    #[test]
    fn a_review_has_the_user_and_the_path() {
        let user = UserInfo { name: "u".into(), groups: vec!["g".into()], ..UserInfo::default() };
        assert_eq!(
            access_review(&user, "get", "/metrics")["spec"],
            json!({"user": "u", "groups": ["g"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}})
        );
    }

    #[test]
    fn only_a_clear_permission_is_one() {
        let decided =
            |status: Value| access_decision(&json!({ "status": status }).to_string()).map(|d| (d.allowed, d.reason));
        assert_eq!(decided(json!({"allowed": true, "reason": "RBAC"})), Ok((true, "RBAC".to_owned())));
        assert_eq!(decided(json!({"allowed": false})), Ok((false, String::new())));
        assert_eq!(decided(json!({"denied": true, "reason": "no"})), Ok((false, "no".to_owned())));
        assert_eq!(decided(json!({})), Ok((false, String::new())));
        assert!(decided(json!({"allowed": true, "denied": true})).is_err());
        for none in ["{}", "", "{\"status\":{\"allowed\":\"yes\"}}"] {
            assert!(access_decision(none).is_err(), "{none}");
        }
    }

    #[test]
    fn a_failure_that_may_pass_is_repeated_four_times_with_growing_pauses() {
        let error =
            |class| ApiError { class, code: 500, reason: String::new(), message: String::new(), causes: Vec::new() };
        let pauses: Vec<u128> = (1..9)
            .map_while(|n| repeat_after(&error(ApiErrorClass::Server), n, 0.0))
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(pauses, [500, 750, 1125, 1687]);
        let pause = |class, random| repeat_after(&error(class), 1, random).map(|pause| pause.as_millis());
        assert_eq!(pause(ApiErrorClass::Throttled(Some(Duration::from_secs(3))), 1.0), Some(3000));
        assert_eq!(pause(ApiErrorClass::Throttled(Some(Duration::from_millis(1))), 1.0), Some(600));
        assert_eq!(pause(ApiErrorClass::Throttled(Some(Duration::MAX)), 1.0), Some(60_000));
        use ApiErrorClass::{Forbidden, Invalid, Malformed, NotFound, Unauthorized};
        for class in [Forbidden, Invalid, Malformed, NotFound, Unauthorized] {
            assert_eq!(pause(class, 0.0), None);
        }
    }

    #[test]
    fn refusals_have_upstreams_text() {
        let message = |reason| forbidden(&UserInfo::anonymous(), "get", "/a<b>", reason)["message"].clone();
        assert_eq!(message(""), "forbidden: User \"system:anonymous\" cannot get path \"/a&lt;b&gt;\"");
        assert_eq!(message("no"), "forbidden: User \"system:anonymous\" cannot get path \"/a&lt;b&gt;\": no");
        assert_eq!(internal_error("/m&", "x"), "Internal Server Error: \"/m&amp;\": x\n");
        assert_eq!(unauthorized()["code"], 401);
    }
}
