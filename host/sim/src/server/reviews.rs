//! Resources that answer a question and store nothing: access reviews, token reviews, bindings by their own path.
//!
//! Everything is allowed: the embedded cluster has one user.

use serde_json::{Value, json};

use super::reply::{Reply, parse_body};
use super::status::ApiError;
use super::{Api, Call};

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
        let mut object = parse_body(&call.headers, &call.body)?;
        let user = json!({"username": "pintle", "groups": ["system:masters", "system:authenticated"]});
        let status = match resource.plural.as_str() {
            "tokenreviews" => json!({"authenticated": true, "user": user}),
            "selfsubjectreviews" => json!({"userInfo": user}),
            "selfsubjectrulesreviews" => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }),
            _ => json!({"allowed": true}),
        };
        if !object.is_object() {
            return Err(ApiError::bad_request("the body is no object"));
        }
        object["kind"] = json!(resource.kind);
        object["apiVersion"] = json!(resource.api_version());
        if !object["metadata"].is_object() {
            object["metadata"] = Value::Object(serde_json::Map::new());
        }
        object["status"] = status;
        Ok(Reply::json(201, call.accept.format, &object))
    }
}
