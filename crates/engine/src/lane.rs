//! The long lane: work over very large inputs, off the workers.
//!
//! A job holds O(1) clones of what it reads; it holds no stripe unless it asks for some, and then it
//! runs a piece of command under them as a worker would.

use std::time::Duration;

use resp::OwnedArgs;
use store::Locked;

use crate::cluster_face::routing;
use crate::ctx::Ctx;
use crate::dispatch::{note_slow, serve_unserved};
use crate::fault::CmdResult;
use crate::gates::Awaits;
use crate::output::Output;
use crate::reply::Reply;
use crate::server::Server;
use crate::session::{ReplyMode, Session};
use crate::table::{CommandId, Flags};
use crate::worker::Worker;

/// Between looks whether writers may go on.
const ROOM_INTERVAL: Duration = Duration::from_millis(1);

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
    /// The command's words, for the log.
    pub words: Option<OwnedArgs>,
    /// What its reply may tell of, by what was read already: an offset of the log.
    pub observed: u64,
    /// The slot of its keys, in cluster mode.
    pub slot: Option<u16>,
    /// Which threads run it.
    pub line: Line,
}

/// The threads that run jobs, by what these wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The long lane: for nothing.
    Long,
    /// Those for scripts, as nobody knows how long one takes, and for what waits for a disk.
    Scripts,
    /// Those that wait for other servers.
    Outgoing,
}

/// A command that is run by the lane.
pub struct Call {
    /// Its number.
    pub command: CommandId,
    /// What the slow log shows of it.
    pub args: Vec<Vec<u8>>,
}

/// What a job finds around it: the lane's thread, or the transaction that it is a part of.
trait Place {
    fn server(&self) -> &Server;
    fn worker(&mut self) -> &mut Worker;
    fn session(&self) -> &Session;
    fn held(&self) -> Option<&Locked<'_>>;
    /// The slot that may have left this node since the command was admitted.
    fn slot(&self) -> Option<u16> {
        None
    }
    /// An error if this server may not do it any more.
    fn with_stripes(&mut self, stripes: Option<Vec<usize>>, work: &mut dyn FnMut(&mut Ctx<'_>)) -> CmdResult;
}

/// The place a job runs in.
pub struct Lane<'a> {
    place: &'a mut dyn Place,
    out: Output,
}

impl Lane<'_> {
    /// What all workers share.
    pub fn server(&self) -> &Server {
        self.place.server()
    }

    /// Where the job's reply goes.
    pub fn reply(&mut self) -> Reply<'_> {
        Reply::new(&mut self.out, self.place.session().proto)
    }

    /// The lane's randomness.
    pub fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.place.worker().rng
    }

    /// The connection's database.
    pub fn db(&self) -> usize {
        self.place.session().db
    }

    /// What is held already, inside a transaction or script.
    pub fn held(&self) -> Option<&Locked<'_>> {
        self.place.held()
    }

    /// Runs `work` holding the stripes of `keys`.
    pub fn with_keys<R>(
        &mut self,
        keys: &[&[u8]],
        work: impl FnOnce(&mut Ctx<'_>, &mut Reply<'_>) -> CmdResult<R>,
    ) -> CmdResult<R> {
        let keyspace = &self.place.server().keyspace;
        let stripes = keys.iter().map(|key| keyspace.position(key).stripe()).collect();
        self.with_stripes(Some(stripes), work)
    }

    /// Runs `work` holding these stripes, or all.
    pub fn with_stripes<R>(
        &mut self,
        stripes: Option<Vec<usize>>,
        work: impl FnOnce(&mut Ctx<'_>, &mut Reply<'_>) -> CmdResult<R>,
    ) -> CmdResult<R> {
        let (mut work, mut result) = (Some(work), None);
        let (out, proto, slot) = (&mut self.out, self.place.session().proto, self.place.slot());
        self.place.with_stripes(stripes, &mut |ctx| {
            let work = work.take().expect("with-stripes: called once");
            let is_here = routing::recheck_slot(ctx, slot);
            result = Some(is_here.and_then(|()| work(ctx, &mut Reply::new(out, proto))));
        })?;
        result.expect("with-stripes: called once")
    }
}

/// The lane's own thread.
struct Thread<'a> {
    server: &'a Server,
    worker: &'a mut Worker,
    session: &'a mut Session,
    command: Option<CommandId>,
    words: Option<OwnedArgs>,
    slot: Option<u16>,
}

impl Place for Thread<'_> {
    fn server(&self) -> &Server {
        self.server
    }

    fn worker(&mut self) -> &mut Worker {
        self.worker
    }

    fn session(&self) -> &Session {
        self.session
    }

    fn held(&self) -> Option<&Locked<'_>> {
        None
    }

    fn slot(&self) -> Option<u16> {
        self.slot
    }

    fn with_stripes(
        &mut self,
        mut stripes: Option<Vec<usize>>,
        work: &mut dyn FnMut(&mut Ctx<'_>),
    ) -> CmdResult {
        let flags = self.command.map_or(Flags::empty(), |id| self.server.registry.get(id).spec.flags);
        while self.server.holds_up_writers(None) {
            std::thread::sleep(ROOM_INTERVAL);
        }
        self.worker.set_now(self.server.clock.now());
        let _long = self.server.keyspace.hold_long();
        let slot = self.slot.filter(|_| self.server.cluster.enabled);
        let mut ctx = Ctx::new(self.server, self.worker, self.session, None, None);
        if stripes.as_ref().is_none_or(|stripes| !stripes.is_empty()) {
            ctx.hold_patiently(stripes.as_mut(), slot);
        }
        loop {
            let is_loaded = self.command.map_or(Ok(()), |_| ctx.server().admit_to_loading(flags));
            match is_loaded.and_then(|()| ctx.server().admit_flags_under_stripes(flags, slot)) {
                Ok(false) => break,
                Ok(true) => ctx.release(),
                Err(fault) => return routing::recheck_slot(&mut ctx, slot).and(Err(fault)),
            }
            std::thread::sleep(ROOM_INTERVAL);
            ctx.hold_patiently(stripes.as_mut(), slot);
        }
        match (&self.words, self.command) {
            (Some(words), Some(command)) => {
                ctx.tell_words(self.server.registry.get(command), words.as_args(), work);
            }
            _ => {
                work(&mut ctx);
                // Which keys it looked at, nobody knows.
                ctx.observe_everything();
            }
        }
        ctx.settle();
        drop(ctx);
        serve_unserved(self.server, self.worker, self.session);
        Ok(())
    }
}

/// A job of a command inside a transaction or script holds what that holds.
impl Place for Ctx<'_> {
    fn server(&self) -> &Server {
        Ctx::server(self)
    }

    fn worker(&mut self) -> &mut Worker {
        Ctx::worker(self)
    }

    fn session(&self) -> &Session {
        self.session_ref()
    }

    fn held(&self) -> Option<&Locked<'_>> {
        Ctx::held(self)
    }

    fn with_stripes(&mut self, _: Option<Vec<usize>>, work: &mut dyn FnMut(&mut Ctx<'_>)) -> CmdResult {
        work(self);
        Ok(())
    }
}

/// Runs a job at once, as a part of the transaction or script that `ctx` is in.
pub(crate) fn run_inline(ctx: &mut Ctx<'_>, job: Job, reply: &mut Reply<'_>) -> CmdResult {
    let mut lane = Lane { place: ctx, out: Output::new() };
    let result = job(&mut lane);
    let out = lane.out;
    reply.output().append(out);
    result
}

/// Runs a job and returns its reply.
pub fn run(server: &Server, worker: &mut Worker, deferred: Deferred) -> Output {
    let Deferred { job, mut session, call, words, observed, slot, line: _ } = deferred;
    worker.observed.take();
    worker.observed.raise(observed);
    let started = server.clock.now();
    worker.set_now(started);
    worker.copies_primary = session.importing;
    let command = call.as_ref().map(|call| call.command);
    let mut thread = Thread { server, worker, session: &mut session, command, words, slot };
    let mut lane = Lane { place: &mut thread, out: Output::new() };
    let mark = lane.out.mark();
    let result = job(&mut lane);
    let mut out = lane.out;
    let failed = result.is_err();
    if let Err(fault) = result {
        out.rewind(mark);
        server.errors.count(fault.code());
        worker.stats.errors.add(1);
        Reply::new(&mut out, session.proto).encoder().error_bytes(fault.bytes());
    }
    // What walks the whole keyspace has seen whatever was there.
    let visits_all = |id| server.registry.get(id).spec.flags.contains(Flags::WHOLE_KEYSPACE);
    if server.log.is_active() && command.is_some_and(visits_all) {
        worker.observed.raise(server.offset_told());
    }
    let observed = worker.observed.take();
    // CLIENT REPLY OFF or SKIP was in force when the command ran.
    if session.reply_mode != ReplyMode::On {
        out = Output::new();
    } else if observed > 0 {
        let awaits = server.gates.awaits_at(&session, observed);
        if awaits != Awaits::NOTHING {
            out.gate(mark, observed, awaits);
        }
    }
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
