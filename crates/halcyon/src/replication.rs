//! The threads of replication.

pub mod primary;
