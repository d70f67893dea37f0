//! What a 7.4 answers otherwise than the 7.0 oracle, as data. Each row is explained in
//! `tests/differential/README.md`; a difference that is in neither place is a failure.

use resp::Value;

use crate::value::Reply;
use crate::words;

/// A reply that changed between the two versions.
struct Difference {
    /// The start of the command, in upper case; empty for any command.
    command: &'static str,
    /// The oracle's reply in compact notation; a closing `*` matches any rest.
    oracle: &'static str,
    /// Halcyon's reply, likewise.
    halcyon: &'static str,
}

const NOT_INTEGER: &str = "-ERR value is not an integer or out of range";
const WRONG_ARITY_IN_SCRIPT: &str = "-ERR Wrong number of args calling Redis command from script";
const SYNTAX: &str = "-ERR syntax error";
const WRONG_TYPE: &str = "-WRONGTYPE*";

/// Every known difference of replies.
static REPLIES: &[Difference] = &[
    Difference { command: "ZRANK ", oracle: WRONG_ARITY_IN_SCRIPT, halcyon: SYNTAX },
    Difference {
        command: "ZRANK ",
        oracle: "-ERR wrong number of arguments for 'zrank' command",
        halcyon: "-ERR syntax error",
    },
    Difference { command: "ZREVRANK ", oracle: WRONG_ARITY_IN_SCRIPT, halcyon: SYNTAX },
    Difference {
        command: "ZREVRANK ",
        oracle: "-ERR wrong number of arguments for 'zrevrank' command",
        halcyon: "-ERR syntax error",
    },
    // A missing key made 7.0 answer before it read the bounds; a value of another type still goes first.
    Difference { command: "BITCOUNT ", oracle: ":0", halcyon: NOT_INTEGER },
    Difference { command: "BITCOUNT ", oracle: ":0", halcyon: SYNTAX },
    Difference { command: "BITCOUNT ", oracle: WRONG_TYPE, halcyon: NOT_INTEGER },
    Difference { command: "BITCOUNT ", oracle: WRONG_TYPE, halcyon: SYNTAX },
    Difference { command: "BITPOS ", oracle: ":*", halcyon: NOT_INTEGER },
    Difference { command: "BITPOS ", oracle: ":*", halcyon: SYNTAX },
    Difference { command: "BITPOS ", oracle: WRONG_TYPE, halcyon: NOT_INTEGER },
    Difference { command: "BITPOS ", oracle: WRONG_TYPE, halcyon: SYNTAX },
    Difference {
        command: "SCAN ",
        oracle: "-ERR syntax error",
        halcyon: "-ERR NOVALUES option can only be used in HSCAN",
    },
    Difference {
        command: "XADD ",
        oracle: "-ERR Elements are too large to be stored*",
        halcyon: "-ERR The ID specified in XADD is equal or smaller than the target stream top item*",
    },
    Difference {
        command: "XREAD ",
        oracle: "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.*",
        halcyon: "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.*",
    },
    Difference {
        command: "XREADGROUP ",
        oracle: "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.*",
        halcyon: "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified.*",
    },
    Difference {
        command: "",
        oracle: "-NOPERM this user has no permissions to run the '*",
        halcyon: "-NOPERM User *",
    },
    Difference {
        command: "",
        oracle: "-NOPERM this user has no permissions to access one of the keys used as arguments",
        halcyon: "-NOPERM No permissions to access a key",
    },
    Difference {
        command: "",
        oracle: "-NOPERM this user has no permissions to access one of the channels used as arguments",
        halcyon: "-NOPERM No permissions to access a channel",
    },
    Difference {
        command: "",
        oracle: "-ERR The user executing the script can't *",
        halcyon: "-NOPERM ACL failure in script: *",
    },
    Difference {
        command: "ACL DRYRUN ",
        oracle: "$\"This user has no permissions to *",
        halcyon: "$\"User *",
    },
    Difference {
        command: "HELLO",
        oracle: "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH *",
        halcyon: "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH *",
    },
];

/// Whether this pair of replies is a row of the table.
pub fn is_known(args: &[Vec<u8>], oracle: &Value, halcyon: &Value) -> bool {
    let command = words::join(args).to_ascii_uppercase();
    let (oracle, halcyon) = (oracle.notation(), halcyon.notation());
    REPLIES.iter().any(|row| {
        command.starts_with(row.command)
            && matches(row.oracle, without_place(&oracle))
            && matches(row.halcyon, without_place(&halcyon))
    })
}

/// An error without the place in the script that it left.
fn without_place(notation: &str) -> &str {
    match notation.rsplit_once(" script: ") {
        Some((error, place)) if place.ends_with("on @user_script:1.") => error,
        _ => notation,
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => pattern == text,
    }
}

/// What decides the encoding of a value: its type, its elements' sizes, and the limits in force.
#[derive(Debug)]
pub struct Content {
    /// The answer to TYPE.
    pub type_name: String,
    /// Elements of a set or list, in any order.
    pub elements: Vec<Vec<u8>>,
    /// Whether the small thresholds are in force.
    pub small_thresholds: bool,
}

impl Content {
    fn entries_max(&self) -> usize {
        if self.small_thresholds { 4 } else { 128 }
    }

    fn value_bytes_max(&self) -> usize {
        if self.small_thresholds { 16 } else { 64 }
    }

    fn intset_entries_max(&self) -> usize {
        if self.small_thresholds { 4 } else { 512 }
    }

    fn all_integers(&self) -> bool {
        self.elements.iter().all(|element| {
            std::str::from_utf8(element)
                .ok()
                .and_then(|text| text.parse::<i64>().ok())
                .is_some_and(|number| number.to_string().as_bytes() == element.as_slice())
        })
    }

    fn fits_set_listpack(&self) -> bool {
        self.elements.len() <= self.entries_max()
            && self.elements.iter().all(|element| element.len() <= self.value_bytes_max())
    }

    fn fits_list_listpack(&self) -> bool {
        if self.small_thresholds {
            return self.elements.len() <= 4;
        }
        self.elements.iter().map(|element| element.len() + 2).sum::<usize>() <= 8 * 1024
    }
}

/// Whether Halcyon's encoding is what 7.4 may have where 7.0 has the oracle's.
///
/// - A set that 7.0 keeps in a hashtable is a listpack while it is small. One that was large once stays
///   a hashtable. SPOP of most members builds the rest anew, so integers alone may be an intset again
///   (the oracle is made to follow with SREM, which never does that).
/// - A list that 7.0 keeps in a quicklist is a listpack while it fits one node.
pub fn encoding_agrees(oracle: &str, halcyon: &str, content: &Content) -> bool {
    match (content.type_name.as_str(), oracle, halcyon) {
        ("set", "hashtable", "listpack") => content.fits_set_listpack(),
        ("set", "hashtable", "intset") => {
            content.all_integers() && content.elements.len() <= content.intset_entries_max()
        }
        ("list", "quicklist", "listpack") => content.fits_list_listpack(),
        _ => oracle == halcyon,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_the_table_are_known() {
        let check = |line: &str, halcyon: &str, expected: bool| {
            let args = words::split(line.as_bytes()).expect(line);
            let oracle = Value::Error(b"ERR wrong number of arguments for 'zrank' command".to_vec());
            assert_eq!(is_known(&args, &oracle, &Value::Error(halcyon.into())), expected, "{line} {halcyon}");
        };
        check("zrank k m x", "ERR syntax error", true);
        check("zrank k m x", "ERR other", false);
        check("zcard k m x", "ERR syntax error", false);
    }

    #[test]
    fn encodings_map_only_where_the_content_allows() {
        let check = |type_name: &str, elements: &[&str], oracle: &str, halcyon: &str, expected: bool| {
            let content = Content {
                type_name: type_name.into(),
                elements: elements.iter().map(|element| element.as_bytes().to_vec()).collect(),
                small_thresholds: true,
            };
            assert_eq!(
                encoding_agrees(oracle, halcyon, &content),
                expected,
                "{content:?} {oracle} {halcyon}"
            );
        };
        check("set", &["a", "b"], "hashtable", "listpack", true);
        check("set", &["a", "b"], "hashtable", "hashtable", true);
        check("set", &["a", "b"], "hashtable", "intset", false);
        check("set", &["1", "2"], "hashtable", "intset", true);
        check("set", &["1", "2"], "intset", "hashtable", false);
        check("set", &["a", "b", "c", "d", "e"], "hashtable", "listpack", false);
        check("set", &["a long element, too long"], "hashtable", "listpack", false);
        check("hash", &[], "hashtable", "listpack", false);
        check("list", &["a"], "quicklist", "listpack", true);
        check("list", &["a", "b", "c", "d", "e"], "quicklist", "listpack", false);
        check("zset", &[], "listpack", "skiplist", false);
    }
}
