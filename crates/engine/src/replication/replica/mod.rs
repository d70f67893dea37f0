//! Following another server: whom, how far, and what that means for clients.
//!
//! The link itself is a thread of the process, which drives [`handshake`], [`payload`] and [`stream`] and applies what comes
//! ([`apply`]). The primary's bytes go into this server's log as they came, so its offsets are the primary's, for its own
//! files and replicas too; nothing that clients do here enters the log meanwhile.
//!
//! # Invariants
//! - *gate-first*: whoever needs the log and the data to agree (a batch of the stream, the instant of a snapshot, a change of
//!   roles) holds [`Following::gate`], and takes it before any stripe.
//! - *one-link*: a link does nothing any more once [`Following::term`] is not the one that it began with.

mod apply;
mod failover;
mod handshake;
mod payload;
mod report;
mod rewind;
mod roles;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::cluster_face::routing;
use crate::fault::{CmdResult, Fault};
use crate::propagation::may_leave_effects;
use crate::replication::group::Membership;
use crate::server::Server;
use crate::session::Session;
use crate::table::{CommandInfo, Flags};

pub use apply::Applier;
pub use failover::FailoverState;
pub(crate) use failover::FailoverWish;
pub use handshake::{Agreement, Handshake, Introduction, Refusal};
pub use payload::Payload;
pub(crate) use report::{add_following, answer_role};
pub use rewind::Rewound;
pub use stream::{StreamBatch, StreamError, StreamReader};

/// Bits of what this server is.
const IS_REPLICA: u8 = 1;
const LINK_IS_DOWN: u8 = 2;
/// A cluster has this primary refuse writes: too few copies are in sync.
const REFUSES_WRITES: u8 = 4;
/// Writes wait until this primary has handed over.
const HOLDS_WRITES: u8 = 8;
const ROLE: u8 = IS_REPLICA | LINK_IS_DOWN;

/// What is told to who writes to a replica.
const READ_ONLY: Fault = Fault::Text("READONLY You can't write against a read only replica.");
const TOO_FEW_IN_SYNC: Fault = Fault::Text("NOREPLICAS Not enough good replicas to write.");
const TOO_OLD: Fault = Fault::Text(
    "MASTERDOWN This replica may lack what its primary has had for longer than replica-max-staleness-ms allows.",
);
const MASTER_DOWN: Fault =
    Fault::Text("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");

/// How far a link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// It is to be made.
    #[default]
    Connect,
    /// It is being made.
    Connecting,
    /// The two servers introduce each other.
    Handshake,
    /// All data comes, or is loaded.
    Sync,
    /// The stream comes.
    Connected,
}

/// A server by the address that REPLICAOF names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// The server that is followed, if any.
#[derive(Default)]
pub struct Following {
    /// 0 for a primary, nearly always.
    flags: AtomicU8,
    /// Raised by each change of whom this server follows.
    term: AtomicU64,
    /// *gate-first*.
    pub gate: Mutex<()>,
    state: Mutex<State>,
    /// Offset up to which the stream is applied.
    applied: AtomicU64,
    /// Offset up to which bytes have come.
    received: AtomicU64,
    /// The database that is selected at the end of the log.
    stream_db: AtomicU64,
    /// All is applied that the primary had at this instant (`Now::mono_us`).
    fresh_us: AtomicU64,
    /// Other data take the place of this server's, or were to: it has nothing whole.
    is_torn: AtomicBool,
    /// Unix milliseconds when the primary was last heard.
    heard_at_ms: AtomicI64,
    /// The link's client; 0: none.
    client_id: AtomicU64,
    /// Commands of the stream that failed here.
    pub(crate) errors: AtomicU64,
    /// Unix milliseconds when the log last told that they are applied though the disk fails.
    disk_warned_at_ms: AtomicI64,
    /// Bytes of the data that come; negative: nobody knows how many.
    sync_total_bytes: AtomicI64,
    sync_read_bytes: AtomicU64,
    failover: failover::Failover,
}

#[derive(Default)]
struct State {
    primary: Option<Primary>,
    link: LinkState,
    /// The data are exactly what the log's ids and end say: a primary may go on from there.
    is_exact: bool,
    /// Unix milliseconds when the link was lost; 0: it never was there.
    down_since_ms: i64,
    /// The next handshake asks the other server to become the primary of this one.
    takes_over: bool,
    /// What this server is in the primary's shard, in a cluster.
    membership: Option<Membership>,
    /// There is no primary yet: no link is made.
    stands: bool,
}

/// What a link is to do.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// *one-link*.
    pub term: u64,
    /// Whom to follow.
    pub primary: Primary,
    /// What to say of this server.
    pub introduction: Introduction,
}

impl Following {
    /// True if this server follows another.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.flags.load(Relaxed) & IS_REPLICA != 0
    }

    /// True for a replica that has its primary's stream.
    pub fn is_link_up(&self) -> bool {
        self.flags.load(Relaxed) & ROLE == IS_REPLICA
    }

    /// True while writes wait until this server has handed over.
    #[inline]
    pub(crate) fn holds_writes(&self) -> bool {
        self.flags.load(Relaxed) & HOLDS_WRITES != 0
    }

    /// Has writes wait, or not any more. Exact for those who write under stripes if all are held.
    pub(crate) fn hold_writes(&self, holds: bool) {
        self.set_flag(HOLDS_WRITES, holds);
    }

    /// True while a cluster has this primary refuse writes.
    #[inline]
    pub(crate) fn refuses_writes(&self) -> bool {
        self.flags.load(Relaxed) & REFUSES_WRITES != 0
    }

    pub(crate) fn refuse_writes(&self, refuses: bool) {
        self.set_flag(REFUSES_WRITES, refuses);
    }

    fn set_flag(&self, flag: u8, is_set: bool) {
        match is_set {
            true => self.flags.fetch_or(flag, SeqCst),
            false => self.flags.fetch_and(!flag, SeqCst),
        };
    }

    /// The epoch of the primary that the link of this term follows, in a cluster.
    pub(crate) fn epoch_of(&self, term: u64) -> Option<u64> {
        let state = self.state.lock();
        let membership = state.membership.as_ref().filter(|_| self.term() == term);
        membership.map(|membership| membership.epoch)
    }

    /// Runs `note` if the link of this term may still acknowledge something. What has begun to follow another server, or
    /// nobody, before that is seen here, and sees what was noted.
    pub(crate) fn promise(&self, term: u64, note: impl FnOnce()) -> bool {
        let state = self.state.lock();
        let is_present = self.term() == term && state.primary.is_some() && !state.stands;
        if is_present {
            note();
        }
        is_present
    }

    /// The number of the present link.
    pub fn term(&self) -> u64 {
        self.term.load(SeqCst)
    }

    /// Whom this server follows.
    pub fn primary(&self) -> Option<Primary> {
        self.state.lock().primary.clone()
    }

    /// False for a replica that does not have, or not wholly, what its log says.
    pub(crate) fn is_exact(&self) -> bool {
        let state = self.state.lock();
        state.primary.is_none() || state.is_exact
    }

    /// Offset up to which the stream is applied.
    pub fn applied(&self) -> u64 {
        self.applied.load(Relaxed)
    }

    /// True if this is the node that is followed, as a member of its shard.
    pub(crate) fn follows_node(&self, node: &str) -> bool {
        let state = self.state.lock();
        state.membership.as_ref().is_some_and(|membership| membership.primary.node.as_str() == node)
    }

    /// Offset up to which the stream has come.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed).max(self.applied())
    }

    /// True from when this server's data are thrown away for others until it has those.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn.load(SeqCst)
    }

    /// Has the link of this term ask for everything.
    fn forget_position(&self, term: u64) {
        let mut state = self.state.lock();
        if self.term() == term {
            state.is_exact = false;
        }
    }

    /// The data are exactly those at `offset` of the stream that this server had.
    fn note_rewound(&self, offset: u64, db: usize) {
        self.applied.store(offset, Relaxed);
        self.received.store(offset, Relaxed);
        self.stream_db.store(db as u64, Relaxed);
        self.state.lock().is_exact = true;
        self.is_torn.store(false, SeqCst);
    }

    /// True for a member of a shard that follows nobody yet.
    pub(crate) fn stands(&self) -> bool {
        self.state.lock().stands
    }

    /// The database that is selected at the end of the log.
    pub fn stream_db(&self) -> usize {
        self.stream_db.load(Relaxed) as usize
    }

    /// True if this is the id of the link's client.
    pub fn is_link(&self, client_id: u64) -> bool {
        self.client_id.load(Relaxed) == client_id
    }

    /// Says which client the link is; 0: none.
    pub fn set_link_client(&self, client_id: u64) {
        self.client_id.store(client_id, Relaxed);
    }

    /// All is applied that the primary had at this instant (`Now::mono_us`), as far as this server knows.
    pub(crate) fn fresh_us(&self) -> u64 {
        self.fresh_us.load(Relaxed)
    }

    /// The primary was heard.
    pub fn heard(&self, now_ms: i64) {
        self.heard_at_ms.store(now_ms, Relaxed);
    }

    /// Bytes of the stream have come.
    pub fn note_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// How much of the data has come, of how much: `None` if nobody knows.
    pub fn note_sync(&self, total_bytes: Option<u64>, read_bytes: u64) {
        self.sync_total_bytes.store(total_bytes.map_or(-1, |bytes| bytes as i64), Relaxed);
        self.sync_read_bytes.store(read_bytes, Relaxed);
    }

    /// How far the link is.
    pub fn set_link(&self, term: u64, link: LinkState, now_ms: i64) {
        let mut state = self.state.lock();
        if self.term() != term || state.primary.is_none() {
            return;
        }
        if state.link == LinkState::Connected && link != LinkState::Connected {
            state.down_since_ms = now_ms;
        }
        state.link = link;
        self.publish(&state);
    }

    /// How far the link is, and since when it is down.
    fn link(&self) -> (LinkState, i64) {
        let state = self.state.lock();
        (state.link, state.down_since_ms)
    }

    /// Where the next link goes, and how it begins; `None` for a primary.
    pub fn plan(&self, server: &Server) -> Option<LinkPlan> {
        let state = self.state.lock();
        let config = &server.config;
        let primary = state.primary.clone().filter(|_| !state.stands)?;
        let announced = config.int("replica-announce-port");
        let (port, tls_port) = (config.int("port"), config.int("tls-port"));
        let port = match announced {
            0 if config.bool("tls-replication") && tls_port != 0 => tls_port,
            0 => port,
            port => port,
        };
        let id = server.replication.ids.lock().id.clone();
        let introduction = Introduction {
            user: config.bytes("masteruser"),
            password: config.bytes("masterauth"),
            port: port as u16,
            address: config.bytes("replica-announce-ip"),
            position: state.is_exact.then(|| (id, server.log.end())),
            takes_over: state.takes_over,
            membership: state.membership.as_ref().map(ToString::to_string),
        };
        Some(LinkPlan { term: self.term(), primary, introduction })
    }

    fn publish(&self, state: &State) {
        let is_down = state.primary.is_some() && state.link != LinkState::Connected;
        let flags = if state.primary.is_some() { IS_REPLICA } else { 0 };
        let role = if is_down { flags | LINK_IS_DOWN } else { flags };
        let _ = self.flags.fetch_update(SeqCst, SeqCst, |flags| Some((flags & !ROLE) | role));
    }
}

impl Server {
    /// True for a replica that has lost its primary, and is not to answer from what it has.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.replication.following.flags.load(Relaxed) & LINK_IS_DOWN != 0
            && !self.config.bool("replica-serve-stale-data")
    }

    /// True if clients must not write here.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.replication.following.is_replica() && self.config.bool("replica-read-only")
    }

    /// True if memory has no limit here, since the primary keeps to one.
    #[inline]
    pub(crate) fn ignores_maxmemory(&self) -> bool {
        self.replication.following.is_replica() && self.config.bool("replica-ignore-maxmemory")
    }

    /// What a client is told that this server, being a replica, does not serve.
    #[inline]
    pub(crate) fn admit_by_role(&self, session: &Session, info: &CommandInfo) -> CmdResult {
        match self.replication.following.flags.load(Relaxed) {
            0 => Ok(()),
            _ => self.admit_to_replica(session, info),
        }
    }

    /// As [`Server::admit_by_role`], under the command's stripes: roles change under all of them, so what this says holds as
    /// long as they are held. `slot` is that of its keys. True if the command has to wait.
    #[inline]
    pub(crate) fn admit_under_stripes(
        &self,
        session: &Session,
        info: &CommandInfo,
        slot: Option<u16>,
    ) -> CmdResult<bool> {
        match self.replication.following.flags.load(Relaxed) {
            0 => Ok(false),
            _ => self.admit_again(session, info, slot),
        }
    }

    #[cold]
    fn admit_again(&self, session: &Session, info: &CommandInfo, slot: Option<u16>) -> CmdResult<bool> {
        let queued = session.multi.as_ref().map(|multi| multi.flags());
        if may_leave_effects(info, queued) && self.has_writers_wait(slot) {
            return Ok(true);
        }
        self.admit_to_loading(info.spec.flags)?;
        self.admit_to_replica(session, info).map(|()| false)
    }

    /// As [`Server::admit_under_stripes`], of commands with these flags, of which some are known to write.
    #[inline]
    pub(crate) fn admit_flags_under_stripes(&self, flags: Flags, slot: Option<u16>) -> CmdResult<bool> {
        let following = &self.replication.following;
        if following.flags.load(Relaxed) == 0 || !flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE) {
            return Ok(false);
        }
        if self.has_writers_wait(slot) {
            return Ok(true);
        }
        match flags.contains(Flags::WRITE) && self.is_read_only() {
            true => Err(READ_ONLY),
            false => Ok(false),
        }
    }

    fn has_writers_wait(&self, slot: Option<u16>) -> bool {
        self.replication.following.holds_writes() || routing::awaits_owner_of(self, slot)
    }

    #[cold]
    fn admit_to_replica(&self, session: &Session, info: &CommandInfo) -> CmdResult {
        let queued = session.multi.as_ref().filter(|_| info.spec.name == "exec");
        let writes = info.spec.flags.contains(Flags::WRITE)
            || queued.is_some_and(|multi| multi.flags().contains(Flags::WRITE));
        if writes && self.is_read_only() {
            return Err(READ_ONLY);
        }
        if writes && self.replication.following.refuses_writes() {
            return Err(TOO_FEW_IN_SYNC);
        }
        let is_allowed = info.spec.flags.contains(Flags::STALE)
            && queued.is_none_or(|multi| multi.shared_flags().contains(Flags::STALE));
        if !is_allowed && self.is_stale() {
            return Err(MASTER_DOWN);
        }
        let reads = info.has_keys() || info.spec.flags.contains(Flags::READONLY);
        if reads && !is_allowed && self.replication.following.is_replica() && self.is_too_old() {
            return Err(TOO_OLD);
        }
        Ok(())
    }
}
