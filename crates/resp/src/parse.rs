//! Reading of replies, for tests, tools and links to other servers: every type of RESP2 and RESP3 becomes a [`Value`].
//! Nothing is lost: two replies are equal as values exactly when they are equal on the wire, but for leading zeros and
//! plus signs of numbers.

use std::fmt;

use base::limits::INLINE_BYTES_MAX;

/// Deepest nesting that is read. Replies of commands stay below ten; those that scripts make may be nested 1,000 deep.
pub const REPLY_DEPTH_MAX: usize = 1_100;

/// One reply, or one element of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `+`: a status.
    Simple(Vec<u8>),
    /// `-`: an error, its code first.
    Error(Vec<u8>),
    /// `:`: a whole number.
    Int(i64),
    /// `$`: a string of bytes.
    Bulk(Vec<u8>),
    /// `$-1`: RESP2's null string.
    NullBulk,
    /// `*-1`: RESP2's null array.
    NullArray,
    /// `_`: RESP3's null.
    Null,
    /// `*`: elements in order.
    Array(Vec<Value>),
    /// `%`: keys with values.
    Map(Vec<(Value, Value)>),
    /// `~`: elements in no order.
    Set(Vec<Value>),
    /// `>`: a message no request asked for.
    Push(Vec<Value>),
    /// `|`: remarks, and the reply they are about.
    Attribute(Vec<(Value, Value)>, Box<Value>),
    /// `#`: a truth value.
    Bool(bool),
    /// `,`: a float, as its text.
    Double(Vec<u8>),
    /// `(`: a whole number of any size, as its text.
    BigNumber(Vec<u8>),
    /// `=`: a text and its three-letter kind.
    Verbatim([u8; 3], Vec<u8>),
    /// `!`: an error with any bytes.
    BulkError(Vec<u8>),
}

impl Value {
    /// Whether this is a null of any kind.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::NullBulk | Value::NullArray)
    }

    /// The bytes of a status, string, verbatim text, float, big number or error.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(bytes)
            | Value::Error(bytes)
            | Value::Bulk(bytes)
            | Value::Double(bytes)
            | Value::BigNumber(bytes)
            | Value::Verbatim(_, bytes)
            | Value::BulkError(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements of an array, set or push.
    pub fn as_elements(&self) -> Option<&[Value]> {
        match self {
            Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => Some(elements),
            _ => None,
        }
    }
}

/// Why bytes are not a reply.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// No type starts with this byte.
    UnknownType(u8),
    /// A number, length or other line that cannot be.
    BadLine,
    /// A string is not followed by `\r\n`.
    BadEnd,
    /// Nested deeper than [`REPLY_DEPTH_MAX`].
    TooDeep,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::UnknownType(byte) => write!(f, "unknown reply type '{}'", byte.escape_ascii()),
            ParseError::BadLine => f.write_str("malformed number or length in a reply"),
            ParseError::BadEnd => f.write_str("a string in a reply does not end where it should"),
            ParseError::TooDeep => f.write_str("a reply is nested too deeply"),
        }
    }
}

impl std::error::Error for ParseError {}

/// Reads one reply from the front of `input`: the value and its size in bytes; None while it is not whole. Starts from
/// the first byte each time, so whoever expects huge replies should read much before asking again.
pub fn parse(input: &[u8]) -> Result<Option<(Value, usize)>, ParseError> {
    let mut reader = Reader { input, at: 0 };
    let value = reader.value(0)?;
    Ok(value.map(|value| (value, reader.at)))
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

/// What reading an element gives: None when the input ends before it does.
type Maybe<T> = Result<Option<T>, ParseError>;

/// `?` for a [`Maybe`].
macro_rules! whole {
    ($read:expr) => {
        match $read? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Maybe<Value> {
        if depth > REPLY_DEPTH_MAX {
            return Err(ParseError::TooDeep);
        }
        let Some(&kind) = self.input.get(self.at) else { return Ok(None) };
        if !b"+-:$*%~>|_#,(=!".contains(&kind) {
            return Err(ParseError::UnknownType(kind));
        }
        let line = whole!(self.line());
        let text = &line[1..];
        Ok(Some(match kind {
            b'+' => Value::Simple(text.to_vec()),
            b'-' => Value::Error(text.to_vec()),
            b',' => Value::Double(text.to_vec()),
            b'(' => Value::BigNumber(text.to_vec()),
            b':' => Value::Int(number(text)?),
            b'_' if text.is_empty() => Value::Null,
            b'#' if text == b"t" => Value::Bool(true),
            b'#' if text == b"f" => Value::Bool(false),
            b'$' if text == b"-1" => Value::NullBulk,
            b'*' if text == b"-1" => Value::NullArray,
            b'$' => Value::Bulk(whole!(self.bytes(text)).to_vec()),
            b'!' => Value::BulkError(whole!(self.bytes(text)).to_vec()),
            b'=' => match whole!(self.bytes(text)) {
                [a, b, c, b':', text @ ..] => Value::Verbatim([*a, *b, *c], text.to_vec()),
                _ => return Err(ParseError::BadLine),
            },
            b'*' => Value::Array(whole!(self.elements(text, depth))),
            b'~' => Value::Set(whole!(self.elements(text, depth))),
            b'>' => Value::Push(whole!(self.elements(text, depth))),
            b'%' => Value::Map(whole!(self.pairs(text, depth))),
            b'|' => {
                let remarks = whole!(self.pairs(text, depth));
                Value::Attribute(remarks, Box::new(whole!(self.value(depth + 1))))
            }
            _ => return Err(ParseError::BadLine),
        }))
    }

    /// The next line, its type byte included, its end not.
    fn line(&mut self) -> Maybe<&'a [u8]> {
        let rest = &self.input[self.at..];
        let Some(line) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            // Statuses and errors have no limit on the wire; what is not even a line after this is not a reply.
            return if rest.len() > 64 * INLINE_BYTES_MAX { Err(ParseError::BadLine) } else { Ok(None) };
        };
        self.at += line + 2;
        Ok(Some(&rest[..line]))
    }

    fn bytes(&mut self, len: &[u8]) -> Maybe<&'a [u8]> {
        let len = length(len)?;
        let rest = &self.input[self.at..];
        let Some(end) = rest.get(len..).and_then(|end| end.get(..2)) else { return Ok(None) };
        if end != b"\r\n" {
            return Err(ParseError::BadEnd);
        }
        self.at += len + 2;
        Ok(Some(&rest[..len]))
    }

    fn elements(&mut self, len: &[u8], depth: usize) -> Maybe<Vec<Value>> {
        // Grown as elements come: the announced length allocates nothing.
        let mut elements = Vec::new();
        for _ in 0..length(len)? {
            elements.push(whole!(self.value(depth + 1)));
        }
        Ok(Some(elements))
    }

    fn pairs(&mut self, len: &[u8], depth: usize) -> Maybe<Vec<(Value, Value)>> {
        let mut pairs = Vec::new();
        for _ in 0..length(len)? {
            pairs.push((whole!(self.value(depth + 1)), whole!(self.value(depth + 1))));
        }
        Ok(Some(pairs))
    }
}

fn number(text: &[u8]) -> Result<i64, ParseError> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(ParseError::BadLine)
}

fn length(text: &[u8]) -> Result<usize, ParseError> {
    usize::try_from(number(text)?).map_err(|_| ParseError::BadLine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn every_type_and_every_prefix_of_it() {
        let cases: Vec<(&str, Value)> = vec![
            ("+OK\r\n", Value::Simple(b"OK".to_vec())),
            ("-ERR no\r\n", Value::Error(b"ERR no".to_vec())),
            (":-5\r\n", Value::Int(-5)),
            ("$5\r\na\r\nbc\r\n", bulk("a\r\nbc")),
            ("$0\r\n\r\n", bulk("")),
            ("$-1\r\n", Value::NullBulk),
            ("*-1\r\n", Value::NullArray),
            ("_\r\n", Value::Null),
            ("#t\r\n", Value::Bool(true)),
            ("#f\r\n", Value::Bool(false)),
            (",inf\r\n", Value::Double(b"inf".to_vec())),
            ("(123456789012345678901\r\n", Value::BigNumber(b"123456789012345678901".to_vec())),
            ("=7\r\ntxt:a\nb\r\n", Value::Verbatim(*b"txt", b"a\nb".to_vec())),
            ("!5\r\nERR x\r\n", Value::BulkError(b"ERR x".to_vec())),
            ("*0\r\n", Value::Array(vec![])),
            (
                "*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
                Value::Array(vec![Value::Array(vec![Value::Int(1)]), bulk("a")]),
            ),
            ("~1\r\n$1\r\na\r\n", Value::Set(vec![bulk("a")])),
            (">1\r\n$1\r\na\r\n", Value::Push(vec![bulk("a")])),
            ("%1\r\n$1\r\na\r\n:1\r\n", Value::Map(vec![(bulk("a"), Value::Int(1))])),
            ("|1\r\n+a\r\n:1\r\n:2\r\n", {
                let remark = (Value::Simple(b"a".to_vec()), Value::Int(1));
                Value::Attribute(vec![remark], Box::new(Value::Int(2)))
            }),
        ];
        for (wire, value) in cases {
            let wire = wire.as_bytes();
            for end in 0..wire.len() {
                assert_eq!(parse(&wire[..end]), Ok(None), "{}", wire[..end].escape_ascii());
            }
            let followed = [wire, b"+more\r\n"].concat();
            assert_eq!(parse(&followed), Ok(Some((value, wire.len()))), "{}", wire.escape_ascii());
        }
    }

    #[test]
    fn malformed_replies() {
        let deep = "*1\r\n".repeat(REPLY_DEPTH_MAX + 2);
        let cases = [
            ("x\r\n", ParseError::UnknownType(b'x')),
            (":a\r\n", ParseError::BadLine),
            ("$-2\r\n", ParseError::BadLine),
            ("*99999999999999999999\r\n", ParseError::BadLine),
            ("_x\r\n", ParseError::BadLine),
            ("#x\r\n", ParseError::BadLine),
            ("=2\r\nab\r\n", ParseError::BadLine),
            ("$1\r\nabc", ParseError::BadEnd),
            (&deep, ParseError::TooDeep),
        ];
        for (wire, error) in cases {
            assert_eq!(parse(wire.as_bytes()), Err(error), "{wire:?}");
        }
        assert_eq!(parse(b"*9223372036854775807\r\n"), Ok(None));
    }

    #[test]
    fn nulls_and_views() {
        assert!(Value::NullBulk.is_null() && !Value::Int(0).is_null());
        assert_eq!(bulk("a").as_bytes(), Some(&b"a"[..]));
        assert_eq!(Value::Int(1).as_bytes(), None);
        assert_eq!(Value::Set(vec![Value::Null]).as_elements(), Some(&[Value::Null][..]));
    }
}
