//! Details of writes that can give rights to others: the roles that a binding binds, the signer, and whether only the
//! object's owner changes.

use pintle_core::contract::outcome::{Action, PatchType};
use pintle_core::object::Object;
use pintle_core::object::field::FieldPath;
use pintle_core::object::id::Kind;
use pintle_core::policy::grants::{Access, RBAC};

use super::edit::{Members, Operation, first_parts};
use super::request::{Body, ParsedWrite};

/// A role that a binding refers to.
pub(super) struct BoundRole {
    kind: Kind,
    /// Empty for ClusterRoles.
    namespace: String,
    /// Empty if the write does not contain the name: only a grant for all names covers it.
    name: String,
}

impl BoundRole {
    pub(super) fn access(&self) -> Access<'_> {
        let (namespace, name) = (&*self.namespace, &*self.name);
        Access { verb: "bind", kind: &self.kind, subresource: None, namespace, name, signer: None }
    }
}

/// The roles that a written binding may bind; each must be granted. The reference of a binding never changes, so a
/// create, an update or an apply contains it; a patch does not.
pub(super) fn bound_roles(write: &ParsedWrite<'_>) -> Vec<BoundRole> {
    let ParsedWrite { action, target, body, .. } = write;
    let role = |kind: &str, name: &str| BoundRole {
        kind: Kind::new(RBAC, &target.kind.version, kind),
        namespace: if kind == "Role" { target.object.namespace.to_string() } else { String::new() },
        name: name.to_owned(),
    };
    let is_whole =
        !matches!(action, Action::Patch { patch_type, .. } if !matches!(patch_type, PatchType::Apply { .. }));
    if let Body::Object(text) = body
        && is_whole
        && let Some(reference) = text.members.get("roleRef").and_then(|text| Members::parse(text).ok())
        && let (Ok(Some(kind)), Ok(Some(name))) = (reference.string("kind"), reference.string("name"))
        && ["Role", "ClusterRole"].contains(&&*kind)
    {
        return vec![role(&kind, &name)];
    }
    let kinds = if &*target.kind.name == "RoleBinding" { &["Role", "ClusterRole"][..] } else { &["ClusterRole"] };
    kinds.iter().map(|kind| role(kind, "")).collect()
}

/// `spec.signerName` of the written object, which never changes: of a create as it is written, otherwise as the caches
/// show it. `None` if the caches do not show it.
pub(super) fn signer(write: &ParsedWrite<'_>, shown: Option<&Object>, creates: bool) -> Option<String> {
    if let Body::Object(text) = &write.body
        && creates
    {
        let spec = Members::parse(text.members.get("spec")?).ok()?;
        return spec.string("signerName").ok().flatten();
    }
    let path = FieldPath::of(&["spec", "signerName"]);
    shown?.texts.iter().find_map(|text| path.values(text).pop())
}

/// Whether a write is a patch of owner references and finalizers only, like those of the garbage collector.
///
/// Source: `IsOnlyMutatingGCFields` of kube-apiserver's `pkg/registry/rbac`.
pub(super) fn changes_owners_only(write: &ParsedWrite<'_>) -> bool {
    let Action::Patch { patch_type: PatchType::Merge | PatchType::StrategicMerge | PatchType::Json, .. } = write.action
    else {
        return false;
    };
    let is_one = |field: &str| matches!(field, "ownerReferences" | "finalizers");
    match &write.body {
        Body::Object(text) => {
            text.members.names().all(|member| member == "metadata")
                && text.metadata().is_ok_and(|metadata| {
                    let mut fields = metadata.into_iter().flat_map(Members::names);
                    fields.all(|field| is_one(field) || matches!(field, "uid" | "resourceVersion"))
                })
        }
        Body::Operations(operations) => operations.iter().all(|operation| {
            let is_below = |path: &str| {
                let parts = first_parts(path);
                parts.len() > 1 && parts[0] == "metadata" && is_one(&parts[1])
            };
            serde_json::from_str::<Operation<'_>>(operation.get())
                .is_ok_and(|operation| is_below(&operation.path) && operation.from.as_deref().is_none_or(is_below))
        }),
        Body::Nothing => false,
    }
}
