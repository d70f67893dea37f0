//! Reading a snapshot at the start: this thread reads and decodes, others store the keys; clients are served meanwhile with
//! what needs no data.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use engine::persistence::loading::LoadedKey;
use engine::scripting::functions::Restore;
use engine::server::Server;
use journal::storage::{Storage, StoredFile};
use parking_lot::Mutex;
use rdb::{Cursor, Event, FileDecoder, ReadError};
use store::Locked;

use super::delay;
use crate::courtesy;
use crate::machine::usable_cpus;

/// Threads that store keys, at least: one for each CPU, beside the one that decodes.
const STORERS_MIN: usize = 2;
/// Keys that are handed over together, and such hand-overs that may wait.
const BATCH_KEYS: usize = 512;
const BATCHES_WAITING: usize = 16;
const READ_BYTES: usize = 1 << 20;
/// Between two lines of the log about how far it is.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Keys that are handed over together.
pub type Batch = Vec<LoadedKey>;

/// Loads the file, of which `path` is the name. The error says what is wrong with it, where, and what to do.
pub fn load(server: &Server, storage: &dyn Storage, path: &Path) -> Result<Loaded, String> {
    let file = storage.open(path).map_err(|error| error.to_string())?;
    let bytes = file.size().map_err(|error| error.to_string())?;
    server.persistence.loading.total_bytes.store(bytes, Relaxed);
    let started = Instant::now();
    let loaded = load_part(server, file, bytes, server.clock.now().unix_ms)?;
    let loading = &server.persistence.loading;
    tracing::info!(
        "DB loaded from {}: {} keys ({} had expired) in {:.3} seconds",
        path.display(),
        loading.keys_loaded.load(Relaxed),
        loading.keys_expired.load(Relaxed),
        started.elapsed().as_secs_f64()
    );
    Ok(loaded)
}

/// Loads what a file begins with, of which `bytes` count; keys that ended before `now_ms` are left out.
pub fn load_part(
    server: &Server,
    file: Arc<dyn StoredFile>,
    bytes: u64,
    now_ms: i64,
) -> Result<Loaded, String> {
    let path = file.path().to_owned();
    load_from(server, &mut WholeFile(file), now_ms).map_err(|unloadable| unloadable.told(&path, bytes))
}

/// Where the bytes of a snapshot come from.
pub trait Source {
    /// Reads what follows byte `at`, which is where the last reading ended or before; 0 at the end.
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize, String>;
}

struct WholeFile(Arc<dyn StoredFile>);

impl Source for WholeFile {
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize, String> {
        self.0.read_at(at, buffer).map_err(|error| error.to_string())
    }
}

/// What was loaded.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Where the snapshot ended.
    pub end: u64,
    /// The stream that the snapshot is an instant of, by its id and the offset in it, if the snapshot says so.
    pub stream_id: Option<String>,
    /// As above.
    pub stream_offset: Option<u64>,
    /// The database that is selected there.
    pub stream_db: usize,
}

impl Loaded {
    /// Takes over a fact that a snapshot has about itself.
    fn take(&mut self, name: &[u8], value: &[u8]) {
        let value = String::from_utf8_lossy(value);
        match name {
            b"repl-id" if value.len() == 40 => self.stream_id = Some(value.into_owned()),
            b"repl-offset" => self.stream_offset = value.parse().ok(),
            b"repl-stream-db" => self.stream_db = value.parse().unwrap_or(0),
            _ => {}
        }
    }
}

/// Why a snapshot could not be loaded, and how far it was.
#[derive(Debug)]
pub struct Unloadable {
    /// The byte.
    pub at: u64,
    /// What was there.
    pub reason: String,
    /// It is no damage.
    pub is_sound: bool,
}

impl Unloadable {
    /// What is wrong with a file, of which `bytes` count, where, and what to do.
    fn told(&self, path: &Path, bytes: u64) -> String {
        let (path, Unloadable { at, reason, is_sound }) = (path.display(), self);
        if *is_sound {
            format!(
                "{path} cannot be loaded here: at byte {at} of {bytes} it has {reason}. It is not damaged. Load it with the server that wrote it, or move it away to start without its data."
            )
        } else {
            format!(
                "{path} is damaged at byte {at} of {bytes}: {reason}. Restore it from a copy, or move it away to start without its data."
            )
        }
    }
}

/// Loads a snapshot; keys that ended before `now_ms` are left out.
pub fn load_from(server: &Server, source: &mut dyn Source, now_ms: i64) -> Result<Loaded, Unloadable> {
    let (batches, receiver) = sync_channel(BATCHES_WAITING);
    let receiver = Arc::new(Mutex::new(receiver));
    thread::scope(|scope| {
        for _ in 0..usable_cpus().max(STORERS_MIN) {
            let receiver = receiver.clone();
            scope.spawn(move || store(server, &receiver, now_ms));
        }
        drop(receiver);
        read(server, source, batches, Restore::Append)
    })
}

/// As [`load`], storing the keys on this thread, which holds every stripe. What is there already is replaced, or is an error.
pub fn load_held(
    server: &Server,
    held: &mut Locked<'_>,
    storage: &dyn Storage,
    path: &Path,
    replaces: bool,
) -> Result<(), String> {
    let file = storage.open(path).map_err(|error| error.to_string())?;
    let bytes = file.size().map_err(|error| error.to_string())?;
    let loading = &server.persistence.loading;
    for counter in [&loading.loaded_bytes, &loading.keys_loaded, &loading.keys_expired] {
        counter.store(0, Relaxed);
    }
    let (now_ms, libraries) =
        (server.clock.now().unix_ms, if replaces { Restore::Replace } else { Restore::Append });
    let mut store = |keys: &mut Batch| server.load_keys_held(held, keys, now_ms, replaces);
    load_part_here(server, file, bytes, libraries, &mut store).map(drop)
}

/// As [`load_part`]; `store` stores the keys, on this thread.
pub fn load_part_here(
    server: &Server,
    file: Arc<dyn StoredFile>,
    bytes: u64,
    libraries: Restore,
    store: &mut dyn FnMut(&mut Batch) -> Result<(), String>,
) -> Result<Loaded, String> {
    let path = file.path().to_owned();
    let (batches, receiver) = sync_channel(BATCHES_WAITING);
    thread::scope(|scope| {
        let reading = scope.spawn(move || read(server, &mut WholeFile(file), batches, libraries));
        let mut stored = Ok(());
        for mut batch in receiver {
            // What comes after an error is read to the end, and left.
            stored = stored.and_then(|()| store(&mut batch));
        }
        let read = reading.join().expect("load-reader: does not panic");
        let loaded = read.map_err(|unloadable| unloadable.told(&path, bytes))?;
        stored.map_err(|reason| format!("{}: {reason}", path.display()))?;
        Ok(loaded)
    })
}

/// Reads a snapshot and hands its keys over.
fn read(
    server: &Server,
    source: &mut dyn Source,
    batches: SyncSender<Batch>,
    libraries: Restore,
) -> Result<Loaded, Unloadable> {
    courtesy::begin_if_following(server);
    let mut reading = Reading::new(server, source, batches, libraries);
    match reading.run() {
        Ok(()) => Ok(Loaded { end: reading.at, ..reading.keys.facts }),
        Err(reason) => Err(Unloadable { at: reading.at, reason, is_sound: reading.is_sound }),
    }
}

fn store(server: &Server, batches: &Mutex<Receiver<Batch>>, now_ms: i64) {
    courtesy::begin_if_following(server);
    loop {
        let next = batches.lock().recv();
        let Ok(mut batch) = next else { return };
        server.load_keys(&mut batch, now_ms);
        courtesy::while_following(server);
    }
}

/// A file that is being read.
struct Reading<'a> {
    source: &'a mut dyn Source,
    /// What was read and not decoded, and where in the file it stands.
    buffer: Vec<u8>,
    at: u64,
    /// Bytes of other files that were loaded before.
    before: u64,
    /// Reading ended at something that is no damage.
    is_sound: bool,
    keys: Keys<'a>,
    reported: Instant,
}

impl<'a> Reading<'a> {
    fn new(
        server: &'a Server,
        source: &'a mut dyn Source,
        batches: SyncSender<Batch>,
        libraries: Restore,
    ) -> Reading<'a> {
        let (batch, facts) = (Batch::with_capacity(BATCH_KEYS), Loaded::default());
        let keys = Keys { server, db: 0, batch, batches, is_delayed: false, facts, libraries };
        let before = server.persistence.loading.loaded_bytes.load(Relaxed);
        Reading { source, buffer: Vec::new(), at: 0, before, is_sound: false, keys, reported: Instant::now() }
    }

    /// Reads to the file's end.
    fn run(&mut self) -> Result<(), String> {
        let server = self.keys.server;
        let mut decoder = FileDecoder::new(server.thresholds());
        loop {
            let is_over = self.decode(&mut decoder)?;
            server.persistence.loading.loaded_bytes.store(self.before + self.at, Relaxed);
            if is_over {
                self.keys.hand_over();
                return Ok(());
            }
            self.report();
            self.keys.is_delayed = delay::is_wanted(server, delay::LOADED);
            if self.read()? == 0 {
                return Err("it ends too early".to_owned());
            }
        }
    }

    /// Takes as many records as the buffer has. True if the file's last was among them.
    fn decode(&mut self, decoder: &mut FileDecoder) -> Result<bool, String> {
        let mut input = Cursor::new(&self.buffer);
        let decoded = loop {
            let taken = match decoder.read(&mut input) {
                Ok(Event::End) => break Ok(true),
                Ok(event) => self.keys.take(event),
                Err(ReadError::Short) => break Ok(false),
                Err(error @ (ReadError::Corrupt(_) | ReadError::Unsupported(_))) => {
                    self.is_sound = matches!(error, ReadError::Unsupported(_));
                    Err(error.to_string())
                }
            };
            if let Err(reason) = taken {
                break Err(reason);
            }
        };
        let consumed = input.position();
        self.at += consumed as u64;
        self.buffer.drain(..consumed);
        decoded
    }

    fn read(&mut self) -> Result<usize, String> {
        let filled = self.buffer.len();
        // A string longer than a reading needs many: they grow with it.
        self.buffer.resize(filled + READ_BYTES.max(filled), 0);
        let read = self.source.read_at(self.at + filled as u64, &mut self.buffer[filled..])?;
        self.buffer.truncate(filled + read);
        Ok(read)
    }

    fn report(&mut self) {
        if self.reported.elapsed() < REPORT_INTERVAL {
            return;
        }
        self.reported = Instant::now();
        let loading = &self.keys.server.persistence.loading;
        let (total, keys) = (loading.total_bytes.load(Relaxed), loading.keys_loaded.load(Relaxed));
        let done = (self.before + self.at) as f64;
        tracing::info!("Loading DB: {:.0}%, {keys} keys", done * 100.0 / total.max(1) as f64);
    }
}

/// Where the decoded keys go: to the threads that store them.
struct Keys<'a> {
    server: &'a Server,
    /// The database that was selected last.
    db: usize,
    batch: Batch,
    batches: SyncSender<Batch>,
    /// Each key is to take its time, for those who test what goes on meanwhile.
    is_delayed: bool,
    /// What the snapshot says of itself.
    facts: Loaded,
    /// What happens to libraries that are there already.
    libraries: Restore,
}

impl Keys<'_> {
    fn take(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Key(key, value, facts) => {
                self.batch.push(LoadedKey { db: self.db, key, value, facts });
                if self.batch.len() == BATCH_KEYS || self.is_delayed {
                    self.hand_over();
                }
            }
            Event::Select(selected) => {
                let databases = self.server.keyspace.databases();
                self.db = usize::try_from(selected).ok().filter(|db| *db < databases).ok_or_else(|| {
                    format!("it has a database {selected}, and directive databases allows {databases}")
                })?;
            }
            Event::Function(code) => {
                let functions = &self.server.scripting.functions;
                let restored = functions.restore(self.server, &[code], self.libraries);
                restored
                    .map_err(|fault| format!("a library of functions: {}", fault.bytes().escape_ascii()))?;
            }
            Event::ModuleAux(module) => tracing::warn!(
                "The file has data of module type {module}, which is left out: Halcyon has no modules"
            ),
            Event::Aux(name, value) => {
                self.facts.take(&name, &value);
                // Facts come before keys.
                let is_of_stream = self.facts.stream_id.is_some();
                self.server.persistence.loading.is_of_stream.store(is_of_stream, Relaxed);
            }
            Event::Version(_) | Event::Resize(..) | Event::End => {}
        }
        Ok(())
    }

    /// Waits where the storing threads have enough to do.
    fn hand_over(&mut self) {
        let full = std::mem::replace(&mut self.batch, Batch::with_capacity(BATCH_KEYS));
        self.batches.send(full).expect("load-storers: take every batch");
        self.is_delayed = delay::after_key(self.server, delay::LOADED);
        courtesy::while_following(self.server);
    }
}
