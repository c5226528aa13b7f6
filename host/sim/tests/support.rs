//! A cluster with a small client, for tests. The client is reqwest, not kube's: the crate is a server, and its tests
//! check headers and bodies that are not objects.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails the test")]

use std::time::Duration;

use pintle_sim::{SimCluster, SimConfig};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

/// Timeout for anything that must arrive.
const DEADLINE: Duration = Duration::from_secs(300);

pub(crate) struct Server {
    pub(crate) cluster: SimCluster,
    client: Client,
}

pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The body, if the response has this code.
    #[track_caller]
    pub(crate) fn is(self, code: StatusCode) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(SimConfig::default()).await
    }

    pub(crate) async fn with(config: SimConfig) -> Self {
        // Whether the client supports TLS depends on the other crates in the build, and then it needs a provider, which
        // any test may have installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().user_agent("test/1").build().unwrap();
        Self { cluster: SimCluster::start(config).await.unwrap(), client }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.cluster.base_url()))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        answer(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        answer(self.request(Method::PUT, path).json(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        answer(self.request(Method::PATCH, path).header("Content-Type", kind).body(body.to_string())).await
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Answer {
        answer(self.request(Method::DELETE, path).json(options)).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let response = self.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Watch { response, buffer: Vec::new() }
    }
}

pub(crate) async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (code, headers) = (response.status(), response.headers().clone());
    let bytes = response.bytes().await.unwrap();
    let body =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Answer { code, headers, body }
}

pub(crate) struct Watch {
    response: Response,
    buffer: Vec<u8>,
}

impl Watch {
    /// The next event's type and object.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        self.poll().await.expect("the watch goes on")
    }

    /// Waits for the end of the watch, normal or not.
    pub(crate) async fn ended(&mut self) {
        while self.poll().await.is_some() {}
    }

    async fn poll(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].clone()));
            }
            let chunk = tokio::time::timeout(DEADLINE, self.response.chunk()).await.expect("an event comes in time");
            match chunk {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) | Err(_) => return None,
            }
        }
    }
}
