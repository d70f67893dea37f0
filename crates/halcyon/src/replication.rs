//! The threads of replication.

pub mod link;
mod link_apply;
mod link_socket;
mod link_sync;
pub mod primary;
