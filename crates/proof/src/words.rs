//! redis-cli's quoting: a line into arguments and back.

/// Splits a line into arguments: `"..."` with `\n \r \t \b \a \\ \" \xHH`, `'...'` with `\'`, and bare words.
/// `None` when quotes are not balanced or a closing quote is not followed by a blank.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while at < line.len() && line[at].is_ascii_whitespace() {
            at += 1;
        }
        if at == line.len() {
            return Some(words);
        }
        let mut word = Vec::new();
        while at < line.len() && !line[at].is_ascii_whitespace() {
            match line[at] {
                b'"' => at = double_quoted(line, at + 1, &mut word)?,
                b'\'' => at = single_quoted(line, at + 1, &mut word)?,
                byte => {
                    word.push(byte);
                    at += 1;
                    continue;
                }
            }
            if at < line.len() && !line[at].is_ascii_whitespace() {
                return None;
            }
        }
        words.push(word);
    }
}

fn double_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {
                let escape = *line.get(at + 1)?;
                if escape == b'x'
                    && let Some(byte) = line.get(at + 2..at + 4).and_then(hex)
                {
                    word.push(byte);
                    at += 4;
                    continue;
                }
                word.push(match escape {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => other,
                });
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Option<usize> {
    loop {
        match *line.get(at)? {
            b'\'' => return Some(at + 1),
            b'\\' if line.get(at + 1) == Some(&b'\'') => {
                word.push(b'\'');
                at += 2;
            }
            byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// One argument so that `split` reads it back: bare when it can be, else in double quotes.
pub fn quote(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'#' | b'@');
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut quoted = String::from("\"");
    for &byte in word {
        match byte {
            b'"' => quoted.push_str("\\\""),
            b'\\' => quoted.push_str("\\\\"),
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            b' ' => quoted.push(' '),
            byte if byte.is_ascii_graphic() => quoted.push(char::from(byte)),
            byte => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// A whole command on one line.
pub fn join(args: &[Vec<u8>]) -> String {
    args.iter().map(|arg| quote(arg)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_as_redis_cli_does() {
        let check = |line: &str, words: Option<&[&[u8]]>| {
            let expected = words.map(|words| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>());
            assert_eq!(split(line.as_bytes()), expected, "{line}");
        };
        check("a  b", Some(&[b"a", b"b"]));
        check(r#"set "a b" "\x00\xff\n""#, Some(&[b"set", b"a b", b"\x00\xff\n"]));
        check(r"'it\'s' ''", Some(&[b"it's", b""]));
        check("\"open", None);
        check("\"a\"b", None);
        check("", Some(&[]));
    }

    #[test]
    fn quoting_is_read_back() {
        let every_byte: Vec<u8> = (0..=255).collect();
        for word in [&b""[..], b"plain", b"a b", b"#x", b"'", b"\"\\", &every_byte] {
            assert_eq!(split(quote(word).as_bytes()), Some(vec![word.to_vec()]));
        }
    }
}
