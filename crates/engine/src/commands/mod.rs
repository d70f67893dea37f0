//! What commands do, one file per family.

pub mod connection;
pub mod keys;
pub mod server;
pub mod strings;
