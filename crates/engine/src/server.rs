//! What all workers share.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use base::clock::{Clock, Now};
use base::limits::{APPLY_THREADS_MAX, LOG_RING_BYTES, LOG_SEGMENT_BYTES, OUTGOING_THREADS, SCRIPT_THREADS};
use cluster::agent::{Ask, HoldId};
use journal::log::{Log, LogLimits};
use parking_lot::Mutex;
use rdb::{Cursor, Event as FileEvent, FileDecoder, Piece};
use store::{Keyspace, Lapse, Locked, Placement, Thresholds};

use crate::acl::Acl;
use crate::blocking::Waiters;
use crate::clients::{Client, Clients};
use crate::config::Config;
use crate::ctx::Event;
use crate::gates::Gates;
use crate::letter::Letter;
use crate::monitor::Monitors;
use crate::outgoing::{Link, Links, Target};
use crate::persistence::{
    Persistence, loading::LoadedKey, replaying::Replayer, rewriting::Rewritten, saving::Save,
};
use crate::propagation::LogReaders;
use crate::pubsub::{self, Channels, EventMask};
use crate::replication::Replication;
use crate::scripting::Scripting;
use crate::session::Session;
use crate::shutdown::Shutdown;
use crate::slot_moves::SlotMoves;
use crate::slowlog::Slowlog;
use crate::stats::{CommandTotals, Counter, ErrorStats, HISTOGRAM_BUCKETS, Rate, WorkerStats};
use crate::table::{CommandId, Registry, registry_for};
use crate::tracking::{self, Tracking};
use crate::watches::Watches;
use crate::worker::Worker;

/// The version of Redis whose commands, replies and texts this server has: what clients go by.
pub const REDIS_VERSION: &str = "7.4.2";

/// Commands that a CLIENT PAUSE holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// Those that may write.
    Write,
    /// All.
    All,
}

/// A pause of all clients.
#[derive(Default)]
pub struct Pause {
    /// 0: no pause.
    until_ms: AtomicI64,
    all: AtomicBool,
}

impl Pause {
    /// Starts or extends a pause; as Redis, a shorter one does not shorten it, nor a weaker one weaken it.
    pub fn start(&self, until_ms: i64, mode: PauseMode, now_ms: i64) {
        let active = self.until_ms.load(Relaxed) > now_ms;
        if mode == PauseMode::All || !active {
            self.all.store(mode == PauseMode::All, Relaxed);
        }
        if !active || until_ms > self.until_ms.load(Relaxed) {
            self.until_ms.store(until_ms, Relaxed);
        }
    }

    /// Pauses for as long as it takes; what was paused before, for [`Pause::restore`].
    pub(crate) fn hold(&self, mode: PauseMode, now_ms: i64) -> (i64, bool) {
        let before = (self.until_ms.load(Relaxed), self.all.load(Relaxed));
        self.start(i64::MAX, mode, now_ms);
        before
    }

    /// Ends what [`Pause::hold`] began; a pause before it goes on.
    pub(crate) fn restore(&self, (until_ms, all): (i64, bool)) {
        self.all.store(all, Relaxed);
        self.until_ms.store(until_ms, Relaxed);
    }

    /// Ends it.
    pub fn stop(&self) {
        self.until_ms.store(0, Relaxed);
    }

    /// What is held back now.
    #[inline]
    pub fn mode(&self, now_ms: i64) -> Option<PauseMode> {
        if self.until_ms.load(Relaxed) <= now_ms {
            return None;
        }
        Some(if self.all.load(Relaxed) { PauseMode::All } else { PauseMode::Write })
    }

    /// When it ends, in unix milliseconds.
    pub fn until_ms(&self) -> i64 {
        self.until_ms.load(Relaxed)
    }
}

/// Facts of the process that INFO prints, filled in by whoever starts it.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// 40 hex digits, new at each start.
    pub run_id: String,
    /// Path of the executable.
    pub executable: String,
    /// `epoll`, `kqueue`.
    pub multiplexing_api: &'static str,
    /// The operating system, as `uname` tells it.
    pub os: String,
    /// Process id.
    pub pid: u32,
    /// Worker threads.
    pub workers: usize,
    /// Memory of the machine.
    pub system_memory_bytes: u64,
    /// Who this node is in a cluster; if nobody said, the node is called by its run id.
    pub cluster_identity: Option<crate::cluster_face::Identity>,
    /// Whether the kernel ends the process if it forks.
    pub is_fork_forbidden: bool,
}

/// How much a line of the server's log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For those who look for a mistake.
    Debug,
    /// Little.
    Verbose,
    /// It should be known.
    Notice,
    /// It should be acted on.
    Warning,
}

impl LogLevel {
    /// The level of a number that `redis.log` was given.
    pub fn of_script(level: i64) -> LogLevel {
        match level {
            0 => LogLevel::Debug,
            1 => LogLevel::Verbose,
            2 => LogLevel::Notice,
            _ => LogLevel::Warning,
        }
    }
}

/// What the threads around the engine do for it: engine code itself owns no socket.
pub trait Host: Send + Sync {
    /// Has the client's worker close it soon.
    fn kill(&self, client: &Client);
    /// Hands a letter to a worker, which delivers it after its turn.
    fn post(&self, worker: usize, letter: Letter);
    /// Writes a line to the log, as a warning.
    fn log(&self, _line: &str) {}
    /// Fills this with randomness that nobody can guess.
    fn fill_random(&self, bytes: &mut [u8]);
    /// Writes a line of a script to the server's log.
    fn log_at(&self, _level: LogLevel, _text: &str) {}
    /// Ends the process in an orderly way.
    fn shutdown(&self);
    /// Writes a snapshot to the file that `dbfilename` names; returns once it is safe. The snapshot is walked wholly even if
    /// that fails. The error says what failed, and why.
    fn save(&self, server: &Server, save: &Save) -> Result<(), String>;
    /// As [`Host::save`], on this thread, which holds every stripe.
    fn save_held(&self, server: &Server, save: &Save, held: &mut Locked<'_>) -> Result<(), String> {
        while save.encoder(server).fill_held(held, &mut Vec::new(), usize::MAX) != Piece::Last {}
        Err("there is nobody to write a file".to_owned())
    }
    /// Loads the file that [`Host::save`] writes, on this thread, which holds every stripe. What is there already is replaced,
    /// or is an error.
    fn load_held(&self, _: &Server, _held: &mut Locked<'_>, _replaces: bool) -> Result<(), String> {
        Err("there is nobody to read a file".to_owned())
    }
    /// Has another thread call [`Server::finish_save`].
    fn save_in_background(&self);
    /// Whom this server follows has changed, and `term` is its number now: the thread of the link is to look.
    fn follow(&self, _term: u64) {}
    /// The member that a shard is handed to has everything ([`Server::cluster_hold`]), or did not get it in time. The log ends
    /// at `log_end`, and stays so until writes run again.
    fn cluster_handed_over(&self, _hold: HoldId, _has_all: bool, _log_end: u64) {}
    /// Begins append-only files anew, for all that is in the log from now on; returns once they are there. The error says
    /// what failed, and why.
    fn begin_files(&self, _server: &Server) -> Result<(), String> {
        Err("there is nobody to write append-only files".to_owned())
    }
    /// Ends the append-only files; returns once they are safe, or cannot be.
    fn end_files(&self, _server: &Server) {}
    /// Somebody waits for [`crate::gates::Gates::wanted_to`] to be safe.
    fn sync_files(&self) {}
    /// Has another thread call [`Server::follow_appendonly`].
    fn follow_appendonly(&self) {}
    /// Has another thread call [`Server::finish_rewrite`].
    fn rewrite_in_background(&self) {}
    /// Prepares for a rewrite of the append-only files, before its snapshot is taken.
    fn begin_rewrite(&self, _server: &Server) -> Result<(), String> {
        Err("there is nobody to write append-only files".to_owned())
    }
    /// Makes a snapshot the base of the append-only files. It is walked wholly even if that fails.
    fn rewrite(&self, server: &Server, save: &Save) -> Result<Rewritten, String> {
        self.save(server, save).map(|()| Rewritten::Done)
    }
    /// Has the append-only files have all that is in the log. Every stripe is held.
    fn complete_files(&self, _server: &Server) -> Result<(), String> {
        Err("there are no append-only files".to_owned())
    }
    /// Loads these files into an empty server, on this thread, which holds every stripe.
    fn reload_files(&self, _: &mut Replayer<'_, '_>) -> Result<(), String> {
        Err("there are no append-only files".to_owned())
    }
    /// True if the append-only files can be cut off at this offset.
    fn can_cut_files(&self, _: &Server, _offset: u64) -> bool {
        false
    }
    /// Cuts off the append-only files, which nobody writes, at this offset, loads them into an empty server, has the log begin there,
    /// and writes on. The database that is selected at their end; the error says what failed, and why.
    fn load_cut_files(&self, _: &Server, _offset: u64) -> Result<usize, String> {
        Err("there are no append-only files".to_owned())
    }
    /// Says where threads run, and why: `add` takes a field's name and value.
    fn tell_placement(&self, _add: &mut dyn FnMut(&str, &dyn Display)) {}
    /// Asks the cluster to change something. `answer` is called once, from any thread, when it is done or cannot be: an error is
    /// Redis's text.
    fn cluster_ask(&self, _ask: Ask, answer: Answer) {
        answer(Err("ERR This node has no etcd (cluster-etcd)".to_owned()));
    }
    /// Writes `cluster-config-file`. The error says what failed.
    fn save_cluster_config(&self) -> Result<(), String> {
        Ok(())
    }
    /// Connects to another server, over TLS if `tls-cluster` says so. Takes no longer than `patience`, which is also that of
    /// the link.
    fn connect(&self, _: &Server, _: &Target, _patience: Duration) -> io::Result<Box<dyn Link>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Has another thread call [`Server::clear_left_slots`].
    fn leave_slots(&self) {}
    /// CPU time of the process so far.
    fn cpu_seconds(&self) -> CpuSeconds;
    /// Resident bytes of the process.
    fn resident_bytes(&self) -> u64;
}

/// Where the answer to [`Host::cluster_ask`] goes.
pub type Answer = Box<dyn FnOnce(Result<(), String>) + Send>;

/// CPU time of the process, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuSeconds {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// A host for tests and tools: nothing to wake. Letters stay where the test finds them.
#[derive(Clone, Default)]
pub struct NoHost {
    /// What was posted, and to which worker.
    pub letters: Arc<Mutex<Vec<(usize, Letter)>>>,
    /// The keys of each snapshot that was saved, as records of a file.
    pub saved: Arc<Mutex<Vec<Vec<u8>>>>,
    /// What was saved last under held stripes: a whole file.
    pub file: Arc<Mutex<Vec<u8>>>,
    /// What was told of changes of primaries.
    pub handed_over: Arc<Mutex<Vec<(HoldId, bool)>>>,
    /// What was asked of the cluster, which does it all; None: there is none.
    pub asked: Arc<Mutex<Option<Vec<Ask>>>>,
    /// The connections that can be made, the last first.
    pub links: Arc<Mutex<Vec<Box<dyn Link>>>>,
    /// How often the clock was read, where it counts that.
    pub clock_readings: Arc<AtomicU64>,
}

impl Host for NoHost {
    fn kill(&self, client: &Client) {
        client.kill.store(true, Relaxed);
    }
    fn post(&self, worker: usize, letter: Letter) {
        self.letters.lock().push((worker, letter));
    }
    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(0xa5);
    }
    fn shutdown(&self) {}
    fn cluster_handed_over(&self, hold: HoldId, has_all: bool, _: u64) {
        self.handed_over.lock().push((hold, has_all));
    }
    fn cluster_ask(&self, ask: Ask, answer: Answer) {
        match &mut *self.asked.lock() {
            Some(asked) => {
                asked.push(ask);
                answer(Ok(()));
            }
            None => answer(Err("ERR This node has no etcd (cluster-etcd)".to_owned())),
        }
    }
    fn save(&self, server: &Server, save: &Save) -> Result<(), String> {
        let (mut encoder, mut bytes) = (save.encoder(server), Vec::new());
        while encoder.fill(&mut bytes, usize::MAX) != Piece::Last {}
        self.saved.lock().push(bytes);
        Ok(())
    }
    fn save_held(&self, server: &Server, save: &Save, held: &mut Locked<'_>) -> Result<(), String> {
        let (mut encoder, mut bytes) = (save.encoder(server), save.head.clone());
        while encoder.fill_held(held, &mut bytes, usize::MAX) != Piece::Last {}
        rdb::end(&mut bytes);
        // No checksum.
        bytes.extend_from_slice(&[0; 8]);
        *self.file.lock() = bytes;
        Ok(())
    }
    fn load_held(&self, server: &Server, held: &mut Locked<'_>, replaces: bool) -> Result<(), String> {
        let file = self.file.lock().clone();
        let (mut decoder, mut input) = (FileDecoder::new(server.thresholds()), Cursor::new(&file));
        let mut db = 0;
        loop {
            match decoder.read(&mut input).map_err(|error| error.to_string())? {
                FileEvent::Select(selected) => db = selected as usize,
                FileEvent::Key(key, value, facts) => {
                    let mut keys = vec![LoadedKey { db, key, value, facts }];
                    server.load_keys_held(held, &mut keys, server.clock.now().unix_ms, replaces)?;
                }
                FileEvent::End => return Ok(()),
                _ => {}
            }
        }
    }
    fn save_in_background(&self) {}
    fn connect(&self, _: &Server, _: &Target, _: Duration) -> io::Result<Box<dyn Link>> {
        self.links.lock().pop().ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
    fn cpu_seconds(&self) -> CpuSeconds {
        CpuSeconds::default()
    }
    fn resident_bytes(&self) -> u64 {
        store::alloc::used_bytes() as u64
    }
}

/// Rates for INFO, sampled by [`Server::sample`].
#[derive(Default)]
pub struct Rates {
    /// Commands.
    pub commands: Rate,
    /// Bytes read.
    pub input: Rate,
    /// Bytes written.
    pub output: Rate,
}

fn log_limits(config: &Config) -> LogLimits {
    LogLimits {
        segment_bytes: LOG_SEGMENT_BYTES,
        ring_bytes: LOG_RING_BYTES,
        backlog_bytes: config.int("repl-backlog-size").max(0) as u64,
    }
}

/// What all workers share.
pub struct Server {
    /// Directives.
    pub config: Arc<Config>,
    /// Keys and values.
    pub keyspace: Keyspace,
    /// The command table.
    pub registry: &'static Registry,
    /// Users, and what they may do.
    pub acl: Acl,
    /// Connections.
    pub clients: Clients,
    /// Where time comes from.
    pub clock: Box<dyn Clock>,
    /// Counters of each worker, then of the long lane, then of each thread for scripts, then of each that applies a
    /// primary's stream, then of each that waits for other servers.
    pub stats: Vec<Arc<WorkerStats>>,
    /// Error replies by code.
    pub errors: ErrorStats,
    /// Slow commands.
    pub slowlog: Slowlog,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// SHUTDOWN.
    pub shutdown: Shutdown,
    /// Facts of the process.
    pub process: Process,
    /// The threads around the engine.
    pub host: Box<dyn Host>,
    /// Rates for INFO.
    pub rates: Mutex<Rates>,
    /// Time of the start.
    pub started: Now,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub active_expire: AtomicBool,
    /// What else DEBUG has switched.
    pub debug: crate::switches::Switches,
    /// Bytes allocated when the server was made.
    pub startup_bytes: u64,
    /// Resident bytes when last asked for: INFO must not read files.
    pub resident_bytes: AtomicU64,
    /// Events of the latency monitor.
    pub latency: crate::latency::LatencyMonitor,
    /// Who is shown every command.
    pub monitors: Monitors,
    /// Since when memory has been above its limit.
    pub exceeded: crate::eviction::Exceeded,
    /// What clients see of the cluster, and what requests are routed by.
    pub cluster: crate::cluster_face::ClusterFace,
    /// Connections to other servers that nobody uses just now.
    pub links: Links,
    /// Slots that move from or to this server.
    pub slot_moves: SlotMoves,
    /// Clients that wait for keys.
    pub waiters: Waiters,
    /// Keys that transactions depend on.
    pub watches: Watches,
    /// Who has subscribed to what.
    pub channels: Channels,
    /// Who is to be told of written keys: client-side caching.
    pub tracking: Tracking,
    /// Scripts and functions.
    pub scripting: Scripting,
    /// The data's files.
    pub persistence: Persistence,
    /// What changed, in order.
    pub log: Arc<Log>,
    /// Which replies wait for it to be safe.
    pub gates: Gates,
    /// Who wants that.
    pub(crate) log_readers: LogReaders,
    /// Whose copy this server is, and who has copies of it.
    pub replication: Replication,
}

impl Server {
    /// A server without connections. An error if `rename-command`, `user` or `aclfile` cannot be followed.
    pub fn new(
        config: Arc<Config>,
        clock: Box<dyn Clock>,
        process: Process,
        host: Box<dyn Host>,
    ) -> Result<Server, String> {
        let started = clock.now();
        let registry = registry_for(&config)?;
        let workers = process.workers.max(1);
        let placement = if config.bool("cluster-enabled") { Placement::Slots } else { Placement::Hash };
        let cluster = crate::cluster_face::ClusterFace::new(&config, &process);
        let keyspace = Keyspace::new(config.int("databases").max(1) as usize, placement, started.unix_ms);
        keyspace.report_expired(true);
        keyspace.report_created(config.hot().event_mask().contains(EventMask::NEW));
        Ok(Server {
            keyspace,
            registry,
            acl: Acl::new(&config, registry)?,
            clients: Clients::default(),
            stats: (0..=workers + SCRIPT_THREADS + APPLY_THREADS_MAX + OUTGOING_THREADS)
                .map(|_| Arc::new(WorkerStats::new(registry.len())))
                .collect(),
            errors: ErrorStats::default(),
            slowlog: Slowlog::default(),
            pause: Pause::default(),
            shutdown: Shutdown::default(),
            rates: Mutex::default(),
            started,
            active_expire: AtomicBool::new(true),
            debug: crate::switches::Switches::default(),
            startup_bytes: store::alloc::used_bytes() as u64,
            resident_bytes: AtomicU64::new(host.resident_bytes()),
            latency: crate::latency::LatencyMonitor::default(),
            monitors: Monitors::default(),
            exceeded: crate::eviction::Exceeded::default(),
            cluster,
            links: Links::default(),
            slot_moves: SlotMoves::default(),
            waiters: Waiters::default(),
            watches: Watches::default(),
            channels: Channels::default(),
            tracking: Tracking::default(),
            scripting: Scripting::default(),
            persistence: Persistence::new(started.unix_ms / 1000),
            log: Arc::new(Log::new(log_limits(&config), 0)),
            gates: Gates::new(&config),
            log_readers: LogReaders::default(),
            replication: Replication::new(&process.run_id),
            config,
            clock,
            process,
            host,
        })
    }

    /// True if anybody but the journal has to be told of writes.
    #[inline]
    pub fn has_observers(&self) -> bool {
        self.watches.any()
            || self.waiters.any()
            || self.tracking.any()
            || !self.config.hot().event_mask().is_empty()
    }

    /// Forgets what a connection has here that ends with it.
    pub fn disconnect(&self, worker: &mut Worker, session: &mut Session) {
        pubsub::unsubscribe_all(self, worker, session);
        session.end_transaction(self);
        if session.importing {
            self.abandon_import(session);
        }
        self.set_durability(session, None);
        if session.tracking.take().is_some() {
            self.tracking.stop(&session.client);
        }
        if let Some(waiter) = self.waiters.of_client(session.client.id) {
            self.waiters.cancel(&waiter);
        }
        self.monitors.remove(&session.client);
        self.replication.replicas.detach(self, &session.client);
        self.clients.close(&session.client);
    }

    /// True as long as clients are paused: the data stay what they are.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause.until_ms() > 0 && self.pause.mode(self.clock.now().unix_ms).is_some()
    }

    /// A slice of active expiry: see [`Keyspace::expire_slice`]. None is taken while a snapshot has to catch up, or the log
    /// has no room for what goes.
    pub fn expire_slice(&self, stripe: usize, now_ms: i64, keys_max: usize) -> (usize, bool) {
        let is_full = self.log.is_active() && !self.log.has_room();
        let is_kept = self.keyspace.keeps_expired() || self.imports_into(stripe);
        if is_kept || self.keyspace.snapshot_is_behind(Some(stripe)) || is_full {
            return (0, false);
        }
        self.keyspace.expire_slice(stripe, now_ms, keys_max, &mut |db, key, lapse| match lapse {
            Lapse::Key => self.key_lost(db, key, &[(Event::Expired, "expired")]),
            Lapse::Fields { fields, emptied } => {
                self.log_fields_removal(db, key, fields);
                let events = [(Event::Hash, "hexpired"), (Event::Generic, "del")];
                self.key_lost(db, key, &events[..1 + usize::from(emptied)]);
            }
        })
    }

    /// Tells that a key, or a part of it, has ended by itself: `events` are Redis's. Its stripe is held.
    pub(crate) fn key_lost(&self, db: usize, key: &[u8], events: &[(Event, &'static str)]) {
        if matches!(events[0].0, Event::Expired | Event::Evicted)
            && let Some(offset) = self.log_removal(db, key, events[0].0 == Event::Evicted)
            && events[0].0 == Event::Evicted
        {
            self.observe_loss(key, offset);
        }
        if self.watches.any() {
            self.watches.touch(db, key);
        }
        for (class, name) in events {
            pubsub::publish_event(self, None, db, *class, name, key);
        }
        if self.tracking.any() {
            tracking::invalidate(self, None, key, None);
            tracking::broadcast(self, None, &[key], None);
        }
    }

    /// Sends a letter to a connection, wherever it lives. A connection that others write to does not move.
    pub fn post(&self, client: &Client, letter: impl FnOnce(usize, u64) -> Letter) {
        let worker = usize::from(client.worker.load(SeqCst));
        self.post_to(worker, letter(client.token.load(SeqCst) as usize, client.id));
    }

    /// Sends a letter to a worker, from no worker's thread.
    pub(crate) fn post_to(&self, worker: usize, letter: Letter) {
        self.host.post(worker, letter.gated(self.offset_told()));
    }

    /// A counter summed over all workers.
    pub fn total(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.stats.iter().map(|stats| counter(stats).get()).sum()
    }

    /// Statistics of a command, summed over all workers.
    pub fn command_totals(&self, id: CommandId) -> CommandTotals {
        self.stats.iter().map(|stats| stats.command(id)).fold(CommandTotals::default(), |sum, stats| {
            CommandTotals {
                calls: sum.calls + stats.calls.get(),
                time_ns: sum.time_ns + stats.time_ns.get(),
                rejected: sum.rejected + stats.rejected.get(),
                failed: sum.failed + stats.failed.get(),
            }
        })
    }

    /// Run times of a command over all workers; `None` if none was recorded.
    pub fn histogram(&self, id: CommandId) -> Option<[u64; HISTOGRAM_BUCKETS]> {
        let mut sums = [0; HISTOGRAM_BUCKETS];
        for histogram in self.stats.iter().filter_map(|stats| stats.command(id).histogram()) {
            sums.iter_mut().zip(histogram).for_each(|(sum, bucket)| *sum += bucket.get());
        }
        sums.iter().any(|sum| *sum > 0).then_some(sums)
    }

    /// Encoding thresholds.
    #[inline]
    pub fn thresholds(&self) -> Thresholds {
        self.config.hot().thresholds()
    }

    /// Samples what INFO shows as rates; call it about every 100 ms.
    pub fn sample(&self) {
        let now_us = self.clock.now().mono_us;
        let (commands, input, output) = (
            self.total(|stats| &stats.commands),
            self.total(|stats| &stats.input_bytes),
            self.total(|stats| &stats.output_bytes),
        );
        let mut rates = self.rates.lock();
        rates.commands.sample(commands, now_us);
        rates.input.sample(input, now_us);
        rates.output.sample(output, now_us);
        drop(rates);
        self.clients.advance_recent(now_us / 1_000_000);
        self.tend_cluster();
        self.resident_bytes.store(self.host.resident_bytes(), Relaxed);
        store::alloc::peak_bytes();
    }

    /// True if a new connection has to say who it is.
    #[inline]
    pub fn requires_auth(&self) -> bool {
        !self.acl.default_is_open()
    }

    /// CONFIG RESETSTAT.
    pub fn reset_stats(&self) {
        self.stats.iter().for_each(|stats| stats.reset());
        self.errors.reset();
        self.acl.reset_stats();
        self.keyspace.reset_stats();
        self.exceeded.reset();
        self.cluster.redirects.reset();
        store::alloc::reset_peak();
    }

    /// True if memory is full and a command that needs more must be refused.
    #[inline]
    pub fn out_of_memory(&self) -> bool {
        crate::eviction::is_over_limit(self)
    }
}
