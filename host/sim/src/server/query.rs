//! The query of a request: list, watch and write options.

use super::path::decode;
use super::status::ApiError;

/// Query parameters in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let pairs = text.unwrap_or("").split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        });
        Self(pairs.collect())
    }

    /// The value of a parameter; an empty one counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1" | "t" | "T" | "TRUE" | "True"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        self.get(name)
            .map(|text| {
                text.parse()
                    .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
            })
            .transpose()
    }

    /// `resourceVersion`, none when absent.
    pub(crate) fn resource_version(&self) -> Result<Option<u64>, ApiError> {
        self.get("resourceVersion").map(parse_resource_version).transpose()
    }

    /// Whether the write is only tried.
    pub(crate) fn dry_run(&self) -> Result<bool, ApiError> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(ApiError::invalid(
                "meta.k8s.io",
                "CreateOptions",
                "",
                vec![super::status::Cause {
                    reason: "FieldValueNotSupported".into(),
                    message: format!("Unsupported value: {other:?}: supported values: \"All\""),
                    field: "dryRun".into(),
                }],
            )),
        }
    }
}

/// Reads a resourceVersion as a client gives it.
pub(crate) fn parse_resource_version(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}
