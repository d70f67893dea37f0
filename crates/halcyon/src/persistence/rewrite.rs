//! A snapshot as the new base of the append-only files.

use engine::persistence::command_base::CommandEncoder;
use engine::persistence::rewriting::Rewritten;
use engine::persistence::saving::Save;
use engine::server::Server;
use journal::manifest::BaseFormat;
use journal::storage::{RealStorage, Result as StorageResult, Storage};

use super::journal_thread::{Journal, Rewrite};
use super::save::{Output, write};

/// Bytes that are made before they are written.
const PIECE_BYTES: usize = 256 * 1024;
const SYNC_DIRECTIVE: &str = "aof-rewrite-incremental-fsync";

/// Writes `save` beside the files that `rewrite` is for, and has it installed. It is walked wholly, whatever the disk
/// says.
pub fn rewrite(
    server: &Server,
    save: &Save,
    journal: &Journal,
    rewrite: Rewrite,
) -> Result<Rewritten, String> {
    let path = rewrite.names.temporary_base();
    let (format, written) = match server.config.bool("aof-use-rdb-preamble") {
        true => (BaseFormat::Rdb, write(server, save, &RealStorage, &path, SYNC_DIRECTIVE)),
        false => {
            let output = Output::new(server, RealStorage.create(&path), SYNC_DIRECTIVE);
            (BaseFormat::Aof, write_commands(server, save, output))
        }
    };
    match written {
        Ok(()) => journal.install(rewrite, format, save.log_offset).inspect_err(|_| {
            let _ = RealStorage.remove(&path);
        }),
        Err(error) => {
            let _ = RealStorage.remove(&path);
            journal.give_up();
            Err(error.to_string())
        }
    }
}

fn write_commands(server: &Server, save: &Save, mut output: Output) -> StorageResult<()> {
    let mut encoder = CommandEncoder::new(server, save);
    let mut bytes = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
    encoder.head(&mut bytes);
    loop {
        let has_more = encoder.fill(&mut bytes, PIECE_BYTES);
        output.append(&bytes);
        bytes.clear();
        save.note_progress(server);
        if !has_more {
            return output.finish();
        }
    }
}
