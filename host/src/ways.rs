//! The ways in for plugins while the host runs: socket, folder, resource.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use pintle_core::api::{ApiWriter, ApiWriters as _, WriterIdentity};
use pintle_kube::Connection;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::admin::{self, socket};
use crate::cli::PluginArgs;
use crate::folder::PluginFolder;
use crate::host::Host;
use crate::resource::{Parts, WRITER, Watcher};
use crate::{plugins, resource};

/// What the command line says of them, checked, and the socket taken.
pub(crate) struct Ways {
    socket: Option<socket::AdminSocket>,
    folder: Option<PathBuf>,
}

/// They are open until this is dropped.
pub(crate) struct Open {
    _socket: Option<socket::Guard>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Ways {
    /// Takes the socket, and looks whether the folder is one. To be called within a tokio runtime.
    ///
    /// # Errors
    /// One line that names the argument and what to do.
    pub(crate) fn new(args: &PluginArgs) -> anyhow::Result<Self> {
        let folder = args.plugin_dir.as_deref().map(check_folder).transpose()?;
        Ok(Self { socket: socket::AdminSocket::open(args.admin_socket.as_ref())?, folder })
    }

    /// Where the socket is.
    pub(crate) fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(socket::AdminSocket::path)
    }

    /// Opens them. The host must be running.
    pub(crate) fn open(self, host: &Host, connection: &Connection) -> Open {
        let control = &host.control;
        let mut tasks = Vec::new();
        let changed = watch::Sender::new(0);
        let watcher = Watcher::new(Parts {
            caches: host.manager.caches().clone(),
            writer: writer(connection),
            control: control.clone(),
            folder: self.folder.clone(),
            folder_changed: changed.subscribe(),
            builtins: builtins(),
            fetcher: host.fetcher.clone(),
        });
        tasks.push(AbortOnDropHandle::new(tokio::spawn(watcher.follow())));
        if let Some(folder) = self.folder {
            let folder = PluginFolder::new(folder, control.clone(), changed);
            tasks.push(AbortOnDropHandle::new(tokio::spawn(folder.follow())));
        }
        Open { _socket: self.socket.map(|socket| admin::serve(socket, control.clone())), _tasks: tasks }
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
pub(crate) async fn install_crd(connection: &Connection) -> anyhow::Result<()> {
    resource::crd::install(&writer(connection)).await
}

/// Components that the binary carries, by the names of their plugins.
fn builtins() -> BTreeMap<String, &'static [u8]> {
    plugins::builtins().collect()
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
