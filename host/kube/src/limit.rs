//! The rate limit that the writes and the live reads of one client share.
//!
//! Source: client-go's `flowcontrol`, by which each controller of kube-controller-manager has one limit for all its requests.

use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pintle_core::object::id::ObjectKey;
use pintle_core::policy::ratelimit::TokenBucket;
use pintle_core::ports::api::{
    ApiError, ApiReader, ApiResource, Discovery, ListPage, ListWatchTarget, WatchStart, WatchStream, WriterIdentity,
};
use std::sync::Arc;
use tokio::time::Instant;

use crate::connect::Connection;

/// The limit of a client.
pub(crate) struct Limit(Option<Mutex<TokenBucket>>);

impl Limit {
    pub(crate) fn of(identity: &WriterIdentity) -> Arc<Self> {
        Arc::new(Self(identity.qps.map(|qps| Mutex::new(TokenBucket::new(f64::from(qps), identity.burst)))))
    }

    /// Waits for the turn of one request, and reports the delay.
    pub(crate) async fn wait(&self, method: &'static str, connection: &Connection) {
        let Some(bucket) = &self.0 else { return };
        let delay = bucket.lock().reserve(Instant::now().into_std());
        if delay > Duration::ZERO {
            tokio::time::sleep(delay).await;
        }
        connection.report(|observer| observer.delayed(method, &connection.host, delay));
    }
}

/// Live reads of a client.
pub(crate) struct LimitedReader {
    pub(crate) connection: Connection,
    pub(crate) limit: Arc<Limit>,
}

impl ApiReader for LimitedReader {
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>> {
        Box::pin(async {
            self.limit.wait("GET", &self.connection).await;
            self.connection.discover().await
        })
    }

    fn list<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        limit: u32,
        page: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        Box::pin(async move {
            self.limit.wait("GET", &self.connection).await;
            self.connection.list(target, limit, page).await
        })
    }

    fn watch<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        start: WatchStart,
    ) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
        Box::pin(async move {
            self.limit.wait("GET", &self.connection).await;
            self.connection.watch(target, start).await
        })
    }

    fn get<'a>(
        &'a self,
        resource: &'a ApiResource,
        object: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(async move {
            self.limit.wait("GET", &self.connection).await;
            self.connection.get(resource, object).await
        })
    }

    fn raw<'a>(&'a self, path: &'a str, limit_bytes: usize) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(async move {
            self.limit.wait("GET", &self.connection).await;
            self.connection.raw(path, limit_bytes).await
        })
    }

    fn turn(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.limit.wait("GET", &self.connection))
    }
}
