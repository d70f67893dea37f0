//! The append-only directory: which files it has ([`Directory`]), how the log gets there ([`Writer`]), and how a replica
//! that fell out of memory is served from it ([`Backlog`]).
//!
//! # What is safe when
//! 1. A file is listed by the manifest only after its name is safe, and written to only after the manifest is.
//! 2. A manifest replaces the one before by a rename, after its content is safe; the old files go after that.
//! 3. An incremental file is safe wholly before the manifest says where it ended.
//! 4. Nothing in a file counts as safe before all of the file before it is. Which offset it goes on from it tells itself
//!    (`#AT`), so that one that follows a loss is known by that, and dropped.
//! 5. What failed to be synced is written again, to another file: no second sync of the same file is believed.
//!
//! So after any crash the files that the manifest lists, read in order up to the first place that is not whole, are a
//! prefix of the log, and hold all of it that was ever reported as synced.

mod backlog;
mod change;
mod directory;
mod folder;
mod history;
mod status;
mod sync;
mod writer;

pub(crate) use backlog::Covered;
pub use backlog::{Backlog, BacklogReader};
pub use change::{Change, ChangeDone};
pub use directory::{Directory, Names};
pub use status::{Sizes, Status, Watermarks};
pub use sync::{Policy, SyncDone, SyncRequest};
pub use writer::{Progress, Writer, WriterOptions};
