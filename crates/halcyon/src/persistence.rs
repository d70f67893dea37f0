//! The data's files: written and read by threads that serve no client.

mod delay;
pub mod disk;
mod grouping;
pub mod journal_thread;
pub mod load;
pub mod recover;
pub mod rewrite;
pub mod save;

use engine::config::Config;
use journal::files::Names;

/// How the append-only files are called now. Where the process is later does not matter to them.
pub fn names(config: &Config) -> Result<Names, String> {
    let data =
        std::env::current_dir().map_err(|error| format!("cannot tell the working directory: {error}"))?;
    Ok(Names { data, directory: config.string("appenddirname"), prefix: config.string("appendfilename") })
}
