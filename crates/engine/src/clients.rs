//! What the server knows of its connections across threads: for CLIENT LIST, INFO and CLIENT KILL.
//!
//! A connection belongs to one worker. That worker writes its [`Client`]; others only read it, or leave
//! a request in it and wake the worker. Adding and removing one costs O(1).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed,
};

use parking_lot::Mutex;

use crate::client_memory::ClientMemory;
use crate::replication::primary::Greeting;
use crate::table::CommandId;
use crate::tracking::{Mode, Tracker};

/// Where a client comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over TCP.
    Tcp {
        /// The client's address.
        peer: Address,
        /// The server's address it connected to.
        local: Address,
    },
    /// Over the unix socket at this path.
    Unix(Arc<str>),
}

/// An address and port, without what else the standard library keeps with an IPv6 address. IPv4 clients of a dual-stack
/// listener, which sees them as mapped IPv6, are IPv4 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    ip: IpAddr,
    port: u16,
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address { ip: address.ip().to_canonical(), port: address.port() }
    }
}

impl From<Address> for SocketAddr {
    fn from(address: Address) -> SocketAddr {
        SocketAddr::new(address.ip, address.port)
    }
}

impl Peer {
    /// A TCP client at `peer` that connected to the server's address `local`.
    pub fn tcp(peer: SocketAddr, local: SocketAddr) -> Peer {
        Peer::Tcp { peer: peer.into(), local: local.into() }
    }

    /// `ip:port`, or `path:0` for a unix socket, as CLIENT LIST's `addr`.
    pub fn address(&self) -> String {
        match self {
            Peer::Tcp { peer, .. } => SocketAddr::from(*peer).to_string(),
            Peer::Unix(path) => format!("{path}:0"),
        }
    }

    /// The server's side, as CLIENT LIST's `laddr`.
    pub fn local_address(&self) -> String {
        match self {
            Peer::Tcp { local, .. } => SocketAddr::from(*local).to_string(),
            Peer::Unix(path) => format!("{path}:0"),
        }
    }

    /// True for a client on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Peer::Tcp { peer, .. } => peer.ip.is_loopback(),
            Peer::Unix(_) => true,
        }
    }
}

/// What a client said of itself, and how it is to be treated: rarely there, so kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: Vec<u8>,
    /// What it said as one that is going to be a replica.
    pub replica: Option<Box<Greeting>>,
}

/// One connection, as other threads see it.
pub struct Client {
    /// Unique for the life of the server, ascending.
    pub id: u64,
    /// Where it comes from.
    pub peer: Peer,
    /// Unix seconds of its start.
    pub created_s: i64,
    /// The worker it belongs to; it may move.
    pub worker: AtomicU16,
    /// Its number among that worker's connections.
    pub token: AtomicU32,
    /// Its socket's file descriptor, -1 for none: CLIENT LIST shows it.
    pub fd: AtomicI32,
    /// Unix milliseconds of its last command.
    pub last_active_ms: AtomicI64,
    /// Selected database.
    pub db: AtomicU32,
    /// Number of the last command, plus one.
    pub last_command: AtomicU16,
    /// The offset after what it wrote last, for those who wait until others have it.
    pub write_offset: AtomicU64,
    /// Number of its user.
    pub user: AtomicU32,
    /// RESP version, 2 or 3.
    pub resp: AtomicU8,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// Channels it has subscribed to.
    pub channels: AtomicU32,
    /// Patterns it has subscribed to.
    pub patterns: AtomicU32,
    /// Shard channels it has subscribed to.
    pub shard_channels: AtomicU32,
    /// CLIENT TRACKING: bits of [`Client::tell_tracking`].
    pub tracking: AtomicU8,
    /// CLIENT GETREDIR.
    pub redirect: AtomicI64,
    /// Commands queued since MULTI; -1 outside a transaction.
    pub queued: AtomicI32,
    /// Keys it watches.
    pub watching: AtomicU32,
    /// Bytes that it holds in all, as last accounted; see [`Clients::set_memory`].
    pub(crate) memory_bytes: AtomicU64,
    /// In which list of [`crate::client_memory`] it is.
    pub(crate) memory_list: AtomicU8,
    /// It sent MONITOR.
    pub is_monitor: AtomicBool,
    /// It sent PSYNC or SYNC: it is sent the stream.
    pub is_replica: AtomicBool,
    /// Bytes read and not run.
    pub input_bytes: AtomicU32,
    /// Bytes of unsent replies.
    pub output_bytes: AtomicU32,
    /// Waiting: for the long lane, or for the end of a pause.
    pub blocked: AtomicBool,
    /// Somebody asked for it to be closed; its worker does so at the next chance.
    pub kill: AtomicBool,
    identity: Mutex<Option<Box<Identity>>>,
}

// With its two reference counts it fits the allocator's class of 192 bytes.
const _: () = assert!(size_of::<Client>() <= 176, "every idle connection has one");

impl Client {
    /// It is tracked.
    pub const TRACKED: u8 = 1;
    /// In BCAST mode.
    pub const TRACKED_BROADCAST: u8 = 2;
    /// Who is to be told in its place is gone.
    pub const TRACKED_BROKEN: u8 = 4;

    /// Shows other threads how it is tracked.
    pub(crate) fn tell_tracking(&self, tracker: Option<&Tracker>) {
        let (bits, redirect) = match tracker {
            None => (0, -1),
            Some(tracker) => {
                let is_broadcast = tracker.mode == Mode::Broadcast;
                let broadcast = if is_broadcast { Client::TRACKED_BROADCAST } else { 0 };
                let broken = if tracker.is_broken.load(Relaxed) { Client::TRACKED_BROKEN } else { 0 };
                (Client::TRACKED | broadcast | broken, tracker.redirect.map_or(0, |id| id as i64))
            }
        };
        self.tracking.store(bits, Relaxed);
        self.redirect.store(redirect, Relaxed);
    }

    /// True if it has subscribed to anything.
    pub fn is_subscribed(&self) -> bool {
        [&self.channels, &self.patterns, &self.shard_channels].iter().any(|count| count.load(Relaxed) > 0)
    }

    /// The number of its last command.
    pub fn command_id(&self) -> Option<CommandId> {
        usize::from(self.last_command.load(Relaxed)).checked_sub(1)
    }

    /// True if others send to it: it stays with its worker, and silence is no reason to close it.
    pub fn is_pushed_to(&self) -> bool {
        self.is_subscribed() || self.is_monitor.load(Relaxed) || self.is_replica.load(Relaxed)
    }

    /// What the client said of itself.
    pub fn identity(&self) -> Identity {
        self.identity.lock().as_deref().cloned().unwrap_or_default()
    }

    /// Changes what the client said of itself.
    pub fn identify(&self, change: impl FnOnce(&mut Identity)) {
        change(self.identity.lock().get_or_insert_default());
    }
}

const SHARDS: usize = 16;

/// All connections.
#[derive(Default)]
pub struct Clients {
    shards: [Mutex<HashMap<u64, Arc<Client>>>; SHARDS],
    pub(crate) memory: ClientMemory,
    next_id: AtomicU64,
    connected: AtomicU64,
    blocked: AtomicU64,
}

impl Clients {
    /// Adds a connection, with the next id.
    pub fn open(&self, peer: Peer, worker: u16, now_ms: i64) -> Arc<Client> {
        let client = self.unlisted(peer, now_ms);
        client.worker.store(worker, Relaxed);
        self.shards[client.id as usize % SHARDS].lock().insert(client.id, client.clone());
        self.connected.fetch_add(1, Relaxed);
        client
    }

    /// A connection with the next id that nobody sees: the server's own.
    pub(crate) fn unlisted(&self, peer: Peer, now_ms: i64) -> Arc<Client> {
        let id = self.next_id.fetch_add(1, Relaxed) + 1;
        Arc::new(Client {
            id,
            peer,
            created_s: now_ms / 1000,
            worker: AtomicU16::new(0),
            token: AtomicU32::new(u32::MAX),
            fd: AtomicI32::new(-1),
            last_active_ms: AtomicI64::new(now_ms),
            db: AtomicU32::new(0),
            last_command: AtomicU16::new(0),
            write_offset: AtomicU64::new(0),
            user: AtomicU32::new(0),
            resp: AtomicU8::new(2),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            channels: AtomicU32::new(0),
            patterns: AtomicU32::new(0),
            shard_channels: AtomicU32::new(0),
            tracking: AtomicU8::new(0),
            redirect: AtomicI64::new(-1),
            queued: AtomicI32::new(-1),
            watching: AtomicU32::new(0),
            memory_bytes: AtomicU64::new(0),
            memory_list: AtomicU8::new(0),
            is_monitor: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            input_bytes: AtomicU32::new(0),
            output_bytes: AtomicU32::new(0),
            blocked: AtomicBool::new(false),
            kill: AtomicBool::new(false),
            identity: Mutex::new(None),
        })
    }

    /// Removes a connection.
    pub fn close(&self, client: &Client) {
        if self.shards[client.id as usize % SHARDS].lock().remove(&client.id).is_some() {
            self.connected.fetch_sub(1, Relaxed);
            self.set_blocked(client, false);
            client.kill.store(true, Relaxed);
            self.set_memory(client, 0);
        }
    }

    /// Marks a connection as waiting, or no longer.
    pub fn set_blocked(&self, client: &Client, blocked: bool) {
        match (client.blocked.swap(blocked, Relaxed), blocked) {
            (false, true) => drop(self.blocked.fetch_add(1, Relaxed)),
            (true, false) => drop(self.blocked.fetch_sub(1, Relaxed)),
            _ => {}
        }
    }

    /// Connections now.
    pub fn connected(&self) -> u64 {
        self.connected.load(Relaxed)
    }

    /// Connections that wait.
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Relaxed)
    }

    /// The connection of this id.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.shards[id as usize % SHARDS].lock().get(&id).cloned()
    }

    /// The first connection, in no order, that `accept` takes; its second answer is whether to look further.
    pub(crate) fn find(&self, mut accept: impl FnMut(&Client) -> (bool, bool)) -> Option<Arc<Client>> {
        for shard in &self.shards {
            for client in shard.lock().values() {
                match accept(client) {
                    (true, _) => return Some(client.clone()),
                    (false, false) => return None,
                    (false, true) => {}
                }
            }
        }
        None
    }

    /// Every connection, by ascending id. O(connections): for those who ask for it.
    pub fn list(&self) -> Vec<Arc<Client>> {
        let mut all: Vec<_> =
            self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect();
        all.sort_unstable_by_key(|client| client.id);
        all
    }
}
