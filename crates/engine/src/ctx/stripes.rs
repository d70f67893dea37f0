//! Stripes: what a command holds, and how it gets more of them.

use resp::Args;
use store::{Locked, OwnedEntry};

use super::Ctx;
use crate::fault::CmdResult;
use crate::lane::{Lane, Line};
use crate::reach::Reach;
use crate::slot_moves::SlotMoves;
use crate::table::{CommandInfo, Flags};

impl<'a> Ctx<'a> {
    /// What is held, for walks over the whole keyspace, which lock what they visit otherwise.
    pub fn held(&self) -> Option<&Locked<'a>> {
        self.locked.as_ref()
    }

    pub(crate) fn held_mut(&mut self) -> Option<&mut Locked<'a>> {
        self.locked.as_mut()
    }

    /// Takes what the commands of a transaction or script are going to touch; false, with nothing held, if a
    /// stripe is held by somebody who may keep it for long. `None` is every stripe.
    pub(crate) fn hold(&mut self, stripes: Option<&mut Vec<usize>>) -> bool {
        debug_assert!(self.locked.is_none(), "lock-order: stripes are taken once");
        let keyspace = &self.server.keyspace;
        self.locked = match stripes {
            None => keyspace.lock_all_briefly(),
            Some(stripes) => keyspace.lock_stripes_briefly(stripes),
        };
        self.keep_ended();
        self.locked.is_some()
    }

    /// As [`Ctx::hold`], however long it takes: off the workers only. `slot` is that of all that is touched in the stripes, if
    /// they are of one.
    pub(crate) fn hold_patiently(&mut self, stripes: Option<&mut Vec<usize>>, slot: Option<u16>) {
        debug_assert!(self.locked.is_none(), "lock-order: stripes are taken once");
        let (keyspace, moves) = (&self.server.keyspace, &self.server.slot_moves);
        let mut stripes = stripes;
        loop {
            let locked = match &mut stripes {
                None => keyspace.lock_all(),
                Some(stripes) => keyspace.lock_stripes(stripes),
            };
            if !moves.holds_up_any(stripes.as_deref().map(Vec::as_slice), slot) {
                self.locked = Some(locked);
                self.keep_ended();
                return;
            }
            drop(locked);
            SlotMoves::wait_a_moment();
        }
    }

    /// What sends slots that are being moved here says itself what has ended.
    fn keep_ended(&mut self) {
        if self.session.importing {
            self.locked.iter_mut().for_each(Locked::see_expired);
        }
    }

    /// Lets go of what [`Ctx::hold`] took, once what was come upon meanwhile is told.
    pub(crate) fn release(&mut self) {
        self.settle();
        self.locked = None;
    }

    /// Has the command presented again later: a stripe that it needs is held for long. Nothing was done yet.
    pub(crate) fn come_again(&mut self) {
        self.worker.held_up = true;
    }

    /// As [`Ctx::defer`], on a thread for scripts.
    pub(crate) fn defer_script(&mut self, job: impl FnOnce(&mut Lane<'_>) -> CmdResult + Send + 'static) {
        self.defer_to(Line::Scripts, job);
    }

    /// As [`Ctx::defer`], on one of these threads.
    pub(crate) fn defer_to(
        &mut self,
        line: Line,
        job: impl FnOnce(&mut Lane<'_>) -> CmdResult + Send + 'static,
    ) {
        self.defer(job);
        self.worker.deferred.iter_mut().for_each(|deferred| deferred.line = line);
    }

    /// Gives a key back what it held before a script that is given up wrote it.
    pub(crate) fn put_back(&mut self, db: usize, key: &[u8], before: Option<&OwnedEntry>) {
        match before {
            Some(entry) => self.put_entry(db, key, entry),
            None => {
                let (position, now_ms) = (self.position(key), self.now_ms());
                self.locked().remove(db, position, key, now_ms);
            }
        }
    }

    /// The stripes of a command's keys.
    pub(crate) fn stripes_of(&self, info: &CommandInfo, args: Args<'_>) -> Vec<usize> {
        let mut reach = Reach::default();
        reach.add_command(&self.server.keyspace, info, args, None);
        reach.stripes
    }

    /// Adds the stripes of a command's keys to those held, without waiting for any; false if one is not to be had, or if
    /// the command needs all.
    pub(crate) fn try_extend(&mut self, info: &CommandInfo, args: Args<'_>) -> bool {
        if self.locked.as_ref().is_some_and(Locked::covers_all) {
            return true;
        }
        // What another server has done cannot be put back: a script that asks one must not be given up any more.
        let is_final = info.spec.flags.contains(Flags::OUTGOING);
        if is_final || info.needs_all_stripes(args) || info.spec.flags.contains(Flags::WHOLE_KEYSPACE) {
            return false;
        }
        let mut reach = std::mem::take(&mut self.worker.reach);
        reach.clear();
        reach.add_command(&self.server.keyspace, info, args, None);
        let is_held = match &mut self.locked {
            _ if reach.stripes.is_empty() => true,
            _ if self.server.slot_moves.holds_up_any(Some(&reach.stripes), reach.only_slot()) => false,
            Some(locked) => reach.stripes.iter().all(|stripe| locked.try_add(*stripe)),
            None => self.hold(Some(&mut reach.stripes)),
        };
        self.worker.reach = reach;
        is_held
    }
}
