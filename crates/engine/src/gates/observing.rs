//! What a running command sees and writes, in offsets of the log.

use resp::Args;
use store::Position;

use base::limits::{RECORD_KEYS_KEPT_MAX, RECORD_KEYS_MAX};

use crate::args::is;
use crate::ctx::Ctx;
use crate::gates::{Awaits, Safe};
use crate::letter::Letter;
use crate::output::{Mark, Output};
use crate::server::Server;
use crate::session::Session;
use crate::table::{Categories, CommandInfo, Flags, KeyAccess};
use crate::worker::Worker;

/// What the command that runs, or just ran, has seen and written. Empty while nobody waits.
#[derive(Default)]
pub struct Observed {
    /// What its reply may tell of ends here; 0: of nothing that is not safe.
    offset: u64,
    /// The keys that its record changes.
    written: Vec<Position>,
    /// It may change others, too.
    is_unbounded: bool,
    /// Letters wait for the record that they may tell of.
    keeps_letters: bool,
    letters: Vec<(u16, Letter)>,
}

impl Observed {
    /// The reply may tell of what ends here.
    pub(crate) fn raise(&mut self, offset: u64) {
        self.offset = self.offset.max(offset);
    }

    /// What the reply may tell of, once.
    #[inline]
    pub(crate) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.offset)
    }

    /// True if a reply may have to wait.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.offset != 0
    }

    /// Something was changed while nobody asked what.
    #[inline]
    pub(crate) fn note_unknown(&mut self) {
        self.is_unbounded = true;
    }

    /// There is no record.
    #[inline]
    pub(crate) fn forget_written(&mut self) {
        self.written.clear();
        self.is_unbounded = false;
    }

    /// Keeps a letter for [`Ctx::release_letters`], or gives it back to be sent now.
    #[inline]
    pub(crate) fn keep(&mut self, worker: u16, letter: Letter) -> Option<Letter> {
        if !self.keeps_letters {
            return Some(letter);
        }
        self.letters.push((worker, letter));
        None
    }
}

impl Ctx<'_> {
    /// Before a command runs: what it sends others waits for its record.
    pub(crate) fn keep_letters(&mut self) {
        self.worker().observed.keeps_letters = true;
    }

    /// After a command ran, under its stripes: what its keys tell of that is not safe, and which of them its record will
    /// have changed.
    pub(crate) fn observe_command(&mut self, info: &CommandInfo, args: Args<'_>, has_changed: bool) {
        let server = self.server();
        let (gates, synced_to) = (&server.gates, server.gates.settled_to());
        let is_held = gates.awaits(self.session_ref()) != Awaits::NOTHING;
        let mut seen = 0;
        if is_held && sees_all(info, args) {
            seen = server.log.end();
        } else if is_held && sees_data(info) {
            seen = gates.unsynced.of_everything();
        }
        let mut written = std::mem::take(&mut self.worker().observed.written);
        // Of a script's keys, and of a transaction's, its commands tell.
        if !info.spec.categories.contains(Categories::SCRIPTING) {
            let _ = info.each_key(args, &mut |index, access| {
                if access.contains(KeyAccess::NOT_KEY) {
                    return;
                }
                let position = self.position(args.at(index));
                if is_held {
                    seen = seen.max(gates.unsynced.of_key(position, synced_to));
                }
                if has_changed && !access.contains(KeyAccess::RO) && written.len() <= RECORD_KEYS_MAX {
                    written.push(position);
                }
            });
        }
        let is_keyless_write = info.spec.flags.contains(Flags::WRITE) && !info.has_keys();
        let observed = &mut self.worker().observed;
        observed.is_unbounded |= (has_changed && is_keyless_write) || written.len() > RECORD_KEYS_MAX;
        observed.written = written;
        if seen > synced_to {
            observed.raise(seen);
        }
    }

    /// True if a client may read here what a primary has sent and what is not safe here yet.
    #[inline]
    pub(crate) fn reads_unsynced_stream(&mut self) -> bool {
        let server = self.server();
        server.gates.awaits_disk()
            && server.replication.following.is_replica()
            && !self.worker().copies_primary
    }

    /// The primary's command of these words is about to be run, under its stripes. Its record is in the log.
    pub(crate) fn observe_primary(&mut self, info: &CommandInfo, args: Args<'_>) {
        let server = self.server();
        if !server.gates.is_kept() || !info.spec.flags.intersects(Flags::WRITE.union(Flags::MAY_REPLICATE)) {
            return;
        }
        // Whoever applies the stream holds its gate: the log ends with what is being applied.
        let (end, synced_to) = (server.log.end(), server.gates.settled_to());
        let unsynced = &server.gates.unsynced;
        if !info.has_keys() || info.spec.categories.contains(Categories::SCRIPTING) {
            return unsynced.add_everything(end);
        }
        let _ = info.each_key(args, &mut |index, access| {
            if !access.intersects(KeyAccess::NOT_KEY.union(KeyAccess::RO)) {
                unsynced.add(self.position(args.at(index)), end, synced_to);
            }
        });
    }

    /// The reply may tell of anything that was executed.
    pub(crate) fn observe_everything(&mut self) {
        let is_told = self.is_journaled() || self.reads_unsynced_stream();
        if is_told && self.server().gates.is_kept() {
            let end = self.server().log.end();
            self.worker().observed.raise(end);
        }
    }

    /// The record ends at `offset`; its stripes are still held. `has_changes`: it has more than removals of what had
    /// expired, of which nobody needs to be told.
    pub(crate) fn observe_record(&mut self, offset: u64, has_changes: bool) {
        let server = self.server();
        let observed = &mut self.worker().observed;
        let is_unbounded = std::mem::take(&mut observed.is_unbounded);
        if !server.gates.is_kept() {
            observed.written.clear();
            return;
        }
        if has_changes {
            observed.raise(offset);
            let (unsynced, synced_to) = (&server.gates.unsynced, server.gates.settled_to());
            if is_unbounded {
                unsynced.add_everything(offset);
            }
            observed.written.iter().for_each(|position| unsynced.add(*position, offset, synced_to));
        }
        observed.written.clear();
        observed.written.shrink_to(RECORD_KEYS_KEPT_MAX);
    }

    /// Sends the letters that waited for the record, to arrive where they are read once it is safe.
    #[inline]
    pub(crate) fn release_letters(&mut self) {
        let observed = &mut self.worker().observed;
        observed.keeps_letters = false;
        if !observed.letters.is_empty() {
            self.send_letters();
        }
    }

    #[cold]
    fn send_letters(&mut self) {
        let server = self.server();
        let worker = self.worker();
        let offset = if worker.appended_to > 0 { worker.appended_to } else { server.log.end() };
        for (to, letter) in std::mem::take(&mut worker.observed.letters) {
            worker.post(server, to, Letter::Gated { offset, letter: Box::new(letter) });
        }
    }
}

/// True if a command's reply may tell of data. What tells of none is answered whatever is not safe: the copies that are awaited
/// come by such commands.
fn sees_data(info: &CommandInfo) -> bool {
    let spec = &info.spec;
    info.has_keys() || spec.flags.contains(Flags::WRITE) || spec.categories.contains(Categories::SCRIPTING)
}

/// True if a command may look at keys that it does not name.
fn sees_all(info: &CommandInfo, args: Args<'_>) -> bool {
    // It tells of nothing; and once the files are not written, whoever waits for them waits for ever.
    if info.spec.name == "debug" && args.get(1).is_some_and(|word| is(word, "JOURNAL-PAUSE")) {
        return false;
    }
    let flags = info.spec.flags;
    let is_keyless_read = flags.contains(Flags::READONLY) && !info.has_keys();
    is_keyless_read || flags.contains(Flags::WHOLE_KEYSPACE) || info.needs_all_stripes(args)
}

impl Server {
    /// How far the log is safe. Past the instant until which a primary serves, what copies have acknowledged counts for nothing:
    /// whoever leads by now may be without it.
    pub fn safe(&self) -> Safe {
        let safe = self.gates.safe();
        if safe.in_copies == 0 || !self.gates.copies.leads() || self.cluster.serves.at(self.clock.mono_us()) {
            return safe;
        }
        Safe { in_copies: 0, ..safe }
    }

    /// True if what ends at `offset` is safe in these ways, by [`Server::safe`]. The clock is read only where a copy's
    /// acknowledgement decides.
    fn is_safe(&self, offset: u64, awaits: Awaits) -> bool {
        let may_be = offset <= self.gates.safe().to(awaits);
        may_be && (offset == 0 || !awaits.has(Awaits::COPIES) || offset <= self.safe().to(awaits))
    }

    /// What happened outside of commands ends at `offset`: a key was evicted. Its stripe is held.
    pub(crate) fn observe_loss(&self, key: &[u8], offset: u64) {
        if self.gates.is_kept() {
            self.gates.unsynced.add(self.keyspace.position(key), offset, self.gates.settled_to());
        }
    }
}

impl Worker {
    /// Has the reply since `mark` wait for what it may tell of, if it does on this connection.
    #[cold]
    pub(crate) fn gate_reply(&mut self, server: &Server, session: &Session, mark: Mark, out: &mut Output) {
        let offset = self.observed.take();
        if let Some(deferred) = &mut self.deferred {
            deferred.observed = offset;
        } else {
            self.gate(server, session, mark, offset, out);
        }
    }

    /// Has what was written since `mark` wait until the log is safe up to `offset`, if it does on this connection.
    pub fn gate(&self, server: &Server, session: &Session, mark: Mark, offset: u64, out: &mut Output) {
        let awaits = server.gates.awaits_at(session, offset);
        if !server.is_safe(offset, awaits) && out.gate(mark, offset, awaits) {
            self.stats.gated_replies.add(1);
        }
    }

    /// Has a whole reply that came from elsewhere wait, or not, as this connection's do; it is added to what the connection
    /// is sent next.
    pub fn gate_output(&self, server: &Server, session: &Session, offset: u64, output: &mut Output) {
        let awaits = server.gates.awaits_at(session, offset);
        if server.gates.awaits(session) == Awaits::NOTHING {
            output.open(u64::MAX);
        } else if !server.is_safe(offset, awaits) {
            output.gate(Mark::START, offset, awaits);
        }
        self.stats.gated_replies.add(output.gated_replies());
    }

    /// Lets go of the replies of a connection that are safe by now; as of [`Worker::looked`], if the worker has looked already.
    pub fn open_gates(&self, server: &Server, out: &mut Output) {
        let Some((offset, awaits)) = out.first_gate() else { return };
        if let Some(safe) = self.looked {
            self.stats.released_replies.add(out.open(safe));
        } else if offset <= server.gates.safe().to(awaits) {
            self.stats.released_replies.add(out.open(server.safe()));
        }
    }
}
