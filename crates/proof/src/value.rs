//! What the comparison asks of a reply: its texts, its type, its compact notation.

use resp::Value;

use crate::words;

/// Questions about a reply.
pub trait Reply {
    /// Whether this is an error reply.
    fn is_error(&self) -> bool;
    /// The text of a string-like reply (bulk, status, double, verbatim ...), or the digits of a number.
    fn text(&self) -> Option<Vec<u8>>;
    /// The number of an integer reply.
    fn int(&self) -> Option<i64>;
    /// The direct children of an aggregate; a map's keys and values take turns.
    fn children(&self) -> Option<Vec<&Value>>;
    /// Every leaf text of a nested reply, left to right; nulls are skipped.
    fn leaves(&self) -> Vec<Vec<u8>>;
    /// The name of the reply's type, as `@type-only` compares it.
    fn kind(&self) -> &'static str;
    /// The compact notation of `@expect`: `:1`, `+OK`, `$foo`, `*2 $a $b`, `-ERR ...`.
    fn notation(&self) -> String;
    /// Bytes that are equal exactly for equal replies: what unordered elements are sorted by.
    fn sort_key(&self) -> Vec<u8>;
}

impl Reply for Value {
    fn is_error(&self) -> bool {
        matches!(self, Value::Error(_) | Value::BulkError(_))
    }

    fn text(&self) -> Option<Vec<u8>> {
        match self {
            Value::Int(number) => Some(number.to_string().into_bytes()),
            other => other.as_bytes().map(<[u8]>::to_vec),
        }
    }

    fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    fn children(&self) -> Option<Vec<&Value>> {
        match self {
            Value::Map(pairs) => Some(pairs.iter().flat_map(|(key, value)| [key, value]).collect()),
            other => other.as_elements().map(|elements| elements.iter().collect()),
        }
    }

    fn leaves(&self) -> Vec<Vec<u8>> {
        match self.children() {
            Some(children) => children.iter().flat_map(|child| child.leaves()).collect(),
            None => self.text().into_iter().collect(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Simple(_) => "status",
            Value::Error(_) => "error",
            Value::BulkError(_) => "bulk error",
            Value::Int(_) => "int",
            Value::Bulk(_) => "bulk",
            Value::Double(_) => "double",
            Value::BigNumber(_) => "big number",
            Value::Verbatim(..) => "verbatim",
            Value::Bool(_) => "bool",
            Value::NullBulk => "null bulk",
            Value::NullArray => "null array",
            Value::Null => "null",
            Value::Array(_) => "array",
            Value::Map(_) => "map",
            Value::Set(_) => "set",
            Value::Push(_) => "push",
            Value::Attribute(..) => "attribute",
        }
    }

    fn notation(&self) -> String {
        let many = |sigil: char, count: usize, items: &[&Value]| {
            let items: String = items.iter().map(|item| format!(" {}", item.notation())).collect();
            format!("{sigil}{count}{items}")
        };
        let children = self.children().unwrap_or_default();
        match self {
            Value::Simple(text) => format!("+{}", String::from_utf8_lossy(text)),
            Value::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
            Value::BulkError(text) => format!("!{}", words::quote(text)),
            Value::Int(number) => format!(":{number}"),
            Value::Bulk(text) => format!("${}", words::quote(text)),
            Value::Double(text) => format!(",{}", String::from_utf8_lossy(text)),
            Value::BigNumber(text) => format!("({}", String::from_utf8_lossy(text)),
            Value::Verbatim(kind, text) => {
                format!("={}:{}", String::from_utf8_lossy(kind), words::quote(text))
            }
            Value::Bool(yes) => format!("#{}", if *yes { 't' } else { 'f' }),
            Value::NullBulk => "$-1".to_owned(),
            Value::NullArray => "*-1".to_owned(),
            Value::Null => "_".to_owned(),
            Value::Array(_) => many('*', children.len(), &children),
            Value::Set(_) => many('~', children.len(), &children),
            Value::Push(_) => many('>', children.len(), &children),
            Value::Map(pairs) => many('%', pairs.len(), &children),
            Value::Attribute(_, inner) => format!("| {}", inner.notation()),
        }
    }

    fn sort_key(&self) -> Vec<u8> {
        let mut key = format!("{} ", self.kind()).into_bytes();
        match (self.children(), self) {
            (Some(children), _) => {
                for child in children {
                    let child = child.sort_key();
                    key.extend(format!("{} ", child.len()).into_bytes());
                    key.extend(child);
                }
            }
            (None, Value::Bool(yes)) => key.push(u8::from(*yes)),
            (None, other) => key.extend(other.text().unwrap_or_default()),
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_notation() {
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
            let parsed = resp::parse::parse(wire.as_bytes()).expect(wire).expect(wire);
            assert_eq!((parsed.0.notation().as_str(), parsed.1), (notation, wire.len()), "{wire:?}");
        }
    }
}
