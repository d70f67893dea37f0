//! One append-only file: its commands as records, and what is wrong with it.
//!
//! A file is RESP commands one after the other. Lines that start with `#` may stand between them: Redis passes over
//! them. Ours are:
//!
//! | line | says |
//! |---|---|
//! | `#TS:<unix time>` | when what follows was written (`aof-timestamp-enabled`, as in Redis) |
//! | `#SUM:<bytes>:<synced>:<crc64>` | so many bytes follow that were written together, and this is their checksum; when they were, the file was safe up to position `<synced>` |
//! | `#AT:<offset>` | the next command has this offset, where the file before ends: in a file that was made before that was known |
//! | `#CUT:<position>` | what the `#SUM` line at that position announced ends here: the rest never came |
//!
//! # What a checksum is for
//! The format itself cannot tell a page that a crash lost from a value of zeros. With checksums a reader can, and so
//! can say of any file which prefix of it is whole. What it finds at the first place that is not right:
//!
//! | there | is |
//! |---|---|
//! | the end of the file, within a record | [`Flaw::Short`]: the last write was not finished |
//! | zeros up to the end of a page or file | [`Flaw::LostPages`]: a crash lost what was not synced. Unless a later line tells that it was synced: then the disk lost it |
//! | anything else | [`Flaw::Corrupt`]: the disk, or somebody, changed the file |
//!
//! A server that knows nothing of these lines can have cut the file within what a `#SUM` line covers, and gone on from
//! there. That shows by a command that lies across the end of what was covered; it is believed then, as that server
//! would.

mod annotation;
mod reader;
mod record;

pub(crate) use annotation::sum_of;
pub use annotation::{put_at, put_cut, put_timestamp};
pub use reader::{AofError, AofReader, Cut};
pub use record::Record;

use std::fmt;

/// What kind of damage a file has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It ends within a record.
    Short,
    /// It ends within a transaction, after whole commands of it.
    Unfinished,
    /// Pages that were not synced are missing, as after a crash of the machine.
    LostPages,
    /// It was changed, or lost what was synced.
    Corrupt,
}

/// The first place of a file that is not right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What kind.
    pub flaw: Flaw,
    /// The file is whole records up to here: where it would be cut.
    pub position: u64,
    /// How many commands are before.
    pub commands: u64,
    /// What was found.
    pub reason: String,
}

impl Damage {
    /// Whether a crash explains it, so that nothing is lost that was safe.
    pub fn is_torn_tail(&self) -> bool {
        self.flaw != Flaw::Corrupt
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { position, commands, reason, .. } = self;
        write!(f, "{reason} (at byte {position}, after {commands} commands)")
    }
}

#[cfg(test)]
mod tests;
