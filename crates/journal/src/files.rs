//! The append-only directory: which files it has ([`Directory`]), how the log gets there ([`Writer`]), and how a replica
//! that fell out of memory is served from it ([`Backlog`]).
//!
//! # What is safe when
//! 1. A file is listed by the manifest only after its name is safe, and written to only after the manifest is.
//! 2. A manifest replaces the one before by a rename, after its content is safe; the old files go after that.
//! 3. An incremental file is safe wholly before one that follows it is listed.
//! 4. What failed to be synced is written again, to another file: no second sync of the same file is believed.
//!
//! So after any crash the files that the manifest lists, read in order up to the first place that is not whole, are a
//! prefix of the log, and hold all of it that was ever reported as synced.

mod backlog;
mod directory;
mod status;
mod sync;
mod writer;

pub(crate) use backlog::Covered;
pub use backlog::{Backlog, BacklogReader};
pub use directory::{Directory, Names};
pub use status::{Sizes, Status, Watermarks};
pub use sync::{Policy, SyncDone, SyncRequest};
pub use writer::{Progress, Writer, WriterOptions};
