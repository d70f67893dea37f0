//! The store: keys and values, and nothing of any protocol.
//!
//! [`Keyspace`] holds the databases; [`Locked`] is the right to touch some of their keys. Values are
//! copy-on-write: cloning one is O(1), whatever its size.

pub mod access;
pub mod alloc;
mod blocks;
pub mod carryless;
pub mod courtesy;
pub mod encoding;
mod entries;
pub mod entry;
mod field_expiry;
pub mod hash;
mod keyhash;
pub mod keyspace;
pub mod lend;
pub mod list;
mod locked;
mod packed;
mod reaper;
pub mod rope;
mod sample;
pub mod set;
mod sharing;
mod slab;
mod snapshot;
pub mod stream;
mod table;
mod tree;
mod value;
pub mod zset;

pub use access::{Frequency, Touch};
pub use encoding::{Encoding, Thresholds};
pub use entry::{OwnedEntry, OwnedValue};
pub use hash::{Hash, HashIter};
pub use keyhash::{init_seeds, key_hash, member_hash};
pub use keyspace::{DbSize, Keyspace, LongHold, Placement, Position, Prefetcher, STRIPES};
pub use lend::Lent;
pub use list::{List, ListIter};
pub use locked::{Created, Expired, Expiry, Instant, Lapse, Locked, ValueRef, View};
pub use packed::{Bytes, canonical_integer};
pub use reaper::Reaper;
pub use rope::{Chunk, Chunks, LongString};
pub use sample::Among;
pub use set::{Set, SetIter};
pub use snapshot::{Snapshot, SnapshotBatch, SnapshotDb, SnapshotEntry, Walk};
pub use stream::{Stream, StreamId};
pub use table::TABLE_BYTES_PER_KEY;
pub use value::{Kind, Typed, Value};
pub use zset::{LexBound, ZInsert, ZIter, ZSet};
