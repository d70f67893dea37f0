//! What of the log a move sends.
//!
//! A key of the moved slots is *copied* once the walk has passed its position. Until then the log's commands on it are left out:
//! the copy will have them. From then on they are sent, but for those before the offset at which the key was copied.
//!
//! A command that names several keys (RENAME, SUNIONSTORE, LMOVE) can only be sent if the destination has all of them as they
//! were before it. If some are not copied yet, what it writes to the others is sent as it is now: these are copied
//! again, and are from then on ahead of the log, up to the offset of that copy.

use std::collections::HashMap;

use resp::Args;
use store::{Keyspace, Position};

use super::slot_set::SlotSet;
use crate::table::{CommandInfo, KeyAccess};

/// Commands after which nothing of what was sent holds.
const ON_EVERYTHING: &[&str] = &["flushall", "flushdb", "swapdb"];

/// What becomes of a command of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It concerns none of what was sent.
    Skip,
    /// It is sent.
    Send,
    /// These keys are copied again in its place.
    Copy(Vec<Vec<u8>>),
    /// The move cannot go on.
    Flushed,
}

/// How a key stands at a command of the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Of another slot.
    Foreign,
    /// Its copy has, or will have, what the command does.
    Ahead,
    /// The destination has it as it was before the command.
    Copied,
}

/// What was copied so far.
pub(super) struct Filter {
    slots: SlotSet,
    /// Keys of the slots from here on are not copied yet; None: all are. Beyond the last slot there is no position.
    pub(super) left_from: Option<Position>,
    /// Keys that were copied again, and the offset of that copy.
    ahead: HashMap<Vec<u8>, u64>,
    /// The last of these offsets.
    ahead_until: u64,
}

impl Filter {
    pub(super) fn new(slots: SlotSet) -> Filter {
        Filter { slots, left_from: Some(Position::first_of_slot(0)), ahead: HashMap::new(), ahead_until: 0 }
    }

    /// A key was copied as it is at an offset.
    pub(super) fn note_copy(&mut self, key: Vec<u8>, offset: u64) {
        self.ahead.insert(key, offset);
        self.ahead_until = self.ahead_until.max(offset);
    }

    /// What to do with the command that begins at `offset`. Offsets only grow.
    pub(super) fn judge(
        &mut self,
        keyspace: &Keyspace,
        info: &CommandInfo,
        args: Args<'_>,
        offset: u64,
    ) -> Verdict {
        if offset >= self.ahead_until && !self.ahead.is_empty() {
            self.ahead.clear();
        }
        if ON_EVERYTHING.contains(&info.spec.name) {
            return Verdict::Flushed;
        }
        let (mut copied, mut others, mut written) = (0, 0, Vec::new());
        let _ = info.each_key(args, &mut |at, access| {
            let key = &args[at];
            let standing = self.standing(keyspace.position(key), key, offset);
            if standing == Standing::Copied {
                copied += 1;
                if access.intersects(KeyAccess::RW | KeyAccess::OW | KeyAccess::RM) {
                    written.push(key.to_vec());
                }
            } else {
                others += 1;
            }
        });
        // Whatever else it reads may be at any state.
        let reads_more = info.spec.reaches_beyond.is_some_and(|reaches| reaches(args));
        match (copied, others) {
            (0, _) => Verdict::Skip,
            (_, 0) if !reads_more => Verdict::Send,
            _ if written.is_empty() => Verdict::Skip,
            _ => {
                written.sort_unstable();
                written.dedup();
                Verdict::Copy(written)
            }
        }
    }

    fn standing(&self, position: Position, key: &[u8], offset: u64) -> Standing {
        if !self.slots.has(position.slot()) {
            Standing::Foreign
        } else if self.left_from.is_some_and(|left_from| position >= left_from)
            || self.ahead.get(key).is_some_and(|until| offset < *until)
        {
            Standing::Ahead
        } else {
            Standing::Copied
        }
    }
}
