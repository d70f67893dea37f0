//! Reading the append-only files at a start: this thread reads and decodes, others run the commands, each on keys of
//! its own. What touches more than the keys that it names waits for the others and runs alone.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use engine::lanes::Needs;
use engine::persistence::files::FilesState;
use engine::persistence::replaying::{Replayer, long_ago};
use engine::scripting::functions::Restore;
use engine::server::Server;
use journal::aof::Record;
use journal::files::{Directory, Names};
use journal::log::write_select;
use journal::manifest::BaseFormat;
use journal::recover::{FileFacts, Item, Recovered, Recovery};
use journal::storage::Storage;
use rdb::{RecordEncoder, VERSION_WRITTEN, crc64};
use store::courtesy::note_work;

use super::delay;
use super::disk::disk;
use super::journal_thread::Journal;
use super::load::{Batch, load_part, load_part_here};
use crate::courtesy;
use crate::helpers::{Helpers, Work};
use crate::machine::usable_cpus;

/// Threads that run commands, where there are fewer CPUs.
const APPLIERS_MIN: usize = 2;
/// Bytes of commands that are handed over together, and such hand-overs that may wait for each thread.
const BATCH_BYTES: usize = 256 * 1024;
const BATCHES_WAITING: usize = 8;
/// Between two lines of the log about how far it is.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// What reading a record and handing it on amounts to, as [`store::courtesy`] counts work.
const RECORD_UNITS: u32 = 5;
/// Records between two looks at the clock.
const REPORT_RECORDS: u64 = 4096;

/// Loads the files, and makes them if there are none. The error is one line: what is wrong, where, and what to do.
pub fn recover(server: &Server, storage: &Arc<dyn Storage>, names: &Names) -> Result<Loaded, String> {
    // Of a rewrite that was under way when the server before this one ended.
    let _ = storage.remove(&names.temporary_base());
    let found = Directory::open(storage, names).map_err(|error| error.to_string())?;
    let Some(directory) = found else { return create(server, storage, names) };
    let recovery = Recovery::new(directory, server.config.bool("aof-load-truncated"));
    let loaded = load(server, recovery.map_err(|error| error.to_string())?)?;
    let recovered = &loaded.recovered;
    if let Some(truncated) = &recovered.summary.truncated {
        tracing::warn!(
            "The append-only file {} was not whole at its end: {}. Its last {} bytes were cut off (aof-load-truncated)",
            truncated.path.display(),
            truncated.damage,
            truncated.bytes
        );
    }
    if let Some(offset) = recovered.summary.end_offset {
        server.log.restart_at(offset);
    }
    Ok(loaded)
}

/// Files that were loaded.
pub struct Loaded {
    /// To be gone on with.
    pub recovered: Recovered,
    /// The database that is selected at their end.
    pub db: usize,
}

/// True if the files that are written now can be cut off at this offset.
pub fn can_cut(server: &Server, offset: u64) -> bool {
    cut(server, offset).is_ok()
}

/// Cuts off the files, which nobody writes, at this offset, and loads them into an empty server.
pub fn load_cut(server: &Server, offset: u64) -> Result<Loaded, String> {
    let loaded = load(server, cut(server, offset)?)?;
    let summary = &loaded.recovered.summary;
    if summary.end_offset != Some(offset) || !summary.is_exact {
        return Err(format!(
            "the append-only files do not end at offset {offset}, but at {:?}",
            summary.end_offset
        ));
    }
    server.log.restart_at(offset);
    server.log.set_stream(Some(loaded.db as u32));
    Ok(loaded)
}

fn cut(server: &Server, offset: u64) -> Result<Recovery, String> {
    let directory =
        Directory::open(&disk(), &super::names(&server.config)?).map_err(|error| error.to_string())?;
    let recovery = directory.map(|directory| Recovery::new(directory, false)).transpose();
    let mut recovery = recovery.map_err(|error| error.to_string())?.ok_or("there are no files")?;
    match recovery.end_at(offset) {
        true => Ok(recovery),
        false => Err(format!("offset {offset} is not in the last of the append-only files")),
    }
}

/// Makes the first files, of an empty server: as in Redis, a snapshot that is there is not loaded.
fn create(server: &Server, storage: &Arc<dyn Storage>, names: &Names) -> Result<Loaded, String> {
    let snapshot = server.config.string("dbfilename");
    if !snapshot.is_empty() && Path::new(&snapshot).exists() {
        tracing::warn!(
            "{snapshot} is not loaded: with appendonly yes the data is what the append-only files have, and there are none yet. To take it over, start with appendonly no, then CONFIG SET appendonly yes."
        );
    }
    let (format, base) = match server.config.bool("aof-use-rdb-preamble") {
        true => (BaseFormat::Rdb, empty_snapshot()),
        false => (BaseFormat::Aof, Vec::new()),
    };
    tracing::info!("Creating the append-only files in {}", names.directory().display());
    let directory = Directory::create(storage, names, format, &base, server.log.end());
    let recovered = directory.and_then(Recovered::of_new).map_err(|error| error.to_string())?;
    Ok(Loaded { recovered, db: 0 })
}

fn empty_snapshot() -> Vec<u8> {
    let mut bytes = Vec::new();
    RecordEncoder::begin(&mut bytes, VERSION_WRITTEN);
    rdb::end(&mut bytes);
    let sum = crc64::update(0, &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Loads all files of the directory.
fn load(server: &Server, mut recovery: Recovery) -> Result<Loaded, String> {
    server.persistence.loading.total_bytes.store(recovery.progress().1, Relaxed);
    let started = Instant::now();
    let (failures, db) = thread::scope(|scope| {
        let (mut handles, mut replayer) = (Vec::new(), Replayer::new(server));
        let mut applying = Applying::new(&mut replayer, |work| {
            handles.push(scope.spawn(move || apply(server, work)));
        });
        applying.run(&mut recovery)?;
        applying.finish();
        let (mut failures, db) = (std::mem::take(&mut replayer.failures), replayer.db());
        for handle in handles {
            let theirs = handle.join().expect("replay-threads: they end when they are told");
            failures = (failures.0 + theirs.0, failures.1.or(theirs.1));
        }
        Ok::<(Failures, usize), String>((failures, db))
    })?;
    judge(server, failures)?;
    let recovered = recovery.finish().map_err(|error| error.to_string())?;
    tracing::info!(
        "DB loaded from append only file: {} commands, {} keys of a base, in {:.3} seconds",
        recovered.summary.commands,
        server.persistence.loading.keys_loaded.load(Relaxed),
        started.elapsed().as_secs_f64()
    );
    Ok(Loaded { recovered, db })
}

/// Says which commands have failed; an error if that is not to be put up with.
fn judge(server: &Server, failures: Failures) -> Result<(), String> {
    let (count @ 1.., Some(first)) = failures else { return Ok(()) };
    if server.config.string("propagation-error-behavior") == "panic" {
        return Err(format!(
            "{count} commands of the append-only files ended with an error, and propagation-error-behavior is panic. The first: {first}"
        ));
    }
    tracing::warn!(
        "{count} commands of the append-only files ended with an error, as they may have when they were written. The first: {first}"
    );
    Ok(())
}

/// Writes all that is in the log to the files, if there are any: then DEBUG LOADAOF may load them.
pub fn complete(server: &Server, journal: &Journal) -> Result<(), String> {
    match server.persistence.files.state() {
        FilesState::On => journal.flush(),
        _ => Err("there are no append-only files to load".to_owned()),
    }
}

/// Loads the files that are written, for who holds every stripe.
pub fn reload(journal: &Journal, replayer: &mut Replayer<'_, '_>) -> Result<(), String> {
    let mut recovery = open(journal)?;
    Applying::new(replayer, |_| {}).run(&mut recovery)?;
    judge(replayer.server(), std::mem::take(&mut replayer.failures))
}

/// The files that are written now, to be read.
fn open(journal: &Journal) -> Result<Recovery, String> {
    let names = journal.begin_rewrite()?.names;
    let directory = Directory::open(&disk(), &names).map_err(|error| error.to_string())?;
    let directory = directory.ok_or_else(|| "the files are gone".to_owned())?;
    Recovery::new(directory, false).map_err(|error| error.to_string())
}

type Failures = (u64, Option<String>);

/// Runs what comes, in order.
fn apply(server: &Server, work: Work<Vec<u8>>) -> Failures {
    courtesy::begin_if_following(server);
    let mut replayer = Replayer::new(server);
    work.run(|commands| replayer.run_all(&commands));
    replayer.failures
}

/// What one of the threads is to be handed next.
struct Hand {
    batch: Vec<u8>,
    /// The database that is selected at the end of the batch.
    db: usize,
}

/// Gives each command to the thread that it belongs to.
struct Applying<'r, 'c, 'a> {
    server: &'a Server,
    /// Runs what has to run alone.
    replayer: &'r mut Replayer<'c, 'a>,
    helpers: Helpers<Vec<u8>>,
    hands: Vec<Hand>,
    records: u64,
    /// Each record is to take its time, for those who test what goes on meanwhile.
    is_delayed: bool,
    reported: Instant,
}

impl<'r, 'c, 'a> Applying<'r, 'c, 'a> {
    /// One that hands commands to threads, or runs all of them itself if the replayer holds every stripe.
    fn new(replayer: &'r mut Replayer<'c, 'a>, mut start: impl FnMut(Work<Vec<u8>>)) -> Self {
        let threads = if replayer.is_alone() { 0 } else { usable_cpus().max(APPLIERS_MIN) };
        let helpers = Helpers::start(threads, BATCHES_WAITING, |_, work| {
            start(work);
            Ok::<(), Infallible>(())
        });
        let Ok(helpers) = helpers;
        let hands = (0..threads).map(|_| Hand { batch: Vec::with_capacity(BATCH_BYTES), db: 0 }).collect();
        let (server, reported) = (replayer.server(), Instant::now());
        Applying { server, replayer, helpers, hands, records: 0, is_delayed: false, reported }
    }

    fn run(&mut self, recovery: &mut Recovery) -> Result<(), String> {
        self.is_delayed = delay::is_wanted(self.server, delay::LOADED);
        courtesy::begin_if_following(self.server);
        while let Some(item) = recovery.next().map_err(|error| error.to_string())? {
            match item {
                Item::Record(record) => self.record(&record)?,
                Item::File(facts) => {
                    if let Some(position) = self.begin_file(facts)? {
                        recovery.rdb_ended(position);
                    }
                }
            }
            self.records += 1;
            note_work(RECORD_UNITS);
            if self.is_delayed || self.records.is_multiple_of(REPORT_RECORDS) {
                self.report(recovery.progress());
            }
        }
        self.report(recovery.progress());
        Ok(())
    }

    /// Loads the snapshot that a file begins with, if it does; where that ended.
    fn begin_file(&mut self, facts: FileFacts) -> Result<Option<u64>, String> {
        let FileFacts { path, bytes, number, files, rdb } = facts;
        tracing::info!("Loading {} ({bytes} bytes, file {number} of {files})", path.display());
        let Some(part) = rdb else { return Ok(None) };
        self.reach();
        let now = long_ago(self.server.clock.now());
        let loaded = match self.replayer.is_alone() {
            false => load_part(self.server, part.file, part.bytes, now.unix_ms)?,
            true => {
                let mut store = |keys: &mut Batch| self.replayer.load_keys(keys, now.unix_ms);
                load_part_here(self.server, part.file, part.bytes, Restore::Append, &mut store)?
            }
        };
        // Files begin with a SELECT, but for those of a replica: what its primary sends says nothing at a file's start.
        self.replayer.select(loaded.stream_db);
        Ok(Some(loaded.end))
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), String> {
        let keyspace = &self.server.keyspace;
        let (mut needs, mut runs_alone, mut unknown) = (Needs::default(), false, None);
        record.for_each(|args| match self.replayer.resolve(args) {
            Ok(info) if matches!(info.spec.name, "multi" | "exec") => {}
            // A SELECT among them matters to what comes after it, whoever runs that.
            Ok(info) if !info.has_keys() => runs_alone = true,
            Ok(info) => {
                let position = info.only_key(args).map(|key| keyspace.position(key));
                needs.add(keyspace, info, args, position);
            }
            Err(reason) => unknown = Some(reason),
        });
        if let Some(reason) = unknown {
            return Err(format!(
                "the append-only files have a command that is unknown here: {reason} (at byte {} of the file). Load them with the server that wrote them, or move them away to start without their data.",
                record.position()
            ));
        }
        match needs.lane(self.hands.len()).filter(|_| !runs_alone) {
            Some(lane) => self.pass_on(lane, record),
            None => {
                // What selects a database concerns only what comes after it, and a PING nobody.
                let is_done = self.run_if_select(record) || self.note_if_ping(record);
                if !is_done {
                    self.reach();
                    record.for_each(|args| {
                        if let Ok(info) = self.replayer.resolve(args) {
                            self.replayer.run(info, args);
                        }
                    });
                }
            }
        }
        Ok(())
    }

    fn run_if_select(&mut self, record: &Record<'_>) -> bool {
        let mut selects = false;
        if record.commands() == 1 {
            record.for_each(|args| {
                if let Ok(info) = self.replayer.resolve(args)
                    && info.spec.name == "select"
                {
                    self.replayer.run(info, args);
                    selects = true;
                }
            });
        }
        selects
    }

    fn note_if_ping(&self, record: &Record<'_>) -> bool {
        let mut is_ping = false;
        if record.commands() == 1 {
            record.for_each(|args| {
                is_ping = args.at(0).eq_ignore_ascii_case(b"PING");
                if is_ping {
                    self.server.note_replayed_ping(args);
                }
            });
        }
        is_ping
    }

    fn pass_on(&mut self, lane: usize, record: &Record<'_>) {
        let hand = &mut self.hands[lane];
        if hand.db != self.replayer.db() {
            hand.db = self.replayer.db();
            write_select(&mut hand.batch, hand.db as u32);
        }
        record.pieces().for_each(|piece| hand.batch.extend_from_slice(piece));
        if hand.batch.len() >= BATCH_BYTES {
            self.hand_over(lane);
        }
    }

    fn hand_over(&mut self, lane: usize) {
        let batch = &mut self.hands[lane].batch;
        if !batch.is_empty() {
            let full = std::mem::replace(batch, Vec::with_capacity(BATCH_BYTES));
            self.helpers.hand(lane, full);
        }
    }

    /// Returns once everything that was passed on is done.
    fn reach(&mut self) {
        (0..self.hands.len()).for_each(|lane| self.hand_over(lane));
        self.helpers.reach(0..self.hands.len());
    }

    /// Hands over what is left; the threads end when it is done.
    fn finish(mut self) {
        (0..self.hands.len()).for_each(|lane| self.hand_over(lane));
    }

    fn report(&mut self, (done, total): (u64, u64)) {
        self.server.persistence.loading.loaded_bytes.store(done, Relaxed);
        self.is_delayed = delay::after_key(self.server, delay::LOADED);
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            let percent = done as f64 * 100.0 / total.max(1) as f64;
            tracing::info!("Loading append only file: {percent:.0}%, {} records", self.records);
        }
    }
}
