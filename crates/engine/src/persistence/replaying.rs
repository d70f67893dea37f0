//! Commands of append-only files, run as they were: for nobody, and at no time.
//!
//! What is read back has happened already. So it is run without asking who may, nothing waits, nothing is appended to
//! the log, and nothing expires: a key that ended since may have been written again before it did. Its end is looked at
//! once everything is loaded. For that, time is taken to be long ago, at an instant that access clocks cannot tell from
//! now.

use base::clock::Now;
use base::limits::BATCH_COMMANDS;
use resp::{Args, Batch, DecodeLimits, Decoder};
use store::access;

use crate::clients::Peer;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::output::Output;
use crate::reply::Reply;
use crate::server::Server;
use crate::session::Session;
use crate::stats::WorkerStats;
use crate::table::{CommandInfo, KeyRule};
use crate::worker::Worker;

/// What a command touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// The keys that it names: nothing else but the selected database matters to it.
    Keys,
    /// Perhaps anything, so that it has to run alone.
    Anything,
}

/// One thread's way to run such commands. Several may run at once, on different keys.
pub struct Replayer<'s> {
    server: &'s Server,
    worker: Worker,
    session: Session,
    out: Output,
    /// How many commands were answered with an error, and the first of those errors.
    pub failures: (u64, Option<String>),
}

impl<'s> Replayer<'s> {
    /// One that starts in database 0.
    pub fn new(server: &'s Server) -> Replayer<'s> {
        let now = server.clock.now();
        let mut worker =
            Worker::new(u16::MAX, WorkerStats::new(server.registry.len()).into(), now.mono_us, now);
        worker.set_now(long_ago(now));
        worker.wall_ms_ahead = now.unix_ms - worker.now.unix_ms;
        let peer = Peer::Unix("append-only file".into());
        let session = Session::new(server.clients.unlisted(peer, now.unix_ms), server.acl.default_user());
        Replayer { server, worker, session, out: Output::new(), failures: (0, None) }
    }

    /// What follows goes to this database, if there is one of that number.
    pub fn select(&mut self, db: usize) {
        self.session.db = if db < self.server.keyspace.databases() { db } else { 0 };
    }

    /// The selected database.
    pub fn db(&self) -> usize {
        self.session.db
    }

    /// The row of a command; the error says what is wrong with it.
    pub fn resolve(&self, args: Args<'_>) -> Result<&'s CommandInfo, String> {
        let row = self.server.registry.resolve(args);
        row.map_err(|fault| String::from_utf8_lossy(fault.bytes()).into_owned())
    }

    /// What a command touches; the stripes of its keys are appended to `stripes`.
    pub fn touches(&mut self, info: &CommandInfo, args: Args<'_>, stripes: &mut Vec<usize>) -> Touches {
        if info.may_touch_any_key(args) {
            return Touches::Anything;
        }
        let reach = &mut self.worker.reach;
        reach.clear();
        reach.add_command(&self.server.keyspace, info, args, None);
        stripes.extend_from_slice(&reach.stripes);
        if reach.stripes.is_empty() { Touches::Anything } else { Touches::Keys }
    }

    /// Runs all commands of these bytes, which are whole.
    pub fn run_all(&mut self, mut bytes: &[u8]) {
        let limits = DecodeLimits { bulk_bytes_max: u64::MAX, ..DecodeLimits::default() };
        let mut batch = Batch::new();
        while !bytes.is_empty() {
            let decoded = Decoder::new().decode(bytes, &limits, BATCH_COMMANDS, &mut batch);
            let used = decoded.ok().filter(|used| *used > 0);
            let used = used.expect("whole-records: a command was whole when it was found");
            for index in 0..batch.len() {
                let args = batch.command(index, bytes);
                let info = self.resolve(args).expect("replayed-rows: the command was looked up before");
                self.run(info, args);
            }
            bytes = &bytes[used..];
        }
    }

    /// Runs one command. What belongs together comes without anything in between, so MULTI and EXEC are nothing.
    pub fn run(&mut self, info: &CommandInfo, args: Args<'_>) {
        if matches!(info.spec.name, "multi" | "exec") {
            return;
        }
        let keyspace = &self.server.keyspace;
        let (locked, hashed) = match info.keys {
            _ if info.may_touch_any_key(args) => (Some(keyspace.lock_all()), None),
            KeyRule::One(at) => {
                let position = keyspace.position(&args[at]);
                (Some(keyspace.lock(position)), Some((&args[at], position)))
            }
            KeyRule::None => (None, None),
            KeyRule::Many { .. } | KeyRule::Specs => {
                let reach = &mut self.worker.reach;
                reach.clear();
                reach.add_command(keyspace, info, args, None);
                let is_empty = reach.stripes.is_empty();
                ((!is_empty).then(|| keyspace.lock_stripes(&mut reach.stripes)), None)
            }
        };
        let mark = self.out.mark();
        let proto = self.session.proto;
        let mut ctx = Ctx::new(self.server, &mut self.worker, &mut self.session, locked, hashed);
        let result = ctx.replay(info, args, &mut Reply::new(&mut self.out, proto));
        ctx.settle();
        drop(ctx);
        self.out.rewind(mark);
        if let Err(fault) = result {
            self.note_failure(args, &fault);
        }
    }

    #[cold]
    fn note_failure(&mut self, args: Args<'_>, fault: &Fault) {
        self.failures.0 += 1;
        self.failures.1.get_or_insert_with(|| {
            let (name, error) = (String::from_utf8_lossy(&args[0]), String::from_utf8_lossy(fault.bytes()));
            format!("{name}: {error}")
        });
    }
}

/// An instant before anything ends, that access clocks cannot tell from `now`.
pub fn long_ago(now: Now) -> Now {
    Now { unix_ms: access::long_ago_ms(now.unix_ms), ..now }
}

#[cfg(test)]
mod tests {
    use resp::write_command;

    use super::*;
    use crate::testing::Harness;

    fn replay(harness: &Harness, commands: &[&str]) -> (u64, Option<String>) {
        let mut bytes = Vec::new();
        for command in commands {
            write_command(&mut bytes, command.split(' ').collect::<Vec<_>>());
        }
        let mut replayer = Replayer::new(&harness.server);
        replayer.run_all(&bytes);
        replayer.failures
    }

    #[test]
    fn what_ended_meanwhile_is_written_again_first() {
        let mut harness = Harness::new();
        let (past, failures) = ("1600000000000", (0, None));
        let commands = [
            "SELECT 2",
            &format!("SET k 5 PXAT {past}"),
            "INCR k",
            "PERSIST k",
            &format!("SET gone 5 PXAT {past}"),
            "HSET h f v g w",
            &format!("HPEXPIREAT h {past} FIELDS 1 f"),
            "HPERSIST h FIELDS 1 f",
        ];
        assert_eq!(replay(&harness, &commands), failures);
        harness.run("SELECT 2");
        harness.check("GET k", "6");
        harness.check("EXISTS gone", ":0");
        harness.check("HGETALL h", "[f v g w]");
        harness.check("OBJECT IDLETIME k", ":0");
        assert!(harness.run("INFO stats").contains("expired_keys:1\r\n"));
        assert!(!harness.run("INFO commandstats").contains("cmdstat_incr"));
    }

    #[test]
    fn transactions_jobs_and_failures() {
        let mut harness = Harness::new();
        let members: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        let many = format!("SADD s {}", members.join(" "));
        let commands = [
            "MULTI",
            "SET a 1",
            "RPUSH a x",
            "SELECT 1",
            "EXEC",
            "SET b 2",
            "SELECT 0",
            &many,
            "SUNIONSTORE t s a",
            "BLPOP none 0",
        ];
        let (failed, first) = replay(&harness, &commands);
        assert_eq!(
            (failed, first.as_deref()),
            (2, Some("RPUSH: WRONGTYPE Operation against a key holding the wrong kind of value"))
        );
        harness.check("GET a", "1");
        harness.check("SUNIONSTORE t s", ":20000");
        harness.check("SELECT 1", "+OK");
        harness.check("GET b", "2");
        assert_eq!(harness.server.waiters.key_count(), 0, "nothing waits");
    }

    #[test]
    fn streams_keep_their_times() {
        let mut harness = Harness::new();
        let commands = [
            "XADD s 1-1 f v",
            "XGROUP CREATE s g 0",
            "XGROUP CREATECONSUMER s g c",
            "XCLAIM s g c 0 1-1 TIME 1704067100000 RETRYCOUNT 3 FORCE JUSTID LASTID 1-1",
        ];
        assert_eq!(replay(&harness, &commands), (0, None));
        harness.check("XPENDING s g - + 10", "[[1-1 c :100000 :3]]");
    }

    #[test]
    fn what_commands_touch() {
        let harness = Harness::new();
        let mut replayer = Replayer::new(&harness.server);
        for (command, touches, stripes_len) in [
            ("SET k v", Touches::Keys, 1),
            ("MSET a 1 b 2", Touches::Keys, 2),
            ("FLUSHALL", Touches::Anything, 0),
            ("SELECT 1", Touches::Anything, 0),
            ("EVAL x 1 k", Touches::Anything, 0),
        ] {
            let (mut bytes, mut batch, mut stripes) = (Vec::new(), Batch::new(), Vec::new());
            write_command(&mut bytes, command.split(' ').collect::<Vec<_>>());
            Decoder::new().decode(&bytes, &DecodeLimits::default(), 1, &mut batch).expect("a command");
            let args = batch.command(0, &bytes);
            let info = replayer.resolve(args).expect("a row");
            assert_eq!(replayer.touches(info, args, &mut stripes), touches, "{command}");
            assert_eq!(stripes.len(), stripes_len, "{command}");
        }
    }
}
