//! Glob patterns of KEYS, SCAN, CONFIG GET, PSUBSCRIBE and ACL: `*`, `?`, `[a-z]`, `[^...]` and `\` escapes, with
//! the corner cases of Redis 7.0 (an unterminated class ends with the pattern, ranges compare signed bytes, an escape
//! inside a class is never folded to lower case, no pattern but the empty one matches an empty text).
//!
//! Every element but `*` takes exactly one byte of text, so when an element fails only the last `*` has to be retried:
//! the work is at most `pattern.len() * text.len()` steps, and there is no recursion.

/// Whether the whole of `text` matches `pattern`. `ignore_case` folds ASCII letters.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let mut at = 0;
    let mut position = 0;
    // Where to go on after a failure: the element after the last star, and the text that star would leave it.
    let mut retry: Option<(usize, usize)> = None;
    while position < text.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                while pattern.get(at) == Some(&b'*') {
                    at += 1;
                }
                if at == pattern.len() {
                    return true;
                }
                retry = Some((at, position));
                continue;
            }
            Some(_) => match_element(&pattern[at..], text[position], ignore_case),
            None => None,
        };
        match (step, &mut retry) {
            (Some(pattern_bytes), _) => {
                at += pattern_bytes;
                position += 1;
            }
            (None, Some((after_star, left))) => {
                *left += 1;
                (at, position) = (*after_star, *left);
            }
            (None, None) => return false,
        }
    }
    if !text.is_empty() {
        while pattern.get(at) == Some(&b'*') {
            at += 1;
        }
    }
    at == pattern.len()
}

/// Matches one byte against the first element of `pattern` (not empty, not a star): the element's length in bytes,
/// or None when it does not match.
#[inline]
fn match_element(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let same = |a: u8| if ignore_case { a.eq_ignore_ascii_case(&byte) } else { a == byte };
    match pattern[0] {
        b'?' => Some(1),
        b'[' => match_class(pattern, byte, ignore_case),
        b'\\' if pattern.len() >= 2 => same(pattern[1]).then_some(2),
        literal => same(literal).then_some(1),
    }
}

/// A class: `pattern` starts with its `[`.
fn match_class(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    if negated {
        at += 1;
    }
    let mut found = false;
    loop {
        match &pattern[at..] {
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [] => break,
            [first, b'-', last, ..] => {
                found |= in_range(*first, *last, byte, ignore_case);
                at += 3;
            }
            [literal, ..] => {
                found |= if ignore_case { literal.eq_ignore_ascii_case(&byte) } else { *literal == byte };
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

/// Redis compares plain C `char`s, which are signed where it is usually built: bytes from 0x80 sort before ASCII. The
/// ends are put in order before they are folded.
fn in_range(first: u8, last: u8, byte: u8, ignore_case: bool) -> bool {
    let fold = |b: u8| (if ignore_case { b.to_ascii_lowercase() } else { b }) as i8;
    let (low, high) = if first as i8 <= last as i8 { (first, last) } else { (last, first) };
    (fold(low)..=fold(high)).contains(&fold(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_redis() {
        // (pattern, text, matches, matches when case is ignored)
        let cases: &[(&[u8], &[u8], bool, bool)] = &[
            (b"", b"", true, true),
            (b"*", b"", false, false),
            (b"**", b"", false, false),
            (b"", b"a", false, false),
            (b"*", b"a", true, true),
            (b"***", b"abc", true, true),
            (b"a*", b"a", true, true),
            (b"a**", b"a", true, true),
            (b"a*?", b"a", false, false),
            (b"*a*b*c", b"xxaxxbxxc", true, true),
            (b"*a*b*c", b"xxaxxbxxcd", false, false),
            (b"*ab", b"aab", true, true),
            (b"h?llo", b"hallo", true, true),
            (b"h?llo", b"hllo", false, false),
            (b"h[ae]llo", b"hello", true, true),
            (b"h[AE]llo", b"hello", false, true),
            (b"h[^e]llo", b"hello", false, false),
            (b"h[^e]llo", b"hallo", true, true),
            (b"h[a-e]llo", b"hdllo", true, true),
            (b"h[e-a]llo", b"hdllo", true, true),
            (b"h[A-E]llo", b"hdllo", false, true),
            (b"h[a-e]llo", b"hDllo", false, true),
            (b"HELLO", b"hello", false, true),
            (b"h\\*llo", b"h*llo", true, true),
            (b"h\\*llo", b"hxllo", false, false),
            (b"h\\Ello", b"hello", false, true),
            (b"hello\\", b"hello\\", true, true),
            (b"[\\E]", b"e", false, false),
            (b"[\\]]", b"]", true, true),
            (b"[]", b"a", false, false),
            (b"[]a", b"a", false, false),
            (b"[^]", b"a", true, true),
            (b"[^]a", b"xa", true, true),
            (b"[", b"[", false, false),
            (b"[", b"", false, false),
            (b"[^", b"x", true, true),
            (b"[a", b"a", true, true),
            (b"[ab", b"b", true, true),
            (b"[a-", b"-", true, true),
            (b"[a-", b"b", false, false),
            (b"[a-]", b"a", true, true),
            (b"[a-]", b"^", true, true),
            (b"[a-]", b"b", false, false),
            (b"[a-]x", b"a", true, true),
            (b"[\\", b"\\", true, true),
            (b"[a\\", b"\\", true, true),
            (b"[*]", b"*", true, true),
            (b"[\x01-\xff]", b"a", false, false),
            (b"[\x01-\xff]", b"\x00", true, true),
            (b"[\x80-a]", b"A", true, true),
            (b"[Z-a]", b"[", true, false),
            (b"a\0b", b"a\0b", true, true),
            (b"*\0", b"a\0", true, true),
        ];
        for &(pattern, text, exact, folded) in cases {
            let shown = format!("{} on {}", pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(matches(pattern, text, false), exact, "{shown}");
            assert_eq!(matches(pattern, text, true), folded, "{shown}, case ignored");
        }
    }

    /// Naive, exponential matching: what the one-star retry has to be equal to.
    fn matches_by_trying_all(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.first(), text.first()) {
            (None, _) => text.is_empty(),
            (Some(b'*'), _) => {
                (0..=text.len()).any(|skipped| matches_by_trying_all(&pattern[1..], &text[skipped..]))
            }
            (_, None) => false,
            (_, Some(&byte)) => match_element(pattern, byte, false)
                .is_some_and(|length| matches_by_trying_all(&pattern[length..], &text[1..])),
        }
    }

    #[test]
    fn one_star_retry_is_enough() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut matched = 0;
        for _ in 0..50_000 {
            let pattern: Vec<u8> =
                (0..random.usize(0..8)).map(|_| *random.choice(b"ab*?[]^-\\").unwrap()).collect();
            let text: Vec<u8> = (0..random.usize(1..7)).map(|_| *random.choice(b"ab[-").unwrap()).collect();
            let expected = matches_by_trying_all(&pattern, &text);
            matched += usize::from(expected);
            let shown = format!("{} on {}", pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(matches(&pattern, &text, false), expected, "{shown}");
        }
        assert!(matched > 1000, "the generator must produce matches too: {matched}");
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = [b"*a".repeat(2000), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &b"a".repeat(20_000), false));
    }
}
