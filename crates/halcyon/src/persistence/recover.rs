//! Reading the append-only files at a start: this thread reads and decodes, others run the commands, each on keys of
//! its own. What touches more than the keys that it names waits for the others and runs alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use engine::persistence::files::FilesState;
use engine::persistence::replaying::{Replayer, Touches, long_ago};
use engine::server::Server;
use journal::aof::Record;
use journal::files::{Directory, Names};
use journal::log::write_select;
use journal::manifest::BaseFormat;
use journal::recover::{FileFacts, Item, Recovered, Recovery};
use journal::storage::Storage;
use rdb::{RecordEncoder, VERSION_WRITTEN, crc64};

use super::disk::disk;
use super::journal_thread::Journal;
use super::load::load_part;

/// Threads that run commands.
const APPLIERS: usize = 2;
/// Bytes of commands that are handed over together, and such hand-overs that may wait for each thread.
const BATCH_BYTES: usize = 256 * 1024;
const BATCHES_WAITING: usize = 8;
/// Between two lines of the log about how far it is.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Records between two looks at the clock.
const REPORT_RECORDS: u64 = 4096;

/// Loads the files, and makes them if there are none. The error is one line: what is wrong, where, and what to do.
pub fn recover(server: &Server, storage: &Arc<dyn Storage>, names: &Names) -> Result<Recovered, String> {
    // Of a rewrite that was under way when the server before this one ended.
    let _ = storage.remove(&names.temporary_base());
    let found = Directory::open(storage, names).map_err(|error| error.to_string())?;
    let Some(directory) = found else { return create(server, storage, names) };
    let recovered = load(server, directory, server.config.bool("aof-load-truncated"))?;
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
    Ok(recovered)
}

/// Makes the first files, of an empty server: as in Redis, a snapshot that is there is not loaded.
fn create(server: &Server, storage: &Arc<dyn Storage>, names: &Names) -> Result<Recovered, String> {
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
    directory.and_then(Recovered::of_new).map_err(|error| error.to_string())
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
pub fn load(server: &Server, directory: Directory, load_truncated: bool) -> Result<Recovered, String> {
    let mut recovery = Recovery::new(directory, load_truncated).map_err(|error| error.to_string())?;
    server.persistence.loading.total_bytes.store(recovery.progress().1, Relaxed);
    let started = Instant::now();
    thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut applying = Applying::new(server, |jobs| {
            handles.push(scope.spawn(move || apply(server, &jobs)));
        });
        applying.run(&mut recovery)?;
        let mut failures = applying.finish();
        for handle in handles {
            let theirs = handle.join().expect("replay-threads: they end when they are told");
            failures = (failures.0 + theirs.0, failures.1.or(theirs.1));
        }
        if let (count @ 1.., Some(first)) = failures {
            tracing::warn!(
                "{count} commands of the append-only files ended with an error, as they may have when they were written. The first: {first}"
            );
        }
        Ok::<(), String>(())
    })?;
    let recovered = recovery.finish().map_err(|error| error.to_string())?;
    tracing::info!(
        "DB loaded from append only file: {} commands, {} keys of a base, in {:.3} seconds",
        recovered.summary.commands,
        server.persistence.loading.keys_loaded.load(Relaxed),
        started.elapsed().as_secs_f64()
    );
    Ok(recovered)
}

/// Loads the files that are written in place of the data: DEBUG LOADAOF. Commands are refused meanwhile.
pub fn reload(server: &Server, journal: &Journal) -> Result<(), String> {
    let files = &server.persistence.files;
    if files.state() != FilesState::On || server.persistence.is_loading() {
        return Err("there are no append-only files to load".to_owned());
    }
    server.begin_loading(0);
    files.set_recovering(true);
    // Whoever was admitted before has written then, and nobody writes after.
    server.want_files(false);
    let loaded = journal.flush().and_then(|()| {
        let names = journal.begin_rewrite()?.names;
        let directory = Directory::open(&disk(), &names).map_err(|error| error.to_string())?;
        let directory = directory.ok_or_else(|| "the files are gone".to_owned())?;
        server.forget_data();
        load(server, directory, false).map(drop)
    });
    server.want_files(true);
    files.set_recovering(false);
    server.end_loading();
    loaded
}

enum Job {
    Commands(Vec<u8>),
    /// Say so when everything before is done.
    Reach(Sender<()>),
}

type Failures = (u64, Option<String>);

/// Runs what comes, in order.
fn apply(server: &Server, jobs: &Receiver<Job>) -> Failures {
    let mut replayer = Replayer::new(server);
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Commands(bytes) => replayer.run_all(&bytes),
            // Who waits has gone only if loading has failed.
            Job::Reach(reached) => drop(reached.send(())),
        }
    }
    replayer.failures
}

/// What one of the threads is to be handed next.
struct Hand {
    jobs: SyncSender<Job>,
    batch: Vec<u8>,
    /// The database that is selected at the end of the batch.
    db: usize,
}

impl Hand {
    fn hand_over(&mut self) {
        if !self.batch.is_empty() {
            let full = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_BYTES));
            self.jobs.send(Job::Commands(full)).expect("replay-threads: take every batch");
        }
    }
}

/// Gives each command to the thread that it belongs to.
struct Applying<'s> {
    server: &'s Server,
    /// Runs what has to run alone.
    replayer: Replayer<'s>,
    hands: Vec<Hand>,
    stripes: Vec<usize>,
    records: u64,
    reported: Instant,
}

impl<'s> Applying<'s> {
    fn new(server: &'s Server, mut start: impl FnMut(Receiver<Job>)) -> Applying<'s> {
        let hands = (0..APPLIERS).map(|_| {
            let (jobs, receiver) = sync_channel(BATCHES_WAITING);
            start(receiver);
            Hand { jobs, batch: Vec::with_capacity(BATCH_BYTES), db: 0 }
        });
        let hands = hands.collect();
        let (replayer, reported) = (Replayer::new(server), Instant::now());
        Applying { server, replayer, hands, stripes: Vec::new(), records: 0, reported }
    }

    fn run(&mut self, recovery: &mut Recovery) -> Result<(), String> {
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
            if self.records.is_multiple_of(REPORT_RECORDS) {
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
        let loaded = load_part(self.server, part.file, part.bytes, now.unix_ms)?;
        // Files begin with a SELECT, but for those of a replica: what its primary sends says nothing at a file's start.
        self.replayer.select(loaded.stream_db);
        Ok(Some(loaded.end))
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), String> {
        self.stripes.clear();
        let (mut runs_alone, mut unknown) = (false, None);
        record.for_each(|args| match self.replayer.resolve(args) {
            Ok(info) if matches!(info.spec.name, "multi" | "exec") => {}
            Ok(info) => {
                runs_alone |= self.replayer.touches(info, args, &mut self.stripes) == Touches::Anything;
            }
            Err(reason) => unknown = Some(reason),
        });
        if let Some(reason) = unknown {
            return Err(format!(
                "the append-only files have a command that is unknown here: {reason} (at byte {} of the file). Load them with the server that wrote them, or move them away to start without their data.",
                record.position()
            ));
        }
        let hand_of = |stripe: &usize| stripe % APPLIERS;
        let hand = self.stripes.first().map(hand_of);
        let is_one = !runs_alone && self.stripes.iter().all(|stripe| Some(hand_of(stripe)) == hand);
        match hand.filter(|_| is_one) {
            Some(hand) => self.pass_on(hand, record),
            None => {
                // What selects a database concerns only what comes after it.
                let selects = self.run_if_select(record);
                if !selects {
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

    fn pass_on(&mut self, hand: usize, record: &Record<'_>) {
        let hand = &mut self.hands[hand];
        if hand.db != self.replayer.db() {
            hand.db = self.replayer.db();
            write_select(&mut hand.batch, hand.db as u32);
        }
        record.pieces().for_each(|piece| hand.batch.extend_from_slice(piece));
        if hand.batch.len() >= BATCH_BYTES {
            hand.hand_over();
        }
    }

    /// Returns once everything that was passed on is done.
    fn reach(&mut self) {
        let (reached, all_reached) = channel();
        for hand in &mut self.hands {
            hand.hand_over();
            let job = Job::Reach(reached.clone());
            hand.jobs.send(job).expect("replay-threads: take every batch");
        }
        drop(reached);
        for _ in &self.hands {
            all_reached.recv().expect("replay-threads: answer");
        }
    }

    /// Hands over what is left; what failed here.
    fn finish(mut self) -> Failures {
        self.hands.iter_mut().for_each(Hand::hand_over);
        self.replayer.failures
    }

    fn report(&mut self, (done, total): (u64, u64)) {
        self.server.persistence.loading.loaded_bytes.store(done, Relaxed);
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            let percent = done as f64 * 100.0 / total.max(1) as f64;
            tracing::info!("Loading append only file: {percent:.0}%, {} records", self.records);
        }
    }
}
