//! The RDB format: values as bytes, and bytes as values.
//!
//! Nothing here reads a file or a socket. [`ValueDecoder`] and [`FileDecoder`] are given bytes as they come and say
//! when they need more; [`ValueEncoder`], [`RecordEncoder`] and [`SnapshotEncoder`]
//! append the next piece to a buffer. So neither ever holds
//! more of a big value's encoding than one element of it (or one packed collection, which is small).
//!
//! # What is written
//! What Redis 7.0 reads (version 10), with the oldest type code that keeps the value; a later version only where a
//! type needs it. A reader of any later version reads it too.
//!
//! # What is read
//! What Redis 2.6 to 8.0 and Valkey up to 9.2 write. Bytes are trusted in nothing: a length is believed as far as there
//! are bytes to fill it, counts and offsets are checked against what is there, and members must be distinct.
//!
//! | code | type | since version |
//! |---|---|---|
//! | 0, 1, 2, 3, 4 | string; list, set, sorted set (scores as text), hash, element by element | 1 |
//! | 5 | sorted set, scores as 8 bytes | 8 |
//! | 9, 10, 11, 12, 13 | hash as zipmap; list as ziplist; intset; sorted set, hash as ziplists | 2 to 4 |
//! | 14 | list of ziplists | 7 |
//! | 16, 17, 18 | hash, sorted set as listpacks; list of listpacks and big elements | 10 |
//! | 20 | set as listpack | 11 |
//! | 24, 25 | hash with fields that end: element by element, as listpack | 12 |
//! | 22 | likewise, element by element, by Valkey | 80 |
//! | 6, 7 | a module's, of which only the type's name is told | 8 |
//! | 15, 19, 21 | stream: with consumer groups; with what it had before; with when consumers were active | 9, 10, 11 |

pub mod crc64;
mod cursor;
mod decode;
mod encode;
mod file;
mod foreign;
pub mod functions;
mod intset;
mod listpack;
mod lzf;
pub mod payload;
mod snapshot;
mod wire;
mod ziplist;
mod zipmap;

pub use cursor::{Cursor, ReadError};
pub use decode::ValueDecoder;
pub use encode::{Compression, ValueEncoder};
pub use file::{Event, FileDecoder, KeyFacts, RecordEncoder, end};
pub use foreign::{ModuleType, Unsupported};
pub use snapshot::{Accesses, Piece, SnapshotEncoder};
pub use store::Thresholds;
/// The allocator that counts: for programs that bound what reading costs.
pub use store::alloc;

/// Codes of value types. The numbers are the format's.
pub mod code {
    #![expect(missing_docs, reason = "the names say it; the crate's text has the table")]
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const ZSET_TEXT: u8 = 3;
    pub const HASH: u8 = 4;
    pub const ZSET: u8 = 5;
    /// Of a release candidate.
    pub const MODULE_1: u8 = 6;
    pub const MODULE_2: u8 = 7;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const ZSET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_OF_ZIPLISTS: u8 = 14;
    pub const HASH_LISTPACK: u8 = 16;
    pub const ZSET_LISTPACK: u8 = 17;
    pub const LIST_OF_LISTPACKS: u8 = 18;
    pub const SET_LISTPACK: u8 = 20;
    pub const HASH_ENDS: u8 = 24;
    pub const HASH_LISTPACK_ENDS: u8 = 25;
    /// In versions of Valkey's; in Redis's the code was used before a release and by nothing since.
    pub const HASH_VALKEY_ENDS: u8 = 22;
    /// Likewise; Valkey's from version 81 on.
    pub const HASH_VALKEY_PATHS: u8 = 23;
    pub const STREAM_1: u8 = 15;
    pub const STREAM_2: u8 = 19;
    pub const STREAM_3: u8 = 21;
}

/// The version that is written unless a value needs a later one.
pub const VERSION_WRITTEN: u16 = 10;
/// The newest version of Redis's that is read.
const VERSION_READ_MAX: u16 = 12;
/// The version that knows of fields that end.
pub const VERSION_WITH_ENDS: u16 = 12;
/// The version of Valkey 9.0, whose numbers begin there.
const VERSION_VALKEY: u16 = 80;
/// The newest version of Valkey's that is read, that of 9.2.
const VERSION_VALKEY_READ_MAX: u16 = 81;

/// True if this codec reads a payload or file of that version.
pub fn reads_version(version: u16) -> bool {
    version <= VERSION_READ_MAX || (VERSION_VALKEY..=VERSION_VALKEY_READ_MAX).contains(&version)
}
