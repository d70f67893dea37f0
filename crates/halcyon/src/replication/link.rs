//! The link to the primary, if there is one: a thread that connects, introduces this server, takes the data or the rest of
//! the stream, and applies what comes, until the link breaks or leads to the wrong server. Then it begins anew.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use engine::clients::{Client, Peer};
use engine::replication::replica::{Agreement, Handshake, LinkPlan, LinkState, Rewound, StreamReader};
use engine::server::Server;
use parking_lot::{Condvar, Mutex};
use resp::write_command;

use super::link_apply::Appliers;
use super::link_socket::{self, Socket};
use super::link_sync;
use crate::courtesy;
use crate::shared::Shared;

/// Between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// As above, of a member of a shard: replies may wait for it.
const MEMBER_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// How long a member waits for a connection, and for a sign of its primary, which sends some a second.
const MEMBER_CONNECT_PATIENCE: Duration = Duration::from_secs(1);
const MEMBER_SILENCE_MAX: Duration = Duration::from_secs(5);
/// A member asks so often within its bound on staleness how old its data are, and no more often than this.
const STAMPS_PER_BOUND: u32 = 4;
const STAMP_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Between two looks whether the data's files are loaded.
const LOADING_INTERVAL: Duration = Duration::from_millis(50);
/// Between two acknowledgements.
const ACK_INTERVAL: Duration = Duration::from_secs(1);
/// Most bytes of one reading.
const READ_BYTES: usize = 256 * 1024;
/// Longest line of a primary that is waited for.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Between two looks whether the log has room.
const ROOM_INTERVAL: Duration = Duration::from_millis(1);

/// The way to the link's thread.
#[derive(Default)]
pub struct LinkControl {
    /// Whom to follow has changed since the thread looked.
    changed: Mutex<bool>,
    told: Condvar,
    /// The socket that the thread may be waiting for, and the term that it is of.
    socket: Mutex<Option<(u64, TcpStream)>>,
    /// The thread waits for the files to get on, too: then it hears this.
    awaits_files: AtomicBool,
    bell: Mutex<Option<UnixStream>>,
}

impl LinkControl {
    /// Has the thread look again whom to follow, and give up what it is doing.
    pub fn wake(&self, term: u64) {
        *self.changed.lock() = true;
        self.told.notify_one();
        if let Some((of, socket)) = &*self.socket.lock()
            && *of != term
        {
            // It may be closed already.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }

    /// The append-only files have got on: the thread is to look, if it waits for that. Brief.
    pub fn files_got_on(&self) {
        if self.awaits_files.swap(false, SeqCst)
            && let Some(bell) = &mut *self.bell.lock()
        {
            // One that is full of rings is heard as well.
            let _ = bell.write(&[1]);
        }
    }

    fn sleep(&self, most: Duration) {
        let mut changed = self.changed.lock();
        if !*changed {
            self.told.wait_for(&mut changed, most);
        }
        *changed = false;
    }
}

/// The thread's work.
pub fn run(shared: &Arc<Shared>, control: &LinkControl, seed: u64) {
    let server = &shared.server;
    store::courtesy::begin();
    while !shared.is_stopping() {
        let Some(plan) = server.replication.following.plan(server) else {
            control.sleep(RETRY_INTERVAL);
            continue;
        };
        if server.persistence.is_loading() {
            control.sleep(LOADING_INTERVAL);
            continue;
        }
        let (term, primary) = (plan.term, plan.primary.clone());
        let is_member = plan.introduction.membership.is_some();
        tracing::info!("Connecting to MASTER {}:{}", primary.host, primary.port);
        let reason = match Link::make(shared, control, plan) {
            Ok(mut link) => link.follow(seed),
            Err(reason) => reason,
        };
        (*control.socket.lock(), *control.bell.lock()) = (None, None);
        if server.replication.following.term() == term {
            tracing::warn!("Link to MASTER {}:{}: {reason}", primary.host, primary.port);
            server.replication.following.set_link(term, LinkState::Connect, server.clock.now().unix_ms);
            control.sleep(if is_member { MEMBER_RETRY_INTERVAL } else { RETRY_INTERVAL });
        }
    }
}

/// A link that is made.
pub(super) struct Link<'s> {
    pub(super) shared: &'s Arc<Shared>,
    control: &'s LinkControl,
    /// Where it is heard that the files have got on.
    bell: UnixStream,
    pub(super) plan: LinkPlan,
    pub(super) socket: Socket,
    /// What came and is not used.
    pub(super) input: Vec<u8>,
    client: Arc<Client>,
    /// When something last came.
    heard: Instant,
    acked: Instant,
    /// The offset that was acknowledged last, and what was said to be on the disk.
    acked_to: u64,
    synced_to: u64,
    /// How long a reading waits.
    read_wait: Duration,
    /// When the primary was last asked how old this server's data are.
    stamped: Instant,
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        let server = &self.shared.server;
        server.replication.following.set_link_client(0);
        server.clients.close(&self.client);
    }
}

impl<'s> Link<'s> {
    fn make(shared: &'s Arc<Shared>, control: &'s LinkControl, plan: LinkPlan) -> Result<Link<'s>, String> {
        let server = &shared.server;
        let now_ms = server.clock.now().unix_ms;
        server.replication.following.set_link(plan.term, LinkState::Connecting, now_ms);
        let patience = match plan.introduction.membership {
            Some(_) => MEMBER_CONNECT_PATIENCE,
            None => Duration::from_secs(server.config.int("repl-timeout").max(1) as u64),
        };
        let (socket, tcp) = link_socket::connect(shared, &plan.primary, patience)?;
        let peer = tcp.peer_addr().and_then(|peer| tcp.local_addr().map(|local| Peer::tcp(peer, local)));
        let peer = peer.map_err(|error| error.to_string())?;
        *control.socket.lock() = Some((plan.term, tcp));
        if server.replication.following.term() != plan.term {
            return Err("another primary is to be followed".to_owned());
        }
        let client = server.clients.open(peer, 0, now_ms);
        server.replication.following.set_link_client(client.id);
        let now = Instant::now();
        let (read_wait, input) = (link_socket::READ_WAIT, Vec::new());
        let bell = hang_bell(control).map_err(|error| error.to_string())?;
        Ok(Link {
            shared,
            control,
            bell,
            plan,
            socket,
            input,
            client,
            heard: now,
            acked: now,
            acked_to: 0,
            synced_to: 0,
            read_wait,
            stamped: now,
        })
    }

    pub(super) fn server(&self) -> &'s Server {
        &self.shared.server
    }

    /// True if this link is not to be followed any more.
    pub(super) fn is_over(&self) -> bool {
        self.server().replication.following.term() != self.plan.term
            || self.client.kill.load(std::sync::atomic::Ordering::Relaxed)
            || self.shared.is_stopping()
    }

    /// True if this server is a member of the primary's shard, which waits for its acknowledgements.
    fn is_member(&self) -> bool {
        self.plan.introduction.membership.is_some()
    }

    pub(super) fn set_state(&self, state: LinkState) {
        let now_ms = self.server().clock.now().unix_ms;
        self.server().replication.following.set_link(self.plan.term, state, now_ms);
    }

    /// Follows the primary until that is over; why it is.
    fn follow(&mut self, seed: u64) -> String {
        match self.try_follow(seed) {
            Ok(never) => match never {},
            Err(reason) => reason,
        }
    }

    fn try_follow(&mut self, seed: u64) -> Result<std::convert::Infallible, String> {
        let agreement = self.shake_hands()?;
        let server = self.server();
        match agreement {
            Agreement::Partial { id } => {
                if !server.resume_stream(self.plan.term, id.as_deref()) {
                    return Err("another primary is to be followed".to_owned());
                }
                tracing::info!("Successful partial resynchronization with master.");
            }
            Agreement::Rewind { to } => return Err(self.rewind(to)),
            Agreement::Full { id, offset } => {
                tracing::info!("Full resync from master: {id}:{offset}");
                self.set_state(LinkState::Sync);
                link_sync::take(self, &id, offset)?;
                tracing::info!("MASTER <-> REPLICA sync: Finished with success");
            }
        }
        server.complete_failover();
        self.set_state(LinkState::Connected);
        self.acknowledge()?;
        self.take_stream(seed)
    }

    /// Gives up what is void of this server's stream. Then, or where that cannot be, the link is made anew.
    fn rewind(&mut self, to: u64) -> String {
        let server = self.server();
        let void = server.log.end().saturating_sub(to);
        tracing::info!(
            "MASTER goes on from offset {to}: the {void} bytes that this server has beyond that are void"
        );
        self.set_state(LinkState::Sync);
        match server.rewind(self.plan.term, to) {
            Rewound::Done => format!("what was void is cut off, the stream goes on from offset {to}"),
            Rewound::Later => "what is void cannot be cut off yet".to_owned(),
            Rewound::Refused(reason) => {
                format!("what is void cannot be cut off, so all is asked for: {reason}")
            }
        }
    }

    fn shake_hands(&mut self) -> Result<Agreement, String> {
        self.set_state(LinkState::Handshake);
        let mut out = Vec::new();
        let mut handshake = Handshake::begin(self.plan.introduction.clone(), &mut out);
        loop {
            self.send(&out)?;
            out.clear();
            let line = self.line()?;
            match handshake.take(&line, &mut out) {
                Ok(Some(agreement)) => return Ok(agreement),
                Ok(None) => {}
                Err(refusal) => {
                    if self.plan.introduction.takes_over {
                        self.server().refuse_failover(&refusal);
                    }
                    return Err(refusal.text().to_owned());
                }
            }
        }
    }

    /// Applies the stream, as long as it comes.
    fn take_stream(&mut self, seed: u64) -> Result<std::convert::Infallible, String> {
        let server = self.server();
        let following = &server.replication.following;
        let mut appliers = Appliers::start(self.shared, self.client.clone(), seed)?;
        let mut stream = StreamReader::new(following.stream_db(), appliers.lanes());
        stream.push(&std::mem::take(&mut self.input));
        loop {
            while let Some(batch) = stream.next(server).map_err(|error| error.to_string())? {
                self.wait_for_room()?;
                let batch = Arc::new(batch);
                let (term, is_member) = (self.plan.term, self.is_member());
                let mut told = Ok(());
                let received = || {
                    if is_member {
                        told = self.acknowledge();
                    }
                };
                let apply = || appliers.apply(server, &batch);
                if !server.take_batch_told(term, &batch, received, apply) {
                    return Err("another primary is to be followed".to_owned());
                }
                told?;
                if batch.wants_ack() && !is_member {
                    self.acknowledge()?;
                }
                self.acknowledge_if_due()?;
            }
            self.acknowledge_if_due()?;
            let read = if self.is_member() { self.read_as_member()? } else { self.read()? };
            following.note_received(read);
            stream.push(&std::mem::take(&mut self.input));
            if read == 0 && self.acked_to != following.applied() && !self.is_member() {
                // The primary writes nothing now: whoever waits for this server need not wait longer.
                self.acknowledge()?;
            }
        }
    }

    /// Waits until those who need the log have read enough of it.
    fn wait_for_room(&mut self) -> Result<(), String> {
        while !self.server().log.has_room() {
            if self.is_over() {
                return Err("the link is given up".to_owned());
            }
            self.acknowledge_if_due()?;
            std::thread::sleep(ROOM_INTERVAL);
        }
        Ok(())
    }

    fn acknowledge_if_due(&mut self) -> Result<(), String> {
        if self.acked.elapsed() < ACK_INTERVAL {
            return Ok(());
        }
        self.acknowledge()
    }

    /// Says how far this server is, and how far its own files are.
    fn acknowledge(&mut self) -> Result<(), String> {
        self.acked = Instant::now();
        self.acked_to = match self.is_member() {
            // What is in the log is applied, whatever role this server has next.
            true => {
                let promised = self.server().cluster_promise(self.plan.term);
                promised.ok_or("another primary is to be followed")?
            }
            false => self.server().replication.following.applied(),
        };
        let applied = self.acked_to.to_string();
        let mut out = Vec::new();
        match self.server().synced_to() {
            None => write_command(&mut out, [b"REPLCONF".as_slice(), b"ACK", applied.as_bytes()]),
            Some(synced) => {
                self.synced_to = synced;
                let synced = synced.to_string();
                let words = [b"REPLCONF".as_slice(), b"ACK", applied.as_bytes(), b"FACK", synced.as_bytes()];
                write_command(&mut out, words);
            }
        }
        self.send(&out)
    }

    /// As [`Link::read`]; meanwhile the primary is told at once what is safe here, where it waits for that, and asked how old
    /// the data are, where that is bounded.
    fn read_as_member(&mut self) -> Result<usize, String> {
        loop {
            let server = self.server();
            let is_behind = self.acknowledge_synced()?;
            let bound_ms = server.config.hot().replica_staleness_ms_max();
            let mut wait = link_socket::READ_WAIT;
            if bound_ms > 0 {
                let interval = (Duration::from_millis(bound_ms) / STAMPS_PER_BOUND).max(STAMP_INTERVAL_MIN);
                wait = wait.min(interval);
                self.ask_for_stamp(interval)?;
            }
            if is_behind {
                if self.is_readable_within(wait)? {
                    return self.read();
                }
                self.allow_silence()?;
                continue;
            }
            if wait != self.read_wait {
                self.socket.set_read_wait(wait).map_err(|error| error.to_string())?;
                self.read_wait = wait;
            }
            return self.read();
        }
    }

    /// Where the primary waits for this server's disk, tells it what came there. True if that is not all there is: then the thread
    /// is told when there is more.
    fn acknowledge_synced(&mut self) -> Result<bool, String> {
        let server = self.server();
        if !server.gates.copies_sync() || server.synced_to().is_none() {
            return Ok(false);
        }
        // First asked, then looked at: so nothing comes in between.
        self.control.awaits_files.store(true, SeqCst);
        server.persistence.files.await_progress();
        let synced_to = server.synced_to().unwrap_or(u64::MAX);
        if synced_to > self.synced_to && synced_to != u64::MAX {
            self.acknowledge()?;
        }
        Ok(synced_to < server.log.end())
    }

    /// True when something comes within this time; false, too, if the files have got on.
    fn is_readable_within(&mut self, wait: Duration) -> Result<bool, String> {
        let is_readable = self.socket.is_readable_within(wait, &self.bell);
        let mut rings = [0; 64];
        // As much as there is: it says no more than one ring.
        while (&self.bell).read(&mut rings).is_ok_and(|read| read == rings.len()) {}
        is_readable.map_err(|error| format!("I/O error waiting for master: {error}"))
    }

    fn ask_for_stamp(&mut self, interval: Duration) -> Result<(), String> {
        if self.stamped.elapsed() < interval {
            return Ok(());
        }
        self.stamped = Instant::now();
        let (stamp, mut out) = (self.server().cluster_stamp(), Vec::new());
        write_command(&mut out, [b"REPLCONF".as_slice(), b"halcyon-stamp", stamp.as_bytes()]);
        self.send(&out)
    }

    /// Sends an empty line, so that the primary knows that somebody is there, if it is time to.
    pub(super) fn keep_alive(&mut self) -> Result<(), String> {
        if self.acked.elapsed() >= ACK_INTERVAL {
            self.acked = Instant::now();
            self.send(b"\n")?;
        }
        Ok(())
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write_all(bytes).map_err(|error| format!("cannot be written to: {error}"))
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> Result<Vec<u8>, String> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.input[searched..].iter().position(|byte| *byte == b'\n') {
                let end = searched + end;
                let rest = self.input.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.input, rest);
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            searched = self.input.len();
            if searched > LINE_BYTES_MAX {
                return Err("what it sends are no lines".to_owned());
            }
            self.read()?;
        }
    }

    /// Adds what has come to the input, or 0 bytes where nothing comes for a moment. An error after silence for as long as
    /// `repl-timeout` allows.
    pub(super) fn read(&mut self) -> Result<usize, String> {
        if self.is_over() {
            return Err("the link is given up".to_owned());
        }
        let filled = self.input.len();
        self.input.resize(filled + READ_BYTES, 0);
        let read = self.socket.read(&mut self.input[filled..]);
        self.input.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err("Connection with master lost.".to_owned()),
            Ok(read) => {
                self.heard = Instant::now();
                let now_ms = self.server().clock.now().unix_ms;
                self.server().replication.following.heard(now_ms);
                self.client.last_active_ms.store(now_ms, std::sync::atomic::Ordering::Relaxed);
                courtesy::while_following(self.server());
                Ok(read)
            }
            Err(error) if is_silence(&error) => self.allow_silence().map(|()| 0),
            Err(error) => Err(format!("I/O error reading from master: {error}")),
        }
    }

    /// An error if the link is over, or the primary has been silent for too long.
    fn allow_silence(&self) -> Result<(), String> {
        if self.is_over() {
            return Err("the link is given up".to_owned());
        }
        let timeout_s = self.server().config.int("repl-timeout").max(1) as u64;
        let mut timeout = Duration::from_secs(timeout_s);
        if self.is_member() {
            timeout = timeout.min(MEMBER_SILENCE_MAX);
        }
        match self.heard.elapsed() > timeout {
            true => Err("MASTER timeout: no data nor PING received...".to_owned()),
            false => Ok(()),
        }
    }
}

/// A bell that others ring; what it is heard by. Nobody waits at either end.
fn hang_bell(control: &LinkControl) -> io::Result<UnixStream> {
    let (rung, heard) = UnixStream::pair()?;
    rung.set_nonblocking(true)?;
    heard.set_nonblocking(true)?;
    *control.bell.lock() = Some(rung);
    Ok(heard)
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
