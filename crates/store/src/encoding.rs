//! How a value is represented, in the words clients know from `OBJECT ENCODING`, and the sizes at which a
//! collection leaves its small form. Specified by Redis 7.4.

/// The representation that `OBJECT ENCODING` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A string that is a 64-bit integer.
    Int,
    /// A string short enough to share the entry's allocation.
    Embstr,
    /// Any other string.
    Raw,
    /// A small collection in one packed buffer.
    Listpack,
    /// A small hash whose fields may have ends.
    ListpackEx,
    /// A large list.
    Quicklist,
    /// A small set of integers.
    Intset,
    /// A large set or hash.
    Hashtable,
    /// A large sorted set.
    Skiplist,
    /// A stream.
    Stream,
}

impl Encoding {
    /// The name in a reply, such as `listpack`.
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Embstr => "embstr",
            Encoding::Raw => "raw",
            Encoding::Listpack => "listpack",
            Encoding::ListpackEx => "listpackex",
            Encoding::Quicklist => "quicklist",
            Encoding::Intset => "intset",
            Encoding::Hashtable => "hashtable",
            Encoding::Skiplist => "skiplist",
            Encoding::Stream => "stream",
        }
    }
}

/// The configured sizes up to which collections keep their small form. A collection that has left its small form
/// never returns to it, except lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Positive: elements in a small list; -1 to -5: its bytes, 4 KiB to 64 KiB.
    pub list_max_listpack_size: i64,
    /// Fields in a small hash.
    pub hash_max_listpack_entries: usize,
    /// Bytes of the longest field or value of a small hash.
    pub hash_max_listpack_value: usize,
    /// Members of a set of integers in its small form.
    pub set_max_intset_entries: usize,
    /// Members of any other small set.
    pub set_max_listpack_entries: usize,
    /// Bytes of the longest member of a small set.
    pub set_max_listpack_value: usize,
    /// Members of a small sorted set.
    pub zset_max_listpack_entries: usize,
    /// Bytes of the longest member of a small sorted set.
    pub zset_max_listpack_value: usize,
    /// Bytes of a node of a stream; 0: no limit of its own.
    pub stream_node_max_bytes: usize,
    /// Entries of a node of a stream; 0: no limit.
    pub stream_node_max_entries: usize,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            list_max_listpack_size: -2,
            hash_max_listpack_entries: 128,
            hash_max_listpack_value: 64,
            set_max_intset_entries: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
        }
    }
}
