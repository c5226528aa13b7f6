//! The client of the admin API: requests to a running host, and text output of its responses.
//!
//! *Not here*: the host's end and the JSON types (`pintle-sources`), and the arguments of commands (`host/src`).

pub mod failures;
pub mod show;
pub mod top;
mod waiting;

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use pintle_core::lifecycle::{SwapReport, SwapResult};
use pintle_sources::wire::{Description, Listing, PluginStatus, Refusal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

pub use self::waiting::Waiting;

/// Polling interval of a swap's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A client of one host. Each request has its own connection, so that requests can run in parallel.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// A client of the host at this socket.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// The host cannot be reached, or returns an error; the message has the remedy.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// Sends a POST request.
    ///
    /// # Errors
    /// The host cannot be reached, or returns an error; the message has the remedy.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        let body = serde_json::to_vec(body).context("write the request")?;
        self.call(Method::POST, path, body.into()).await
    }

    /// Sends a DELETE request.
    ///
    /// # Errors
    /// The host cannot be reached, or returns an error; the message has the remedy.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.call(Method::DELETE, path, Bytes::new()).await
    }

    /// Sends a request that ends when a version has taken over (a swap, a load, a rollback), and waits for its end.
    /// `is_ours` identifies the plugin during the request; `waiting` shows its stages.
    ///
    /// # Errors
    /// As [`Self::get`], or the request is rejected.
    pub async fn swap(
        &self,
        path: &str,
        request: &impl Serialize,
        is_ours: impl Fn(&PluginStatus) -> bool,
        waiting: &mut Waiting,
    ) -> anyhow::Result<SwapReport> {
        let swap = self.post(path, request);
        tokio::pin!(swap);
        loop {
            tokio::select! {
                report = &mut swap => return report,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            // If the host cannot report its progress, the swap itself fails.
            let Ok(listing) = self.get::<Listing>("/v1/plugins").await else { continue };
            if let Some(plugin) = listing.items.iter().find(|plugin| is_ours(plugin)) {
                waiting.see(plugin);
            }
            waiting.tick();
        }
    }

    /// Waits until the version that has just taken over is proven.
    ///
    /// # Errors
    /// As [`Self::get`], or the version is rolled back, or replaced by another one.
    pub async fn proven(&self, name: &str, switched: &SwapReport, waiting: &mut Waiting) -> anyhow::Result<SwapReport> {
        let digest = switched.to.as_ref().map(|to| to.digest.as_str());
        loop {
            let found: Description = self.get(&path(name, "")).await?;
            if let Some(plugin) = &found.plugin {
                waiting.see(plugin);
                let held = plugin.conditions.iter().find(|condition| condition.kind == "DeletionsHeld");
                if let Some(held) = held.filter(|held| held.status == "True") {
                    bail!("DeletionsHeld: {}", held.message);
                }
            }
            waiting.tick();
            let last =
                found.plugin.and_then(|plugin| plugin.last_swap).context("the host knows of no swap any more")?;
            if last.to.as_ref().map(|to| to.digest.as_str()) != digest {
                bail!("another swap of {name} came in between: {}", show::report(&last));
            }
            match last.result {
                SwapResult::Proven => return Ok(last),
                SwapResult::RolledBack | SwapResult::Refused => bail!("{}: {}", last.reason, show::report(&last)),
                SwapResult::Switched => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<T> {
        let shown = self.socket.display();
        let stream = match UnixStream::connect(&self.socket).await {
            Ok(stream) => stream,
            Err(why) => return Err(unreachable(&self.socket, &why)),
        };
        let broken = || format!("the host at {shown} hung up; look at its log");
        check_peer(&stream).with_context(|| format!("use the socket {shown}"))?;
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
                .with_context(|| format!("the server at {shown} does not answer as a Pintle host of this version"));
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(why) => bail!("{}: {}", why.reason, why.message),
            Err(_) => bail!("the server at {shown} answered {status}; is it a Pintle host?"),
        }
    }
}

/// Checks that the listening process belongs to root or to this user: any user can listen at a path in a world-writable
/// folder, and would receive components and specs.
fn check_peer(stream: &UnixStream) -> anyhow::Result<()> {
    let (host, own) = (stream.peer_cred().context("ask who listens")?.uid(), rustix::process::geteuid().as_raw());
    if !may_listen(host, own) {
        bail!(
            "uid {host} listens there, which is neither root nor you: nothing was sent; run the command as that user, or name the socket of your host with --admin-socket PATH"
        );
    }
    Ok(())
}

fn may_listen(host: u32, own: u32) -> bool {
    host == 0 || host == own
}

/// Why the host is unreachable, and the remedy.
fn unreachable(socket: &Path, why: &std::io::Error) -> anyhow::Error {
    let shown = socket.display();
    match why.kind() {
        ErrorKind::PermissionDenied => {
            let owner = std::fs::metadata(socket).or_else(|_| std::fs::metadata(socket.parent().unwrap_or(socket)));
            let as_whom = owner.map_or_else(|_| "its user".to_owned(), |file| format!("uid {}", file.uid()));
            anyhow!("you may not use the socket {shown}: run as root, or as {as_whom}")
        }
        ErrorKind::NotFound => anyhow!(
            "cannot reach a Pintle host at {shown}: start `pintle run` or `pintle dev`, or name its socket with --admin-socket PATH"
        ),
        ErrorKind::ConnectionRefused => match std::fs::metadata(socket) {
            Ok(file) if !file.file_type().is_socket() => {
                anyhow!("{shown} is not a socket; name the host's socket with --admin-socket PATH")
            }
            _ => anyhow!(
                "the host that listened at {shown} has ended: start it again, or name another socket with --admin-socket PATH"
            ),
        },
        _ => anyhow!("cannot connect to {shown}: {why}; name the host's socket with --admin-socket PATH"),
    }
}

/// The path of a plugin, and the rest after its name.
pub fn path(name: &str, rest: &str) -> String {
    // An invalid plugin name must not result in another path.
    let mut path = String::from("/v1/plugins/");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_same_user_may_listen() {
        assert!(may_listen(0, 1000) && may_listen(1000, 1000) && may_listen(0, 0));
        assert!(!may_listen(1000, 0) && !may_listen(1001, 1000));
    }
}
