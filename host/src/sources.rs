//! Implementations that the plugin sources need from this binary: flags, host, and case format.

use pintle_inspect::cases;
use pintle_sources::{Options, Running};

use crate::cli::PluginArgs;
use crate::host::Host;
use crate::plugins;

impl From<&PluginArgs> for Options {
    fn from(args: &PluginArgs) -> Self {
        let (plugin_dir, admin_socket) = (args.plugin_dir.clone(), args.admin_socket.clone());
        let plugin_class = args.plugin_class.clone();
        Self { plugin_dir, admin_socket, allow_unpinned: args.allow_unpinned, plugin_class }
    }
}

impl From<&Host> for Running {
    fn from(host: &Host) -> Self {
        Self {
            control: host.control.clone(),
            caches: host.manager.caches().clone(),
            fetcher: host.fetcher.clone(),
            builtins: plugins::builtins().collect(),
            save_run: cases::save,
            fences: host.manager.fences(),
            followed: host.followed.clone(),
            signature: host.signature.clone(),
        }
    }
}
