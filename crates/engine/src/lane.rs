//! The long lane: work over very large inputs, off the workers.
//!
//! A job holds O(1) clones of what it reads; it holds no stripe unless it asks for some, and then it
//! runs a piece of command under them as a worker would.

use crate::ctx::Ctx;
use crate::dispatch::note_slow;
use crate::fault::CmdResult;
use crate::output::Output;
use crate::reply::Reply;
use crate::server::Server;
use crate::session::{ReplyMode, Session};
use crate::table::CommandId;
use crate::worker::Worker;

/// What a job does; it writes its reply through [`Lane::reply`].
pub type Job = Box<dyn FnOnce(&mut Lane<'_>) -> CmdResult + Send>;

/// A job and the connection it answers.
pub struct Deferred {
    /// The work.
    pub job: Job,
    /// A copy of the connection's state.
    pub session: Session,
    /// The command that left it, for statistics.
    pub call: Option<Call>,
}

/// A command that is run by the lane.
pub struct Call {
    /// Its number.
    pub command: CommandId,
    /// What the slow log shows of it.
    pub args: Vec<Vec<u8>>,
}

/// The place a job runs in.
pub struct Lane<'a> {
    server: &'a Server,
    worker: &'a mut Worker,
    session: &'a mut Session,
    out: Output,
}

impl Lane<'_> {
    /// What all workers share.
    pub fn server(&self) -> &Server {
        self.server
    }

    /// Where the job's reply goes.
    pub fn reply(&mut self) -> Reply<'_> {
        Reply::new(&mut self.out, self.session.proto)
    }

    /// The lane's randomness.
    pub fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.worker.rng
    }

    /// The connection's database.
    pub fn db(&self) -> usize {
        self.session.db
    }

    /// Runs `work` holding the stripes of `keys`.
    pub fn with_keys<R>(
        &mut self,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Ctx<'_>, &mut Reply<'_>) -> CmdResult<R>,
    ) -> CmdResult<R> {
        let mut stripes: Vec<usize> =
            keys.iter().map(|key| self.server.keyspace.position(key).stripe()).collect();
        self.worker.set_now(self.server.clock.now());
        let locked = (!stripes.is_empty()).then(|| self.server.keyspace.lock_stripes(&mut stripes));
        let proto = self.session.proto;
        let mut ctx = Ctx::new(self.server, self.worker, self.session, locked, None);
        work(&mut ctx, &mut Reply::new(&mut self.out, proto))
    }
}

/// Runs a job and returns its reply.
pub fn run(server: &Server, worker: &mut Worker, deferred: Deferred) -> Output {
    let Deferred { job, mut session, call } = deferred;
    let started = server.clock.now();
    worker.set_now(started);
    let mut lane = Lane { server, worker, session: &mut session, out: Output::new() };
    let mark = lane.out.mark();
    let result = job(&mut lane);
    let failed = result.is_err();
    if let Err(fault) = result {
        lane.out.rewind(mark);
        server.errors.count(fault.code());
        lane.worker.stats.errors.add(1);
        lane.reply().encoder().error_bytes(fault.bytes());
    }
    // CLIENT REPLY OFF or SKIP was in force when the command ran.
    let is_swallowed = lane.session.reply_mode != ReplyMode::On;
    let out = if is_swallowed { Output::new() } else { lane.out };
    if let Some(call) = call {
        let now = server.clock.now();
        let elapsed_us = now.mono_us - started.mono_us;
        let stats = worker.stats.command(call.command);
        stats.record(elapsed_us * 1000, server.config.hot().latency_tracking());
        stats.failed.add(u64::from(failed));
        let info = server.registry.get(call.command);
        note_slow(server, &session.client, info, elapsed_us, now.unix_ms / 1000, || call.args);
    }
    out
}
