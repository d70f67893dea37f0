//! The journal: the one ordered log of what changed ([`log`]), the append-only files that keep it ([`files`]), and how
//! they are read back ([`recover`]) or looked through ([`check`]).
//!
//! Nothing here knows a command but SELECT, MULTI and EXEC, nor a socket, nor the machine's clock.

pub mod aof;
pub mod check;
mod error;
pub mod files;
pub mod log;
pub mod manifest;
pub mod recover;
pub mod storage;

pub use error::JournalError;
