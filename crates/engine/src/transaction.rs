//! What a connection queues between MULTI and EXEC.

use resp::{Args, OwnedArgs};

use crate::table::{CommandId, CommandInfo, Flags};

/// A queued command.
pub struct Queued {
    /// Its row's number.
    pub command: CommandId,
    /// Its arguments.
    pub args: OwnedArgs,
}

/// Commands queued since MULTI.
#[derive(Default)]
pub struct Transaction {
    /// In order.
    pub queue: Vec<Queued>,
    /// One was refused: EXEC will not run any.
    pub aborted: bool,
    /// What their rows' flags are together.
    flags: Option<Flags>,
    bytes: usize,
}

impl Transaction {
    /// Adds a command that was admitted.
    pub fn push(&mut self, info: &CommandInfo, args: Args<'_>) {
        let queued = Queued { command: info.id, args: args.to_owned() };
        self.bytes += queued.args.heap_bytes() + size_of::<Queued>();
        self.flags = Some(self.flags() | info.spec.flags);
        self.queue.push(queued);
    }

    /// The flags of all queued commands together.
    pub fn flags(&self) -> Flags {
        self.flags.unwrap_or(Flags::empty())
    }

    /// Memory that the queue holds.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
