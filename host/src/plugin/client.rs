//! The command line's end of the admin API.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use axum::http::{Method, Request, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pintle_sources::wire::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

/// A client of one host. Each request has a connection of its own, so that one can be asked while another one waits.
#[derive(Clone)]
pub(super) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        let body = serde_json::to_vec(body).context("write the request")?;
        self.call(Method::POST, path, body.into()).await
    }

    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.call(Method::DELETE, path, Bytes::new()).await
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<T> {
        let shown = self.socket.display();
        let stream = match UnixStream::connect(&self.socket).await {
            Ok(stream) => stream,
            Err(why) => return Err(unreachable(&self.socket, &why)),
        };
        let broken = || format!("the host at {shown} hung up; look at its log");
        let (mut requests, connection) = http1::handshake(TokioIo::new(stream)).await.with_context(broken)?;
        // Its error is that of the request.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "pintle")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .context("make the request")?;
        let answer = requests.send_request(request).await.with_context(broken)?;
        let status = answer.status();
        let body = answer.into_body().collect().await.with_context(broken)?.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body)
                .with_context(|| format!("what listens at {shown} does not answer as a Pintle host of this version"));
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(why) => bail!("{}: {}", why.reason, why.message),
            Err(_) => bail!("what listens at {shown} answers {status}; is it a Pintle host?"),
        }
    }
}

/// Why nobody could be asked, and what to do.
fn unreachable(socket: &Path, why: &std::io::Error) -> anyhow::Error {
    let shown = socket.display();
    match why.kind() {
        ErrorKind::PermissionDenied => {
            let owner = std::fs::metadata(socket).or_else(|_| std::fs::metadata(socket.parent().unwrap_or(socket)));
            let as_whom = owner.map_or_else(|_| "its user".to_owned(), |file| format!("uid {}", file.uid()));
            anyhow!("you may not use the socket {shown}: run as root, or as {as_whom}")
        }
        ErrorKind::NotFound => anyhow!(
            "no host runs that listens at {shown}: start `pintle run` or `pintle dev`, or name its socket with --admin-socket PATH"
        ),
        ErrorKind::ConnectionRefused => match std::fs::metadata(socket) {
            Ok(file) if !file.file_type().is_socket() => {
                anyhow!("{shown} is no socket; name that of the host with --admin-socket PATH")
            }
            _ => anyhow!(
                "the host that listened at {shown} has ended: start it again, or name another socket with --admin-socket PATH"
            ),
        },
        _ => anyhow!("cannot connect to {shown}: {why}; name the host's socket with --admin-socket PATH"),
    }
}
