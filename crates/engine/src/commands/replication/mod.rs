//! Commands of and about replicas.

pub(crate) mod handshake;
pub(crate) mod info;
mod waiting;

pub(crate) use handshake::{psync, replconf, sync};
pub(crate) use info::role;
pub(crate) use waiting::{wait, waitaof};
