//! One reply, kept so close to the wire that two replies are equal exactly when their bytes are
//! (sets and maps of RESP3 included: their order is kept, and forgotten only by `rules`).

use std::fmt;

use crate::words;

/// A parsed RESP2 or RESP3 reply. Texts are the raw bytes; doubles keep their spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Int(i64),
    Bulk(Vec<u8>),
    Double(Vec<u8>),
    BigNumber(Vec<u8>),
    Verbatim(Vec<u8>),
    Bool(bool),
    NullBulk,
    NullArray,
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Push(Vec<Value>),
}

/// Why bytes could not be read as a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The reply is not complete yet.
    Incomplete,
    /// The bytes are no RESP at all; the text says where.
    Malformed(String),
}

impl Value {
    /// Reads one reply from the front of `bytes`; also says how many bytes it took.
    pub fn parse(bytes: &[u8]) -> Result<(Value, usize), ParseError> {
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.value(0)?;
        Ok((value, reader.at))
    }

    /// Whether this is an error reply.
    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error(_))
    }

    /// The text of a string-like reply (bulk, simple, double, verbatim ...), or the digits of a number.
    pub fn text(&self) -> Option<Vec<u8>> {
        match self {
            Value::Simple(text)
            | Value::Error(text)
            | Value::Bulk(text)
            | Value::Double(text)
            | Value::BigNumber(text)
            | Value::Verbatim(text) => Some(text.clone()),
            Value::Int(number) => Some(number.to_string().into_bytes()),
            _ => None,
        }
    }

    /// The number of an integer reply.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The direct children of an aggregate; a map's keys and values take turns.
    pub fn children(&self) -> Option<Vec<&Value>> {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => Some(items.iter().collect()),
            Value::Map(pairs) => Some(pairs.iter().flat_map(|(key, value)| [key, value]).collect()),
            _ => None,
        }
    }

    /// Every leaf text of a nested reply, left to right; nulls are skipped.
    pub fn leaves(&self) -> Vec<Vec<u8>> {
        match self.children() {
            Some(children) => children.iter().flat_map(|child| child.leaves()).collect(),
            None => self.text().into_iter().collect(),
        }
    }

    /// The name of the reply's type, as `@type-only` compares it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Simple(_) => "simple",
            Value::Error(_) => "error",
            Value::Int(_) => "int",
            Value::Bulk(_) => "bulk",
            Value::Double(_) => "double",
            Value::BigNumber(_) => "big number",
            Value::Verbatim(_) => "verbatim",
            Value::Bool(_) => "bool",
            Value::NullBulk => "null bulk",
            Value::NullArray => "null array",
            Value::Null => "null",
            Value::Array(_) => "array",
            Value::Map(_) => "map",
            Value::Set(_) => "set",
            Value::Push(_) => "push",
        }
    }
}

/// The compact notation of `@expect`: `:1`, `+OK`, `$foo`, `*2 $a $b`, `-ERR ...`.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |out: &mut fmt::Formatter<'_>, sigil: char, items: &[Value]| {
            write!(out, "{sigil}{}", items.len())?;
            items.iter().try_for_each(|item| write!(out, " {item}"))
        };
        match self {
            Value::Simple(text) => write!(out, "+{}", String::from_utf8_lossy(text)),
            Value::Error(text) => write!(out, "-{}", String::from_utf8_lossy(text)),
            Value::Int(number) => write!(out, ":{number}"),
            Value::Bulk(text) => write!(out, "${}", words::quote(text)),
            Value::Double(text) => write!(out, ",{}", String::from_utf8_lossy(text)),
            Value::BigNumber(text) => write!(out, "({}", String::from_utf8_lossy(text)),
            Value::Verbatim(text) => write!(out, "={}", words::quote(text)),
            Value::Bool(yes) => write!(out, "#{}", if *yes { 't' } else { 'f' }),
            Value::NullBulk => write!(out, "$-1"),
            Value::NullArray => write!(out, "*-1"),
            Value::Null => write!(out, "_"),
            Value::Array(items) => many(out, '*', items),
            Value::Set(items) => many(out, '~', items),
            Value::Push(items) => many(out, '>', items),
            Value::Map(pairs) => {
                write!(out, "%{}", pairs.len())?;
                pairs.iter().try_for_each(|(key, value)| write!(out, " {key} {value}"))
            }
        }
    }
}

/// Deeper nesting than any command replies with.
const DEPTH_MAX: usize = 32;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > DEPTH_MAX {
            return Err(ParseError::Malformed("nested too deep".into()));
        }
        let line = self.line()?;
        let Some((&sigil, rest)) = line.split_first() else {
            return Err(ParseError::Malformed("an empty line where a reply should start".into()));
        };
        match sigil {
            b'+' => Ok(Value::Simple(rest.to_vec())),
            b'-' => Ok(Value::Error(rest.to_vec())),
            b':' => Ok(Value::Int(number(rest)?)),
            b',' => Ok(Value::Double(rest.to_vec())),
            b'(' => Ok(Value::BigNumber(rest.to_vec())),
            b'_' => Ok(Value::Null),
            b'#' => match rest {
                b"t" => Ok(Value::Bool(true)),
                b"f" => Ok(Value::Bool(false)),
                _ => Err(malformed("boolean", rest)),
            },
            b'$' => match number(rest)? {
                -1 => Ok(Value::NullBulk),
                length => Ok(Value::Bulk(self.body(length)?.to_vec())),
            },
            b'=' => {
                let length = number(rest)?;
                Ok(Value::Verbatim(self.body(length)?.to_vec()))
            }
            b'*' => match number(rest)? {
                -1 => Ok(Value::NullArray),
                count => Ok(Value::Array(self.items(count, depth)?)),
            },
            b'~' => Ok(Value::Set(self.items(number(rest)?, depth)?)),
            b'>' => Ok(Value::Push(self.items(number(rest)?, depth)?)),
            b'%' => {
                let count = number(rest)?;
                let mut pairs = Vec::new();
                for _ in 0..count {
                    pairs.push((self.value(depth + 1)?, self.value(depth + 1)?));
                }
                Ok(Value::Map(pairs))
            }
            _ => Err(malformed("type byte", line)),
        }
    }

    fn items(&mut self, count: i64, depth: usize) -> Result<Vec<Value>, ParseError> {
        (0..count).map(|_| self.value(depth + 1)).collect()
    }

    fn line(&mut self) -> Result<&'a [u8], ParseError> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n').ok_or(ParseError::Incomplete)?;
        let line = rest[..end].strip_suffix(b"\r").ok_or_else(|| malformed("line end", &rest[..end]))?;
        self.at += end + 1;
        Ok(line)
    }

    fn body(&mut self, length: i64) -> Result<&'a [u8], ParseError> {
        let length = usize::try_from(length).map_err(|_| ParseError::Malformed("negative length".into()))?;
        let rest = &self.bytes[self.at..];
        if rest.len() < length + 2 {
            return Err(ParseError::Incomplete);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return Err(malformed("end of bulk", &rest[length..length + 2]));
        }
        self.at += length + 2;
        Ok(&rest[..length])
    }
}

fn malformed(what: &str, bytes: &[u8]) -> ParseError {
    ParseError::Malformed(format!("bad {what}: {}", words::quote(bytes)))
}

fn number(digits: &[u8]) -> Result<i64, ParseError> {
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed("number", digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_type_and_prints_its_notation() {
        for (wire, notation) in [
            ("+OK\r\n", "+OK"),
            ("-ERR no\r\n", "-ERR no"),
            (":-7\r\n", ":-7"),
            ("$3\r\na b\r\n", "$\"a b\""),
            ("$0\r\n\r\n", "$\"\""),
            ("$-1\r\n", "$-1"),
            ("*-1\r\n", "*-1"),
            ("_\r\n", "_"),
            (",1.5\r\n", ",1.5"),
            ("#t\r\n", "#t"),
            ("*2\r\n:1\r\n$1\r\na\r\n", "*2 :1 $a"),
            ("%1\r\n$1\r\na\r\n:1\r\n", "%1 $a :1"),
            ("~1\r\n+x\r\n", "~1 +x"),
            ("=5\r\ntxt:a\r\n", "=txt:a"),
        ] {
            let (value, used) = Value::parse(wire.as_bytes()).expect(wire);
            assert_eq!((value.to_string().as_str(), used), (notation, wire.len()), "{wire:?}");
            for cut in 0..wire.len() {
                assert_eq!(
                    Value::parse(&wire.as_bytes()[..cut]),
                    Err(ParseError::Incomplete),
                    "{wire:?} {cut}"
                );
            }
        }
        assert!(matches!(Value::parse(b"?\r\n"), Err(ParseError::Malformed(_))));
        assert!(matches!(Value::parse(b"$1\r\nabc\r\n"), Err(ParseError::Malformed(_))));
    }
}
