//! One replica, as all threads see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};

use journal::log::Consumer;
use parking_lot::Mutex;

use super::full_sync::FullSync;
use crate::clients::{Client, Peer};
use crate::replication::group::Membership;

/// What a replica says of itself before it asks for the stream: REPLCONF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// The port that it listens on.
    pub listening_port: i64,
    /// The address that others reach it by; empty: the one that it connects from.
    pub address: Vec<u8>,
    /// It reads a payload whose end is marked, instead of its size being told.
    pub takes_marked_end: bool,
    /// It goes on with a stream whose id has changed (`psync2`).
    pub takes_new_id: bool,
    /// It wants the payload and no stream.
    pub wants_payload_only: bool,
    /// It wants some parts of the data only.
    pub filter: Option<Filter>,
    /// It is a member of the shard that this server leads.
    pub membership: Option<Box<Membership>>,
}

/// The parts of the data that a replica asks for, of which keys are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Libraries of functions.
    pub functions: bool,
}

/// Where a replica says that others reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    address: String,
    port: i64,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// It waits for a full synchronization to be prepared.
    Waits = 0,
    /// It is sent the payload.
    Receives = 1,
    /// It is sent the stream.
    Online = 2,
    /// It has the payload, and wanted no more.
    Served = 3,
}

impl Stage {
    /// Redis's word for it.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Stage::Waits => Some("wait_bgsave"),
            Stage::Receives => Some("send_bulk"),
            Stage::Online => Some("online"),
            Stage::Served => None,
        }
    }
}

/// A connection that is sent the stream.
pub struct Replica {
    /// The connection.
    pub client: Arc<Client>,
    /// What it said of itself.
    pub greeting: Greeting,
    /// It sent SYNC: it knows of no ids, and tells nothing of how far it is.
    pub is_silent: bool,
    stage: AtomicU8,
    /// What it has acknowledged, as an offset of the log; and what it has on its disk.
    acked_to: AtomicU64,
    synced_to: AtomicU64,
    has_acked: AtomicBool,
    /// What it may ask for again begins here; `u64::MAX`: it has not begun to follow the stream.
    needs_from: AtomicU64,
    /// Keeps that in memory until it is kept for all who may lack it.
    kept: Mutex<Option<Consumer>>,
    /// Unix milliseconds of the last that was heard of it, and of the last piece of the payload that it was sent.
    heard_at_ms: AtomicI64,
    served_at_ms: AtomicI64,
    is_gone: AtomicBool,
    sync: Mutex<Option<Arc<FullSync>>>,
}

impl Replica {
    pub(crate) fn new(client: Arc<Client>, is_silent: bool, now_ms: i64) -> Replica {
        let greeting = client.identity().replica.map_or_else(Greeting::default, |greeting| *greeting);
        Replica {
            client,
            greeting,
            is_silent,
            stage: AtomicU8::new(Stage::Waits as u8),
            acked_to: AtomicU64::new(0),
            synced_to: AtomicU64::new(0),
            has_acked: AtomicBool::new(false),
            needs_from: AtomicU64::new(u64::MAX),
            kept: Mutex::new(None),
            heard_at_ms: AtomicI64::new(now_ms),
            served_at_ms: AtomicI64::new(now_ms),
            is_gone: AtomicBool::new(false),
            sync: Mutex::new(None),
        }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            0 => Stage::Waits,
            1 => Stage::Receives,
            2 => Stage::Online,
            _ => Stage::Served,
        }
    }

    pub(super) fn enter(&self, stage: Stage, now_ms: i64) {
        self.stage.store(stage as u8, Relaxed);
        self.heard_at_ms.store(now_ms, Relaxed);
        self.served_at_ms.store(now_ms, Relaxed);
    }

    /// It is sent the stream.
    pub fn is_online(&self) -> bool {
        self.stage() == Stage::Online
    }

    /// It is sent the stream from now on.
    pub(crate) fn go_online(&self, now_ms: i64) {
        self.enter(Stage::Online, now_ms);
    }

    /// What it is in the shard that this server leads, if it is.
    pub fn membership(&self) -> Option<&Membership> {
        self.greeting.membership.as_deref()
    }

    /// The offset up to which it has everything.
    pub fn acked_to(&self) -> u64 {
        self.acked_to.load(Relaxed)
    }

    /// The offset up to which it has everything on its disk.
    pub fn synced_to(&self) -> u64 {
        self.synced_to.load(Relaxed)
    }

    /// True once it has told how far it is.
    pub fn has_acked(&self) -> bool {
        self.has_acked.load(Relaxed)
    }

    /// Takes note of REPLCONF ACK.
    pub(crate) fn acknowledge(&self, acked_to: i64, synced_to: Option<i64>, now_ms: i64) {
        let offset = |offset: i64| u64::try_from(offset).unwrap_or(0);
        self.acked_to.fetch_max(offset(acked_to), Relaxed);
        self.needs_from.fetch_max(offset(acked_to), Relaxed);
        if let Some(synced_to) = synced_to {
            self.synced_to.fetch_max(offset(synced_to), Relaxed);
        }
        self.has_acked.store(true, Relaxed);
        self.hear(now_ms);
    }

    /// It begins to follow the stream at this offset, or goes on with it; what it lacks is kept by `keep`.
    pub(super) fn follow_from(&self, offset: u64, keep: impl FnOnce() -> Option<Consumer>) {
        // Who goes on needs what it has not acknowledged, which may begin before.
        if self.needs_from.compare_exchange(u64::MAX, offset, Relaxed, Relaxed).is_ok() {
            *self.kept.lock() = keep();
        }
    }

    /// What it lacks is kept elsewhere from now on, if the consumer is dropped.
    pub(super) fn take_kept(&self) -> Option<Consumer> {
        self.kept.lock().take()
    }

    /// The offset before which it has everything, if it follows the stream and tells how far it is.
    pub(super) fn needs_from(&self) -> Option<u64> {
        let from = self.needs_from.load(Relaxed);
        (from != u64::MAX && !self.is_silent).then_some(from)
    }

    /// Takes note of something that it sent: it lives.
    pub fn hear(&self, now_ms: i64) {
        self.heard_at_ms.store(now_ms, Relaxed);
    }

    pub(super) fn serve(&self, now_ms: i64) {
        self.served_at_ms.store(now_ms, Relaxed);
    }

    /// Whole seconds since it was heard of, as Redis counts them.
    pub fn lag_s(&self, now_ms: i64) -> i64 {
        now_ms / 1000 - self.heard_at_ms.load(Relaxed) / 1000
    }

    /// Seconds since it should have been heard of, or should have taken a piece of the payload.
    pub(super) fn silent_for_s(&self, now_ms: i64) -> i64 {
        match self.stage() {
            Stage::Waits | Stage::Served => 0,
            Stage::Receives => now_ms / 1000 - self.served_at_ms.load(Relaxed) / 1000,
            Stage::Online if self.is_silent => 0,
            Stage::Online => self.lag_s(now_ms),
        }
    }

    /// Where others reach it.
    pub fn address(&self) -> String {
        if !self.greeting.address.is_empty() {
            return String::from_utf8_lossy(&self.greeting.address).into_owned();
        }
        match &self.client.peer {
            Peer::Tcp { .. } => {
                let address = self.client.peer.address();
                let (ip, _) = address.rsplit_once(':').unwrap_or((&address, ""));
                ip.trim_matches(['[', ']']).to_owned()
            }
            Peer::Unix(path) => path.to_string(),
        }
    }

    /// What tells it from other replicas when it comes back.
    pub(super) fn place(&self) -> Place {
        Place { address: self.address(), port: self.greeting.listening_port }
    }

    /// How the log of the server calls it.
    pub(crate) fn name(&self) -> String {
        match self.greeting.listening_port {
            0 => format!("{} (client {})", self.address(), self.client.id),
            port => format!("{}:{port}", self.address()),
        }
    }

    /// The full synchronization that it takes part in.
    pub(super) fn sync(&self) -> Option<Arc<FullSync>> {
        self.sync.lock().clone()
    }

    /// Has it take part in a full synchronization, unless it has left.
    pub(super) fn join(&self, sync: &Arc<FullSync>) {
        let mut own = self.sync.lock();
        if !self.is_gone.load(Relaxed) {
            sync.join();
            *own = Some(sync.clone());
        }
    }

    /// It needs the payload of its synchronization no more.
    pub(super) fn leave_sync(&self) {
        if let Some(sync) = self.sync.lock().take() {
            sync.leave();
        }
    }

    /// Its connection has ended.
    pub(super) fn end(&self) {
        self.is_gone.store(true, Relaxed);
        self.leave_sync();
    }

    /// True once its connection has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }
}
