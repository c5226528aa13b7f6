//! `custom.metrics.k8s.io` and `external.metrics.k8s.io` of the clusters of tests, as the simulated nodes have them.
//!
//! ```text
//! client -> kube-apiserver (authorizes) -> Service with an external name -> MetricsApi -> Pods and ConfigMaps -> pintle_nodes::metrics
//! client -> embedded cluster -> EmbeddedMetrics -> Pods and ConfigMaps -> pintle_nodes::metrics
//! ```
//!
//! Invariants:
//! 1. An answer is that of the objects at the moment of the request: nothing is cached here.
//! 2. kube-apiserver serves both groups from [`MetricsApi::start`] on, whether there are metrics or not; the embedded cluster serves a
//!    group that has a metric.
//!
//! Not here: what metrics there are (`host/docs/embedded-cluster.md`), and `metrics.k8s.io`.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use jiff::Timestamp;
use pintle_nodes::metrics::{NoMetric, Source};
use pintle_sim::{Aggregated, Resource, SimClock};
use serde_json::{Value, json};

use crate::objects::has_condition;
use crate::{ApiClient, PATIENCE, PatchKind, eventually, tls};

/// Group and version of what is served.
const SERVED: [(&str, &str); 2] = [("custom.metrics.k8s.io", "v1beta2"), ("external.metrics.k8s.io", "v1beta1")];

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

const SERVICES: &str = "/api/v1/namespaces/kube-system/services";

/// The Service of the server.
const SERVICE: &str = "metrics-of-tests";

/// A port that nothing listens on.
const CLOSED_PORT: u16 = 1;

/// The metrics APIs. Dropping it closes the port: the groups are registered and do not answer.
#[derive(Debug)]
pub struct MetricsApi {
    _server: tls::Server,
}

impl MetricsApi {
    /// Starts the server and waits until kube-apiserver serves both groups.
    ///
    /// # Errors
    /// There is no free port, or kube-apiserver refuses or is too slow.
    pub async fn start(client: ApiClient) -> Result<MetricsApi> {
        let of_server = client.clone();
        let server = tls::Server::start(move |request| {
            let client = of_server.clone();
            async move { answer(&client, &request).await }
        });
        let server = server.await?;
        let port = server.address.port();
        let service = json!({
            "metadata": {"name": SERVICE},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        });
        client.create(SERVICES, &service).await.context("create the Service of the metrics")?;
        for (group, version) in SERVED {
            let service = json!({"namespace": "kube-system", "name": SERVICE, "port": port});
            let object = json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": format!("{version}.{group}")},
                "spec": {
                    "group": group, "version": version, "service": service, "insecureSkipTLSVerify": true,
                    "groupPriorityMinimum": 100, "versionPriority": 100,
                },
            });
            client.create(API_SERVICES, &object).await.with_context(|| format!("register {group}"))?;
        }
        for (group, _) in SERVED {
            until_available(&client, group, true).await?;
        }
        Ok(MetricsApi { _server: server })
    }
}

/// The metrics APIs of the embedded cluster, with its clock.
#[derive(Debug)]
pub struct EmbeddedMetrics(pub SimClock);

impl EmbeddedMetrics {
    /// Calls `then` with the objects that metrics come from.
    fn with_source<T>(
        &self,
        objects: &dyn Fn(&str) -> Vec<Arc<Value>>,
        then: impl FnOnce(&Source<'_, Arc<Value>>) -> T,
    ) -> T {
        let (pods, config_maps) = (objects("pods"), objects("configmaps"));
        then(&Source { pods: &pods, nodes: &[], config_maps: &config_maps, now: self.0.now() })
    }
}

impl Aggregated for EmbeddedMetrics {
    fn groups(&self) -> &[&str] {
        const { &[SERVED[0].0, SERVED[1].0] }
    }

    fn resources(&self, objects: &dyn Fn(&str) -> Vec<Arc<Value>>) -> Vec<Resource> {
        let mut served = self.with_source(objects, |source| source.served());
        served.retain(|of| SERVED.contains(&(of.group, of.version)));
        let resource = |of: pintle_nodes::metrics::Served| Resource {
            group: of.group.to_owned(),
            version: of.version.to_owned(),
            plural: of.plural,
            kind: of.kind.to_owned(),
            namespaced: of.namespaced,
            verbs: of.verbs.to_vec(),
            ..Resource::default()
        };
        served.into_iter().map(resource).collect()
    }

    fn get(
        &self,
        path: &[&str],
        query: &dyn Fn(&str) -> Option<String>,
        objects: &dyn Fn(&str) -> Vec<Arc<Value>>,
    ) -> Option<Result<Value, (u16, String)>> {
        let [group, version, ..] = path else { return None };
        if !SERVED.contains(&(*group, *version)) {
            return None;
        }
        let answer = self.with_source(objects, |source| source.serves(group, version).then(|| source.get(path, query)));
        Some(answer?.map_err(|error| (error.code, error.message)))
    }
}

/// The path of the registration of a group.
fn registration(group: &str) -> Result<String> {
    let (_, version) = SERVED.iter().find(|(served, _)| *served == group).context("no such group")?;
    Ok(format!("{API_SERVICES}/{version}.{group}"))
}

/// Cuts kube-apiserver off from the server of a group, and waits until it has noticed. Returns what [`restore`] needs.
///
/// # Errors
/// The group is not registered, or kube-apiserver refuses or is too slow.
pub async fn cut_off(client: &ApiClient, group: &str) -> Result<Value> {
    let path = registration(group)?;
    let port = client.get(&path).await?["spec"]["service"]["port"].clone();
    set_port(client, &path, &CLOSED_PORT.into()).await?;
    until_available(client, group, false).await?;
    Ok(port)
}

/// Ends [`cut_off`].
///
/// # Errors
/// As [`cut_off`].
pub async fn restore(client: &ApiClient, group: &str, port: &Value) -> Result<()> {
    set_port(client, &registration(group)?, port).await?;
    until_available(client, group, true).await
}

async fn set_port(client: &ApiClient, path: &str, port: &Value) -> Result<()> {
    client.patch(path, PatchKind::Merge, &json!({"spec": {"service": {"port": port}}})).await?;
    Ok(())
}

/// Waits until a group is available, and discovery shows it, or until it is not.
async fn until_available(client: &ApiClient, group: &str, wanted: bool) -> Result<()> {
    let path = registration(group)?;
    eventually(PATIENCE, format!("{group} to be available: {wanted}"), async || {
        let found = client.get(&path).await?;
        let is_available = has_condition(&found, "Available", "True");
        anyhow::ensure!(is_available == wanted, "it has {}", found["status"]);
        // The proxy of the API server follows the registration later than its status.
        let (_, version) = path.rsplit_once('/').context("no name")?;
        let version = version.split('.').next().unwrap_or_default();
        let answer = client.request("GET", &format!("/apis/{group}/{version}"), &[], None).await?;
        anyhow::ensure!((answer.status == 200) == wanted, "discovery answers {}", answer.status);
        if wanted {
            client.get(&format!("/apis/{group}")).await?;
        }
        Ok(Some(()))
    })
    .await
}

async fn answer(client: &ApiClient, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, body) = match resolve(client, request).await {
        Ok(Ok(found)) => (StatusCode::OK, found),
        Ok(Err(NoMetric { code, message })) => (
            StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                "reason": if code == 404 { "NotFound" } else { "BadRequest" }, "code": code,
            }),
        ),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, json!({"message": format!("{error:#}")})),
    };
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

async fn resolve(client: &ApiClient, request: &Request<Incoming>) -> Result<Result<Value, NoMetric>> {
    // Go's clients encode the name that means all Pods, and no others need it.
    let path = request.uri().path().replace("%2A", "*");
    let path: Vec<&str> = path.split('/').skip(1).collect();
    let unknown = NoMetric { code: 404, message: "the server could not find the requested resource".to_owned() };
    match path.as_slice() {
        // Discovery of the server itself, which has nothing but what is registered.
        ["apis", group, version] => Ok(Ok(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"), "resources": [],
        }))),
        ["apis", path @ ..] if path.len() > 2 => {
            let pods = client.list("/api/v1/pods").await?;
            let config_maps = client.list("/api/v1/configmaps").await?;
            let source = Source { pods: &pods, nodes: &[], config_maps: &config_maps, now: Timestamp::now() };
            let query = request.uri().query().unwrap_or_default();
            Ok(source.get(path, |name| {
                let mut pairs = form_urlencoded::parse(query.as_bytes());
                pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
            }))
        }
        _ => Ok(Err(unknown)),
    }
}
