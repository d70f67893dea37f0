//! Where the keys of commands lie: which stripes they need, and whether that is one slot.

use resp::Args;
use store::{Keyspace, Position};

use crate::fault::{CmdResult, Fault};
use crate::server::Server;
use crate::table::{CommandInfo, KeyRule};

/// What the keys of one command, or of several, reach.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// The stripes of the keys, in any order, as often as a key lies there.
    pub(crate) stripes: Vec<usize>,
    slot: Option<u16>,
    crosses: bool,
}

impl Reach {
    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.stripes.clear();
        (self.slot, self.crosses) = (None, false);
    }

    /// Adds a key.
    #[inline]
    pub(crate) fn add(&mut self, position: Position) {
        self.crosses |= *self.slot.get_or_insert(position.slot()) != position.slot();
        self.stripes.push(position.stripe());
    }

    /// Adds the keys of a command whose number of arguments is right. `position` is that of its key, if it has one key
    /// and that is known.
    pub(crate) fn add_command(
        &mut self,
        keyspace: &Keyspace,
        info: &CommandInfo,
        args: Args<'_>,
        position: Option<Position>,
    ) {
        match info.keys {
            KeyRule::One(at) => self.add(position.unwrap_or_else(|| keyspace.position(&args[at]))),
            KeyRule::Many { first, last, step } => {
                let last = if last < 0 { args.len() as isize + last } else { last };
                (first..=last.max(0) as usize)
                    .step_by(step.max(1))
                    .filter(|at| *at < args.len())
                    .for_each(|at| self.add(keyspace.position(&args[at])));
            }
            // `None`: a shard channel lies in a slot, too. A number of keys that does not fit is the command's own error to
            // report: it finds no keys.
            KeyRule::None | KeyRule::Specs => {
                let _ = info.each_key(args, &mut |at, _| self.add(keyspace.position(&args[at])));
            }
        }
    }

    /// The slot of all keys.
    pub(crate) fn only_slot(&self) -> Option<u16> {
        self.slot.filter(|_| !self.crosses)
    }

    /// The slot of the first key.
    #[inline]
    pub(crate) fn slot(&self) -> Option<u16> {
        self.slot
    }

    /// An error if the keys are of several slots, in cluster mode.
    pub(crate) fn check(&self, server: &Server) -> CmdResult {
        if self.crosses && server.cluster.enabled { Err(Fault::CROSS_SLOT) } else { Ok(()) }
    }
}

/// In cluster mode, an error if the keys of a command are of several slots; else the slot of its keys, if it has any.
pub(crate) fn check_slots(server: &Server, info: &CommandInfo, args: Args<'_>) -> CmdResult<Option<u16>> {
    if !server.cluster.enabled {
        return Ok(None);
    }
    let mut reach = Reach::default();
    reach.add_command(&server.keyspace, info, args, None);
    reach.check(server)?;
    Ok(reach.slot)
}
