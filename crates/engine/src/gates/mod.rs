//! Reply gates: a reply leaves when what it may have seen is as durable as its connection wants.
//!
//! What is executed is not yet safe. So a reply carries the log offset that it may have observed: the end of its own
//! record, or of the newest write that is not yet safe to a key that it read ([`unsynced`]). It stays in its connection's
//! output ([`crate::output`]) until the log is safe that far. Nobody waits in the meantime but the client: workers run on,
//! and one sync lets go of the replies of all connections.
//!
//! There are two kinds of safety, each with its own watermark: on this server's disk, and in the copies that a cluster
//! awaits ([`copies`]). A write is remembered until it is safe in every way that somebody waits for.
//!
//! Who waits is a setting: the server's `durability`, and CLIENT DURABILITY for one connection. Nothing here is paid for
//! while nobody does.

mod copies;
mod observing;
mod unsynced;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use std::sync::atomic::{Ordering::AcqRel, Ordering::Release, Ordering::SeqCst};

use journal::log::Log;
use parking_lot::Mutex;

use crate::config::Config;
use crate::server::Server;
use crate::session::Session;

pub use copies::Copies;
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
    /// Every member of the shard's in-sync set has it.
    Quorum = 3,
}

impl Durability {
    /// The mode of this name.
    pub fn of(name: &[u8]) -> Option<Durability> {
        let all = [Durability::None, Durability::EverySecond, Durability::Always, Durability::Quorum];
        all.into_iter().find(|mode| mode.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::EverySecond => "everysec",
            Durability::Always => "always",
            Durability::Quorum => "quorum",
        }
    }

    /// What replies wait for under it.
    #[inline]
    fn awaits(self) -> Awaits {
        match self {
            Durability::None | Durability::EverySecond => Awaits::NOTHING,
            Durability::Always => Awaits::DISK,
            Durability::Quorum => Awaits::COPIES,
        }
    }

    /// True if it is kept by the append-only files.
    pub fn needs_files(self) -> bool {
        matches!(self, Durability::EverySecond | Durability::Always)
    }

    fn of_number(number: u8) -> Durability {
        match number {
            0 => Durability::None,
            1 => Durability::EverySecond,
            2 => Durability::Always,
            _ => Durability::Quorum,
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

/// What a reply waits for: a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaits(u8);

impl Awaits {
    /// Nothing.
    pub const NOTHING: Awaits = Awaits(0);
    /// This server's disk.
    pub const DISK: Awaits = Awaits(1);
    /// The copies that a cluster awaits.
    pub const COPIES: Awaits = Awaits(2);

    /// True if this is awaited.
    #[inline]
    pub fn has(self, other: Awaits) -> bool {
        self.0 & other.0 != 0
    }

    /// True if that is all that is awaited, or more than that.
    #[inline]
    pub(crate) fn is_in(self, other: Awaits) -> bool {
        self.0 & !other.0 == 0
    }

    #[inline]
    pub(crate) fn or(self, other: Awaits) -> Awaits {
        Awaits(self.0 | other.0)
    }

    #[inline]
    fn without(self, other: Awaits) -> Awaits {
        Awaits(self.0 & !other.0)
    }
}

/// How far the log is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Safe {
    /// Everything before this offset is on the disk, or there are no files to wait for (`u64::MAX`).
    pub on_disk: u64,
    /// Everything before this offset is in every copy that is awaited.
    pub in_copies: u64,
}

impl Safe {
    /// What is safe in these ways; all of it if that is none.
    #[inline]
    pub fn to(self, awaits: Awaits) -> u64 {
        let on_disk = if awaits.has(Awaits::DISK) { self.on_disk } else { u64::MAX };
        let in_copies = if awaits.has(Awaits::COPIES) { self.in_copies } else { u64::MAX };
        on_disk.min(in_copies)
    }
}

impl From<u64> for Safe {
    fn from(offset: u64) -> Safe {
        Safe { on_disk: offset, in_copies: offset }
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
    clients: [AtomicUsize; 4],
    /// What somebody waits for: writes are remembered until they are safe in these ways.
    kept: AtomicU8,
    /// Held by who changes that.
    changing: Mutex<()>,
    /// What is on the disk; `u64::MAX` while there are no files to wait for.
    synced_to: AtomicU64,
    /// What somebody waits for to be on the disk, where it is not synced all the time anyway.
    wanted_to: AtomicU64,
    /// What was written, for INFO.
    written_to: AtomicU64,
    /// The copies that a cluster awaits.
    pub copies: Copies,
    /// A copy counts once it is on its disk, and here too.
    copies_sync: AtomicBool,
    unsynced: Unsynced,
}

impl Gates {
    pub(crate) fn new(config: &Config) -> Gates {
        let policy = Durability::of_config(config);
        Gates {
            policy: AtomicU8::new(policy as u8),
            clients: Default::default(),
            kept: AtomicU8::new(policy.awaits().without(Awaits::COPIES).0),
            changing: Mutex::new(()),
            synced_to: AtomicU64::new(u64::MAX),
            wanted_to: AtomicU64::new(0),
            written_to: AtomicU64::new(0),
            copies: Copies::default(),
            copies_sync: AtomicBool::new(syncs(config)),
            unsynced: Unsynced::default(),
        }
    }

    /// The server's mode.
    pub fn policy(&self) -> Durability {
        Durability::of_number(self.policy.load(Relaxed))
    }

    /// True if somebody waits, so that what is observed and written has to be known.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.kept.load(Relaxed) != 0
    }

    /// True if somebody waits for copies.
    #[inline]
    pub fn awaits_copies(&self) -> bool {
        Awaits(self.kept.load(Relaxed)).has(Awaits::COPIES)
    }

    /// True if a reader of a copy may have to wait for this server's disk.
    #[inline]
    pub(crate) fn awaits_disk(&self) -> bool {
        Awaits(self.kept.load(Relaxed)).has(Awaits::DISK)
    }

    /// What this connection's replies wait for.
    #[inline]
    pub fn awaits(&self, session: &Session) -> Awaits {
        session.durability.unwrap_or_else(|| self.policy()).awaits()
    }

    /// What a reply waits for that tells of what ends at `offset`. Of a copy nobody waits for other copies, unless this
    /// server led when it was executed.
    #[inline]
    pub(crate) fn awaits_at(&self, session: &Session, offset: u64) -> Awaits {
        let awaits = self.awaits(session);
        match awaits.has(Awaits::COPIES) && !self.copies.concerns(offset) {
            true => awaits.without(Awaits::COPIES),
            false => awaits,
        }
    }

    /// How far the log is safe.
    #[inline]
    pub fn safe(&self) -> Safe {
        let on_disk = self.synced_to();
        let in_copies = self.copies.to();
        let in_copies = if self.copies_sync.load(Relaxed) { in_copies.min(on_disk) } else { in_copies };
        Safe { on_disk, in_copies }
    }

    /// The offset before which everything is safe in each way that somebody waits for.
    #[inline]
    fn settled_to(&self) -> u64 {
        self.safe().to(Awaits(self.kept.load(Relaxed)))
    }

    /// True if a copy counts only once it is on its disk.
    pub fn copies_sync(&self) -> bool {
        self.copies_sync.load(Relaxed)
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
        let policy = Some(self.policy()).filter(|policy| policy.needs_files()).unwrap_or(Durability::None);
        policy.max(if has_clients { Durability::EverySecond } else { Durability::None })
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
        self.copies.restart();
        self.wanted_to.store(0, Release);
    }

    /// Directives have changed.
    pub fn follow(&self, config: &Config, log: &Log) {
        let _changing = self.changing.lock();
        self.policy.store(Durability::of_config(config) as u8, SeqCst);
        self.copies_sync.store(syncs(config), SeqCst);
        self.weigh(log);
    }

    /// This server leads, or leads no more; or awaits others than before. What the log holds counts as not safe yet.
    /// Every stripe is held where it begins or ends to lead.
    pub(crate) fn change_copies(&self, log: &Log, change: impl FnOnce(&Copies)) {
        let _changing = self.changing.lock();
        change(&self.copies);
        self.unsynced.add_everything(log.end());
        self.weigh(log);
    }

    /// Begins or ends to remember writes, by who waits. Those before the beginning are unknown: whoever waits, waits for
    /// all of them.
    fn weigh(&self, log: &Log) {
        let has_clients = |mode: Durability| self.clients[mode as usize].load(SeqCst) > 0;
        let is_wanted = |mode: Durability| self.policy() == mode || has_clients(mode);
        let mut wanted = Awaits::NOTHING;
        if is_wanted(Durability::Always) {
            wanted = wanted.or(Awaits::DISK);
        }
        if is_wanted(Durability::Quorum) && self.copies.leads() {
            wanted = wanted.or(Awaits::COPIES);
        }
        let kept = Awaits(self.kept.swap(wanted.0, SeqCst));
        if !wanted.is_in(kept) {
            // Takes the log's lock: who appends after this sees that writes are remembered, what was appended before it
            // is counted in its end.
            log.start();
            self.unsynced.add_everything(log.end());
        } else if wanted == Awaits::NOTHING && kept != Awaits::NOTHING {
            self.unsynced.clear();
        }
    }
}

/// True if this server's own replies would wait for its disk if nothing else was said.
fn syncs(config: &Config) -> bool {
    config.bool("appendonly") && config.bytes("appendfsync")[..] == *b"always"
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
