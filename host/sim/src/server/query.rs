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

    /// All values of a parameter that may be given several times.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A boolean: upstream treats everything except `false` and `0` as true, even an empty value.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.all(name).next().is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
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

    /// Whether this is a dry run. Values other than `All` are rejected before (`options`).
    pub(crate) fn dry_run(&self) -> bool {
        self.all("dryRun").next().is_some()
    }
}

/// Parses a resourceVersion from a client.
pub(crate) fn parse_resource_version(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}
