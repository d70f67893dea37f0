//! The small grammars of configuration files: words with quotes, numbers, bytes with units.

use std::io;

use base::num::parse_i64;

/// Cuts a line into words at blanks. `"..."` knows `\n \r \t \b \a \xHH` and `\` before anything else; `'...'`
/// knows `\'` only. A closing quote must end its word. `None`: the quotes are unbalanced.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        while let [blank, tail @ ..] = rest {
            if !is_blank(*blank) {
                break;
            }
            rest = tail;
        }
        if rest.is_empty() {
            return Some(words);
        }
        let (word, tail) = take_word(rest)?;
        words.push(word);
        rest = tail;
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn take_word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] | [0, ..] => return Some((word, &[])),
            [blank, tail @ ..] if is_blank(*blank) => return Some((word, tail)),
            [quote @ (b'"' | b'\''), tail @ ..] => {
                rest = take_quoted(&mut word, *quote, tail)?;
                return match rest {
                    [] => Some((word, rest)),
                    [blank, tail @ ..] if is_blank(*blank) => Some((word, tail)),
                    _ => None,
                };
            }
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

/// Appends what stands before the closing quote; gives what follows it.
fn take_quoted<'a>(word: &mut Vec<u8>, quote: u8, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [byte, tail @ ..] if *byte == quote => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex_digit(*high) * 16 + hex_digit(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = tail;
            }
            [b'\\', b'\'', tail @ ..] if quote == b'\'' => {
                word.push(b'\'');
                rest = tail;
            }
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// The word in double quotes, such that [`split_words`] gives it back and any editor shows it.
pub fn quoted(word: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for byte in word {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            _ => out.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
    out.push(b'"');
    out
}

/// A number as C's `strtoll` takes it when nothing may follow: blanks and a sign may lead, no digit means 0, what
/// is too large becomes the largest.
pub fn lenient_integer(word: &[u8], radix: u32) -> Option<i64> {
    if word.is_empty() {
        return Some(0);
    }
    let text = std::str::from_utf8(word).ok()?;
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0i64;
    for digit in digits.chars() {
        let digit = i64::from(digit.to_digit(radix)?);
        number = number.saturating_mul(i64::from(radix));
        number = if negative { number.saturating_sub(digit) } else { number.saturating_add(digit) };
    }
    Some(number)
}

/// Bytes with an optional unit: `b`, `k` `m` `g` (powers of 1000), `kb` `mb` `gb` (powers of 1024), in any case.
/// No digits mean 0, as in Redis; what is too large becomes the largest.
pub fn memory_bytes(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = word.split_at(digits);
    let factor: u64 = match &unit.to_ascii_lowercase()[..] {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number =
        digits.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(number.saturating_mul(factor))
}

/// Bytes as short as [`memory_bytes`] can read them back.
pub fn memory_text(bytes: u64) -> String {
    for (unit, shift) in [("gb", 30), ("mb", 20), ("kb", 10)] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// `N%` with N >= 0.
pub fn percentage(word: &[u8]) -> Option<i64> {
    parse_i64(word.strip_suffix(b"%")?).filter(|percent| *percent >= 0)
}

/// A percentile in canonical form: six decimals, trailing zeros cut. The error is Redis's text.
pub fn percentile_text(word: &[u8]) -> Result<Vec<u8>, String> {
    let percentile = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
    let percentile = percentile.filter(|percentile| !percentile.is_nan());
    let percentile = percentile.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
    if !(0.0..=100.0).contains(&percentile) {
        return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
    }
    let text = format!("{:.6}", percentile.abs());
    Ok(text.trim_end_matches('0').trim_end_matches('.').into())
}

/// What the system says about a failure, without the number.
pub fn os_error_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let words = split_words(line.as_bytes())?;
        Some(words.into_iter().map(|word| word.into_iter().map(char::from).collect()).collect())
    }

    #[test]
    fn lines_are_cut_as_redis_cuts_them() {
        for (line, expected) in [
            ("", Some(vec![])),
            ("   ", Some(vec![])),
            ("port 6379", Some(vec!["port", "6379"])),
            ("a\tb  c ", Some(vec!["a", "b", "c"])),
            (r#"save """#, Some(vec!["save", ""])),
            (r#"x "a b""#, Some(vec!["x", "a b"])),
            (r#"x "\x41\x4A\n\"\\""#, Some(vec!["x", "AJ\n\"\\"])),
            (r#"x "\xzz""#, Some(vec!["x", "xzz"])),
            (r"x 'a \' \n b'", Some(vec!["x", r"a ' \n b"])),
            (r#"x ab"c d""#, Some(vec!["x", "abc d"])),
            (r#"x "a"b"#, None),
            (r#"x "a"#, None),
            ("x 'a", None),
        ] {
            let expected = expected.map(|list| list.into_iter().map(String::from).collect());
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn quoting_is_undone_by_cutting() {
        for word in [&b""[..], b"plain", b"a b", b"\"\\'", b"\n\r\t\x07\x08\x00\xff"] {
            assert_eq!(split_words(&quoted(word)), Some(vec![word.to_vec()]));
        }
    }

    #[test]
    fn bytes_with_units() {
        for (word, expected) in [
            ("0", Some(0)),
            ("", Some(0)),
            ("g", Some(0)),
            ("010", Some(10)),
            ("1k", Some(1000)),
            ("1KB", Some(1024)),
            ("3mb", Some(3 << 20)),
            ("2G", Some(2_000_000_000)),
            ("4gb", Some(4 << 30)),
            ("99999999999999999999", Some(u64::MAX)),
            ("-1", None),
            (" 1", None),
            ("1.5gb", None),
            ("1t", None),
            ("0x10", None),
        ] {
            assert_eq!(memory_bytes(word.as_bytes()), expected, "{word}");
            if let Some(bytes) = expected {
                assert_eq!(memory_bytes(memory_text(bytes).as_bytes()), expected, "{word}");
            }
        }
    }

    #[test]
    fn numbers() {
        for (word, strict, lenient) in [
            ("7", Some(7), Some(7)),
            ("-7", Some(-7), Some(-7)),
            ("+7", None, Some(7)),
            ("007", None, Some(7)),
            (" 7", None, Some(7)),
            ("7 ", None, None),
            ("", None, Some(0)),
            ("-", None, None),
            ("99999999999999999999", None, Some(i64::MAX)),
            ("-99999999999999999999", None, Some(i64::MIN)),
        ] {
            assert_eq!(parse_i64(word.as_bytes()), strict, "{word}");
            assert_eq!(lenient_integer(word.as_bytes(), 10), lenient, "{word}");
        }
    }
}
