//! The journal: the one ordered log of what changed ([`log`]), and the append-only files that keep it.
//!
//! Nothing here knows a command but SELECT, MULTI and EXEC, nor a socket, nor the machine's clock.

pub mod log;
pub mod manifest;
pub mod storage;
