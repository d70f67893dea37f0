//! What another node sends, in RESP3.

/// Longest line of a frame.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting: what nodes answer has two levels.
const DEPTH_MAX: usize = 8;

/// A frame's words, and its bytes.
type Frame<'b> = (Vec<&'b [u8]>, usize);

/// The words of the first frame, whatever it is made of, and its bytes; None: it is not all there. An error begins with `-`.
pub(super) fn take_frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, String> {
    let (mut words, mut at) = (Vec::new(), 0);
    match take(bytes, &mut at, &mut words, 0)? {
        true => Ok(Some((words, at))),
        false => Ok(None),
    }
}

fn take<'b>(
    bytes: &'b [u8],
    at: &mut usize,
    words: &mut Vec<&'b [u8]>,
    depth: usize,
) -> Result<bool, String> {
    let rest = &bytes[*at..];
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
        return match rest.len() > LINE_BYTES_MAX {
            true => Err("what it sends are no lines".to_owned()),
            false => Ok(false),
        };
    };
    let (kind, line) = rest[..end].split_at(end.min(1));
    let number = || base::num::parse_i64(line).ok_or_else(|| "what it sends is no frame".to_owned());
    *at += end + 2;
    match kind {
        b"$" | b"=" => {
            let Ok(count) = usize::try_from(number()?) else { return Ok(true) };
            let Some(word) = bytes.get(*at..*at + count).filter(|_| bytes.len() >= *at + count + 2) else {
                return Ok(false);
            };
            words.push(word);
            *at += count + 2;
        }
        b"*" | b">" | b"~" | b"%" => {
            if depth == DEPTH_MAX {
                return Err("what it sends is nested too deeply".to_owned());
            }
            let count = number()?.max(0) * if kind == b"%" { 2 } else { 1 };
            for _ in 0..count {
                if !take(bytes, at, words, depth + 1)? {
                    return Ok(false);
                }
            }
        }
        b"-" | b"!" => words.push(&rest[..end]),
        b"+" | b":" | b"," | b"#" | b"(" => words.push(line),
        b"_" => {}
        _ => return Err("what it sends is no frame".to_owned()),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Result<Option<(String, usize)>, String> {
        let frame = take_frame(bytes)?;
        let joined = |words: Vec<&[u8]>| String::from_utf8_lossy(&words.join(&b' ')).into_owned();
        Ok(frame.map(|(words, bytes)| (joined(words), bytes)))
    }

    #[test]
    fn frames_are_taken_once_they_are_whole() {
        for (bytes, expected) in [
            ("+OK\r\n", "OK"),
            ("-ERR no\r\n", "-ERR no"),
            (">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\r\n\r\n", "message c \r\n"),
            ("%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*2\r\n_\r\n#t\r\n", "a 1 b t"),
            ("*0\r\n", ""),
            ("$0\r\n\r\n", ""),
        ] {
            for end in 0..bytes.len() {
                assert_eq!(words(&bytes.as_bytes()[..end]), Ok(None), "{bytes:?} to {end}");
            }
            let more = format!("{bytes}+OK\r\n");
            assert_eq!(words(more.as_bytes()), Ok(Some((expected.to_owned(), bytes.len()))), "{bytes:?}");
        }
        for wrong in ["hello\r\n", "\r\n", "$x\r\n", &"*1\r\n".repeat(20)] {
            assert!(words(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }
}
