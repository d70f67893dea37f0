//! Effects: what the log is told of a command that changed something.
//!
//! An effect is a command that does the same again anywhere, whenever, and without chance: of most commands the command
//! itself, of SPOP an SREM. Whatever runs under one set of stripes leaves one [`Record`], which is appended before they are
//! let go ([`Ctx::settle`]): so the log agrees with every key's order, and a transaction or script is read back whole or
//! not at all.

use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Relaxed};

use base::limits::{LOG_COPIED_BYTES_MAX, RECORD_KEPT_BYTES_MAX};
use journal::log::Log;
use resp::{Args, Encoder, Proto, write_command};
use store::Position;

use crate::ctx::Ctx;
use crate::fault::CmdResult;
use crate::reply::Reply;
use crate::server::Server;
use crate::slot_moves::unseen;
use crate::table::{CommandInfo, Flags};

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Who wants the log to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LogReader {
    /// The append-only files.
    Files = 1,
    /// Replicas, or the backlog that is kept for those to come.
    Replicas = 2,
    /// Moves of slots to other servers.
    SlotMoves = 4,
}

/// The bit of [`LogReaders`] that says that the log is a primary's stream, whoever reads it: what clients do is not in it.
const IS_FOLLOWING: u8 = 1 << 7;

/// Those who want the log to be written now.
#[derive(Debug, Default)]
pub struct LogReaders(AtomicU8);

impl Server {
    /// Says whether somebody wants the log to be written. With every stripe held this is exact: what is written after it
    /// is in the log, what was written before it is not.
    pub fn want_log(&self, reader: LogReader, is_wanted: bool) {
        let bit = reader as u8;
        let before = match is_wanted {
            true => self.log_readers.0.fetch_or(bit, AcqRel),
            false => self.log_readers.0.fetch_and(!bit, AcqRel),
        };
        let after = if is_wanted { before | bit } else { before & !bit };
        self.log.set_active(after != 0 && after & IS_FOLLOWING == 0);
    }

    /// Says whether the log is a primary's stream: then what happens here does not enter it. Every stripe is held.
    pub(crate) fn follow_log(&self, is_following: bool) {
        let readers = match is_following {
            true => self.log_readers.0.fetch_or(IS_FOLLOWING, AcqRel) | IS_FOLLOWING,
            false => self.log_readers.0.fetch_and(!IS_FOLLOWING, AcqRel) & !IS_FOLLOWING,
        };
        self.log.set_active(readers != 0 && readers & IS_FOLLOWING == 0);
    }

    /// True if the log has every change, from clients or from the primary.
    pub fn is_log_kept(&self) -> bool {
        self.log_readers.0.load(Relaxed) != 0
    }

    /// True if this reader wants the log to be written.
    pub fn is_log_wanted(&self, reader: LogReader) -> bool {
        self.log_readers.0.load(Relaxed) & reader as u8 != 0
    }

    /// Appends one command by itself, for what happens outside of commands. The stripe of its key is held.
    pub(crate) fn log_alone(&self, db: usize, args: &[&[u8]]) -> u64 {
        let mut record = Vec::new();
        write_command(&mut record, args);
        self.log.append(db as u32, &record)
    }

    /// As [`Server::log_alone`], of what goes with its slot to another node.
    pub(crate) fn log_unseen(&self, args: &[&[u8]]) -> u64 {
        let mut record = unseen::MARK.to_vec();
        write_command(&mut record, args);
        self.log.append(0, &record)
    }

    /// Appends that a key has gone by itself: its time was over, or its memory was wanted. Its stripe is held. The offset
    /// after that, if anybody wants it.
    pub(crate) fn log_removal(&self, db: usize, key: &[u8], is_evicted: bool) -> Option<u64> {
        if !self.log.is_active() {
            return None;
        }
        let hot = self.config.hot();
        let is_lazy = if is_evicted { hot.lazyfree_lazy_eviction() } else { hot.lazyfree_lazy_expire() };
        Some(self.log_alone(db, &[removal(is_lazy), key]))
    }

    /// Appends that fields of a hash have gone since their time was over. Its stripe is held.
    pub(crate) fn log_fields_removal(&self, db: usize, key: &[u8], fields: &[Box<[u8]>]) {
        if self.log.is_active() {
            let words = [b"HDEL", key].into_iter().chain(fields.iter().map(|field| &**field));
            self.log_alone(db, &words.collect::<Vec<_>>());
        }
    }

    /// True if the log's readers are too far behind.
    #[inline]
    pub fn is_log_full(&self) -> bool {
        self.log.is_active() && !self.log.has_room()
    }

    /// True if a command that writes has to wait, before it locks anything: the log's readers are too far behind, or so are
    /// the walkers of a snapshot. `only_key` is the place of its key, if it has no more than one.
    #[inline]
    pub(crate) fn holds_up_writers(&self, only_key: Option<Position>) -> bool {
        self.is_log_full() || self.keyspace.snapshot_is_behind(only_key.map(Position::stripe))
    }
}

/// What Redis calls the removal of a key that its configuration has it free at once, or elsewhere. Here it is one.
fn removal(is_lazy: bool) -> &'static [u8] {
    if is_lazy { b"UNLINK" } else { b"DEL" }
}

/// The effects of what runs under one set of stripes, in order.
#[derive(Default)]
pub struct Record {
    /// The commands; from the second on, after a MULTI.
    bytes: Vec<u8>,
    commands: usize,
    /// Those of them that tell of keys which had expired.
    removals: usize,
    /// The databases of the first command and of the last.
    dbs: (usize, usize),
    /// The running command has said what its effect is: its own words are not.
    is_told: bool,
    /// What commands do is not told, only what has gone by itself: for a script that wants it so, and for what the log has
    /// told before.
    pub(crate) is_muted: bool,
}

impl Record {
    /// Adds a command of `head` and then `rest`.
    #[inline]
    fn push(&mut self, db: usize, head: &[&[u8]], rest: Args<'_>) {
        match self.commands {
            0 => self.dbs = (db, db),
            // What the first command takes is moved, and it is rarely long.
            1 => drop(self.bytes.splice(0..0, MULTI.iter().copied())),
            _ => {}
        }
        if self.dbs.1 != db {
            put_select(&mut self.bytes, db);
            self.dbs.1 = db;
        }
        match rest.as_encoded().filter(|_| head.is_empty()) {
            Some(encoded) => self.bytes.extend_from_slice(encoded),
            None => self.put(head, rest),
        }
        self.commands += 1;
    }

    fn put(&mut self, head: &[&[u8]], rest: Args<'_>) {
        let mut out = Encoder::new(&mut self.bytes, Proto::V2);
        out.array(head.len() + rest.len());
        head.iter().for_each(|word| out.bulk(word));
        rest.iter().for_each(|word| out.bulk(word));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(RECORD_KEPT_BYTES_MAX);
        (self.commands, self.removals) = (0, 0);
    }

    /// Appends what there is; the offset after it. `is_unseen`: it came with its slot from another node.
    fn append_to(&mut self, log: &Log, is_unseen: bool) -> u64 {
        let (first_db, last_db) = self.dbs;
        if self.commands > 1 {
            self.bytes.extend_from_slice(EXEC);
        }
        if is_unseen {
            drop(self.bytes.splice(0..0, unseen::MARK.iter().copied()));
        }
        let end = if first_db != last_db {
            let mut stream = Vec::with_capacity(self.bytes.len() + 32);
            put_select(&mut stream, first_db);
            stream.extend_from_slice(&self.bytes);
            log.append_stream(&stream, last_db as u32)
        } else if self.bytes.len() > LOG_COPIED_BYTES_MAX {
            log.append_large(first_db as u32, std::mem::take(&mut self.bytes).into_boxed_slice())
        } else {
            log.append(first_db as u32, &self.bytes)
        };
        self.clear();
        end
    }
}

fn put_select(bytes: &mut Vec<u8>, db: usize) {
    write_command(bytes, [&b"SELECT"[..], db.to_string().as_bytes()]);
}

impl Ctx<'_> {
    /// True if anybody wants effects: to be asked where telling them takes more than naming what is at hand.
    #[inline]
    pub fn is_journaled(&self) -> bool {
        self.server().log.is_active()
    }

    /// The running command has this effect, on the connection's database, and its own words are not its effect. One that has
    /// several says them in order.
    #[inline]
    pub fn effect(&mut self, words: &[&[u8]]) {
        self.effect_with(words, Args::from_slices(&[]));
    }

    /// As [`Ctx::effect`]: `head`, and after it `rest` of what the client said.
    #[inline]
    pub fn effect_with(&mut self, head: &[&[u8]], rest: Args<'_>) {
        if self.is_journaled() {
            // What it came upon is gone before what it did.
            self.report_expired();
            let db = self.db();
            let record = &mut self.worker().effects.record;
            record.is_told = true;
            if !record.is_muted {
                record.push(db, head, rest);
            }
        }
    }

    /// The running command has no effect but those that it says.
    pub fn no_effect(&mut self) {
        self.worker().effects.record.is_told = true;
    }

    /// The effect of a command that removed a key, which Redis names by how it frees keys.
    pub fn effect_removal(&mut self, is_lazy: bool, key: &[u8]) {
        self.effect(&[removal(is_lazy), key]);
    }

    /// Tells that a key was found expired and is gone.
    pub(crate) fn record_removal(&mut self, db: usize, key: &[u8]) {
        if self.is_journaled() {
            let word = removal(self.server().config.hot().lazyfree_lazy_expire());
            let record = &mut self.worker().effects.record;
            record.push(db, &[word, key], Args::from_slices(&[]));
            record.removals += 1;
        }
    }

    /// Tells that fields of a hash were found to be past their end, and are gone: before the command's own effect.
    pub(crate) fn record_fields_removal(&mut self, key: &[u8], fields: &[&[u8]]) {
        if self.is_journaled() && !fields.is_empty() {
            let db = self.db();
            self.worker().effects.hold_back_fields(db, key, fields);
            self.record_fields_removal_in(db, key, fields);
        }
    }

    pub(crate) fn record_fields_removal_in(&mut self, db: usize, key: &[u8], fields: &[&[u8]]) {
        if self.is_journaled() {
            self.report_expired();
            let record = &mut self.worker().effects.record;
            record.push(db, &[b"HDEL", key], Args::from_slices(fields));
            record.removals += 1;
        }
    }

    /// Runs `work`, which is what the command of these words does, and tells its effect: if it said none, its own words,
    /// provided that it changed something.
    #[inline]
    pub(crate) fn run_told(
        &mut self,
        info: &CommandInfo,
        args: Args<'_>,
        reply: &mut Reply<'_>,
        work: impl FnOnce(&mut Self, &mut Reply<'_>) -> CmdResult,
    ) -> CmdResult {
        let mut result = Ok(());
        self.tell_words(info, args, |ctx| result = work(ctx, reply));
        result
    }

    /// As [`Ctx::run_told`], of work whose result goes elsewhere.
    #[inline]
    pub(crate) fn tell_words(&mut self, info: &CommandInfo, args: Args<'_>, work: impl FnOnce(&mut Self)) {
        if !self.is_journaled() {
            work(self);
            if self.reads_unsynced_stream() {
                self.observe_command(info, args, false);
            }
            return;
        }
        let is_gating = self.server().gates.is_kept();
        if is_gating {
            self.keep_letters();
        }
        let outer = std::mem::replace(&mut self.worker().effects.record.is_told, false);
        let (db, dirty_before) = (self.db(), self.stats().dirty.get());
        work(self);
        let has_changed = self.stats().dirty.get() != dirty_before;
        let is_told = self.worker().effects.record.is_told;
        if has_changed && !is_told {
            self.report_expired();
            let record = &mut self.worker().effects.record;
            if !record.is_muted {
                record.push(db, &[], args);
            }
        }
        if is_gating {
            self.observe_command(info, args, has_changed || is_told);
            if !self.is_journaled() {
                // The files were given up meanwhile: there will be no record.
                self.release_letters();
            }
        } else if has_changed || is_told {
            self.worker().observed.note_unknown();
        }
        // A transaction or script is told by its commands.
        self.worker().effects.record.is_told = outer || self.is_nested();
    }

    /// Forgets the effects so far: what had them was undone.
    #[inline]
    pub(crate) fn forget_record(&mut self) {
        if self.worker().effects.record.commands > 0 {
            self.worker().effects.record.clear();
        }
    }

    /// Appends what the commands under these stripes have done.
    #[inline]
    pub(crate) fn append_record(&mut self) {
        if self.worker().effects.record.commands == 0 {
            self.worker().observed.forget_written();
            return;
        }
        let (server, is_unseen) = (self.server(), self.session_ref().importing);
        let worker = self.worker();
        let has_changes = worker.effects.record.commands > worker.effects.record.removals;
        worker.appended_to = worker.effects.record.append_to(&server.log, is_unseen);
        let appended_to = worker.appended_to;
        self.observe_record(appended_to, has_changes);
        self.session_ref().client.write_offset.store(appended_to, Relaxed);
    }
}

/// True if a command may leave effects, so that it has to wait while the log is full. `queued` are the flags of the
/// transaction that it would run.
pub(crate) fn may_leave_effects(info: &CommandInfo, queued: Option<Flags>) -> bool {
    let writes = Flags::WRITE | Flags::MAY_REPLICATE;
    match queued {
        Some(queued) if info.spec.name == "exec" => queued.intersects(writes),
        _ => info.spec.flags.intersects(writes),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn a_command_that_changed_something_is_its_own_effect() {
        let mut harness = Harness::new();
        for (command, effects) in [
            ("SET k v", "SELECT 0|SET k v"),
            ("SET k w NX", ""),
            ("GET k", ""),
            ("DEL none", ""),
            ("LPUSH k 1", ""),
            ("APPEND k x", "APPEND k x"),
            ("SELECT 3", ""),
            ("RPUSH list a b", "SELECT 3|RPUSH list a b"),
            ("DEL list none", "DEL list none"),
        ] {
            assert_eq!(harness.effects(command), effects, "{command}");
        }
    }

    #[test]
    fn what_appears_as_one_is_one_record() {
        let mut harness = Harness::new();
        harness.effects("SET k v");
        assert_eq!(harness.effects("MULTI"), "");
        assert_eq!(harness.effects("SET a 1"), "");
        assert_eq!(harness.effects("GET a"), "");
        assert_eq!(harness.effects("EXEC"), "SET a 1", "one command needs no transaction");
        for command in ["MULTI", "INCR a", "SELECT 2", "SET b 1", "LPUSH a x"] {
            harness.effects(command);
        }
        assert_eq!(harness.effects("EXEC"), "SELECT 0|MULTI|INCR a|SELECT 2|SET b 1|LPUSH a x|EXEC");
        assert_eq!(
            harness.effects("EVAL \"redis.call('SET', 'c', 1) redis.call('INCR', 'c')\" 0"),
            "MULTI|SET c 1|INCR c|EXEC"
        );
        assert_eq!(harness.effects("EVAL \"redis.call('SET', 'c', 1)\" 1 c"), "SET c 1");
        assert_eq!(harness.effects("EVAL \"return redis.call('GET', 'c')\" 1 c"), "");
    }

    #[test]
    fn scripts_may_keep_to_themselves_what_they_do() {
        let mut harness = Harness::new();
        harness.effects("SET k v");
        let script = |middle: &str| {
            format!(
                "EVAL \"redis.call('SET', 'a', 1) {middle} redis.call('SADD', 's', 'x') redis.call('SPOP', 's')\" 0"
            )
        };
        for (mode, effects) in [
            ("", "MULTI|SET a 1|SADD s x|SREM s x|EXEC"),
            ("redis.set_repl(redis.REPL_NONE)", "SET a 1"),
            ("redis.set_repl(redis.REPL_AOF)", "MULTI|SET a 1|SADD s x|SREM s x|EXEC"),
            (
                "redis.set_repl(redis.REPL_NONE) redis.call('INCR', 'n') redis.set_repl(redis.REPL_ALL)",
                "MULTI|SET a 1|SADD s x|SREM s x|EXEC",
            ),
        ] {
            assert_eq!(harness.effects(&script(mode)), effects, "{mode}");
        }
        harness.check("GET n", "1");
        let quiet = "redis.set_repl(redis.REPL_NONE) redis.call('INCR', 'n')";
        assert_eq!(harness.effects(&format!("EVAL \"{quiet} error('x')\" 0")), "");
        assert_eq!(harness.effects("INCR n"), "INCR n", "the next one tells again");
        for command in ["MULTI", &format!("EVAL \"{quiet}\" 0"), "INCR n"] {
            harness.effects(command);
        }
        assert_eq!(harness.effects("EXEC"), "INCR n");
        harness.check("GET n", "5");
        harness.run("SET gone v PX 10");
        harness.advance_ms(20);
        let meets = "redis.set_repl(redis.REPL_NONE) redis.call('APPEND', 'gone', 'x')";
        assert_eq!(
            harness.effects(&format!("EVAL \"{meets}\" 0")),
            "DEL gone",
            "what ended has ended for all"
        );
    }

    #[test]
    fn keys_that_were_found_expired_are_deleted_first() {
        let mut harness = Harness::new();
        harness.run("SET k v");
        harness.run("PEXPIRE k 10");
        harness.effects("SET other v");
        harness.advance_ms(20);
        assert_eq!(harness.effects("GET k"), "DEL k");
        harness.run("SET k v");
        harness.run("PEXPIRE k 10");
        harness.advance_ms(20);
        assert_eq!(harness.effects("APPEND k x"), "MULTI|DEL k|APPEND k x|EXEC");
    }
}
