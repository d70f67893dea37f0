//! Reply gates: a reply leaves when what it may have seen is as durable as its connection wants.
//!
//! What is executed is not yet safe. So a reply carries the log offset that it may have observed: the end of its own
//! record, or of the newest write that is not yet safe to a key that it read ([`unsynced`]). It stays in its connection's
//! output ([`crate::output`]) until the log is safe that far. Nobody waits in the meantime but the client: workers run on,
//! and one sync lets go of the replies of all connections.
//!
//! Who waits is a setting: the server's `durability`, and CLIENT DURABILITY for one connection. Nothing here is paid for
//! while nobody does.

mod observing;
mod unsynced;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use std::sync::atomic::{Ordering::AcqRel, Ordering::Release, Ordering::SeqCst};

use journal::log::Log;
use parking_lot::Mutex;

use crate::config::Config;
use crate::server::Server;
use crate::session::Session;

pub use observing::Observed;
use unsynced::Unsynced;

/// What a reply promises of what it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Durability {
    /// Nothing: it may be lost with the process.
    None = 0,
    /// It is lost only if the machine fails within about a second.
    EverySecond = 1,
    /// It is on the disk.
    Always = 2,
}

impl Durability {
    /// The mode of this name.
    pub fn of(name: &[u8]) -> Option<Durability> {
        let all = [Durability::None, Durability::EverySecond, Durability::Always];
        all.into_iter().find(|mode| mode.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::EverySecond => "everysec",
            Durability::Always => "always",
        }
    }

    fn of_number(number: u8) -> Durability {
        match number {
            0 => Durability::None,
            1 => Durability::EverySecond,
            _ => Durability::Always,
        }
    }

    /// What the directives ask for: `durability`, or where that is `auto`, what `appendonly` and `appendfsync` come to.
    pub fn of_config(config: &Config) -> Durability {
        if let Some(mode) = Durability::of(&config.bytes("durability")) {
            return mode;
        }
        match (config.bool("appendonly"), &config.bytes("appendfsync")[..]) {
            (false, _) | (true, b"no") => Durability::None,
            (true, b"always") => Durability::Always,
            (true, _) => Durability::EverySecond,
        }
    }
}

/// How far the files have come with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Everything before this offset was given to the operating system.
    pub written_to: u64,
    /// Everything before this offset is on the disk.
    pub synced_to: u64,
}

/// Who waits, and for what.
#[derive(Debug)]
pub struct Gates {
    /// The server's mode.
    policy: AtomicU8,
    /// Connections by the mode that they have asked for.
    clients: [AtomicUsize; 3],
    /// Somebody waits, so that writes are remembered until they are safe.
    is_kept: AtomicBool,
    /// Held by who changes that.
    changing: Mutex<()>,
    /// What is on the disk; `u64::MAX` while there are no files to wait for.
    synced_to: AtomicU64,
    /// What somebody waits for to be on the disk, where it is not synced all the time anyway.
    wanted_to: AtomicU64,
    /// What was written, for INFO.
    written_to: AtomicU64,
    unsynced: Unsynced,
}

impl Gates {
    pub(crate) fn new(config: &Config) -> Gates {
        let policy = Durability::of_config(config);
        let gates = Gates {
            policy: AtomicU8::new(policy as u8),
            clients: Default::default(),
            is_kept: AtomicBool::new(false),
            changing: Mutex::new(()),
            synced_to: AtomicU64::new(u64::MAX),
            wanted_to: AtomicU64::new(0),
            written_to: AtomicU64::new(0),
            unsynced: Unsynced::default(),
        };
        gates.is_kept.store(policy == Durability::Always, Relaxed);
        gates
    }

    /// The server's mode.
    pub fn policy(&self) -> Durability {
        Durability::of_number(self.policy.load(Relaxed))
    }

    /// True if somebody waits, so that what is observed and written has to be known.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.is_kept.load(Relaxed)
    }

    /// True if this connection's replies wait.
    #[inline]
    pub fn holds(&self, session: &Session) -> bool {
        session.durability.unwrap_or_else(|| self.policy()) == Durability::Always
    }

    /// The offset before which everything is on the disk; `u64::MAX` while there are no files to wait for.
    #[inline]
    pub fn synced_to(&self) -> u64 {
        self.synced_to.load(Acquire)
    }

    /// How far the files have come; `None`: there are none that a reply could wait for. Told by the thread that writes
    /// them, and by no other.
    pub fn set_reached(&self, reached: Option<Reached>) {
        self.written_to.store(reached.map_or(0, |reached| reached.written_to), Relaxed);
        self.synced_to.store(reached.map_or(u64::MAX, |reached| reached.synced_to), Release);
    }

    /// How far the files have come, if there are any.
    pub fn reached(&self) -> Option<Reached> {
        let (written_to, synced_to) = (self.written_to.load(Relaxed), self.synced_to());
        (synced_to != u64::MAX).then_some(Reached { written_to, synced_to })
    }

    /// How often the files have to be synced without being asked, as far as replies go.
    pub fn sync_mode(&self) -> Durability {
        let has_clients = self.clients[Durability::EverySecond as usize].load(Relaxed) > 0;
        self.policy().max(if has_clients { Durability::EverySecond } else { Durability::None })
    }

    /// Somebody waits for this offset to be on the disk; true if who writes the files has to be told.
    pub fn want_sync(&self, offset: u64) -> bool {
        self.policy() != Durability::Always && self.wanted_to.fetch_max(offset, AcqRel) < offset
    }

    /// The highest offset that somebody waits for to be on the disk.
    pub fn wanted_to(&self) -> u64 {
        self.wanted_to.load(Acquire)
    }

    /// The log begins anew, with nothing that anybody could wait for.
    pub fn restart(&self) {
        self.unsynced.clear();
        self.wanted_to.store(0, Release);
    }

    /// Directives have changed.
    pub fn follow(&self, config: &Config, log: &Log) {
        let _changing = self.changing.lock();
        self.policy.store(Durability::of_config(config) as u8, SeqCst);
        self.weigh(log);
    }

    /// Begins or ends to remember writes, by who waits. Those before the beginning are unknown: whoever waits, waits for
    /// all of them.
    fn weigh(&self, log: &Log) {
        let strict_clients = self.clients[Durability::Always as usize].load(SeqCst);
        let is_wanted = self.policy() == Durability::Always || strict_clients > 0;
        if is_wanted && !self.is_kept.swap(true, SeqCst) {
            // Takes the log's lock: who appends after this sees that writes are remembered, what was appended before it
            // is counted in its end.
            log.start();
            self.unsynced.add_everything(log.end());
        } else if !is_wanted && self.is_kept.swap(false, SeqCst) {
            self.unsynced.clear();
        }
    }
}

impl Server {
    /// Makes a connection's replies wait, or not, as it asks; `None`: as the server's do.
    pub(crate) fn set_durability(&self, session: &mut Session, mode: Option<Durability>) {
        let gates = &self.gates;
        let before = std::mem::replace(&mut session.durability, mode);
        if before == mode {
            return;
        }
        let _changing = gates.changing.lock();
        let of = |mode: Durability| &gates.clients[mode as usize];
        if let Some(before) = before {
            of(before).fetch_sub(1, SeqCst);
        }
        if let Some(mode) = mode {
            of(mode).fetch_add(1, SeqCst);
        }
        gates.weigh(&self.log);
    }

    /// The offset that what is sent unasked may tell of; 0 if nobody would wait for it.
    pub fn offset_told(&self) -> u64 {
        if self.gates.is_kept() { self.log.end() } else { 0 }
    }
}

#[cfg(test)]
mod tests;
