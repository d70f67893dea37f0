//! What commands do, one file per family.

pub mod connection;
pub mod server;
