//! Resources that are not stored: access reviews, token reviews, bindings by their own path.
//!
//! Every user of the embedded cluster has all permissions.

use serde_json::json;

use super::check::{Sent, check_fields, check_scope, check_type};
use super::objects::metadata_mut;
use super::reply::{Reply, parse_body};
use super::status::ApiError;
use super::write::track;
use super::{Api, Call, options};
use crate::clock::rfc3339;

impl Api {
    pub(crate) fn review(&self, verb: &str, call: &Call) -> Result<Reply, ApiError> {
        let resource = &call.resource;
        match (verb, resource.plural.as_str()) {
            ("list", "componentstatuses") => {
                let list = json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []});
                return Ok(Reply::json(200, call.accept.format, &list));
            }
            ("get", "componentstatuses") => return Err(ApiError::not_found(&resource.group_resource(), call.name())),
            ("create", "bindings") => return self.bind_by_path(call),
            ("create", _) => {}
            _ => return Err(ApiError::method_not_allowed()),
        }
        options::check(&call.query, "CreateOptions")?;
        let mut object = parse_body(&call.headers, &call.body)?;
        check_type(resource, &mut object, Sent::Body)?;
        check_scope(call, &mut object)?;
        let mut warnings = Vec::new();
        check_fields(call, &mut object, &mut warnings, Sent::Body)?;
        let status = match resource.plural.as_str() {
            "tokenreviews" => self.review_token(&object["spec"]),
            "selfsubjectreviews" => json!({"userInfo": self.user(&call.headers)}),
            "selfsubjectrulesreviews" => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }),
            _ => json!({"allowed": true}),
        };
        metadata_mut(&mut object).remove("managedFields");
        // As for every new object, though nothing is stored.
        track(call, None, &mut object, &rfc3339(self.clock.now()));
        object["status"] = status;
        let mut reply = Reply::json(201, call.accept.format, &object);
        reply.warnings = warnings;
        Ok(reply)
    }
}
