//! What the threads of the process share, and how they reach each other.

use std::fmt::Display;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use cluster::agent::{Ask, HoldId};
use engine::clients::Client;
use engine::lane::Deferred;
use engine::letter::Letter;
use engine::outgoing::{Link, Target};
use engine::persistence::replaying::Replayer;
use engine::persistence::rewriting::Rewritten;
use engine::persistence::saving::Save;
use engine::server::{Answer, CpuSeconds, Host, LogLevel, Server};
use journal::storage::RealStorage;
use parking_lot::Mutex;
use store::Locked;

use crate::cluster::Door;
use crate::connection::Connection;
use crate::listeners::Listeners;
use crate::mailbox;
use crate::outgoing::{Socket, Unconnected, Wanted};
use crate::persistence;
use crate::persistence::journal_thread::{Journal, Rewrite};
use crate::placement::Threads;
use crate::replication::link::LinkControl;
use crate::tls::Tls;

/// Something another thread wants of a worker.
pub enum Message {
    /// Take over a connection.
    Adopt(Box<Connection>),
    /// Something for one of its connections.
    Letter(Letter),
    /// Look again what to listen on.
    Listen,
    /// Close a connection.
    Kill { token: usize, client_id: u64 },
}

/// A worker's letter box.
pub type Mailbox = mailbox::Mailbox<Message, mio::Waker>;

/// A job for the long lane, and where its reply goes.
pub struct LaneTask {
    /// The job.
    pub deferred: Deferred,
    /// The connection's worker.
    pub worker: usize,
    /// The connection's number there.
    pub token: usize,
}

/// What all threads share.
pub struct Shared {
    /// The engine.
    pub server: Server,
    /// Each worker's letter box.
    pub mailboxes: Arc<[Mailbox]>,
    /// The way to the long lane.
    pub lane: Sender<LaneTask>,
    /// What is listened on.
    pub listeners: Arc<Listeners>,
    /// What new TLS connections are made from.
    pub tls: Arc<Tls>,
    /// Where threads run.
    pub threads: Arc<Threads>,
    /// The way to the threads for scripts.
    pub scripts: Sender<LaneTask>,
    /// The way to the threads that wait for other servers.
    pub outgoing: Sender<LaneTask>,
    /// Workers that are to be woken when the files have got on with the log.
    pub log_waiters: Arc<LogWaiters>,
    /// Set once, when the process is to end.
    pub stopping: Arc<AtomicBool>,
}

impl Shared {
    /// What all threads share, and the other ends of the queues of the lane, of the threads for scripts, and of
    /// those that wait for other servers.
    pub fn new(
        server: Server,
        mailboxes: Arc<[Mailbox]>,
        stopping: Arc<AtomicBool>,
        listeners: Arc<Listeners>,
        tls: Arc<Tls>,
        threads: Arc<Threads>,
    ) -> (Arc<Shared>, [Receiver<LaneTask>; 3]) {
        let ((lane, lane_tasks), (scripts, script_tasks)) = (channel(), channel());
        let (outgoing, outgoing_tasks) = channel();
        let are_waiting = mailboxes.iter().map(|_| AtomicBool::new(false)).collect();
        let log_waiters = Arc::new(LogWaiters { are_waiting, mailboxes: mailboxes.clone() });
        let shared = Shared {
            server,
            mailboxes,
            lane,
            listeners,
            tls,
            threads,
            scripts,
            outgoing,
            log_waiters,
            stopping,
        };
        (Arc::new(shared), [lane_tasks, script_tasks, outgoing_tasks])
    }

    /// Has this worker woken when the log is safer than it is, once; whatever is in it now is to be on the disk soon, if
    /// that is wanted.
    pub fn await_progress(&self, worker: usize, wants_sync: bool) {
        let (server, waiters) = (&self.server, &self.log_waiters);
        waiters.are_waiting[worker].store(true, Ordering::SeqCst);
        server.persistence.files.await_progress();
        if wants_sync && server.gates.want_sync(server.log.end()) {
            server.host.sync_files();
        }
    }

    /// True once the process is to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// The workers that wait for the files to get on.
pub struct LogWaiters {
    are_waiting: Box<[AtomicBool]>,
    mailboxes: Arc<[Mailbox]>,
}

impl LogWaiters {
    /// The files have got on: wakes the workers that wait for it, each once.
    pub fn wake(&self) {
        for (is_waiting, mailbox) in self.are_waiting.iter().zip(&*self.mailboxes) {
            if is_waiting.swap(false, Ordering::SeqCst) {
                mailbox.wake();
            }
        }
    }
}

/// The engine's way to the threads.
pub struct ProcessHost {
    mailboxes: Arc<[Mailbox]>,
    background: Sender<Background>,
    journal: Arc<Journal>,
    /// The rewrite that runs.
    rewrite: Mutex<Option<Rewrite>>,
    stopping: Arc<AtomicBool>,
    link: Arc<LinkControl>,
    threads: Arc<Threads>,
    cluster: Door,
    tls: Arc<Tls>,
    page_bytes: u64,
}

/// What the thread that saves is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// [`Server::finish_save`].
    Save,
    /// [`Server::finish_rewrite`].
    Rewrite,
    /// [`Server::follow_appendonly`].
    FollowAppendonly,
    /// [`Server::clear_left_slots`].
    LeaveSlots,
}

impl ProcessHost {
    /// A host over these letter boxes, which asks for saves through `background`, has the thread of the link look
    /// through `link`, and connects over `tls`.
    pub fn new(
        mailboxes: Arc<[Mailbox]>,
        background: Sender<Background>,
        journal: Arc<Journal>,
        stopping: Arc<AtomicBool>,
        link: Arc<LinkControl>,
        threads: Arc<Threads>,
        tls: Arc<Tls>,
    ) -> ProcessHost {
        let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        let page_bytes =
            page_bytes.ok().flatten().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096);
        ProcessHost {
            mailboxes,
            background,
            journal,
            rewrite: Mutex::new(None),
            stopping,
            link,
            threads,
            cluster: Door::default(),
            tls,
            page_bytes,
        }
    }

    /// The same, which asks the cluster through `door`.
    pub fn in_cluster(self, door: Door) -> ProcessHost {
        ProcessHost { cluster: door, ..self }
    }
}

impl Host for ProcessHost {
    fn kill(&self, client: &Client) {
        client.kill.store(true, Ordering::SeqCst);
        let worker = usize::from(client.worker.load(Ordering::SeqCst));
        let token = client.token.load(Ordering::SeqCst) as usize;
        self.mailboxes[worker].send(Message::Kill { token, client_id: client.id });
    }

    fn post(&self, worker: usize, letter: Letter) {
        self.mailboxes[worker].send(Message::Letter(letter));
    }

    fn log(&self, line: &str) {
        tracing::warn!("{line}");
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let read = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(bytes));
        read.expect("system-randomness: /dev/urandom can be read");
    }

    fn log_at(&self, level: LogLevel, text: &str) {
        match level {
            LogLevel::Debug => tracing::debug!("{text}"),
            LogLevel::Verbose | LogLevel::Notice => tracing::info!("{text}"),
            LogLevel::Warning => tracing::warn!("{text}"),
        }
    }

    fn shutdown(&self) {
        // Who has the shard next need not wait until this node's lease has ended.
        self.cluster.hand_over();
        self.stopping.store(true, Ordering::Release);
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    fn save(&self, server: &Server, save: &Save) -> Result<(), String> {
        let name = server.config.string("dbfilename");
        persistence::save::save(server, save, &RealStorage, Path::new(&name))
    }

    fn save_held(&self, server: &Server, save: &Save, held: &mut Locked<'_>) -> Result<(), String> {
        let name = server.config.string("dbfilename");
        persistence::save::save_held(server, save, held, &RealStorage, Path::new(&name))
    }

    fn load_held(&self, server: &Server, held: &mut Locked<'_>, replaces: bool) -> Result<(), String> {
        let name = server.config.string("dbfilename");
        persistence::load::load_held(server, held, &RealStorage, Path::new(&name), replaces)
    }

    fn save_in_background(&self) {
        // The thread that saves outlives the workers.
        let _ = self.background.send(Background::Save);
    }

    fn begin_files(&self, _: &Server) -> Result<(), String> {
        self.journal.begin_anew()
    }

    fn end_files(&self, _: &Server) {
        if let Err(reason) = self.journal.end_files() {
            tracing::warn!("The last of the append-only files may not be safe: {reason}");
        }
    }

    fn sync_files(&self) {
        self.journal.wake();
    }

    fn follow_appendonly(&self) {
        let _ = self.background.send(Background::FollowAppendonly);
    }

    fn leave_slots(&self) {
        let _ = self.background.send(Background::LeaveSlots);
    }

    fn rewrite_in_background(&self) {
        let _ = self.background.send(Background::Rewrite);
    }

    fn begin_rewrite(&self, _: &Server) -> Result<(), String> {
        *self.rewrite.lock() = Some(self.journal.begin_rewrite()?);
        Ok(())
    }

    fn rewrite(&self, server: &Server, save: &Save) -> Result<Rewritten, String> {
        let rewrite = self.rewrite.lock().take().expect("one-save: a rewrite was begun");
        persistence::rewrite::rewrite(server, save, &self.journal, rewrite)
    }

    fn complete_files(&self, server: &Server) -> Result<(), String> {
        persistence::recover::complete(server, &self.journal)
    }

    fn reload_files(&self, replayer: &mut Replayer<'_, '_>) -> Result<(), String> {
        persistence::recover::reload(&self.journal, replayer)
    }

    fn can_cut_files(&self, server: &Server, offset: u64) -> bool {
        persistence::recover::can_cut(server, offset)
    }

    fn load_cut_files(&self, server: &Server, offset: u64) -> Result<usize, String> {
        let persistence::recover::Loaded { recovered, db } = persistence::recover::load_cut(server, offset)?;
        self.journal.adopt(recovered)?;
        Ok(db)
    }

    fn follow(&self, term: u64) {
        self.link.wake(term);
    }

    fn cluster_ask(&self, ask: Ask, answer: Answer) {
        self.cluster.ask(ask, answer);
    }

    fn cluster_handed_over(&self, hold: HoldId, has_all: bool, log_end: u64) {
        self.cluster.handed_over(hold, has_all, log_end);
    }

    fn save_cluster_config(&self) -> Result<(), String> {
        self.cluster.save()
    }

    fn connect(&self, server: &Server, target: &Target, patience: Duration) -> io::Result<Box<dyn Link>> {
        let is_over_tls = server.config.bool("tls-cluster");
        let wanted = Wanted { patience, read_wait: patience, is_undelayed: true, is_over_tls };
        match Socket::connect(&server.config, &self.tls, target, &wanted) {
            Ok((socket, _)) => Ok(Box::new(socket)),
            Err(Unconnected::Address(error)) => Err(error),
            // What went wrong later is none of those by which it is told that nobody listens.
            Err(Unconnected::Handshake(error)) => Err(io::Error::other(error)),
            Err(Unconnected::Name(reason) | Unconnected::Other(reason)) => Err(io::Error::other(reason)),
        }
    }

    fn cpu_seconds(&self) -> CpuSeconds {
        let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF) else {
            return CpuSeconds::default();
        };
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        CpuSeconds { user: seconds(usage.user_time()), system: seconds(usage.system_time()) }
    }

    fn tell_placement(&self, add: &mut dyn FnMut(&str, &dyn Display)) {
        self.threads.tell(add);
    }

    fn resident_bytes(&self) -> u64 {
        // Linux only; elsewhere what the allocator counted is the best figure there is.
        let pages = std::fs::read_to_string("/proc/self/statm")
            .ok()
            .and_then(|line| line.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()));
        pages.map_or_else(|| store::alloc::used_bytes() as u64, |pages| pages * self.page_bytes)
    }
}
