//! `pintle new`.

use std::path::PathBuf;

use pintle_build::Scaffold;

use crate::cli::author::NewArgs;
use crate::output;

pub(crate) fn new(args: &NewArgs) -> anyhow::Result<()> {
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let scaffold = Scaffold { name: &args.name, language: args.lang, folder: &folder };
    scaffold.write()?;
    let mut text = format!("{} is a plugin in {}. Next:\n\n  cd {0}\n", folder.display(), args.lang);
    for step in scaffold.next_steps() {
        text += &format!("  {step}\n");
    }
    output::line(text.trim_end())
}
