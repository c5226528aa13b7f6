//! Grants, as requested by manifests and given by operators.
//!
//! Not here: their evaluation (`grants`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::serde_name;
use crate::object::id::Kind;

/// Maximum values in each list of a grant, and maximum bytes of a value: paths are the longest.
const MAX_VALUES: usize = 256;
const MAX_VALUE_BYTES: usize = 1024;

/// Permission to write or read. `*` means all. Each list has at most 256 values of at most 1,024 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Grant {
    /// One of `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`. A manifest needs no
    /// grants for its watches, which request them implicitly; an operator grants them as `list` and `watch`. Writes
    /// that can give rights to others need an additional verb, which `*` does not include: `escalate` for the Role or
    /// ClusterRole that is written, `bind` for the Role or ClusterRole in the `roleRef` of a binding, `approve` and
    /// `sign` for the `approval` and the `status` of a certificate request, `attest` for a ClusterTrustBundle.
    pub verbs: Vec<String>,
    /// Kinds in text form, or `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Subresources, or `*`. Empty: the main resource. `*` does not include `token`, `attach`, `exec`, `log`, `portforward` and `proxy`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<String>,
    /// `*` means all. Empty: all namespaces, and cluster-scoped objects; but with `of: controlled`, a cluster-scoped key then
    /// reaches only cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Empty: all names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Paths for needs of raw GETs; a trailing `*` matches any rest. Then `kinds` is empty and `verbs` is `[get]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Names of signers, to which `approve`, `sign` and `attest` are limited: `spec.signerName` of the written object, which a
    /// create contains and which a watch of the kind must read otherwise. Other verbs are not limited. Empty: all signers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signers: Vec<String>,
    /// The objects that it covers.
    #[serde(default, skip_serializing_if = "Of::is_any")]
    pub of: Of,
    /// Also patches of objects without a controller, to make the key's object their controller. Requires `of: controlled`, the
    /// verb `patch` and no subresources. The patch is a strategic merge patch of `metadata.ownerReferences`, or a merge patch of them
    /// with the cached resourceVersion as precondition, and changes nothing else. From then on the object is controlled: other grants may change or delete it. If the watch of the key's kind declares `selects`, the selector of the key's object must match; otherwise the grant must list `names`, where `*` is every object without a controller.
    #[serde(default, skip_serializing_if = "is_false")]
    pub adopt: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The objects that a grant covers, by their relation to the key of the run. The host checks the plugin's caches:
/// `of` requires a watch of the key's kind, and `controlled` also one of the written kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// All objects.
    #[default]
    Any,
    /// The key's own object.
    Key,
    /// Objects that the key's object controls: those whose controller reference has its uid. A create must carry exactly that
    /// reference; so must a server-side apply of a missing object, which requires the verbs `create` and `patch`. Objects without
    /// a controller are not included: `adopt` is for them. No other controller can be set.
    Controlled,
}

impl Of {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

impl Grant {
    /// All verbs except `*`.
    pub const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    /// Verbs that some writes require in addition to their own, because they can give rights to others. `*` does not
    /// include them: a plugin must not become as powerful as its host through a grant that does not state it.
    pub const SPECIAL_VERBS: [&str; 5] = ["escalate", "bind", "approve", "sign", "attest"];
    /// The verbs of [`SPECIAL_VERBS`](Self::SPECIAL_VERBS) that are for a signer.
    pub const SIGNER_VERBS: [&str; 3] = ["approve", "sign", "attest"];
    /// Verbs for multiple objects.
    pub(crate) const OF_MANY: [&str; 3] = ["list", "watch", "deletecollection"];

    /// Its lists with their names.
    pub(crate) fn lists(&self) -> [(&'static str, &Vec<String>); 7] {
        [
            ("verbs", &self.verbs),
            ("kinds", &self.kinds),
            ("subresources", &self.subresources),
            ("namespaces", &self.namespaces),
            ("names", &self.names),
            ("paths", &self.paths),
            ("signers", &self.signers),
        ]
    }

    /// Number of requests for one value of each list that it covers.
    pub(super) fn n_combinations(&self) -> usize {
        let n_verbs = if self.verbs.iter().any(|verb| verb == "*") { Self::VERBS.len() } else { self.verbs.len() };
        let others = self.lists().into_iter().skip(1).map(|(_, values)| values.len());
        others.chain([n_verbs]).map(|n_values| n_values.max(1)).fold(1, usize::saturating_mul)
    }

    /// Checks that it can adopt only objects that a selector selects or that it names. `selects`: a watch of the
    /// manifest declares a selector.
    ///
    /// # Errors
    /// What the grant must list.
    pub fn check_adoption(&self, selects: bool) -> Result<(), String> {
        match self.adopt && self.names.is_empty() && !selects {
            true => Err("adopt: no watch of the manifest declares `selects`, so that every object without a controller could be adopted, and \
                         deleted afterwards; list `names`, or all with `names: [\"*\"]`"
                .into()),
            false => Ok(()),
        }
    }

    /// Checks the constraints that the types do not express.
    ///
    /// # Errors
    /// The field, and the problem.
    pub fn check(&self) -> Result<(), String> {
        let lists = self.lists();
        for (list, values) in lists {
            if values.len() > MAX_VALUES {
                return Err(format!("{list}: {} are too many, at most {MAX_VALUES}", values.len()));
            }
            if let Some(long) = values.iter().find(|value| value.len() > MAX_VALUE_BYTES) {
                return Err(format!("{list}: one has {} bytes; at most {MAX_VALUE_BYTES} are valid", long.len()));
            }
        }
        let known = || Self::VERBS.into_iter().chain(Self::SPECIAL_VERBS);
        if let Some(verb) = self.verbs.iter().find(|verb| *verb != "*" && !known().any(|known| known == *verb)) {
            let known: Vec<_> = known().collect();
            return Err(format!("verbs: {verb:?} is not one of *, {}", known.join(", ")));
        }
        if self.verbs.is_empty() {
            return Err("verbs: at least one is needed".into());
        }
        // An empty string would mean objects without a namespace or name.
        if let Some((list, _)) = lists.into_iter().find(|(_, values)| values.iter().any(String::is_empty)) {
            return Err(format!("{list}: an empty text names nothing; leave the list out to mean all"));
        }
        if self.kinds.is_empty() == self.paths.is_empty() {
            return Err("kinds: either kinds or paths are needed".into());
        }
        for kind in self.kinds.iter().filter(|kind| *kind != "*") {
            kind.parse::<Kind>().map_err(|why| format!("kinds: {why}"))?;
        }
        if !self.signers.is_empty() && !self.verbs.iter().any(|verb| Self::SIGNER_VERBS.contains(&verb.as_str())) {
            return Err(format!("signers: requires one of the verbs {}", Self::SIGNER_VERBS.join(", ")));
        }
        if self.of != Of::Any {
            let of = serde_name(&self.of);
            if let Some(verb) = self.verbs.iter().find(|verb| Self::OF_MANY.contains(&verb.as_str())) {
                return Err(format!("of: `{verb}` is of many objects and cannot be limited to `{of}`"));
            }
            if !self.paths.is_empty() {
                return Err(format!("of: paths cannot be limited to `{of}`"));
            }
        }
        if self.adopt {
            if self.of != Of::Controlled {
                return Err("adopt: requires `of: controlled`".into());
            }
            if !self.verbs.iter().any(|verb| matches!(verb.as_str(), "patch" | "*")) {
                return Err("adopt: requires the verb `patch`, by which objects are adopted".into());
            }
            if !self.subresources.is_empty() {
                return Err(
                    "adopt: a grant of subresources adopts nothing; write a grant without `subresources`".into()
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_contradictory_grant_is_rejected() {
        let check = |grant| serde_json::from_value::<Grant>(grant).unwrap().check();
        assert_eq!(check(json!({"verbs": ["get", "delete"], "kinds": ["v1/Pod"], "of": "controlled"})), Ok(()));
        assert_eq!(check(json!({"verbs": ["*"], "kinds": ["v1/Pod"], "of": "key"})), Ok(()));
        assert_eq!(check(json!({"verbs": ["escalate"], "kinds": ["rbac.authorization.k8s.io/v1/Role"]})), Ok(()));
        assert_eq!(
            check(json!({"verbs": ["get", "watch"], "kinds": ["v1/Pod"], "of": "key"})),
            Err("of: `watch` is of many objects and cannot be limited to `key`".into())
        );
        assert_eq!(
            check(json!({"verbs": ["get"], "paths": ["/version"], "of": "key"})),
            Err("of: paths cannot be limited to `key`".into())
        );
        assert_eq!(
            check(json!({"verbs": ["list"], "kinds": ["v1/Pod"], "namespaces": [""]})),
            Err("namespaces: an empty text names nothing; leave the list out to mean all".into())
        );
        let listing = |n: usize, value: &str| json!({"verbs": ["get"], "kinds": ["v1/Pod"], "names": vec![value; n]});
        assert_eq!(check(listing(256, &"x".repeat(1024))), Ok(()));
        assert_eq!(check(listing(257, "x")), Err("names: 257 are too many, at most 256".into()));
        assert_eq!(
            check(listing(1, &"x".repeat(1025))),
            Err("names: one has 1025 bytes; at most 1024 are valid".into())
        );
        let adopting = |verb: &str| json!({"verbs": [verb], "kinds": ["v1/Pod"], "of": "controlled", "adopt": true});
        assert_eq!((check(adopting("patch")), check(adopting("*"))), (Ok(()), Ok(())));
        assert_eq!(
            check(adopting("delete")),
            Err("adopt: requires the verb `patch`, by which objects are adopted".into())
        );
        for of in ["any", "key"] {
            let mut grant = adopting("patch");
            grant["of"] = json!(of);
            assert_eq!(check(grant), Err("adopt: requires `of: controlled`".into()));
        }
        let mut of_status = adopting("patch");
        of_status["subresources"] = json!(["status"]);
        assert_eq!(
            check(of_status),
            Err("adopt: a grant of subresources adopts nothing; write a grant without `subresources`".into())
        );
        let signing =
            |verb: &str| json!({"verbs": [verb, "update"], "kinds": ["v1/Pod"], "signers": ["example.com/a"]});
        assert_eq!(["approve", "sign", "attest"].map(|verb| check(signing(verb))), [Ok(()), Ok(()), Ok(())]);
        assert_eq!(check(signing("*")), Err("signers: requires one of the verbs approve, sign, attest".into()));
        assert_eq!(check(json!({"verbs": ["get"]})), Err("kinds: either kinds or paths are needed".into()));
        assert!(serde_json::from_value::<Grant>(json!({"verbs": ["get"], "kinds": ["v1/Pod"], "of": "mine"})).is_err());
    }
}
