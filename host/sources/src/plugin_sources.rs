//! The sources of plugins while the host runs, opened together: socket, folder, resource.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use pintle_cache::Caches;
use pintle_core::ports::api::{ApiWriter, ApiWriters as _, WriterIdentity};
use pintle_kube::Connection;
use pintle_oci::Fetcher;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::admin::socket::{self, Place};
use crate::admin::{self, SaveRun};
use crate::control::Control;
use crate::folder::PluginFolder;
use crate::resource;
use crate::resource::{Parts, WRITER, Watcher};

/// Which sources an operator asks for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The plugin folder; `None` for none.
    pub plugin_dir: Option<PathBuf>,
    /// The place of the admin API's socket; `None` for the default one.
    pub admin_socket: Option<Place>,
}

/// The parts of a running host that the sources work on.
pub struct Running {
    /// Who decides what runs under which name.
    pub control: Arc<Control>,
    /// The host's caches, in which the sources watch resources.
    pub caches: Arc<Caches>,
    /// Pulls components from registries.
    pub fetcher: Fetcher,
    /// Components that the binary carries, by the names of their plugins.
    pub builtins: BTreeMap<String, &'static [u8]>,
    /// Converts runs that failed to cases.
    pub save_run: SaveRun,
}

/// The sources that an operator asks for, checked, and the socket taken.
pub struct PluginSources {
    socket: Option<socket::AdminSocket>,
    folder: Option<PathBuf>,
}

/// They are open until this is dropped.
pub struct Open {
    _socket: Option<socket::Guard>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl PluginSources {
    /// Takes the socket, and looks whether the folder is one. To be called within a tokio runtime.
    ///
    /// # Errors
    /// One line that names the argument and what to do.
    pub fn new(options: impl Into<Options>) -> anyhow::Result<Self> {
        let options = options.into();
        let folder = options.plugin_dir.as_deref().map(check_folder).transpose()?;
        Ok(Self { socket: socket::AdminSocket::open(options.admin_socket.as_ref())?, folder })
    }

    /// Where the socket is.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(socket::AdminSocket::path)
    }

    /// Opens them. The host must be running.
    pub fn open(self, host: impl Into<Running>, connection: &Connection) -> Open {
        let Running { control, caches, fetcher, builtins, save_run } = host.into();
        let mut tasks = Vec::new();
        let changed = watch::Sender::new(0);
        let watcher = Watcher::new(Parts {
            caches,
            writer: writer(connection),
            control: control.clone(),
            folder: self.folder.clone(),
            folder_changed: changed.subscribe(),
            builtins,
            fetcher,
        });
        tasks.push(AbortOnDropHandle::new(tokio::spawn(watcher.follow())));
        if let Some(folder) = self.folder {
            let folder = PluginFolder::new(folder, control.clone(), changed);
            tasks.push(AbortOnDropHandle::new(tokio::spawn(folder.follow())));
        }
        Open { _socket: self.socket.map(|socket| admin::serve(socket, control.clone(), save_run)), _tasks: tasks }
    }
}

/// The client for what is the host's own.
fn writer(connection: &Connection) -> Arc<dyn ApiWriter> {
    connection.writer(&WriterIdentity { name: WRITER.to_owned(), qps: Some(20.0), burst: 30, account: None })
}

/// Creates the definition of the resource, or brings it up to date.
///
/// # Errors
/// The API server refuses it, or does not answer.
pub async fn install_crd(connection: &Connection) -> anyhow::Result<()> {
    resource::crd::install(&writer(connection)).await
}

/// The folder by a path that says where it is, wherever it is read.
fn check_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    let shown = folder.display();
    let there = std::fs::metadata(folder).with_context(|| format!("read the plugin folder {shown}"))?;
    if !there.is_dir() {
        bail!("--plugin-dir {shown} is not a directory");
    }
    std::path::absolute(folder).with_context(|| format!("find out where {shown} is"))
}
