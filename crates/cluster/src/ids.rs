//! The names of nodes, shards and lives.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Digits of a node's or a shard's name.
pub const ID_BYTES: usize = 40;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; ID_BYTES]);

        impl $name {
            /// The name that is these 40 lower-case hex digits; None: they are not.
            pub fn new(text: &str) -> Option<$name> {
                let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                text.bytes().all(is_digit).then(|| text.as_bytes().try_into().ok().map($name)).flatten()
            }

            /// Its digits.
            pub fn as_str(&self) -> &str {
                std::str::from_utf8(&self.0).expect("ids: digits are text")
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.as_str())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.as_str())
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<$name, String> {
                $name::new(&text).ok_or_else(|| format!("{text:?} is not {ID_BYTES} lower-case hex digits"))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.as_str().to_owned()
            }
        }
    };
}

id! {
    /// A node, for as long as it keeps its data directory: Redis's node id.
    NodeId
}

id! {
    /// A primary and its replicas together: Redis's shard id.
    ShardId
}

/// One process of a node. What it holds in memory ends with it, so that who comes back under the same id is
/// somebody else where that matters: the in-sync set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Life(pub u64);

impl fmt::Display for Life {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

/// A node in one of its lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Its process.
    pub life: Life,
}
