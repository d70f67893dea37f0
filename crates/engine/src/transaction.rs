//! What a connection queues between MULTI and EXEC.

use std::ops::Range;

use resp::{Args, ArgsQueue};
use store::{Keyspace, Position};

use crate::dispatch;
use crate::reach::Reach;
use crate::table::{CommandId, CommandInfo, Flags, Registry};

/// Memory above which a queue that has run is not kept for the next transaction.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// What is known of a queued command besides its arguments.
struct Queued {
    /// Its row's number.
    command: CommandId,
    /// Where its key lies, if it has one key.
    position: Option<Position>,
    /// See [`dispatch::is_quick`].
    is_quick: bool,
}

/// A queued command, as it runs.
#[derive(Clone, Copy)]
pub(crate) struct QueuedCommand<'a> {
    /// Its row.
    pub(crate) info: &'a CommandInfo,
    /// Its arguments.
    pub(crate) args: Args<'a>,
    /// Where its key lies, if it has one key.
    pub(crate) position: Option<Position>,
    /// Reading the clock for it alone would cost more than it is worth.
    pub(crate) is_quick: bool,
}

/// Commands queued since MULTI.
pub struct Transaction {
    /// One was refused: EXEC will not run any.
    pub aborted: bool,
    queue: Vec<Queued>,
    args: ArgsQueue,
    /// What their rows' flags are together.
    flags: Flags,
    /// The flags that each of them has.
    shared_flags: Flags,
    /// What all their keys reach.
    pub(crate) reach: Reach,
    needs_all_stripes: bool,
    /// All are quick.
    is_swift: bool,
}

impl Default for Transaction {
    fn default() -> Transaction {
        Transaction {
            aborted: false,
            queue: Vec::new(),
            args: ArgsQueue::default(),
            flags: Flags::empty(),
            shared_flags: Flags::all(),
            reach: Reach::default(),
            needs_all_stripes: false,
            is_swift: true,
        }
    }
}

impl Transaction {
    /// Adds a command that was admitted. `position` is that of its key, if it has one key and that is known.
    pub(crate) fn push(
        &mut self,
        keyspace: &Keyspace,
        info: &CommandInfo,
        args: Args<'_>,
        position: Option<Position>,
    ) {
        let position = info.only_key(args).map(|key| position.unwrap_or_else(|| keyspace.position(key)));
        self.reach.add_command(keyspace, info, args, position);
        self.needs_all_stripes |= info.may_touch_any_key(args);
        self.flags |= info.spec.flags;
        self.shared_flags &= info.spec.flags;
        let bytes = self.args.push(args);
        let is_quick = bytes <= dispatch::BRIEF_WIRE_BYTES_MAX && dispatch::is_quick(info, args);
        self.is_swift &= is_quick;
        self.queue.push(Queued { command: info.id, position, is_quick });
    }

    /// How many commands are queued.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The queued commands, in order.
    pub(crate) fn commands<'a>(
        &'a self,
        registry: &'a Registry,
    ) -> impl ExactSizeIterator<Item = QueuedCommand<'a>> {
        self.queue.iter().enumerate().map(|(at, queued)| QueuedCommand {
            info: registry.get(queued.command),
            args: self.args.at(at),
            position: queued.position,
            is_quick: queued.is_quick,
        })
    }

    /// The rows of some of the commands.
    pub(crate) fn infos<'a>(
        &'a self,
        registry: &'a Registry,
        range: Range<usize>,
    ) -> impl Iterator<Item = &'a CommandInfo> {
        self.queue[range].iter().map(|queued| registry.get(queued.command))
    }

    /// The flags of all queued commands together.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The flags that every queued command has.
    pub(crate) fn shared_flags(&self) -> Flags {
        self.shared_flags
    }

    /// True if all queued commands are quick.
    pub(crate) fn is_swift(&self) -> bool {
        self.is_swift
    }

    /// The stripes that the queue needs; `None` is every stripe.
    pub(crate) fn stripes(&mut self) -> Option<&mut Vec<usize>> {
        (!self.needs_all_stripes).then_some(&mut self.reach.stripes)
    }

    /// Memory that the queue holds.
    pub fn memory_bytes(&self) -> usize {
        self.args.heap_bytes()
            + self.queue.capacity() * size_of::<Queued>()
            + self.reach.stripes.capacity() * size_of::<usize>()
    }

    /// The queue emptied, for another transaction to use its memory, unless that is much.
    pub(crate) fn recycled(mut self: Box<Transaction>) -> Option<Box<Transaction>> {
        if self.memory_bytes() > KEPT_BYTES_MAX {
            return None;
        }
        self.queue.clear();
        self.args.clear();
        self.reach.clear();
        (self.aborted, self.flags, self.shared_flags) = (false, Flags::empty(), Flags::all());
        (self.needs_all_stripes, self.is_swift) = (false, true);
        Some(self)
    }
}
