//! SORT and SORT_RO: the elements of a list, set or sorted set in order.
//!
//! Specified by Redis's `sort.c`. With patterns the command reads keys that only the elements name. As in Redis it is
//! one step then too: such a call holds every stripe, and everything that it reads is read under them, also where the
//! long lane does it. Texts are compared as in the C locale.

mod options;
mod order;

use std::ops::Range;

use base::limits::BIG_INPUT_ELEMENTS;
use resp::Encoder;
use store::{Hash, Kind, List, Set, Thresholds, Typed, ValueRef, ZSet};

use self::options::{Pattern, SortOptions};
use self::order::Keyed;
use crate::args::Args;
use crate::commands::algebra::{self, Input};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::reply::Reply;
use crate::value::{OwnedStr, Str};

pub(crate) use options::{find_sort_keys, reaches_beyond};

type Element = Box<[u8]>;

/// What can be sorted. Clones are O(1).
#[derive(Clone)]
enum Source {
    List(List),
    Set(Set),
    ZSet(ZSet),
}

impl Input for Source {
    fn read(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<Self>> {
        Ok(match ctx.peek_kind(key) {
            Some(Kind::Set) => ctx.read::<Set>(key)?.cloned().map(Source::Set),
            Some(Kind::ZSet) => ctx.read::<ZSet>(key)?.cloned().map(Source::ZSet),
            _ => ctx.read::<List>(key)?.cloned().map(Source::List),
        })
    }

    fn elements(&self) -> usize {
        match self {
            Source::List(list) => list.len(),
            Source::Set(set) => set.len(),
            Source::ZSet(zset) => zset.len(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Source::List(a), Source::List(b)) => a.is_same(b),
            (Source::Set(a), Source::Set(b)) => a.is_same(b),
            (Source::ZSet(a), Source::ZSet(b)) => a.is_same(b),
            _ => false,
        }
    }
}

impl Source {
    /// Elements in the order in which they are kept, or the opposite one.
    fn range(&self, range: Range<usize>, reverse: bool) -> Vec<Element> {
        let count = range.len();
        let start = if reverse { self.elements().saturating_sub(range.start + 1) } else { range.start };
        let mut elements = Vec::with_capacity(count);
        match self {
            Source::List(list) => {
                let mut list = list.iter(start, reverse);
                while let Some(element) = list.next().filter(|_| elements.len() < count) {
                    elements.push(element.into());
                }
            }
            Source::ZSet(zset) => {
                let mut zset = zset.range(start, reverse);
                while let Some((element, _)) = zset.next().filter(|_| elements.len() < count) {
                    elements.push(element.into());
                }
            }
            Source::Set(set) => {
                let (mut set, mut at) = (set.iter(), 0);
                while let Some(element) = set.next().filter(|_| elements.len() < count) {
                    if at >= range.start {
                        elements.push(element.into());
                    }
                    at += 1;
                }
            }
        }
        elements
    }
}

/// What a key named by a pattern holds for an element.
fn look_up(ctx: &mut Ctx<'_>, pattern: &Pattern, element: &[u8]) -> Option<OwnedStr> {
    match pattern {
        Pattern::Element => Some(OwnedStr::Short(element.into())),
        Pattern::Nothing => None,
        Pattern::Key { before, after, field: None } => {
            let key = [before, element, after].concat();
            ctx.read_str(&key).ok().flatten().map(Str::to_owned)
        }
        Pattern::Key { before, after, field: Some(field) } => {
            let (key, now_ms) = ([before, element, after].concat(), ctx.now_ms());
            match ctx.read_any(&key)?.value() {
                ValueRef::Object(value) => {
                    Hash::of(value)?.get(field, now_ms).map(|text| OwnedStr::Short(text.into()))
                }
                ValueRef::Inline(_) => None,
            }
        }
    }
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE destination]
pub(crate) fn sort(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    run(ctx, args, reply, true)
}

/// SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]
pub(crate) fn sort_ro(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    run(ctx, args, reply, false)
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, may_store: bool) -> CmdResult {
    let key = args.at(1);
    let mut options = SortOptions::parse(ctx, args, may_store)?;
    if let Some(Kind::Set) = ctx.peek_kind(key) {
        options.settle_order(ctx.is_nested());
    }
    enlarge(ctx, key)?;
    if options.reads_keys() {
        return run_with_patterns(ctx, key, options, reply);
    }
    let store = options.store.clone();
    let compute = move |source: &Option<Source>| -> CmdResult<Vec<Option<OwnedStr>>> {
        let Some(source) = source else { return Ok(Vec::new()) };
        let elements = options.candidates(source);
        let keyed = Keyed::weigh(elements, &options, |_| None)?;
        let own = |pattern: &Pattern, element: &[u8]| match pattern {
            Pattern::Element => Some(OwnedStr::Short(element.into())),
            _ => None,
        };
        Ok(values(keyed.sorted(&options), &options, own))
    };
    let Some(destination) = store else {
        let source = Source::read(ctx, key)?;
        let work = source.as_ref().map_or(0, Source::elements);
        return algebra::answer(ctx, reply, work, source, move |source, reply| {
            reply_values(reply, compute(&source)?);
            Ok(())
        });
    };
    let thresholds = ctx.thresholds();
    algebra::derive(
        ctx,
        reply,
        &destination,
        std::iter::once(key),
        |inputs: &[Option<Source>]| algebra::elements(inputs),
        move |inputs| Ok(list_of(compute(&inputs[0])?, &thresholds)),
        |ctx, reply, destination, sorted: CmdResult<List>| {
            algebra::store_result(ctx, reply, destination, sorted?, Event::List, "sortstore");
            Ok(())
        },
    )
}

/// Gives a sorted set its large form, as SORT does in Redis: OBJECT ENCODING tells.
fn enlarge(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult {
    if ctx.peek_kind(key) == Some(Kind::ZSet) {
        let thresholds = ctx.thresholds();
        ctx.edit(key, |zset: &mut ZSet| zset.expect_members(usize::MAX, 0, &thresholds))?;
    }
    Ok(())
}

/// As [`run`], holding every stripe.
fn run_with_patterns(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    options: SortOptions,
    reply: &mut Reply<'_>,
) -> CmdResult {
    // Not a read yet, which would count as a second look at the key.
    if ctx.work_in(ctx.db(), key) <= BIG_INPUT_ELEMENTS {
        return match read(ctx, key, &options)? {
            Reading::Keyed(keyed) => {
                reply_values(reply, values(keyed.sorted(&options), &options, |_, _| None));
                Ok(())
            }
            Reading::Values(values) => finish(ctx, values, &options, reply),
        };
    }
    let key: Element = key.into();
    ctx.defer(move |lane: &mut Lane<'_>| {
        let keyed = lane.with_stripes(None, |ctx, reply| match read(ctx, &key, &options)? {
            Reading::Keyed(keyed) => Ok(Some(keyed)),
            Reading::Values(values) => finish(ctx, values, &options, reply).map(|()| None),
        })?;
        // Nothing more has to be read: nobody waits for the sorting.
        if let Some(keyed) = keyed {
            let sorted = values(keyed.sorted(&options), &options, |_, _| None);
            reply_values(&mut lane.reply(), sorted);
        }
        Ok(())
    });
    Ok(())
}

/// What was read under every stripe.
enum Reading {
    /// Elements with what they are ordered by: all that is needed.
    Keyed(Keyed),
    /// The result.
    Values(Vec<Option<OwnedStr>>),
}

fn read(ctx: &mut Ctx<'_>, key: &[u8], options: &SortOptions) -> CmdResult<Reading> {
    let elements = match Source::read(ctx, key)? {
        Some(source) => options.candidates(&source),
        None => Vec::new(),
    };
    let by = options.by_pattern();
    let keyed =
        Keyed::weigh(elements, options, |element| by.and_then(|pattern| look_up(ctx, pattern, element)))?;
    if options.gets.is_empty() && options.store.is_none() {
        return Ok(Reading::Keyed(keyed));
    }
    let sorted = keyed.sorted(options);
    Ok(Reading::Values(values(sorted, options, |pattern, element| look_up(ctx, pattern, element))))
}

/// What is answered or stored for sorted elements: themselves, or what each GET finds.
fn values(
    sorted: Vec<Element>,
    options: &SortOptions,
    mut get: impl FnMut(&Pattern, &[u8]) -> Option<OwnedStr>,
) -> Vec<Option<OwnedStr>> {
    if options.gets.is_empty() {
        return sorted.into_iter().map(|element| Some(OwnedStr::Short(element))).collect();
    }
    let mut values = Vec::with_capacity(sorted.len() * options.gets.len());
    for element in &sorted {
        values.extend(options.gets.iter().map(|pattern| get(pattern, element)));
    }
    values
}

/// Answers with values, or stores them.
fn finish(
    ctx: &mut Ctx<'_>,
    values: Vec<Option<OwnedStr>>,
    options: &SortOptions,
    reply: &mut Reply<'_>,
) -> CmdResult {
    match &options.store {
        None => reply_values(reply, values),
        Some(destination) => {
            let sorted = list_of(values, &ctx.thresholds());
            algebra::store_result(ctx, reply, destination, sorted, Event::List, "sortstore");
        }
    }
    Ok(())
}

/// In a list, what is missing is empty.
fn list_of(values: Vec<Option<OwnedStr>>, thresholds: &Thresholds) -> List {
    let elements = values.into_iter().map(|value| match value {
        Some(OwnedStr::Short(bytes)) => bytes,
        Some(OwnedStr::Long(long)) => long.to_vec().into(),
        None => Box::default(),
    });
    List::from_elements(elements, thresholds)
}

fn reply_values(reply: &mut Reply<'_>, values: Vec<Option<OwnedStr>>) {
    reply.array(values.len());
    if values.is_empty() {
        return;
    }
    let mut values = values.into_iter();
    reply.stream(move |out: &mut Encoder<'_>| {
        let Some(value) = values.next() else { return false };
        match value {
            Some(OwnedStr::Short(bytes)) => out.bulk(&bytes),
            Some(OwnedStr::Long(long)) => out.bulk(&long.to_vec()),
            None => out.null(),
        }
        values.len() > 0
    });
}

const NOT_NUMBERS: Fault = Fault::Text("ERR One or more scores can't be converted into double");
