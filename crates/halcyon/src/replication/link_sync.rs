//! All of the primary's data: received into a file, or read as they come, and loaded in place of this server's own.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use engine::replication::replica::Payload;

use super::link::Link;
use crate::persistence::load::{self, Source, Unloadable};

/// Takes the data, which are those at `offset` of the stream `id`.
pub(super) fn take(link: &mut Link<'_>, id: &str, offset: u64) -> Result<(), String> {
    let server = link.server();
    let mut payload = loop {
        let line = link.line()?;
        // Empty lines say that the primary is still making the data.
        if !line.is_empty() {
            break Payload::announced(&line)?;
        }
    };
    let total_bytes = payload.total_bytes();
    server.replication.following.note_sync(total_bytes, 0);
    match total_bytes {
        Some(bytes) => tracing::info!("MASTER <-> REPLICA sync: receiving {bytes} bytes from master to disk"),
        None => tracing::info!("MASTER <-> REPLICA sync: receiving streamed RDB from master"),
    }
    if loads_as_it_comes(link) {
        let source = &mut Incoming { link, payload, file: Vec::new(), passed: 0, is_whole: false };
        return load(source, id, offset, total_bytes.unwrap_or(0));
    }
    let spool = Spool::make(link.plan.term)?;
    let bytes = receive(link, &mut payload, &spool)?;
    tracing::info!("MASTER <-> REPLICA sync: Loading DB in memory");
    let mut file = spool.file.try_clone().map_err(|error| spool.failed(&error))?;
    file.seek(SeekFrom::Start(0)).map_err(|error| spool.failed(&error))?;
    load(&mut Received { link, file, at: 0 }, id, offset, bytes)
}

/// Where there is nothing to lose, the data need no file first.
fn loads_as_it_comes(link: &Link<'_>) -> bool {
    let server = link.server();
    server.config.string("repl-diskless-load") == "on-empty-db" && server.keyspace.is_empty()
}

/// A source of a snapshot that comes by a link.
trait FromLink<'s>: Source {
    fn link(&mut self) -> &mut Link<'s>;
}

fn load<'s>(source: &mut dyn FromLink<'s>, id: &str, offset: u64, bytes: u64) -> Result<(), String> {
    let (server, term) = (source.link().server(), source.link().plan.term);
    if !server.begin_sync_load(term, bytes) {
        return Err("another primary is to be followed".to_owned());
    }
    // What ended is left to the primary to delete: nothing is left out.
    match load::load_from(server, source, i64::MIN) {
        Ok(loaded) if server.end_sync_load(term, id, offset, loaded.stream_db) => Ok(()),
        Ok(_) => Err("another primary is to be followed".to_owned()),
        Err(Unloadable { at, reason, .. }) => {
            server.abandon_sync_load();
            Err(format!("The data from MASTER cannot be loaded: at byte {at} they have {reason}"))
        }
    }
}

/// A file for what comes, which goes with this value.
struct Spool {
    path: PathBuf,
    file: File,
}

impl Spool {
    fn make(term: u64) -> Result<Spool, String> {
        let path = PathBuf::from(format!("temp-{}-{term}.sync.rdb", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(|error| {
            format!("Opening the temp file {} needed for MASTER <-> REPLICA sync: {error}", path.display())
        })?;
        Ok(Spool { path, file })
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("the temp file {} of MASTER <-> REPLICA sync: {error}", self.path.display())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // If it stays, it is in nobody's way.
        let _ = fs::remove_file(&self.path);
    }
}

/// Receives everything into the file; how many bytes that were.
fn receive(link: &mut Link<'_>, payload: &mut Payload, spool: &Spool) -> Result<u64, String> {
    let (total_bytes, mut written, mut piece) = (payload.total_bytes(), 0, Vec::new());
    loop {
        let (taken, is_whole) = payload.take(&link.input, &mut piece);
        link.input.drain(..taken);
        (&spool.file).write_all(&piece).map_err(|error| spool.failed(&error))?;
        written += piece.len() as u64;
        piece.clear();
        link.server().replication.following.note_sync(total_bytes, written);
        if is_whole {
            return Ok(written);
        }
        link.read()?;
    }
}

/// A file that was received; the primary is told meanwhile that somebody is there.
struct Received<'l, 's> {
    link: &'l mut Link<'s>,
    file: File,
    at: u64,
}

impl Source for Received<'_, '_> {
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize, String> {
        self.link.keep_alive()?;
        if at != self.at {
            self.file.seek(SeekFrom::Start(at)).map_err(|error| error.to_string())?;
        }
        let read = self.file.read(buffer).map_err(|error| error.to_string())?;
        self.at = at + read as u64;
        Ok(read)
    }
}

impl<'s> FromLink<'s> for Received<'_, 's> {
    fn link(&mut self) -> &mut Link<'s> {
        self.link
    }
}

/// The data as they come.
struct Incoming<'l, 's> {
    link: &'l mut Link<'s>,
    payload: Payload,
    /// What came of the data and was not read yet, and how much was read.
    file: Vec<u8>,
    passed: u64,
    is_whole: bool,
}

impl Source for Incoming<'_, '_> {
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize, String> {
        debug_assert_eq!(at, self.passed, "link-order: what comes is read in order");
        while self.file.is_empty() && !self.is_whole {
            let (taken, is_whole) = self.payload.take(&self.link.input, &mut self.file);
            self.link.input.drain(..taken);
            self.is_whole = is_whole;
            if self.file.is_empty() && !is_whole {
                self.link.read()?;
            }
        }
        self.link.keep_alive()?;
        let read = self.file.len().min(buffer.len());
        buffer[..read].copy_from_slice(&self.file[..read]);
        self.file.drain(..read);
        self.passed += read as u64;
        self.link.server().replication.following.note_sync(None, self.passed);
        Ok(read)
    }
}

impl<'s> FromLink<'s> for Incoming<'_, 's> {
    fn link(&mut self) -> &mut Link<'s> {
        self.link
    }
}
