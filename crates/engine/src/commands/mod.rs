//! What commands do, one file per family.

pub mod algebra;
pub(crate) mod bits;
pub mod client;
pub mod client_list;
pub mod cluster;
pub mod command;
mod command_shape;
pub mod config;
pub mod connection;
pub mod debug;
pub mod hashes;
pub mod info;
pub mod info_counts;
pub mod keys;
pub mod latency;
pub mod latency_report;
pub mod lists;
pub mod memory;
mod random;
pub mod replication;
pub mod scan;
pub mod server;
pub mod sets;
pub mod slowlog;
pub mod strings;
pub mod transactions;
pub mod zsets;
