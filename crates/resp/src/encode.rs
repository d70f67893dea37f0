//! Encoding of replies, in RESP2 or RESP3: every method appends one whole element, or the header of an aggregate whose
//! elements the caller appends next.

use base::num::write_f64;

/// `+OK\r\n`
pub const OK: &[u8] = b"+OK\r\n";
/// `+PONG\r\n`
pub const PONG: &[u8] = b"+PONG\r\n";
/// `+QUEUED\r\n`
pub const QUEUED: &[u8] = b"+QUEUED\r\n";

pub(crate) const CRLF: &[u8; 2] = b"\r\n";
/// Longest header: a type byte, 20 digits, `\r\n`.
const HEADER_BYTES_MAX: usize = 24;

/// Which version of the protocol a connection speaks.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Proto {
    /// RESP2: what every connection starts with.
    #[default]
    V2,
    /// RESP3, after `HELLO 3`.
    V3,
}

/// Appends replies to `out`.
#[derive(Debug)]
pub struct Encoder<'a> {
    /// Where the bytes go. Bytes that are encoded already may be appended directly.
    pub out: &'a mut Vec<u8>,
    /// The connection's protocol.
    pub proto: Proto,
}

impl<'a> Encoder<'a> {
    /// An encoder that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, proto: Proto) -> Encoder<'a> {
        Encoder { out, proto }
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(OK);
    }

    /// Bytes that are a reply already.
    #[inline]
    pub fn raw(&mut self, encoded: &[u8]) {
        self.out.extend_from_slice(encoded);
    }

    /// A status. `text` has no line breaks.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']), "a status is one line");
        self.line(b'+', text.as_bytes());
    }

    /// An error: `text` starts with its code (`ERR ...`), without `-`. Line breaks become spaces.
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// An error whose text quotes bytes of a client. As Redis does, line breaks at its ends go, others become spaces.
    pub fn error_bytes(&mut self, text: &[u8]) {
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = text.iter().position(|byte| !is_break(byte)).unwrap_or(text.len());
        let end = text.iter().rposition(|byte| !is_break(byte)).map_or(start, |last| last + 1);
        self.out.reserve(end - start + 3);
        self.out.push(b'-');
        self.out.extend(text[start..end].iter().map(|byte| if is_break(byte) { b' ' } else { *byte }));
        self.out.extend_from_slice(CRLF);
    }

    /// A whole number.
    #[inline]
    pub fn int(&mut self, value: i64) {
        match value {
            0 => self.out.extend_from_slice(b":0\r\n"),
            1 => self.out.extend_from_slice(b":1\r\n"),
            _ => self.number_line(b':', value),
        }
    }

    /// A string of bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + HEADER_BYTES_MAX + CRLF.len());
        self.bulk_header(bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(CRLF);
    }

    /// The header of a string of `len` bytes; the caller appends them, and `\r\n`.
    #[inline]
    pub fn bulk_header(&mut self, len: usize) {
        match len {
            0..10 => self.out.extend_from_slice(&[b'$', b'0' + len as u8, b'\r', b'\n']),
            10..100 => {
                let (tens, ones) = (b'0' + (len / 10) as u8, b'0' + (len % 10) as u8);
                self.out.extend_from_slice(&[b'$', tens, ones, b'\r', b'\n']);
            }
            _ => self.number_line(b'$', len as i64),
        }
    }

    /// A whole number as a string.
    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A string, or null.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Null, where a string could be.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.proto {
            Proto::V2 => b"$-1\r\n",
            Proto::V3 => b"_\r\n",
        });
    }

    /// Null, where an array could be.
    #[inline]
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.proto {
            Proto::V2 => b"*-1\r\n",
            Proto::V3 => b"_\r\n",
        });
    }

    /// The header of an array of `len` elements.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.number_line(b'*', len as i64);
    }

    /// The header of `pairs` keys, each with its value after it. RESP2: an array of twice as many elements.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        match self.proto {
            Proto::V2 => self.array(pairs * 2),
            Proto::V3 => self.number_line(b'%', pairs as i64),
        }
    }

    /// The header of a set of `len` elements. RESP2: an array.
    #[inline]
    pub fn set(&mut self, len: usize) {
        match self.proto {
            Proto::V2 => self.array(len),
            Proto::V3 => self.number_line(b'~', len as i64),
        }
    }

    /// The header of a message of `len` elements that no request asked for. RESP2: an array.
    #[inline]
    pub fn push(&mut self, len: usize) {
        match self.proto {
            Proto::V2 => self.array(len),
            Proto::V3 => self.number_line(b'>', len as i64),
        }
    }

    /// A truth value. RESP2: 1 or 0.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        match self.proto {
            Proto::V2 => self.int(i64::from(value)),
            Proto::V3 => self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// A float, printed as [`write_f64`] does. RESP2: a string.
    pub fn double(&mut self, value: f64) {
        match self.proto {
            Proto::V2 => {
                let mut text = Vec::with_capacity(HEADER_BYTES_MAX);
                write_f64(&mut text, value);
                self.bulk(&text);
            }
            Proto::V3 => {
                self.out.push(b',');
                write_f64(self.out, value);
                self.out.extend_from_slice(CRLF);
            }
        }
    }

    /// A float that is printed already. RESP2: a string.
    pub fn double_text(&mut self, digits: &[u8]) {
        match self.proto {
            Proto::V2 => self.bulk(digits),
            Proto::V3 => self.line(b',', digits),
        }
    }

    /// A whole number of any size, in decimal. RESP2: a string.
    pub fn big_number(&mut self, digits: &str) {
        match self.proto {
            Proto::V2 => self.bulk(digits.as_bytes()),
            Proto::V3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// A text to be shown as it is; `format` is its three-letter kind (`txt`, `mkd`). RESP2: a string.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        debug_assert_eq!(format.len(), 3);
        match self.proto {
            Proto::V2 => self.bulk(text),
            Proto::V3 => {
                self.out.reserve(text.len() + HEADER_BYTES_MAX + format.len() + 1 + CRLF.len());
                self.number_line(b'=', (text.len() + format.len() + 1) as i64);
                self.out.extend_from_slice(format.as_bytes());
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(CRLF);
            }
        }
    }

    /// A type byte, a number, and the end of the line, appended at once.
    #[inline]
    fn number_line(&mut self, kind: u8, value: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(value).as_bytes();
        let mut line = [0u8; HEADER_BYTES_MAX];
        line[0] = kind;
        line[1..1 + digits.len()].copy_from_slice(digits);
        line[1 + digits.len()..3 + digits.len()].copy_from_slice(CRLF);
        self.out.extend_from_slice(&line[..3 + digits.len()]);
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.reserve(text.len() + 1 + CRLF.len());
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(CRLF);
    }
}

/// Appends a command as a client sends it: an array of strings.
pub fn write_command<I>(out: &mut Vec<u8>, args: I)
where
    I: IntoIterator,
    I::IntoIter: ExactSizeIterator,
    I::Item: AsRef<[u8]>,
{
    let args = args.into_iter();
    let mut encoder = Encoder::new(out, Proto::V2);
    encoder.array(args.len());
    for arg in args {
        encoder.bulk(arg.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_protocols() {
        type Write = fn(&mut Encoder<'_>);
        let cases: &[(Write, &str, &str)] = &[
            (|e| e.simple("PONG"), "+PONG\r\n", "+PONG\r\n"),
            (|e| e.error("ERR a\r\nb\r\n"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (|e| e.error_bytes(b"\n"), "-\r\n", "-\r\n"),
            (|e| e.int(0), ":0\r\n", ":0\r\n"),
            (|e| e.int(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|e| e.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|e| e.bulk(b"0123456789"), "$10\r\n0123456789\r\n", "$10\r\n0123456789\r\n"),
            (|e| e.bulk_header(99), "$99\r\n", "$99\r\n"),
            (|e| e.bulk_header(100), "$100\r\n", "$100\r\n"),
            (|e| e.bulk_int(-12), "$3\r\n-12\r\n", "$3\r\n-12\r\n"),
            (|e| e.bulk_or_null(None), "$-1\r\n", "_\r\n"),
            (|e| e.null_array(), "*-1\r\n", "_\r\n"),
            (|e| e.array(12), "*12\r\n", "*12\r\n"),
            (|e| e.map(3), "*6\r\n", "%3\r\n"),
            (|e| e.set(3), "*3\r\n", "~3\r\n"),
            (|e| e.push(3), "*3\r\n", ">3\r\n"),
            (|e| e.bool(true), ":1\r\n", "#t\r\n"),
            (|e| e.bool(false), ":0\r\n", "#f\r\n"),
            (|e| e.double(3.3), "$18\r\n3.2999999999999998\r\n", ",3.2999999999999998\r\n"),
            (|e| e.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
            (|e| e.big_number("123"), "$3\r\n123\r\n", "(123\r\n"),
            (|e| e.verbatim("txt", b"a\nb"), "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"),
            (|e| e.ok(), "+OK\r\n", "+OK\r\n"),
            (|e| e.raw(QUEUED), "+QUEUED\r\n", "+QUEUED\r\n"),
        ];
        for &(write, v2, v3) in cases {
            for (proto, expected) in [(Proto::V2, v2), (Proto::V3, v3)] {
                let mut out = Vec::new();
                write(&mut Encoder::new(&mut out, proto));
                assert_eq!(
                    out.escape_ascii().to_string(),
                    expected.escape_default().to_string(),
                    "{proto:?}"
                );
            }
        }
    }

    #[test]
    fn every_length_has_its_header() {
        for len in (0..1200).chain([9_999, 10_000, 536_870_912]) {
            let mut out = Vec::new();
            Encoder::new(&mut out, Proto::V2).bulk_header(len);
            assert_eq!(out, format!("${len}\r\n").as_bytes());
        }
    }

    #[test]
    fn commands() {
        let mut out = Vec::new();
        write_command(&mut out, ["GET", "k"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    }
}
