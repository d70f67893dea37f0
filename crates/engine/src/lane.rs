//! The long lane: work over very large inputs, off the workers.
//!
//! A job holds O(1) clones of what it reads; it holds no stripe unless it asks for some, and then it
//! runs a piece of command under them as a worker would.

use crate::ctx::Ctx;
use crate::fault::CmdResult;
use crate::output::Output;
use crate::reply::Reply;
use crate::server::Server;
use crate::session::Session;
use crate::worker::Worker;

/// What a job does; it writes its reply through [`Lane::reply`].
pub type Job = Box<dyn FnOnce(&mut Lane<'_>) -> CmdResult + Send>;

/// A job and the connection it answers.
pub struct Deferred {
    /// The work.
    pub job: Job,
    /// A copy of the connection's state.
    pub session: Session,
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
    let Deferred { job, mut session } = deferred;
    worker.set_now(server.clock.now());
    let mut lane = Lane { server, worker, session: &mut session, out: Output::new() };
    let mark = lane.out.mark();
    if let Err(fault) = job(&mut lane) {
        lane.out.rewind(mark);
        server.errors.count(fault.code());
        lane.worker.stats.errors.add(1);
        lane.reply().encoder().error_bytes(fault.bytes());
    }
    lane.out
}
