//! Starting and ending the process.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use base::clock::SystemClock;
use base::limits::{APPLY_THREADS_MAX, OUTGOING_THREADS, SCRIPT_THREADS, THREAD_STACK_BYTES};
use engine::cluster_face::Identity;
use engine::config::Config;
use engine::replication::replica::Primary;
use engine::server::{Process, Server};
use engine::shutdown::ShutdownWish;
use journal::manifest::StreamEnd;
use journal::storage::RealStorage;
use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cluster::{self, Door};
use crate::listeners::Listeners;
use crate::persistence::journal_thread::Journal;
use crate::persistence::recover::Loaded;
use crate::placement::{Role, Threads, role_of};
use crate::remote_subscriptions::{self, RemoteSubscriptions};
use crate::replication::link::LinkControl;
use crate::shared::{Background, LaneTask, Mailbox, ProcessHost, Shared};
use crate::tls::{Tls, is_tls_directive};
use crate::worker::Worker;
use crate::{lane, logging, machine, no_fork, persistence, replication};

/// Time between samples of the rates that INFO shows.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Why the main thread goes on.
enum Notice {
    Signal(i32),
    /// The server cannot go on.
    Failed(String),
    /// A thread has ended: expectedly or not.
    ThreadEnded {
        name: String,
        panicked: bool,
    },
}

/// What starting a thread takes: where its end is told, and where it runs.
struct Crew {
    notices: Sender<Notice>,
    threads: Arc<Threads>,
}

/// Runs the server until it is told to end. The error is a line for the user.
pub fn serve(args: &[Vec<u8>]) -> Result<(), String> {
    let (config, notices) = Config::load(args).map_err(|error| error.to_string())?;
    if config.bool("daemonize") {
        return Err(
            "daemonize yes: this server never forks. Start it in the background with systemd, or '&', and \
                    remove the directive."
                .to_owned(),
        );
    }
    enter_directory(&config)?;
    let relevel = logging::start(&config)?;
    for notice in notices.iter().filter(|notice| !notice.at_default) {
        tracing::warn!("{}", notice.text);
    }
    let is_fork_forbidden = no_fork::apply(&config);
    machine::fit_maxclients(&config)?;
    if let Err(reason) = machine::apply_oom_score(&config) {
        tracing::warn!("{reason}");
    }
    let (door, prepared) = cluster::prepare(&config)?;
    let tls = Arc::new(Tls::load(&config)?);
    let threads = Arc::new(Threads::plan(&config));
    let workers = threads.workers();
    let mailboxes: Arc<[Mailbox]> = (0..workers).map(|_| Mailbox::default()).collect();
    let listeners = Arc::new(Listeners::open(&config, mailboxes.clone(), threads.incoming_cpus())?);
    let (notify, notices) = channel();
    watch_signals(notify.clone())?;
    let stopping = Arc::new(AtomicBool::new(false));
    let (background, background_wanted) = channel();
    let journal = Arc::new(Journal::default());
    let link = Arc::new(LinkControl::default());
    let crew = Crew { notices: notify, threads: threads.clone() };
    let host = ProcessHost::new(
        mailboxes.clone(),
        background,
        journal.clone(),
        stopping.clone(),
        link.clone(),
        threads.clone(),
        tls.clone(),
    );
    let host = host.in_cluster(door.clone());
    let followers = (relevel, tls.clone(), listeners.clone(), journal.clone(), door.clone());
    config.set_applier(Box::new(move |config, changed| apply(config, changed, &followers)));
    let config = Arc::new(config);
    let mut process = describe_process(workers, is_fork_forbidden);
    if config.bool("cluster-enabled") {
        let file = std::path::PathBuf::from(config.string("cluster-config-file"));
        let (identity, warnings) = Identity::load(&file, random_id());
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        process.cluster_identity = Some(identity);
    }
    let server = Server::new(config.clone(), Box::new(SystemClock::new()), process, Box::new(host))?;
    write_pid_file(&config);
    if let Some(prepared) = &prepared {
        cluster::begin(&server, prepared);
    }
    let (shared, tasks) = Shared::new(server, mailboxes, stopping, listeners, tls, threads);

    start_background(&shared, tasks, background_wanted, &crew)?;
    start_journal(&shared, &journal, &link, &crew)?;
    follow_as_configured(&shared.server);
    start_loading(&shared, &journal, &crew)?;
    let for_link = shared.clone();
    spawn("replica-link", &crew, move || replication::link::run(&for_link, &link, random()))?;
    if let Some(prepared) = prepared {
        let (for_subscriptions, remote) = (shared.clone(), Arc::new(RemoteSubscriptions::default()));
        remote_subscriptions::begin(&shared.server, &remote);
        spawn("subscriptions", &crew, move || remote_subscriptions::run(&for_subscriptions, &remote))?;
        let for_cluster = shared.clone();
        spawn("cluster", &crew, move || cluster::run(for_cluster, prepared, random_id(), random()))?;
    }
    for index in 0..workers {
        let worker = Worker::new(shared.clone(), index, random())
            .map_err(|error| format!("Can't start worker {index}: {error}"))?;
        let threads = crew.threads.clone();
        spawn(&format!("worker-{index}"), &crew, move || {
            threads.seat_worker(index);
            worker.run().expect("worker-poll: waiting for events cannot fail");
        })?;
    }
    tracing::info!(
        "Halcyon {} ready to accept connections: {}, {workers} worker{}, pid {}",
        env!("CARGO_PKG_VERSION"),
        places(&config),
        if workers == 1 { "" } else { "s" },
        std::process::id()
    );
    machine::tell_supervisor(&config, "STATUS=Ready to accept connections\nREADY=1\n");
    let ended = supervise(&shared, &notices, workers);
    door.stop();
    machine::tell_supervisor(&config, "STOPPING=1\n");
    let ended = ended.and_then(|()| end_journal(&shared, &journal));
    let _ = std::fs::remove_file(config.string("pidfile"));
    if !config.string("unixsocket").is_empty() {
        let _ = std::fs::remove_file(config.string("unixsocket"));
    }
    ended
}

/// What follows the configuration.
type Followers = (logging::Relevel, Arc<Tls>, Arc<Listeners>, Arc<Journal>, Door);

/// Makes CONFIG SET take effect where a directive is not read anew each time. The error names the
/// directive and says why it stays as it is.
fn apply(
    config: &Config,
    changed: &[&'static str],
    (relevel, tls, listeners, journal, door): &Followers,
) -> Result<(), (&'static str, String)> {
    for name in changed {
        match *name {
            "loglevel" => relevel(config),
            "appendfsync" | "durability" | "aof-timestamp-enabled" | "no-appendfsync-on-rewrite" => {
                journal.wake()
            }
            "dir" => {
                let entered = std::env::set_current_dir(config.string("dir"));
                entered.map_err(|error| (*name, error.to_string()))?;
            }
            "maxclients" => machine::raise_open_files(config.hot().maxclients()).map_err(|usable| {
                let text =
                    "The operating system is not able to handle the specified number of clients, try with";
                (*name, format!("{text} {usable}"))
            })?,
            "oom-score-adj" | "oom-score-adj-values" => {
                machine::apply_oom_score(config).map_err(|reason| (*name, reason))?;
            }
            _ => {}
        }
    }
    if let Some(name) = changed.iter().find(|name| is_tls_directive(name)) {
        tls.reload(config).map_err(|reason| (*name, reason))?;
    }
    listeners.follow(config, changed)?;
    door.reconfigure();
    Ok(())
}

fn places(config: &Config) -> String {
    let port = config.int("port");
    let mut places = Vec::new();
    if port != 0 {
        places.push(format!("port {port}"));
    }
    let tls_port = config.int("tls-port");
    if tls_port != 0 {
        places.push(format!("TLS port {tls_port}"));
    }
    let path = config.string("unixsocket");
    if !path.is_empty() {
        places.push(path);
    }
    if config.bool("cluster-enabled") {
        places.push("cluster mode".to_owned());
    }
    places.join(", ")
}

fn enter_directory(config: &Config) -> Result<(), String> {
    let dir = config.string("dir");
    std::env::set_current_dir(&dir).map_err(|error| format!("Can't chdir to '{dir}': {error}"))?;
    // Permissions do not tell all (a read-only mount, a full quota): a file does.
    let probe = format!(".halcyon-{}", std::process::id());
    std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)).map_err(|error| {
        format!("Can't write in the directory '{dir}': {error}. Choose another with --dir, or change its permissions.")
    })
}

fn write_pid_file(config: &Config) {
    let path = config.string("pidfile");
    if !path.is_empty()
        && let Err(error) = std::fs::write(&path, format!("{}\n", std::process::id()))
    {
        tracing::warn!("Can't write the pid file {path}: {error}");
    }
}

/// A number from the operating system's randomness: std's hasher draws its keys from there.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// 40 hex digits.
fn random_id() -> String {
    format!("{:016x}{:016x}{:08x}", random(), random(), random() as u32)
}

fn describe_process(workers: usize, is_fork_forbidden: bool) -> Process {
    let executable = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    Process {
        run_id: random_id(),
        executable,
        multiplexing_api: if cfg!(target_os = "linux") { "epoll" } else { "kqueue" },
        os: machine::os_name(),
        pid: std::process::id(),
        workers,
        system_memory_bytes: machine::memory_bytes(),
        cluster_identity: None,
        is_fork_forbidden,
    }
}

fn start_background(
    shared: &Arc<Shared>,
    [lane_tasks, script_tasks, outgoing_tasks]: [Receiver<LaneTask>; 3],
    background_wanted: Receiver<Background>,
    crew: &Crew,
) -> Result<(), String> {
    let reaper = shared.server.keyspace.take_reaper().expect("one-reaper: the keyspace is new");
    spawn("reaper", crew, move || reaper.run())?;
    let for_lane = shared.clone();
    spawn("long-lane", crew, move || {
        let index = for_lane.mailboxes.len();
        store::courtesy::begin();
        lane::run(&for_lane, index, || lane_tasks.recv().ok(), random());
    })?;
    replication::primary::start(shared, |name, work| spawn(name, crew, work))?;
    let (for_saves, threads) = (shared.clone(), crew.threads.clone());
    spawn("saver", crew, move || {
        while let Ok(wanted) = background_wanted.recv() {
            threads.seat(if wanted == Background::Save { Role::Saving } else { Role::Rewriting });
            // What went wrong is in the log and in INFO.
            match wanted {
                Background::Save => drop(for_saves.server.finish_save()),
                Background::Rewrite => for_saves.server.finish_rewrite(),
                Background::LeaveSlots => for_saves.server.clear_left_slots(),
                Background::FollowAppendonly => {
                    // Of files that are missing it was told before.
                    if let Err(reason) = for_saves.server.follow_appendonly()
                        && !for_saves.server.persistence.files.are_missing()
                    {
                        tracing::warn!("The append-only files cannot be begun: {reason}");
                    }
                }
            }
        }
    })?;
    let script_tasks = Arc::new(Mutex::new(script_tasks));
    for number in 0..SCRIPT_THREADS {
        let (for_scripts, tasks) = (shared.clone(), script_tasks.clone());
        spawn(&format!("script-{number}"), crew, move || {
            let index = for_scripts.mailboxes.len() + 1 + number;
            lane::run(&for_scripts, index, || next_task(&tasks), random());
        })?;
    }
    let outgoing_tasks = Arc::new(Mutex::new(outgoing_tasks));
    for number in 0..OUTGOING_THREADS {
        let (shared, tasks) = (shared.clone(), outgoing_tasks.clone());
        spawn(&format!("outgoing-{number}"), crew, move || {
            let index = shared.mailboxes.len() + 1 + SCRIPT_THREADS + APPLY_THREADS_MAX + number;
            lane::run(&shared, index, || next_task(&tasks), random());
        })?;
    }
    Ok(())
}

/// Becomes a replica at the start, if a directive says so.
fn follow_as_configured(server: &Server) {
    let words = server.config.list("replicaof");
    if let [host, port] = &words[..] {
        let port = base::num::parse_i64(port).and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
        server.follow(Primary { host: String::from_utf8_lossy(host).into_owned(), port });
    }
}

/// Starts the threads that write the append-only files.
fn start_journal(
    shared: &Arc<Shared>,
    journal: &Arc<Journal>,
    link: &Arc<LinkControl>,
    crew: &Crew,
) -> Result<(), String> {
    let (errands, to_be_run) = channel();
    let (waiters, link) = (shared.log_waiters.clone(), link.clone());
    shared.server.persistence.files.set_on_progress(Box::new(move || {
        waiters.wake();
        link.files_got_on();
    }));
    let (syncing, writing, shared) = (journal.clone(), journal.clone(), shared.clone());
    spawn("journal-sync", crew, move || syncing.run_errands(&to_be_run))?;
    spawn("journal", crew, move || writing.run(&shared, errands))
}

/// Writes what is still to be written. Nobody is answered any more.
fn end_journal(shared: &Shared, journal: &Journal) -> Result<(), String> {
    let are_kept = shared.server.persistence.files.are_kept();
    let server = &shared.server;
    // Nothing comes by a link any more either.
    let _gate = server.replication.following.gate.lock();
    journal
        .close(server.stream_end(server.log.end()))
        .map_err(|reason| format!("The last of the append-only files could not be written: {reason}"))?;
    if are_kept {
        tracing::info!("The append-only files are safe");
    }
    Ok(())
}

/// Loads the last snapshot, and goes on with the stream that it is an instant of.
fn load_snapshot(server: &Server, path: &Path) -> Result<(), String> {
    let loaded = persistence::load::load(server, &RealStorage, path)?;
    if let (Some(id), Some(offset)) = (loaded.stream_id, loaded.stream_offset) {
        server.resume_at(&id, offset, loaded.stream_db);
    }
    Ok(())
}

/// Loads the data, if there is any, on a thread of its own: the append-only files, or the last snapshot.
fn start_loading(shared: &Arc<Shared>, journal: &Arc<Journal>, crew: &Crew) -> Result<(), String> {
    let server = &shared.server;
    let is_appended = server.config.bool("appendonly");
    let path = PathBuf::from(server.config.string("dbfilename"));
    if !is_appended && (path.as_os_str().is_empty() || !path.exists()) {
        return Ok(());
    }
    server.begin_loading(0);
    server.persistence.files.set_recovering(is_appended);
    let (shared, journal, failures) = (shared.clone(), journal.clone(), crew.notices.clone());
    spawn("loader", crew, move || {
        let loaded = match is_appended {
            true => load_appended(&shared.server, &journal),
            false => load_snapshot(&shared.server, &path),
        };
        match loaded {
            Ok(()) => shared.server.end_loading(),
            // The main thread may have left already.
            Err(reason) => drop(failures.send(Notice::Failed(reason))),
        }
    })
}

/// Loads the append-only files, and has them gone on with.
fn load_appended(server: &Server, journal: &Journal) -> Result<(), String> {
    let names = persistence::names(&server.config)?;
    let Loaded { recovered, db } = persistence::recover::recover(server, &persistence::disk::disk(), &names)?;
    match (recovered.stream(), recovered.summary.end_offset.filter(|_| recovered.summary.is_exact)) {
        (Some(StreamEnd { id, offset, db }), _) => server.resume_at(id, *offset, *db as usize),
        // Without an end in order they end with some record all the same.
        (None, Some(end)) => server.resume_replayed(end, db),
        (None, None) => {}
    }
    journal.adopt(recovered)?;
    server.want_files(true);
    server.persistence.files.set_recovering(false);
    // It may have been switched off meanwhile.
    server.follow_appendonly()
}

/// The next job of a queue that several threads take from; `None` once nobody can add to it.
fn next_task(tasks: &Mutex<Receiver<LaneTask>>) -> Option<LaneTask> {
    tasks.lock().recv().ok()
}

/// Starts a thread, where it is to run, whose end, by panic too, reaches the main thread.
fn spawn(name: &str, crew: &Crew, body: impl FnOnce() + Send + 'static) -> Result<(), String> {
    struct Farewell(String, Sender<Notice>);
    impl Drop for Farewell {
        fn drop(&mut self) {
            let ended =
                Notice::ThreadEnded { name: std::mem::take(&mut self.0), panicked: thread::panicking() };
            // The main thread may have left already.
            let _ = self.1.send(ended);
        }
    }
    let farewell = Farewell(name.to_owned(), crew.notices.clone());
    let (threads, role) = (crew.threads.clone(), role_of(name));
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(THREAD_STACK_BYTES)
        .spawn(move || {
            let _farewell = farewell;
            threads.seat(role);
            body();
        })
        .map(drop)
        .map_err(|error| format!("Can't start thread {name}: {error}"))
}

fn watch_signals(notify: Sender<Notice>) -> Result<(), String> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| format!("Can't watch for signals: {error}"))?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().all(|signal| notify.send(Notice::Signal(signal)).is_ok()))
        .map(drop)
        .map_err(|error| format!("Can't start the signal thread: {error}"))
}

/// Ends the process as the directive for the signal says, unless that fails.
fn shut_down(shared: &Arc<Shared>, directive: &str) {
    let (shared, wish) = (shared.clone(), ShutdownWish::of_words(&shared.server.config.list(directive)));
    // What went wrong is in the log.
    let work = move || {
        let _ = shared.server.shut_down(wish);
    };
    thread::Builder::new().name("shutdown".to_owned()).spawn(work).expect("thread-limit: one more thread");
}

/// Samples statistics and waits for the end.
fn supervise(shared: &Arc<Shared>, notices: &Receiver<Notice>, workers: usize) -> Result<(), String> {
    let mut running = workers;
    while running > 0 {
        match notices.recv_timeout(SAMPLE_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {
                shared.server.sample();
                shared.server.check_failover(shared.server.clock.now());
                shared.server.tend_replicas();
                shared.server.links.close_idle(shared.server.clock.now().mono_us);
                shared.server.check_save_points(shared.server.clock.now().unix_ms / 1000);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(Notice::Signal(SIGHUP)) => {}
            Ok(Notice::Signal(signal)) => {
                let (name, directive) = match signal {
                    SIGINT => ("SIGINT", "shutdown-on-sigint"),
                    _ => ("SIGTERM", "shutdown-on-sigterm"),
                };
                if signal == SIGINT && shared.server.shutdown.is_going() {
                    return Err("received SIGINT again while shutting down, so it ends at once".to_owned());
                }
                tracing::info!("Received {name}, shutting down");
                shut_down(shared, directive);
            }
            Ok(Notice::ThreadEnded { name, panicked: true }) => {
                return Err(format!(
                    "thread {name} has failed; the server ends, since it would serve only in part"
                ));
            }
            Ok(Notice::ThreadEnded { name, .. }) => running -= usize::from(name.starts_with("worker-")),
            Ok(Notice::Failed(reason)) => return Err(reason),
        }
    }
    tracing::info!("Halcyon is now ready to exit, bye bye...");
    Ok(())
}
