//! Slots that move from one node to another while clients go on writing to them.
//!
//! ```text
//!   source                                                     destination
//!   walk the slots' keys, a few under their stripe at a time -> commands that make them, on an ordinary connection
//!   the log since then, filtered (filter.rs)                 -> the same commands
//!   park: the slots' commands wait; the rest of the log      -> all applied and acknowledged: ready
//!   flip: the caller's transaction changes the owner
//!   the source's copies are let go of (leaving.rs)              serves them
//! ```
//!
//! What is copied of a key is what it held at some offset of the log: its stripe is held when both are looked at. So each key
//! is brought on by exactly the log's commands from that offset on, and no two states of the keyspace are kept. The destination
//! applies what comes as writes of its own, so its files and replicas have them; its clients see none of it before
//! the flip, and no keyspace event tells of it at either (unseen.rs).
//!
//! Whatever fails before the flip leaves the source as it was, and the destination lets go of what it was sent. Once it is
//! *ready*, only the outcome of the flip decides what becomes of that ([`Server::settle_import`]).

mod channel;
mod filter;
pub mod import;
mod leaving;
mod parking;
mod sending;
mod slot_set;
mod told;
pub(crate) mod unseen;

use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

pub use sending::{Flip, Flipped, Progress, SlotMove};
pub use slot_set::{SlotMarks, SlotSet};
pub use told::Migration;

use import::Import;
pub(crate) use import::UNKNOWN_IMPORT;
pub use import::{ImportView, NOT_YET};
use told::Told;

/// What a server knows of slots that move.
#[derive(Default)]
pub struct SlotMoves {
    /// Slots whose commands wait, for a moment.
    parked: SlotMarks,
    /// That moment is over: they are refused.
    is_overdue: AtomicBool,
    /// Held by the move that is decided.
    turn: Mutex<()>,
    /// Slots that are being received.
    importing: SlotMarks,
    imports: Mutex<Vec<Import>>,
    /// Slots whose keys are to be let go of.
    leaving: Mutex<Vec<SlotSet>>,
    /// How many moves from here want the log.
    senders: Mutex<usize>,
    told: Told,
}

#[cfg(test)]
mod tests;
