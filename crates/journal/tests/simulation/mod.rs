//! One schedule: a model of what was appended, the journal on a simulated disk, and random operations on both.

use std::path::PathBuf;
use std::sync::Arc;

use base::clock::Now;
use fastrand::Rng;
use journal::JournalError;
use journal::files::{Change, Directory, Names, Policy, SyncRequest, Writer, WriterOptions};
use journal::log::{Log, LogLimits, write_select};
use journal::manifest::BaseFormat;
use journal::recover::{Item, Recovered, Recovery};
use journal::storage::{Faults, SimulatedStorage, Storage, append_all};

/// What happened in all, so that a test that tests nothing shows.
#[derive(Debug, Default)]
pub struct Totals {
    pub appended: u64,
    pub crashes: u64,
    pub lost_records: u64,
    pub refused_starts: u64,
    pub latched: u64,
    pub recovered_without_restart: u64,
    pub rewrites: u64,
    /// Files that were begun while the one before was not safe.
    pub turns: u64,
    pub truncated_tails: u64,
    pub backlog_reads: u64,
}

impl Totals {
    pub fn add(&mut self, other: Totals) {
        self.appended += other.appended;
        self.crashes += other.crashes;
        self.lost_records += other.lost_records;
        self.refused_starts += other.refused_starts;
        self.latched += other.latched;
        self.recovered_without_restart += other.recovered_without_restart;
        self.rewrites += other.rewrites;
        self.turns += other.turns;
        self.truncated_tails += other.truncated_tails;
        self.backlog_reads += other.backlog_reads;
    }

    pub fn assert_all_happened(&self) {
        let all = [
            self.appended,
            self.crashes,
            self.lost_records,
            self.refused_starts,
            self.latched,
            self.recovered_without_restart,
            self.rewrites,
            self.turns,
            self.truncated_tails,
            self.backlog_reads,
        ];
        assert!(all.iter().all(|count| *count > 0), "{self:?}");
    }
}

/// A record as the model has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    db: u32,
    /// Its commands' words.
    words: Vec<Vec<u8>>,
}

struct Appended {
    told: Told,
    /// Offset after it.
    end: u64,
}

pub struct Simulation {
    random: Rng,
    disk: SimulatedStorage,
    storage: Arc<dyn Storage>,
    names: Names,
    options: WriterOptions,
    now: Now,
    /// Everything that counts, in order.
    history: Vec<Appended>,
    /// Highest offset that was ever reported as synced.
    synced_to: u64,
    totals: Totals,
}

/// A server that runs.
struct Server {
    log: Arc<Log>,
    writer: Writer,
    request: Option<SyncRequest>,
    /// A change that is to be made, and whether it is a rewrite's.
    change: Option<(Change, bool)>,
    /// A rewrite under way: its offset and how many records its base will have.
    rewrite: Option<(u64, usize)>,
    was_latched: bool,
}

impl Simulation {
    pub fn run(seed: u64) -> Totals {
        let mut random = Rng::with_seed(seed);
        let disk = SimulatedStorage::new(random.u64(..));
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let policy = random.choice([Policy::Always, Policy::Always, Policy::EverySecond, Policy::No]);
        let options = WriterOptions {
            policy: policy.expect("one of them"),
            timestamps: random.bool(),
            checksums: true,
            kept_history_bytes: random.choice([0, 2_000, u64::MAX]).expect("one of them"),
            needed_from: random.choice([0, 3_000, u64::MAX]).expect("one of them"),
        };
        let names = Names {
            data: PathBuf::from("data"),
            directory: "appendonlydir".to_owned(),
            prefix: "appendonly.aof".to_owned(),
        };
        let now = Now { unix_ms: 1_700_000_000_000, unix_us: 0, mono_us: 0 };
        let (history, totals) = (Vec::new(), Totals::default());
        let mut simulation =
            Simulation { random, disk, storage, names, options, now, history, synced_to: 0, totals };
        for _ in 0..simulation.random.usize(1..6) {
            simulation.live();
        }
        simulation.totals
    }

    /// From a start to a crash or an end.
    fn live(&mut self) {
        let Some(mut server) = self.start() else { return };
        self.set_faults();
        if self.random.u32(0..4) > 0 {
            self.disk.crash_after(self.random.u64(1..150));
        }
        for _ in 0..self.random.usize(1..80) {
            self.operate(&mut server);
            if self.disk.has_crashed() {
                break;
            }
        }
        if !self.disk.has_crashed() && self.random.bool() {
            self.heal(&mut server);
        }
        self.totals.crashes += 1;
        drop(server);
        self.disk.set_faults(Faults::default());
        self.disk.set_capacity(u64::MAX);
        self.disk.restart();
    }

    fn set_faults(&mut self) {
        let rate = |random: &mut Rng| random.choice([0, 0, 20, 200]).unwrap_or(0);
        let random = &mut self.random;
        let faults = Faults {
            short_write: rate(random),
            write: rate(random),
            sync: rate(random),
            other: rate(random),
        };
        self.disk.set_faults(faults);
    }

    /// Starts as often as it takes; the machine may crash at that, too.
    fn start(&mut self) -> Option<Server> {
        for attempt in 0..4 {
            let may_fail = attempt < 3;
            if may_fail && self.random.u32(0..4) == 0 {
                self.disk.crash_after(self.random.u64(1..40));
            }
            if may_fail && self.random.u32(0..8) == 0 {
                self.disk.set_faults(Faults { sync: 300, other: 300, write: 300, short_write: 300 });
            }
            match self.try_start() {
                Ok(server) => return Some(server),
                Err(error) => {
                    self.totals.refused_starts += 1;
                    assert!(may_fail, "the disk is well: {error}");
                    assert!(matches!(error, JournalError::Storage(_)), "{error}");
                }
            }
            self.disk.set_faults(Faults::default());
            self.disk.restart();
        }
        None
    }

    fn try_start(&mut self) -> Result<Server, JournalError> {
        let recovered = match Directory::open(&self.storage, &self.names)? {
            Some(directory) => self.read_back(directory)?,
            None => {
                assert_eq!(self.synced_to, 0, "everything is gone");
                let format = BaseFormat::Aof;
                Recovered::of_new(Directory::create(&self.storage, &self.names, format, b"", 0)?)?
            }
        };
        let end = recovered.summary.end_offset.unwrap_or(0);
        assert!(recovered.summary.is_exact);
        self.history.retain(|appended| appended.end <= end);
        let limits = LogLimits { segment_bytes: 4096, ring_bytes: 1 << 20, backlog_bytes: 3_000 };
        let log = Arc::new(Log::new(limits, end));
        let writer = Writer::open(recovered, &log, self.options, self.now)?;
        Ok(Server { log, writer, request: None, change: None, rewrite: None, was_latched: false })
    }

    /// Reads the files and compares them with the model.
    fn read_back(&mut self, directory: Directory) -> Result<Recovered, JournalError> {
        let mut recovery = Recovery::new(directory, true)?;
        let (mut db, mut records) = (0, Vec::new());
        while let Some(item) = recovery.next()? {
            match item {
                Item::File(_) => db = 0,
                Item::Record(record) => {
                    let mut words: Vec<Vec<u8>> = Vec::new();
                    record.for_each(|args| words.extend(args.iter().map(<[u8]>::to_vec)));
                    match &words[..] {
                        [name, number] if name == b"SELECT" => {
                            db = String::from_utf8_lossy(number).parse().expect("a number");
                        }
                        _ => records.push(Told { db, words }),
                    }
                }
            }
        }
        let recovered = recovery.finish()?;
        let expected = self.history.iter().map(|appended| &appended.told);
        assert!(
            records.iter().eq(expected.take(records.len())),
            "what was read is a prefix of what was appended"
        );
        let kept_to = records.len().checked_sub(1).map_or(0, |last| self.history[last].end);
        // A SELECT may be there without the record that it was for.
        let end = recovered.summary.end_offset.expect("our own files tell");
        assert!(self.synced_to <= end, "synced to {}, read back to {end}", self.synced_to);
        let next = self.history.get(records.len()).map_or(u64::MAX, |appended| appended.end);
        assert!((kept_to..next).contains(&end), "offset {end} between {kept_to} and {next}");
        self.totals.lost_records += (self.history.len() - records.len()) as u64;
        self.totals.truncated_tails += u64::from(recovered.summary.truncated.is_some());
        // What is not there now must not come back, and what is there was told to somebody.
        self.history.truncate(records.len());
        self.synced_to = end;
        Ok(recovered)
    }

    fn operate(&mut self, server: &mut Server) {
        let ms = self.random.u64(0..700);
        self.now.unix_ms += ms as i64;
        self.now.mono_us += ms * 1000;
        match self.random.u32(0..20) {
            0..8 => self.append(server),
            8..14 => self.step(server),
            14 => self.run_sync(server),
            15 => self.run_change(server),
            16 if server.rewrite.is_none() => self.begin_rewrite(server),
            17 => self.rewrite(server),
            18 => self.read_backlog(server),
            19 => match self.random.u32(0..6) {
                0 => self.set_faults(),
                1 => self.disk.set_capacity(self.disk.used_bytes() + self.random.u64(0..3_000)),
                2 => self.disk.set_capacity(u64::MAX),
                _ => {}
            },
            _ => {}
        }
    }

    /// A SET with a value of any size, or a transaction; of a database.
    fn append(&mut self, server: &mut Server) {
        if !server.log.has_room() {
            return;
        }
        for _ in 0..self.random.usize(1..5) {
            let number = self.totals.appended.to_string().into_bytes();
            self.totals.appended += 1;
            let bytes = self.random.choice([0, 10, 300, 1_500]).unwrap_or(0);
            let byte = self.random.choice([b'v', b'\n', 0]).unwrap_or(0);
            let value = vec![byte; self.random.usize(0..=bytes)];
            let set = [b"SET".to_vec(), number, value];
            let mut commands = vec![set.to_vec()];
            if self.random.u32(0..4) == 0 {
                commands.push(vec![b"INCR".to_vec(), b"n".to_vec()]);
                commands.insert(0, vec![b"MULTI".to_vec()]);
                commands.push(vec![b"EXEC".to_vec()]);
            }
            let mut record = Vec::new();
            commands.iter().for_each(|words| resp::write_command(&mut record, words));
            let db = self.random.choice([0, 0, 0, 1, 12]).unwrap_or(0);
            let end = match self.random.u32(0..8) {
                0 => server.log.append_large(db, record.into()),
                _ => server.log.append(db, &record),
            };
            self.history.push(Appended { told: Told { db, words: commands.concat() }, end });
        }
    }

    fn step(&mut self, server: &mut Server) {
        let progress = server.writer.step(self.now);
        if progress.sync.is_some() {
            server.request = progress.sync;
        }
        if let Some(change) = progress.change {
            assert!(server.change.is_none(), "one change at a time");
            server.change = Some((change, false));
        }
        assert!(progress.synced_to <= progress.written_to && progress.written_to <= server.log.end());
        self.note_synced(server);
        let is_latched = server.writer.status().error().is_some();
        self.totals.latched += u64::from(is_latched && !server.was_latched);
        server.was_latched = is_latched;
        let is_well = !is_latched && !self.disk.has_crashed() && server.change.is_none();
        if is_well && self.options.policy == Policy::Always {
            assert_eq!(progress.synced_to, server.log.end(), "a step that is well syncs all");
        }
    }

    fn run_sync(&mut self, server: &mut Server) {
        if let Some(request) = server.request.take() {
            // Others go on meanwhile.
            let done = request.run();
            if self.random.bool() {
                self.append(server);
            }
            server.writer.sync_done(done, self.now);
            self.note_synced(server);
        }
    }

    /// Begins a rewrite, mostly as a server does: with the next file made before.
    fn begin_rewrite(&mut self, server: &mut Server) {
        if self.random.u32(0..4) > 0 && server.change.is_none() {
            if let Ok(Some(change)) = server.writer.prepare_file() {
                server.change = Some((change, false));
            }
            if self.random.u32(0..8) > 0 {
                self.run_change(server);
            }
        }
        let at = server.log.begin_file();
        server.rewrite = Some((at, self.history.len()));
        let files = server.writer.manifest().incrs.len();
        self.append(server);
        self.step(server);
        let incrs = &server.writer.manifest().incrs;
        let has_begun = incrs.last().is_some_and(|last| last.start_offset == Some(at));
        let is_ahead = has_begun && incrs.len() == files && server.writer.watermarks().synced_to() < at;
        self.totals.turns += u64::from(is_ahead);
    }

    fn run_change(&mut self, server: &mut Server) {
        let Some((change, is_of_rewrite)) = server.change.take() else { return };
        let done = change.run();
        // Others go on meanwhile.
        if self.random.bool() {
            self.append(server);
        }
        let result = server.writer.change_done(done, self.now);
        if is_of_rewrite {
            server.rewrite = None;
            self.totals.rewrites += u64::from(result.is_ok());
        }
        self.note_synced(server);
    }

    fn note_synced(&mut self, server: &Server) {
        self.synced_to = self.synced_to.max(server.writer.watermarks().synced_to());
    }

    /// Finishes the rewrite: its base has all records before it.
    fn rewrite(&mut self, server: &mut Server) {
        let Some((at, records)) = server.rewrite.filter(|_| server.change.is_none()) else { return };
        let path = server.writer.names().temporary_base();
        let mut base = Vec::new();
        for appended in &self.history[..records] {
            write_select(&mut base, appended.told.db);
            put_record(&mut base, &appended.told.words);
        }
        let write = || {
            let file = self.storage.create(&path)?;
            append_all(&*file, &base)?;
            file.sync_data()
        };
        if write().is_err() {
            return;
        }
        match server.writer.begin_install(BaseFormat::Aof, at, self.now) {
            // It is over when that is made.
            Ok(change) => server.change = Some((change, true)),
            Err(JournalError::SyncInFlight) => {}
            Err(_) => server.rewrite = None,
        }
        self.note_synced(server);
    }

    /// What the files give of the stream is what the log gave.
    fn read_backlog(&mut self, server: &mut Server) {
        let backlog = server.writer.backlog();
        let Some((start, end)) = backlog.range() else { return };
        let memory = server.log.start().max(start);
        if memory > end {
            return;
        }
        let from = self.random.u64(memory..=end);
        let mut reader = backlog.reader(from).expect("it is in the range");
        let mut bytes = Vec::new();
        loop {
            match reader.read(self.random.usize(1..2_000)) {
                Ok(Some(more)) => bytes.extend_from_slice(&more),
                Ok(None) => break,
                Err(error) => {
                    assert!(matches!(error, JournalError::Storage(_)), "{error}");
                    return;
                }
            }
        }
        let Ok(consumer) = server.log.consumer(from, false) else { return };
        let mut expected = Vec::new();
        let mut at = from;
        while at < end {
            let mut parts = Vec::new();
            consumer.read(at, usize::MAX, &mut parts).expect("it is in memory");
            for part in parts {
                expected.extend_from_slice(&part);
                at = part.end();
            }
        }
        expected.truncate((end - from) as usize);
        assert!(bytes == expected, "the backlog differs from {from} to {end}");
        self.totals.backlog_reads += u64::from(!bytes.is_empty());
    }

    /// With the disk well again, everything gets safe without a restart.
    fn heal(&mut self, server: &mut Server) {
        let was_latched = server.writer.status().error().is_some();
        self.disk.set_faults(Faults::default());
        self.disk.set_capacity(u64::MAX);
        self.disk.crash_after(u64::MAX / 2);
        for _ in 0..8 {
            self.now.mono_us += 1_100_000;
            self.step(server);
            self.run_sync(server);
            self.run_change(server);
        }
        let status = server.writer.status();
        assert_eq!(status.error(), None);
        server.writer.close(self.now).expect("the disk is well");
        self.note_synced(server);
        assert_eq!(self.synced_to, server.log.end().max(self.synced_to));
        assert_eq!(server.writer.watermarks().synced_to(), server.log.end(), "all is safe");
        self.totals.recovered_without_restart += u64::from(was_latched);
    }
}

/// The commands again, from their words: a transaction's stand one after the other.
fn put_record(out: &mut Vec<u8>, words: &[Vec<u8>]) {
    let mut rest = words;
    while let [name, ..] = rest {
        let len = match &name[..] {
            b"SET" => 3,
            b"INCR" => 2,
            _ => 1,
        };
        resp::write_command(out, &rest[..len]);
        rest = &rest[len..];
    }
}
