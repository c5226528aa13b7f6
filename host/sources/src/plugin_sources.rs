//! Starts all plugin sources of a running host: socket, folder, resource.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::BoxFuture;
use pintle_cache::Caches;
use pintle_core::ports::api::{ApiWriter, ApiWriters as _, Fences, WriteFence, WriterIdentity};
use pintle_kube::Connection;
use pintle_oci::Fetcher;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::admin::socket::{self, Place};
use crate::admin::{self, SaveRun};
use crate::claims::Claims;
use crate::control::Control;
use crate::folder::{self, PluginFolder};
use crate::followed::{FollowedFile, FollowedFiles};
use crate::resource;
use crate::resource::{Parts, Signature, WRITER, Watcher, WritersOfPlugins};

/// Time limit for marking statuses when the host stops.
const MARKING: Duration = Duration::from_secs(2);

/// The sources that an operator configures.
#[derive(Clone, Debug)]
pub struct Options {
    /// The plugin folder, if any.
    pub plugin_dir: Option<PathBuf>,
    /// Path of the admin socket; `None` for the default.
    pub admin_socket: Option<Place>,
    /// Whether a `ControllerPlugin` may refer to a component by a tag, or in a ConfigMap, without a digest and without
    /// a trusted key.
    pub allow_unpinned: bool,
    /// The class of `ControllerPlugin`s that the host applies.
    pub plugin_class: String,
}

/// The parts of a running host that the sources use.
pub struct Running {
    /// Decides which component runs under each name.
    pub control: Arc<Control>,
    /// The host's caches, in which the sources watch resources.
    pub caches: Arc<Caches>,
    /// Pulls components from registries.
    pub fetcher: Fetcher,
    /// Built-in components, by plugin name.
    pub builtins: BTreeMap<String, &'static [u8]>,
    /// Converts failed runs to cases.
    pub save_run: SaveRun,
    /// Time limits for status writes; unlimited if absent.
    pub fences: Option<Fences>,
    /// Files of settings.
    pub followed: Vec<FollowedFile>,
    /// Signature of the host in statuses.
    pub signature: Signature,
}

/// The configured sources: checked, and the socket bound.
pub struct PluginSources {
    socket: Option<socket::AdminSocket>,
    folder: Option<PathBuf>,
    allow_unpinned: bool,
    class: String,
}

/// Running sources; dropping this stops them.
pub struct Open {
    _socket: Option<socket::Guard>,
    _tasks: Vec<AbortOnDropHandle<()>>,
    resources: AbortOnDropHandle<()>,
    stopping: CancellationToken,
}

impl Open {
    /// Stops the sources. The statuses of resources are marked first, because no host updates them from now on; that
    /// takes at most [`MARKING`].
    pub async fn close(self) {
        self.stopping.cancel();
        if timeout(MARKING, self.resources).await.is_err() {
            tracing::warn!("the statuses of ControllerPlugins still show what they were when the host stopped");
        }
    }
}

impl PluginSources {
    /// Binds the socket, and checks the folder. Call it within a tokio runtime.
    ///
    /// # Errors
    /// One line with the argument and the next step.
    pub fn new(options: impl Into<Options>) -> anyhow::Result<Self> {
        let options = options.into();
        let folder = options.plugin_dir.as_deref().map(check_folder).transpose()?;
        let socket = socket::AdminSocket::open(options.admin_socket.as_ref())?;
        Ok(Self { socket, folder, allow_unpinned: options.allow_unpinned, class: options.plugin_class })
    }

    /// The names that the resources of the cluster and the folder claim.
    ///
    /// # Errors
    /// As [`Claims::read`].
    pub async fn claims(&self, connection: &Connection) -> anyhow::Result<Claims> {
        Claims::read(&*connection.reader(), self.folder.as_deref(), &self.class).await
    }

    /// Path of the socket.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(socket::AdminSocket::path)
    }

    /// Starts the sources. The host must be running.
    pub fn open(self, host: impl Into<Running>, connection: &Connection) -> Open {
        let Running { control, caches, fetcher, builtins, save_run, fences, followed, signature } = host.into();
        let mut tasks = Vec::new();
        let changed = watch::Sender::new(0);
        let watcher = Watcher::new(Parts {
            caches: caches.clone(),
            writers: writers(connection, fences),
            control: control.clone(),
            folder: self.folder.clone(),
            folder_changed: changed.subscribe(),
            builtins,
            fetcher,
            allow_unpinned: self.allow_unpinned,
            class: self.class,
            signature,
        });
        let supervisor = caches.supervisor().clone();
        let vital = |task, future: BoxFuture<'static, ()>| {
            let supervisor = supervisor.clone();
            AbortOnDropHandle::new(tokio::spawn(async move { supervisor.run_once(task, future).await }))
        };
        let stopping = CancellationToken::new();
        let resources = vital("plugin resources", Box::pin(watcher.follow(stopping.clone())));
        let followed = FollowedFiles::new(followed, control.clone());
        tasks.push(vital("files of settings", Box::pin(followed.follow())));
        if let Some(folder) = self.folder {
            let folder = PluginFolder::new(folder, control.clone(), changed);
            tasks.push(vital("plugin folder", Box::pin(folder.follow())));
        }
        let socket = self.socket.map(|socket| admin::serve(socket, control.clone(), save_run));
        Open { _socket: socket, _tasks: tasks, resources, stopping }
    }
}

/// Writers for the host's own writes about plugins, one for each group of plugins.
fn writers(connection: &Connection, fences: Option<Fences>) -> WritersOfPlugins {
    let Some(fences) = fences else {
        let writer = writer(connection, None);
        return Arc::new(move |_| writer.clone());
    };
    let of_groups: Vec<_> =
        fences.groups().ids().map(|group| writer(connection, Some(fences.of_group(group)))).collect();
    Arc::new(move |plugin| of_groups[fences.groups().of(plugin).index()].clone())
}

/// A writer for the host's own writes.
fn writer(connection: &Connection, fence: Option<Arc<dyn WriteFence>>) -> Arc<dyn ApiWriter> {
    connection
        .client(&WriterIdentity { name: WRITER.to_owned(), qps: Some(20.0), burst: 30, account: None, fence })
        .writer
}

/// Creates or updates the resource's definition.
///
/// # Errors
/// The API server rejects it, or does not respond.
pub async fn install_crd(connection: &Connection) -> anyhow::Result<()> {
    resource::crd::install(&writer(connection, None)).await
}

/// Creates or updates an author's CustomResourceDefinition. An API server other than the embedded one serves the kind a
/// moment later.
///
/// # Errors
/// The API server rejects it, or does not respond.
pub async fn apply_crd(connection: &Connection, definition: &serde_json::Value) -> anyhow::Result<()> {
    resource::crd::apply(&writer(connection, None), definition).await
}

/// The folder's absolute path, after checking that only root and the host's user may change it.
fn check_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    folder::check_folder(folder)?;
    std::path::absolute(folder).with_context(|| format!("find out where {} is", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_folder_that_others_may_change_is_no_source() {
        let (folder, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = || Options {
            plugin_dir: Some(folder.path().to_owned()),
            admin_socket: Some(Place::Path(run.path().join("admin.sock"))),
            allow_unpinned: false,
            plugin_class: resource::DEFAULT_CLASS.to_owned(),
        };
        let sources = PluginSources::new(options()).unwrap();
        assert_eq!(sources.folder.as_deref(), Some(folder.path()));
        drop(sources);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let why = PluginSources::new(options()).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains("whoever writes there decides what the host runs"), "{why:?}");
    }
}
