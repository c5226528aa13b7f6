//! Writes the status of another object than that of its key.

use hostile::{Action, Patch, PatchType, Preconditions, object, writing};

hostile::attack!(|key, _| writing(vec![Action::Patch(Patch {
    kind: key.kind,
    object: object("hostile", "victim"),
    subresource: Some("status".into()),
    patch_type: PatchType::Merge,
    body: r#"{"status":{"loadBalancer":{"ingress":[{"ip":"6.6.6.6"}]}}}"#.into(),
    preconditions: Preconditions { uid: None, resource_version: None },
})]));
