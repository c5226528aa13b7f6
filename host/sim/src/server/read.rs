//! Get and list.
//!
//! *Source*: the validation of list options in apimachinery; resourceVersion semantics of the API concepts page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::query::Query;
use super::reply::Reply;
use super::selector::Selector;
use super::shape::ListMeta;
use super::status::ApiError;
use super::{Api, Call, options};
use crate::cause::Cause;
use crate::store::ListRange;

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Where a next page starts.
#[derive(Debug, PartialEq, Eq)]
struct Continue {
    /// 0 continues in the present.
    rv: u64,
    after: String,
}

impl Continue {
    fn encode(&self) -> String {
        let rv: i64 = if self.rv == 0 { -1 } else { i64::try_from(self.rv).unwrap_or(i64::MAX) };
        URL_SAFE_NO_PAD
            .encode(json!({"v": TOKEN_VERSION, "rv": rv, "start": format!("{}\u{0}", self.after)}).to_string())
    }

    fn decode(token: &str) -> Result<Self, ApiError> {
        let parse = || {
            let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
            let value: Value = serde_json::from_slice(&bytes).ok()?;
            let rv = value["rv"].as_i64().filter(|rv| *rv != 0 && value["v"] == TOKEN_VERSION)?;
            let after = value["start"].as_str()?.trim_end_matches('\u{0}');
            // A key must not lead to another kind.
            let fine = after.split('/').all(|part| !matches!(part, "" | "." | ".."));
            fine.then(|| Self { rv: u64::try_from(rv).unwrap_or(0), after: after.to_owned() })
        };
        parse().ok_or_else(|| ApiError::bad_request("invalid continue token: this server did not issue it"))
    }
}

/// The version of continue tokens.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Api {
    pub(crate) fn get(&self, call: &Call) -> Result<Reply, ApiError> {
        if let Some(wanted) = call.query.resource_version()? {
            let current = self.store.rv();
            if wanted > current {
                return Err(ApiError::too_large(wanted, current));
            }
        }
        let entry = self
            .store
            .get(&call.resource.storage, &call.key())
            .ok_or_else(|| ApiError::not_found(&call.resource.group_resource(), call.name()))?;
        Ok(self.reply_object(call, 200, &entry.version))
    }

    pub(crate) fn list(&self, call: &Call) -> Result<Reply, ApiError> {
        let query = &call.query;
        let selector = Selector::parse(&call.resource, query.get("labelSelector"), query.get("fieldSelector"))?;
        check_options(query)?;
        let matching = query.get("resourceVersionMatch");
        let token = query.get("continue");
        let limit =
            query.number("limit")?.filter(|limit| *limit > 0).map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let page = token.map(Continue::decode).transpose()?;
        if page.is_some() && query.get("resourceVersion").is_some_and(|rv| rv != "0") {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        let rv = query
            .resource_version()
            .map_err(|error| ApiError::bad_request(format!("invalid resource version: {}", error.message)))?;
        let at = match (&page, matching, rv) {
            (Some(page), ..) => (page.rv > 0).then_some(page.rv),
            (None, Some("Exact"), rv) => rv,
            // A limited list at a given version was exact before this was explicit.
            (None, None, Some(rv)) if limit.is_some() && rv > 0 => Some(rv),
            (None, _, Some(rv)) => {
                let current = self.store.rv();
                if rv > current {
                    return Err(ApiError::too_large(rv, current));
                }
                None
            }
            (None, _, None) => None,
        };
        // Reads from upstream's cache are not paginated.
        let limit = limit.filter(|_| page.is_some() || rv != Some(0));
        let range =
            ListRange { namespace: call.namespace(), at, after: page.as_ref().map(|page| page.after.as_str()), limit };
        let listed = self.store.list(&call.resource.storage, &range, |version| selector.matches(version)).map_err(
            |mut error| {
                if let Some(page) = &page
                    && error.code == 410
                {
                    error.message = CONTINUE_EXPIRED.to_owned();
                    error.continue_token = Some(Continue { rv: 0, after: page.after.clone() }.encode());
                }
                error
            },
        )?;
        let meta = ListMeta {
            rv: listed.rv,
            next: listed.next.as_deref().map(|after| Continue { rv: listed.rv, after: after.to_owned() }.encode()),
            // Not counted with selectors, which would need to check every remaining object.
            remaining: (selector.is_empty() && listed.remaining > 0).then_some(listed.remaining),
        };
        self.reply_list(call, &meta, &listed.items)
    }
}

/// Rejects invalid list options, each with its own cause.
fn check_options(query: &Query) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let rv = query.get("resourceVersion");
    if let Some(matching) = query.get("resourceVersionMatch") {
        let field = "resourceVersionMatch";
        if rv.is_none() {
            causes
                .push(Cause::forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if query.get("continue").is_some() {
            causes.push(Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            causes.push(Cause::unsupported(field, &matching.into(), &["Exact", "NotOlderThan", ""]));
        } else if matching == "Exact" && rv == Some("0") {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden(field, why));
        }
    }
    if query.all("sendInitialEvents").next().is_some() {
        causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    options::refuse("ListOptions", causes)
}
