//! Commands within commands: those of transactions and scripts, and those of clients that wait.

use resp::Args;
use store::Position;

use super::{Ctx, Mode};
use crate::acl;
use crate::blocking::{self, Block};
use crate::dispatch::note_slow;
use crate::fault::{CmdResult, Fault};
use crate::lane;
use crate::monitor;
use crate::reply::Reply;
use crate::session::Session;
use crate::slowlog::clipped;
use crate::table::{CommandInfo, Flags};

impl Ctx<'_> {
    /// True inside a transaction or a script: nothing may wait.
    pub fn is_nested(&self) -> bool {
        self.mode == Mode::Nested
    }

    /// True when the command runs on behalf of a client that waits.
    pub fn is_serving(&self) -> bool {
        self.mode == Mode::Serving
    }

    /// False if a command that finds nothing must answer at once, as if its time were over.
    pub fn may_block(&self) -> bool {
        self.mode != Mode::Nested
    }

    /// Has the connection wait for keys. The command replies nothing; it runs again when one may be ready. Not
    /// where [`Ctx::may_block`] says no.
    pub fn block(&mut self, block: Block<'_>) {
        match self.mode {
            Mode::Serving => self.worker.blocked_again = true,
            Mode::Single => self.worker.blocked = Some(blocking::enter(self, block)),
            Mode::Nested => unreachable!("nested-wait: a command inside a transaction cannot wait"),
        }
    }

    /// Has the connection wait, or answers as if its time were over where nothing may wait.
    pub fn block_or_time_out(&mut self, block: Block<'_>, reply: &mut Reply<'_>) {
        if self.may_block() {
            self.block(block);
        } else {
            block.on_timeout.write(&mut reply.encoder());
        }
    }

    /// Runs a command of a script, under the stripes that are held, and takes its time. Its admission is the caller's to
    /// decide. A fault is not yet in the reply.
    pub(crate) fn call(&mut self, info: &CommandInfo, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
        let started_us = self.server.clock.mono_us();
        let result = self.call_untimed(info, args, None, reply);
        let elapsed_us = self.server.clock.mono_us() - started_us;
        self.count_timed_call(info, args, elapsed_us);
        result
    }

    /// As [`Ctx::call`], for a caller that takes the time of several commands. `position` is that of the key of a
    /// command with one key, if it is known.
    pub(crate) fn call_untimed(
        &mut self,
        info: &CommandInfo,
        args: Args<'_>,
        position: Option<Position>,
        reply: &mut Reply<'_>,
    ) -> CmdResult {
        let mode = std::mem::replace(&mut self.mode, Mode::Nested);
        let hashed = info.only_key(args).map(|key| {
            let position = position.unwrap_or_else(|| self.server.keyspace.position(key));
            (std::ptr::from_ref(key), position)
        });
        let outer = std::mem::replace(&mut self.hashed, hashed);
        let result = self.run_inline(info, args, reply);
        self.hashed = outer;
        self.mode = mode;
        self.note_read(info, args);
        monitor::show(self.server, self.worker, self.session, info, args);
        if result.is_err() {
            self.worker.stats.command(info.id).failed.add(1);
        }
        result
    }

    /// Runs a command that was read from a file, for nobody and with nothing counted.
    pub(crate) fn replay(&mut self, info: &CommandInfo, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
        let mode = std::mem::replace(&mut self.mode, Mode::Nested);
        let result = self.run_inline(info, args, reply);
        self.mode = mode;
        result
    }

    /// Counts a command that [`Ctx::call_untimed`] ran.
    pub(crate) fn count_call(&self, info: &CommandInfo, time_ns: u64) {
        let with_histogram = self.server.config.hot().latency_tracking();
        self.worker.stats.command(info.id).record(time_ns, with_histogram);
    }

    /// As [`Ctx::count_call`], of a command that was timed alone: it may have been slow.
    pub(crate) fn count_timed_call(&self, info: &CommandInfo, args: Args<'_>, elapsed_us: u64) {
        self.count_call(info, elapsed_us * 1000);
        let shown = || clipped(&info.full_name, args);
        let now_s = self.worker.now.unix_ms / 1000;
        note_slow(self.server, &self.session.client, info, elapsed_us, now_s, shown);
    }

    /// Remembers what a tracked connection has read.
    #[inline]
    pub(crate) fn note_read(&mut self, info: &CommandInfo, args: Args<'_>) {
        if self.session.tracking.is_some() && info.spec.flags.contains(Flags::READONLY) {
            let mut keys = Vec::new();
            let _ = info.each_key(args, &mut |index, _| keys.push(args.at(index)));
            self.remember_read(keys.into_iter());
        }
    }

    /// Runs a command, and what it wanted to leave to the long lane.
    fn run_inline(&mut self, info: &CommandInfo, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
        self.run_told(info, args, reply, |ctx, reply| {
            (info.spec.run)(ctx, args, reply)?;
            match ctx.worker.deferred.take() {
                // A script that may still be given up is run again where a job may take its time.
                Some(_) if ctx.worker.gives_up_jobs => {
                    ctx.worker.job_given_up = true;
                    Ok(())
                }
                Some(deferred) => lane::run_inline(ctx, deferred.job, reply),
                None => Ok(()),
            }
        })
    }

    /// Runs a command for a client that waits, as `session`; false if it would have to go on waiting. An error it
    /// meets is its reply.
    pub(crate) fn run_for(
        &mut self,
        session: &mut Session,
        info: &CommandInfo,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> bool {
        std::mem::swap(self.session, session);
        let mode = std::mem::replace(&mut self.mode, Mode::Serving);
        let mark = reply.output().mark();
        // What the client was allowed when it began to wait, it may no longer be.
        let admitted = acl::admit(self.server, self.session, info, args, acl::Context::TopLevel);
        self.worker.stats.command(info.id).rejected.add(u64::from(admitted.is_err()));
        let result = admitted.and_then(|()| self.run_inline(info, args, reply));
        self.append_record();
        self.mode = mode;
        std::mem::swap(self.session, session);
        if let Err(fault) = result {
            self.count_error(&fault);
            reply.output().rewind(mark);
            reply.encoder().error_bytes(fault.bytes());
        }
        !std::mem::take(&mut self.worker.blocked_again)
    }

    /// Counts an error reply.
    pub(crate) fn count_error(&mut self, fault: &Fault) {
        self.server.errors.count(fault.code());
        self.worker.stats.errors.add(1);
    }
}
