//! Inline commands: a line of words as a person types it into a plain connection. Words stand between spaces; in double
//! quotes, `\n \r \t \b \a \xHH` and `\` before any other byte are escapes; in single quotes, only `\'` is one. A
//! closing quote must be followed by a space or the end of the line.

use crate::args::Span;

/// Splits a line that has no quotes: spans of `line`, moved by `base`.
pub(crate) fn split_plain(line: &[u8], base: usize, spans: &mut Vec<Span>) {
    let mut at = 0;
    while let Some(start) = line[at..].iter().position(|&byte| !is_space(byte)).map(|skipped| at + skipped) {
        let rest = &line[start..];
        let len = rest.iter().position(|&byte| ends_word(byte)).unwrap_or(rest.len());
        spans.push(Span { start: base + start, len });
        at = start + len;
    }
}

/// Whether a line needs [`split_quoted`].
pub(crate) fn has_quotes(line: &[u8]) -> bool {
    line.iter().any(|byte| matches!(byte, b'"' | b'\''))
}

/// Splits a line with quotes, unescaped into `side`: spans of `side`. False when quotes are unbalanced; `spans` and
/// `side` are then left with words to be thrown away.
#[must_use]
pub(crate) fn split_quoted(line: &[u8], side: &mut Vec<u8>, spans: &mut Vec<Span>) -> bool {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|&byte| is_space(byte)) {
            at += 1;
        }
        if at == line.len() {
            return true;
        }
        let start = side.len();
        match unescape_word(&line[at..], side) {
            Some(word_bytes) => at += word_bytes,
            None => return false,
        }
        spans.push(Span { start, len: side.len() - start });
    }
}

/// Appends the first word of `text`, unescaped; returns how many bytes of `text` it took. None: unbalanced quotes.
fn unescape_word(text: &[u8], side: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let quoted_bytes = match byte {
            b'"' => unescape_double(&text[at + 1..], side)?,
            b'\'' => unescape_single(&text[at + 1..], side)?,
            byte if ends_word(byte) => break,
            byte => {
                side.push(byte);
                at += 1;
                continue;
            }
        };
        at += 1 + quoted_bytes;
        return text.get(at).is_none_or(|&next| is_space(next)).then_some(at);
    }
    Some(at)
}

/// `text` starts after the opening quote; returns the bytes up to and with the closing one.
fn unescape_double(text: &[u8], side: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        let (byte, taken) = match &text[at..] {
            [] => return None,
            [b'"', ..] => return Some(at + 1),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_value(*high) << 4 | hex_value(*low), 4)
            }
            [b'\\', escaped, ..] => (escape_value(*escaped), 2),
            [byte, ..] => (*byte, 1),
        };
        side.push(byte);
        at += taken;
    }
}

/// As [`unescape_double`], for single quotes.
fn unescape_single(text: &[u8], side: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        let (byte, taken) = match &text[at..] {
            [] => return None,
            [b'\'', ..] => return Some(at + 1),
            [b'\\', b'\'', ..] => (b'\'', 2),
            [byte, ..] => (*byte, 1),
        };
        side.push(byte);
        at += taken;
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn escape_value(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// What may stand before a word: C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// What ends a word without quotes: less than `isspace`.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
