//! A client's mistake, as the error reply it becomes.

use std::borrow::Cow;

/// The text of an error reply, without the leading `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A fixed text.
    Text(&'static str),
    /// A text made for the occasion.
    Owned(String),
    /// A text that quotes a client's bytes, which need not be UTF-8.
    Quoting(Vec<u8>),
}

/// What a command returns: its reply is written, or there is a fault to report instead.
pub type CmdResult<T = ()> = Result<T, Fault>;

impl Fault {
    /// The value is of another type than the command works on.
    pub const WRONG_TYPE: Fault =
        Fault::Text("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// Options that do not fit together or are not known.
    pub const SYNTAX: Fault = Fault::Text("ERR syntax error");
    /// An argument or value that should be a 64-bit integer.
    pub const NOT_INTEGER: Fault = Fault::Text("ERR value is not an integer or out of range");
    /// An argument or value that should be a float.
    pub const NOT_FLOAT: Fault = Fault::Text("ERR value is not a valid float");
    /// An integer outside what the command takes.
    pub const OUT_OF_RANGE: Fault = Fault::Text("ERR value is out of range");
    /// An integer of more than 32 bits where Redis keeps a C `int`.
    pub const NOT_INT32: Fault =
        Fault::Text("ERR value is out of range, value must between -2147483648 and 2147483647");
    /// A count whose sign has a meaning, but which has no opposite.
    pub const NO_OPPOSITE: Fault = Fault::Text(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    /// A count below zero.
    pub const NOT_POSITIVE: Fault = Fault::Text("ERR value is out of range, must be positive");
    /// A number of keys below one.
    pub const KEY_COUNT_NOT_POSITIVE: Fault = Fault::Text("ERR numkeys should be greater than 0");
    /// The number after COUNT is below one.
    pub const COUNT_NOT_POSITIVE: Fault = Fault::Text("ERR count should be greater than 0");
    /// The number after LIMIT is below zero.
    pub const NEGATIVE_LIMIT: Fault = Fault::Text("ERR LIMIT can't be negative");
    /// The key must exist.
    pub const NO_SUCH_KEY: Fault = Fault::Text("ERR no such key");
    /// A list index beyond the ends.
    pub const INDEX_OUT_OF_RANGE: Fault = Fault::Text("ERR index out of range");
    /// A database number that is not configured.
    pub const DB_OUT_OF_RANGE: Fault = Fault::Text("ERR DB index is out of range");
    /// A sum that leaves the 64-bit range.
    pub const OVERFLOW: Fault = Fault::Text("ERR increment or decrement would overflow");
    /// A float result without a value.
    pub const NAN_OR_INFINITY: Fault = Fault::Text("ERR increment would produce NaN or Infinity");
    /// A score that would become NaN.
    pub const NAN_SCORE: Fault = Fault::Text("ERR resulting score is not a number (NaN)");
    /// A cursor that is no number.
    pub const INVALID_CURSOR: Fault = Fault::Text("ERR invalid cursor");
    /// A string that would pass `proto-max-bulk-len`.
    pub const STRING_TOO_LONG: Fault =
        Fault::Text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    /// No authentication yet.
    pub const NO_AUTH: Fault = Fault::Text("NOAUTH Authentication required.");
    /// Writes are refused: `maxmemory` is reached and nothing may be evicted.
    pub const OOM: Fault = Fault::Text("OOM command not allowed when used memory > 'maxmemory'.");
    /// Keys of a command in cluster mode live in several slots.
    pub const CROSS_SLOT: Fault = Fault::Text("CROSSSLOT Keys in request don't hash to the same slot");

    /// A text made for the occasion.
    pub fn owned(text: impl Into<String>) -> Fault {
        Fault::Owned(text.into())
    }

    /// The command was called with too few or too many arguments. `name` as the table writes it;
    /// a subcommand is `container|sub`.
    pub fn wrong_arity(name: &str) -> Fault {
        Fault::Owned(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// The time given to an expiry option does not fit.
    pub fn invalid_expire(command: &str) -> Fault {
        Fault::Owned(format!("ERR invalid expire time in '{command}' command"))
    }

    /// `before`, then what the client sent, then `after`. As Redis, which formats C strings, the quote
    /// ends at a NUL byte.
    pub fn quoting(before: &str, client_bytes: &[u8], after: &str) -> Fault {
        let quoted = quotable(client_bytes, usize::MAX);
        Fault::Quoting([before.as_bytes(), quoted, after.as_bytes()].concat())
    }

    /// A subcommand that `container` does not have. The quote has at most [`QUOTE_BYTES_MAX`] bytes.
    pub fn unknown_subcommand(container: &str, word: &[u8]) -> Fault {
        Fault::quoting("ERR unknown subcommand '", clipped(word), &format!("'. Try {container} HELP."))
    }

    /// A subcommand of `container` whose arguments do not fit, or that is not there. Clipped as above.
    pub fn wrong_subcommand(container: &str, word: &[u8]) -> Fault {
        let before = "ERR unknown subcommand or wrong number of arguments for '";
        Fault::quoting(before, clipped(word), &format!("'. Try {container} HELP."))
    }

    /// The whole error text.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Fault::Text(text) => text.as_bytes(),
            Fault::Owned(text) => text.as_bytes(),
            Fault::Quoting(bytes) => bytes,
        }
    }

    /// True if it tells where in a cluster a command is run, or that it cannot be: such an error is not wrapped in others.
    pub(crate) fn sends_elsewhere(&self) -> bool {
        matches!(self.code(), "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "CROSSSLOT")
    }

    /// The first word, by which INFO counts errors.
    pub fn code(&self) -> &str {
        let word = self.bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        std::str::from_utf8(word).unwrap_or("ERR")
    }
}

/// Bytes that an error text quotes of the name of a command or subcommand, and of all arguments together.
pub const QUOTE_BYTES_MAX: usize = 128;

/// The part of a client's bytes that an error text may quote.
pub fn quotable(client_bytes: &[u8], bytes_max: usize) -> &[u8] {
    let clipped = &client_bytes[..client_bytes.len().min(bytes_max)];
    let end = clipped.iter().position(|byte| *byte == 0).unwrap_or(clipped.len());
    &clipped[..end]
}

fn clipped(name: &[u8]) -> &[u8] {
    quotable(name, QUOTE_BYTES_MAX)
}

impl From<Cow<'static, str>> for Fault {
    fn from(text: Cow<'static, str>) -> Fault {
        match text {
            Cow::Borrowed(text) => Fault::Text(text),
            Cow::Owned(text) => Fault::Owned(text),
        }
    }
}
