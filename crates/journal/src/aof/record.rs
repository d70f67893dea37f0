//! What is applied as one.

use std::ops::Range;

use resp::{Args, Batch, Decoder};

use super::reader::LIMITS;

/// One command, or all commands of a transaction, MULTI and EXEC included.
pub struct Record<'a> {
    /// The file from `base` on.
    pub(super) buffer: &'a [u8],
    pub(super) base: u64,
    /// Where in the file its commands lie: not always without a gap, since a timestamp can stand between them.
    pub(super) commands: &'a [Range<u64>],
    /// The arguments of the first command, which lies in the buffer from where `pieces` has it.
    pub(super) first: &'a Batch,
}

impl<'a> Record<'a> {
    /// Where in the file it starts.
    pub fn position(&self) -> u64 {
        self.commands[0].start
    }

    /// How many commands it has.
    pub fn commands(&self) -> usize {
        self.commands.len()
    }

    /// Whether it is a transaction.
    pub fn is_transaction(&self) -> bool {
        self.commands.len() > 1
    }

    /// Its bytes as a replica gets them, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &'a [u8]> {
        let (buffer, base) = (self.buffer, self.base);
        self.commands
            .iter()
            .map(move |range| &buffer[(range.start - base) as usize..(range.end - base) as usize])
    }

    /// How many bytes a replica gets.
    pub fn stream_bytes(&self) -> u64 {
        self.commands.iter().map(|range| range.end - range.start).sum()
    }

    /// Shows its commands one after the other.
    pub fn for_each(&self, mut show: impl FnMut(Args<'_>)) {
        if let [_] = self.commands {
            let piece = self.pieces().next().unwrap_or_default();
            return show(self.first.command(0, piece));
        }
        // They were whole when they were found, but only the place of each was kept.
        let mut batch = Batch::new();
        for piece in self.pieces() {
            let decoded = Decoder::new().decode(piece, &LIMITS, 1, &mut batch);
            assert!(
                decoded.is_ok() && batch.len() == 1,
                "whole-records: a command was whole when it was found"
            );
            show(batch.command(0, piece));
        }
    }
}
