//! The user of a request: from a TokenReview, or from the headers of a front proxy.
//!
//! Source: k8s.io/apiserver/pkg/authentication: `request/bearertoken`, `request/headerrequest`, `group/authenticated_group_adder.go`,
//! `request/anonymous`; `plugin/pkg/authenticator/token/webhook`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// Its group.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of all other users.
pub const AUTHENTICATED: &str = "system:authenticated";

/// A user, in the fields of a SubjectAccessReview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// Name.
    #[serde(rename = "user", alias = "username")]
    pub name: String,
    /// Uid; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Other attributes for authorizers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Whether the request had no credentials.
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS || self.groups.iter().any(|group| group == UNAUTHENTICATED)
    }

    /// The user with the group of authenticated users.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if !self.is_anonymous() && !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// The token of an `Authorization` header. An empty one counts as absent.
pub fn bearer_token(authorization: &str) -> Option<&str> {
    let mut parts = authorization.trim().splitn(3, ' ');
    let is_bearer = parts.next()?.eq_ignore_ascii_case("bearer");
    let token = parts.next()?;
    (is_bearer && !token.is_empty()).then_some(token)
}

/// A TokenReview.
pub fn token_review(token: &str) -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}})
}

/// The user of a TokenReview response; `None` if the token is invalid.
///
/// # Errors
/// The response does not parse, or the API server could not decide.
pub fn reviewed(answer: &str) -> Result<Option<UserInfo>, String> {
    #[derive(Deserialize)]
    struct Review {
        status: Status,
    }
    #[derive(Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Status {
        authenticated: bool,
        error: String,
        user: Option<UserInfo>,
    }
    let Review { status } =
        serde_json::from_str(answer).map_err(|why| format!("the answer to a TokenReview does not parse: {why}"))?;
    match status.user {
        Some(user) if status.authenticated && !user.name.is_empty() => Ok(Some(user.authenticated())),
        _ if status.authenticated => Err("the answer to a TokenReview names no user".to_owned()),
        _ if status.error.is_empty() => Ok(None),
        _ => Err(status.error),
    }
}

/// The headers with which a front proxy passes on the authenticated user. Header names are lower-case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontProxy {
    /// Common names of its certificate; any if empty.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name; the first one present is used.
    pub username_headers: Vec<String>,
    /// Headers with the user's uid; the first one present is used.
    pub uid_headers: Vec<String>,
    /// Headers with the user's groups; all are used.
    pub group_headers: Vec<String>,
    /// Prefixes of header names with other attributes.
    pub extra_header_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Whether a proxy with this common name is trusted.
    pub fn allows(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|allowed| allowed == common_name)
    }

    /// The user in the headers. `headers` are pairs of a lower-case name and a value.
    pub fn user(&self, headers: &[(&str, &str)]) -> Option<UserInfo> {
        let values = |name: &str| {
            headers.iter().filter(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned()).collect::<Vec<_>>()
        };
        let first = |names: &[String]| {
            names.iter().flat_map(|name| values(name).into_iter().take(1)).find(|value| !value.is_empty())
        };
        let name = first(&self.username_headers)?;
        let groups = self.group_headers.iter().flat_map(|name| values(name)).filter(|value| !value.is_empty());
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_header_prefixes {
            for (header, value) in headers {
                if let Some(key) = header.strip_prefix(prefix.as_str()) {
                    extra.entry(unescape(key)).or_default().push((*value).to_owned());
                }
            }
        }
        let uid = first(&self.uid_headers).unwrap_or_default();
        Some(UserInfo { name, uid, groups: groups.collect(), extra }.authenticated())
    }
}

/// Decodes `%XX`; invalid encodings stay unchanged.
fn unescape(text: &str) -> String {
    let decode = || {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            if *first != b'%' {
                bytes.push(*first);
                rest = after;
                continue;
            }
            let (digits, after) = after.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        }
        String::from_utf8(bytes).ok()
    };
    decode().unwrap_or_else(|| text.to_owned())
}

/// The client authentication configuration that the API server publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishedConfig {
    /// Authorities of client certificates, in PEM; absent if there are none.
    pub client_ca: Option<String>,
    /// Authorities of front proxies, in PEM, and how they pass users on; absent if there are none.
    pub front_proxy: Option<(String, FrontProxy)>,
}

/// Parses the `data` of the ConfigMap `kube-system/extension-apiserver-authentication`.
///
/// # Errors
/// It does not parse.
pub fn published_config(data: &str) -> Result<PublishedConfig, String> {
    let data: BTreeMap<String, String> =
        serde_json::from_str::<Option<_>>(data).map_err(|why| why.to_string())?.unwrap_or_default();
    let list = |key: &str| -> Result<Vec<String>, String> {
        let Some(text) = data.get(key).filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
        serde_json::from_str::<BTreeSet<String>>(text).map(Vec::from_iter).map_err(|why| format!("{key}: {why}"))
    };
    let headers = |key: &str| -> Result<Vec<String>, String> {
        Ok(list(key)?.iter().map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect())
    };
    let pem = |key: &str| data.get(key).filter(|text| !text.trim().is_empty()).cloned();
    let front_proxy = match pem("requestheader-client-ca-file") {
        None => None,
        Some(authorities) => Some((
            authorities,
            FrontProxy {
                allowed_names: list("requestheader-allowed-names")?,
                username_headers: headers("requestheader-username-headers")?,
                uid_headers: headers("requestheader-uid-headers")?,
                group_headers: headers("requestheader-group-headers")?,
                extra_header_prefixes: headers("requestheader-extra-headers-prefix")?,
            },
        )),
    };
    Ok(PublishedConfig { client_ca: pem("client-ca-file"), front_proxy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_the_second_word() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("  Bearer abc  ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer ", None),
            ("Bearer", None),
            ("Basic abc", None),
            ("", None),
        ] {
            assert_eq!(bearer_token(header), token, "{header:?}");
        }
    }

    #[test]
    fn an_answer_is_a_user_no_user_or_an_error() {
        let user = reviewed(
            r#"{"status":{"authenticated":true,"user":{"username":"u","uid":"1","groups":["g"],"extra":{"k":["v"]}}}}"#,
        );
        let user = user.unwrap().unwrap();
        assert_eq!(
            (&*user.name, &*user.uid, &user.groups[..]),
            ("u", "1", &["g".to_owned(), AUTHENTICATED.to_owned()][..])
        );
        assert_eq!(
            serde_json::to_value(&user).unwrap(),
            json!({"user": "u", "uid": "1", "groups": ["g", "system:authenticated"], "extra": {"k": ["v"]}})
        );
        assert_eq!(reviewed(r#"{"status":{}}"#), Ok(None));
        assert_eq!(reviewed(r#"{"status":{"authenticated":false,"user":{"username":"u"}}}"#), Ok(None));
        assert_eq!(reviewed(r#"{"status":{"error":"expired"}}"#), Err("expired".to_owned()));
        // Credentials without a name authenticate no user.
        for answer in
            [r#"{"status":{"authenticated":true}}"#, r#"{"status":{"authenticated":true,"user":{}}}"#, "{}", "x"]
        {
            assert!(reviewed(answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn an_anonymous_user_stays_anonymous() {
        assert!(UserInfo::anonymous().is_anonymous());
        assert_eq!(UserInfo::anonymous().authenticated(), UserInfo::anonymous());
        let user = UserInfo { name: "u".into(), groups: vec![AUTHENTICATED.into()], ..UserInfo::default() };
        assert_eq!(user.clone().authenticated(), user);
    }

    fn proxy() -> FrontProxy {
        FrontProxy {
            allowed_names: vec!["front".into()],
            username_headers: vec!["x-remote-user".into(), "x-user".into()],
            uid_headers: vec!["x-remote-uid".into()],
            group_headers: vec!["x-remote-group".into()],
            extra_header_prefixes: vec!["x-remote-extra-".into()],
        }
    }

    #[test]
    fn a_front_proxy_names_the_user_in_headers() {
        let user = proxy().user(&[
            ("x-remote-group", "a"),
            ("x-user", "second"),
            ("x-remote-group", "b"),
            ("x-remote-extra-example.com%2fk", "v"),
            ("x-remote-extra-%zz", "w"),
            ("authorization", "Bearer x"),
        ]);
        let user = user.unwrap();
        assert_eq!((&*user.name, &*user.uid), ("second", ""));
        assert_eq!(user.groups, ["a", "b", AUTHENTICATED]);
        let extra: Vec<_> = user.extra.iter().map(|(key, values)| (key.as_str(), values.join(","))).collect();
        assert_eq!(extra, [("%zz", "w".to_owned()), ("example.com/k", "v".to_owned())]);
        assert_eq!(proxy().user(&[("x-remote-group", "a"), ("x-remote-user", "")]), None);
        assert!(proxy().allows("front") && !proxy().allows("other"));
        assert!(FrontProxy { allowed_names: Vec::new(), ..proxy() }.allows("other"));
    }

    #[test]
    fn the_published_configuration_is_read_as_the_api_server_writes_it() {
        let data = json!({
            "client-ca-file": "PEM",
            "requestheader-allowed-names": "[\"front\"]",
            "requestheader-client-ca-file": "PROXY",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
        });
        let read = published_config(&data.to_string()).unwrap();
        let expected =
            FrontProxy { username_headers: vec!["x-remote-user".into()], uid_headers: Vec::new(), ..proxy() };
        assert_eq!(
            read,
            PublishedConfig { client_ca: Some("PEM".into()), front_proxy: Some(("PROXY".into(), expected)) }
        );
        for none in ["null", "{}", r#"{"client-ca-file":" "}"#] {
            assert_eq!(published_config(none), Ok(PublishedConfig::default()));
        }
        assert!(published_config(r#"{"requestheader-client-ca-file":"P","requestheader-allowed-names":"x"}"#).is_err());
        assert!(published_config("[]").is_err());
    }
}
