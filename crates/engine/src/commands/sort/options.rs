//! The words of SORT.

use std::ops::Range;

use base::slot::{SLOT_COUNT, crc16, slot_of};

use super::{Element, Source};
use crate::args::{self, Args, is};
use crate::commands::algebra::Input;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::table::{InvalidKeys, KeyAccess};

const BY_DENIED: Fault = Fault::Text(
    "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.",
);
const GET_DENIED: Fault = Fault::Text(
    "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.",
);

const BY_FORBIDDEN: Fault = Fault::Text("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_FORBIDDEN: Fault =
    Fault::Text("ERR GET option of SORT denied due to insufficient ACL permissions.");

/// Where a value is found for an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The element itself: `#`.
    Element,
    /// Nowhere: a pattern without `*`.
    Nothing,
    /// At the key `before`, element, `after`; or in a field of the hash there.
    Key { before: Box<[u8]>, after: Box<[u8]>, field: Option<Box<[u8]>> },
}

impl Pattern {
    fn parse(text: &[u8]) -> Pattern {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = star(text) else { return Pattern::Nothing };
        let rest = &text[star + 1..];
        // Redis searches C strings, which end at a NUL byte.
        let searched = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let arrow = searched.windows(2).position(|two| two == b"->");
        let arrow = arrow.filter(|at| searched.len() > at + 2);
        let (after, field) = match arrow {
            Some(at) => (&rest[..at], Some(rest[at + 2..].into())),
            None => (rest, None),
        };
        Pattern::Key { before: text[..star].into(), after: after.into(), field }
    }
}

/// Where the element stands in a pattern.
fn star(pattern: &[u8]) -> Option<usize> {
    let at = pattern.iter().position(|byte| matches!(byte, b'*' | 0))?;
    (pattern[at] == b'*').then_some(at)
}

/// What elements are ordered by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    Element,
    /// They stay in the order in which they are kept.
    Nothing,
    Pattern(Pattern),
}

/// SORT's options.
#[derive(Clone, Debug)]
pub(super) struct SortOptions {
    pub(super) by: By,
    pub(super) descending: bool,
    /// Texts are compared, not numbers.
    pub(super) alpha: bool,
    offset: i64,
    /// Negative: no limit.
    count: i64,
    pub(super) gets: Vec<Pattern>,
    pub(super) store: Option<Element>,
}

impl SortOptions {
    pub(super) fn parse(ctx: &Ctx<'_>, args: Args<'_>, may_store: bool) -> CmdResult<SortOptions> {
        let mut options = SortOptions {
            by: By::Element,
            descending: false,
            alpha: false,
            offset: 0,
            count: -1,
            gets: Vec::new(),
            store: None,
        };
        let cluster = ctx.server().cluster.enabled.then(|| slot_of(&args[1]));
        let may_differ = |pattern: &[u8]| cluster.is_some_and(|slot| pattern_slot(pattern) != Some(slot));
        let may_read_all = may_read_every_key(ctx, args);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let left = args.len() - at - 1;
            match word {
                _ if is(word, "ASC") => options.descending = false,
                _ if is(word, "DESC") => options.descending = true,
                _ if is(word, "ALPHA") => options.alpha = true,
                _ if is(word, "LIMIT") && left >= 2 => {
                    options.offset = args::int(&args[at + 1])?;
                    options.count = args::int(&args[at + 2])?;
                    at += 2;
                }
                _ if may_store && is(word, "STORE") && left >= 1 => {
                    options.store = Some(args[at + 1].into());
                    at += 1;
                }
                _ if is(word, "BY") && left >= 1 => {
                    let pattern = &args[at + 1];
                    if star(pattern).is_none() {
                        options.by = By::Nothing;
                    } else if may_differ(pattern) {
                        return Err(BY_DENIED);
                    } else if !may_read_all {
                        return Err(BY_FORBIDDEN);
                    } else if options.by != By::Nothing {
                        options.by = By::Pattern(Pattern::parse(pattern));
                    }
                    at += 1;
                }
                _ if is(word, "GET") && left >= 1 => {
                    let pattern = &args[at + 1];
                    if pattern != b"#" && may_differ(pattern) {
                        return Err(GET_DENIED);
                    }
                    if !may_read_all {
                        return Err(GET_FORBIDDEN);
                    }
                    options.gets.push(Pattern::parse(pattern));
                    at += 1;
                }
                _ => return Err(Fault::SYNTAX),
            }
            at += 1;
        }
        Ok(options)
    }

    /// A set has no order of its own. Where its elements are stored, or a script sees them, they get one all the same.
    pub(super) fn settle_order(&mut self, in_script: bool) {
        if self.by == By::Nothing && (self.store.is_some() || in_script) {
            self.by = By::Element;
            self.alpha = true;
        }
    }

    pub(super) fn by_pattern(&self) -> Option<&Pattern> {
        match &self.by {
            By::Pattern(pattern) => Some(pattern),
            By::Element | By::Nothing => None,
        }
    }

    /// True if keys other than the sorted one are read.
    pub(super) fn reads_keys(&self) -> bool {
        let mut patterns = self.by_pattern().into_iter().chain(&self.gets);
        patterns.any(|pattern| matches!(pattern, Pattern::Key { .. }))
    }

    /// The part of `len` sorted elements that is wanted.
    fn range(&self, len: usize) -> Range<usize> {
        let start = usize::try_from(self.offset).unwrap_or(0).min(len);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }

    /// The elements that the result is made from; only those that are wanted, where the order is known.
    pub(super) fn candidates(&self, source: &Source) -> Vec<Element> {
        let len = source.elements();
        match self.by {
            By::Nothing => source.range(self.range(len), self.descending),
            By::Element | By::Pattern(_) => source.range(0..len, false),
        }
    }

    /// Cuts sorted candidates to those that are wanted.
    pub(super) fn cut(&self, mut sorted: Vec<Element>) -> Vec<Element> {
        if self.by == By::Nothing {
            return sorted;
        }
        let range = self.range(sorted.len());
        sorted.truncate(range.end);
        sorted.drain(..range.start);
        sorted
    }
}

/// Patterns may name any key.
fn may_read_every_key(ctx: &Ctx<'_>, args: Args<'_>) -> bool {
    let user = &ctx.session_ref().user;
    let info = ctx.server().registry.find(&args[0]);
    user.is_unrestricted() || info.is_some_and(|info| user.may_use_every_key(info, args, KeyAccess::ACCESS))
}

/// The slot that all keys of a pattern are in, if they are in one.
fn pattern_slot(pattern: &[u8]) -> Option<u16> {
    let mut open = None;
    for (at, byte) in pattern.iter().enumerate() {
        match (byte, open) {
            (b'*' | b'?' | b'[' | b'\\', _) => return None,
            (b'{', None) => open = Some(at),
            (b'}', Some(start)) if at != start + 1 => {
                return Some(crc16(&pattern[start + 1..at]) % SLOT_COUNT);
            }
            _ => {}
        }
    }
    Some(crc16(pattern) % SLOT_COUNT)
}

/// Calls `each` with the options' places, as the command reads them: the word's and that of its first argument.
fn each_option(args: Args<'_>, mut each: impl FnMut(&[u8], Option<usize>)) {
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let argument = (at + 1 < args.len()).then_some(at + 1);
        each(word, argument);
        at += match word {
            _ if is(word, "LIMIT") => 3,
            _ if is(word, "BY") || is(word, "GET") || is(word, "STORE") => 2,
            _ => 1,
        };
    }
}

/// The sorted key, and STORE's destination: the last if there are several.
pub(crate) fn find_sort_keys(
    args: Args<'_>,
    each: &mut dyn FnMut(usize, KeyAccess),
) -> Result<(), InvalidKeys> {
    each(1, KeyAccess::RO.union(KeyAccess::ACCESS));
    let mut destination = None;
    each_option(args, |word, argument| {
        if is(word, "STORE") {
            destination = argument.or(destination);
        }
    });
    if let Some(at) = destination {
        each(at, KeyAccess::OW.union(KeyAccess::UPDATE));
    }
    Ok(())
}

/// True if BY or GET makes SORT read keys that only the elements name.
pub(crate) fn reaches_beyond(args: Args<'_>) -> bool {
    let mut reaches = false;
    each_option(args, |word, argument| {
        let has_pattern = is(word, "BY") || is(word, "GET");
        reaches |= has_pattern && argument.is_some_and(|at| star(&args[at]).is_some());
    });
    reaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_keys_and_fields() {
        let key = |before: &str, after: &str, field: Option<&str>| Pattern::Key {
            before: before.as_bytes().into(),
            after: after.as_bytes().into(),
            field: field.map(|field| field.as_bytes().into()),
        };
        for (text, expected) in [
            ("#", Pattern::Element),
            ("w", Pattern::Nothing),
            ("", Pattern::Nothing),
            ("w_*", key("w_", "", None)),
            ("*", key("", "", None)),
            ("a*b*c", key("a", "b*c", None)),
            ("w_*->f", key("w_", "", Some("f"))),
            ("w_*:x->f->g", key("w_", ":x", Some("f->g"))),
            ("w_*->", key("w_", "->", None)),
            ("a->b*", key("a->b", "", None)),
        ] {
            assert_eq!(Pattern::parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_pattern_with_a_tag_before_the_star_has_a_slot() {
        assert_eq!(pattern_slot(b"{t}w*"), Some(slot_of(b"{t}")));
        assert_eq!(pattern_slot(b"w*{t}"), None);
        assert_eq!(pattern_slot(b"{}*"), None);
        assert_eq!(pattern_slot(b"fixed"), Some(slot_of(b"fixed")));
    }
}
