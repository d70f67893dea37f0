//! What commands do, one file per family.

pub mod algebra;
pub mod cluster;
pub mod command;
mod command_shape;
pub mod connection;
pub mod hashes;
pub mod keys;
pub mod lists;
pub mod scan;
pub mod server;
pub mod sets;
pub mod strings;
pub mod zsets;
