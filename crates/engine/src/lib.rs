//! The engine: commands in, replies out; no sockets, no clock of its own.
//!
//! [`Server`](server::Server) is what workers share, [`Worker`](worker::Worker) what a thread has,
//! [`Session`](session::Session) what a connection has; [`dispatch::run_batch`] runs decoded commands.

pub mod acl;
pub mod args;
pub mod blocking;
pub mod client_memory;
pub mod clients;
pub mod cluster_face;
mod commands;
pub mod compat;
pub mod config;
pub mod ctx;
pub mod dispatch;
pub mod effects;
pub mod eviction;
pub mod fault;
pub mod forwarding;
pub mod gates;
pub mod lane;
pub mod lanes;
pub mod latency;
pub mod letter;
pub mod monitor;
pub mod outgoing;
pub mod output;
pub mod persistence;
pub mod propagation;
pub mod pubsub;
mod reach;
pub mod replication;
pub mod reply;
pub mod scripting;
pub mod server;
pub mod session;
pub mod shutdown;
pub mod slot_moves;
pub mod slowlog;
pub mod stats;
pub mod switches;
pub mod table;
pub mod testing;
pub mod tracking;
pub mod transaction;
pub mod value;
pub mod watches;
pub mod worker;
