//! Writing replies: one set of verbs for RESP2 and RESP3.

use base::limits::{OUTPUT_HIGH_WATER_BYTES, SHARE_BYTES_MIN, STREAM_PIECE_BYTES};
use resp::{Encoder, Proto};

use crate::output::{Output, Stream};
use crate::value::Str;

/// Where a command writes its reply.
pub struct Reply<'a> {
    out: &'a mut Output,
    proto: Proto,
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*);)*) => {
        $($(#[$doc])* #[inline] pub fn $name(&mut self, $($arg: $type),*) { self.encoder().$name($($arg),*) })*
    };
}

impl<'a> Reply<'a> {
    /// Replies go to the end of `out`.
    #[inline]
    pub fn new(out: &'a mut Output, proto: Proto) -> Reply<'a> {
        Reply { out, proto }
    }

    /// The protocol version of the connection.
    #[inline]
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// From now on, replies are of this version (HELLO).
    pub fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
    }

    /// The queue itself.
    pub fn output(&mut self) -> &mut Output {
        self.out
    }

    /// An encoder at the end of the reply.
    #[inline]
    pub fn encoder(&mut self) -> Encoder<'_> {
        Encoder::new(self.out.tail(), self.proto)
    }

    verbs! {
        /// A status line.
        simple(text: &str);
        /// An error; `text` without the `-`.
        error(text: &str);
        /// An integer.
        int(n: i64);
        /// A byte string.
        bulk(bytes: &[u8]);
        /// An integer as a byte string.
        bulk_int(n: i64);
        /// Nothing.
        null();
        /// Nothing, where an array was expected.
        null_array();
        /// The head of an array of `len` elements.
        array(len: usize);
        /// The head of a map of `pairs` pairs (RESP2: an array of twice as many).
        map(pairs: usize);
        /// The head of a set (RESP2: an array).
        set(len: usize);
        /// The head of a push message (RESP2: an array).
        push(len: usize);
        /// A boolean (RESP2: 1 or 0).
        bool(value: bool);
        /// A float (RESP2: a byte string).
        double(value: f64);
        /// A text with its format, such as `txt` (RESP2: a byte string).
        verbatim(format: &str, text: &[u8]);
        /// An integer of any size (RESP2: a byte string).
        big_number(digits: &str);
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.tail().extend_from_slice(b"+OK\r\n");
    }

    /// A byte string from text.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// An array without elements.
    pub fn empty_array(&mut self) {
        self.array(0);
    }

    /// The head of an array of `count` elements, or of so many pairs: RESP2 has them one after the other, RESP3 as
    /// arrays of two.
    pub fn array_of(&mut self, count: usize, in_pairs: bool) {
        let is_flat = in_pairs && self.proto == Proto::V2;
        self.array(if is_flat { 2 * count } else { count });
    }

    /// An array of status lines: what HELP subcommands print.
    pub fn status_lines<L: AsRef<str>>(&mut self, lines: &[L]) {
        self.array(lines.len());
        lines.iter().for_each(|line| self.simple(line.as_ref()));
    }

    /// A string value; the chunks of a big one are shared with the store, not copied.
    #[inline]
    pub fn bulk_str(&mut self, value: Str<'_>) {
        match value {
            Str::Inline(bytes) => self.bulk(bytes),
            Str::Long(long) => {
                // In a reply over the high-water mark, memory is dearer than a system call's slices.
                if long.len() < SHARE_BYTES_MIN && self.out.pending_bytes() <= OUTPUT_HIGH_WATER_BYTES {
                    self.bulk(&long.to_vec());
                    return;
                }
                self.encoder().bulk_header(long.len());
                long.chunks(0).for_each(|chunk| self.out.push_chunk(chunk));
                self.out.tail().extend_from_slice(b"\r\n");
            }
        }
    }

    /// The elements of a reply whose head was written. A short one is written here; of a long one, a
    /// piece whenever the connection has room for it.
    pub fn stream(&mut self, mut stream: impl Stream + 'static) {
        let start = self.out.pending_bytes();
        while self.out.pending_bytes() - start < STREAM_PIECE_BYTES {
            if !stream.fill(&mut self.encoder()) {
                return;
            }
        }
        self.out.push_stream(Box::new(stream), self.proto);
    }
}
