//! Commands of append-only files, run as they were: for nobody, and at no time.
//!
//! What is read back has happened already. So it is run without asking who may, nothing waits, nothing is appended to
//! the log, and nothing expires: a key that ended since may have been written again before it did. Its end is looked at
//! once everything is loaded. For that, time is taken to be long ago, at an instant that access clocks cannot tell from
//! now.

use base::clock::Now;
use base::limits::{APPLIED_UNITS, BATCH_COMMANDS};
use resp::{Args, Batch, DecodeLimits, Decoder, Proto};
use store::{access, courtesy};

use crate::clients::Peer;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::lanes::Needs;
use crate::output::Output;
use crate::persistence::loading::LoadedKey;
use crate::reply::Reply;
use crate::server::Server;
use crate::session::Session;
use crate::stats::WorkerStats;
use crate::table::CommandInfo;
use crate::worker::Worker;

/// One thread's way to run such commands. Several may run at once, on different keys.
pub struct Replayer<'c, 'a> {
    server: &'a Server,
    place: Place<'c, 'a>,
    out: Output,
    /// How many commands were answered with an error, and the first of those errors.
    pub failures: (u64, Option<String>),
}

/// Where commands run.
enum Place<'c, 'a> {
    /// Under their own stripes.
    Own(Box<(Worker, Session)>),
    /// Within a command that holds every stripe, of a client that had this database selected.
    Within(&'c mut Ctx<'a>, usize),
}

impl<'c, 'a> Replayer<'c, 'a> {
    /// One that starts in database 0.
    pub fn new(server: &'a Server) -> Replayer<'c, 'a> {
        let now = server.clock.now();
        let mut worker =
            Worker::new(u16::MAX, WorkerStats::new(server.registry.len()).into(), now.mono_us, now);
        begin(&mut worker, now);
        let peer = Peer::Unix("append-only file".into());
        let session = Session::new(server.clients.unlisted(peer, now.unix_ms), server.acl.default_user());
        let place = Place::Own(Box::new((worker, session)));
        Replayer { server, place, out: Output::new(), failures: (0, None) }
    }

    /// One within a command that holds every stripe, to be ended by [`Replayer::end`].
    pub(crate) fn within(ctx: &'c mut Ctx<'a>) -> Replayer<'c, 'a> {
        let (server, db) = (ctx.server(), ctx.db());
        begin(ctx.worker(), server.clock.now());
        ctx.session().db = 0;
        let place = Place::Within(ctx, db);
        Replayer { server, place, out: Output::new(), failures: (0, None) }
    }

    /// What the command goes on with is as it was.
    pub(crate) fn end(self) {
        if let Place::Within(ctx, db) = self.place {
            ctx.session().db = db;
            let worker = ctx.worker();
            worker.effects.record.is_muted = false;
            worker.wall_ms_ahead = 0;
            worker.set_now(self.server.clock.now());
        }
    }

    /// Where it runs commands.
    pub fn server(&self) -> &'a Server {
        self.server
    }

    /// True if every stripe is held: nobody can help.
    pub fn is_alone(&self) -> bool {
        matches!(self.place, Place::Within(..))
    }

    /// Stores keys of a snapshot. An error if there is one already, where every stripe is held.
    pub fn load_keys(&mut self, keys: &mut Vec<LoadedKey>, now_ms: i64) -> Result<(), String> {
        match &mut self.place {
            Place::Own(_) => {
                self.server.load_keys(keys, now_ms);
                Ok(())
            }
            Place::Within(ctx, _) => self.server.load_keys_held(ctx.locked_all(), keys, now_ms, false),
        }
    }

    /// What follows goes to this database, if there is one of that number.
    pub fn select(&mut self, db: usize) {
        let db = if db < self.server.keyspace.databases() { db } else { 0 };
        match &mut self.place {
            Place::Own(own) => own.1.db = db,
            Place::Within(ctx, _) => ctx.session().db = db,
        }
    }

    /// The selected database.
    pub fn db(&self) -> usize {
        match &self.place {
            Place::Own(own) => own.1.db,
            Place::Within(ctx, _) => ctx.db(),
        }
    }

    /// The row of a command; the error says what is wrong with it.
    pub fn resolve(&self, args: Args<'_>) -> Result<&'a CommandInfo, String> {
        let row = self.server.registry.resolve(args);
        row.map_err(|fault| String::from_utf8_lossy(fault.bytes()).into_owned())
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
        let mark = self.out.mark();
        let result = match &mut self.place {
            Place::Own(own) => {
                let (worker, session) = &mut **own;
                let needs = Needs::of(&self.server.keyspace, info, args);
                let hashed = match needs {
                    Needs::Key(position) => info.only_key(args).map(|key| (key, position)),
                    _ => None,
                };
                let (locked, proto) = (needs.lock(&self.server.keyspace), session.proto);
                let mut ctx = Ctx::new(self.server, worker, session, locked, hashed);
                let result = ctx.replay(info, args, &mut Reply::new(&mut self.out, proto));
                ctx.settle();
                result
            }
            Place::Within(ctx, _) => {
                let result = ctx.replay(info, args, &mut Reply::new(&mut self.out, Proto::V2));
                // Who waits for a key waits for what is new.
                ctx.worker().effects.clear();
                result
            }
        };
        self.out.rewind(mark);
        courtesy::note_work(APPLIED_UNITS);
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

/// What the worker runs from now on happened long ago, and the log has told it.
fn begin(worker: &mut Worker, now: Now) {
    worker.set_now(long_ago(now));
    worker.wall_ms_ahead = now.unix_ms - worker.now.unix_ms;
    worker.effects.record.is_muted = true;
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
}
