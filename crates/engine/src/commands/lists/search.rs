//! Commands that look for an element: LPOS, LREM, LINSERT. A search that is not over soon goes on in a clone, on
//! the long lane.

use base::limits::BIG_INPUT_ELEMENTS;
use store::{List, ListIter, Thresholds};

use crate::args::{self, Args};
use crate::commands::algebra;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// More matches than this are not removed one by one under the lock.
const REMOVED_ONE_BY_ONE_MAX: usize = 1024;

const NEGATIVE_COUNT: Fault = Fault::Text("ERR COUNT can't be negative");
const NEGATIVE_MAXLEN: Fault = Fault::Text("ERR MAXLEN can't be negative");
const ZERO_RANK: Fault = Fault::Text(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from \
     the end of the list",
);

struct Options {
    reverse: bool,
    /// Matches to pass over.
    skip: u64,
    /// Matches to report, in an array; `None` is one, as an integer.
    count: Option<u64>,
    /// Elements to compare.
    compare_max: u64,
}

fn parse(args: Args<'_>) -> CmdResult<Options> {
    let mut options = Options { reverse: false, skip: 0, count: None, compare_max: u64::MAX };
    for at in (0..args.len()).step_by(2) {
        let Some(value) = args.get(at + 1) else { return Err(Fault::SYNTAX) };
        if args::is(&args[at], "RANK") {
            let rank = args::int(value)?;
            if rank == 0 {
                return Err(ZERO_RANK);
            }
            // The lowest number has no opposite: Redis 7.0 passes no match over then.
            let skip = rank.checked_abs().map_or(0, |rank| rank.unsigned_abs() - 1);
            (options.reverse, options.skip) = (rank < 0, skip);
        } else if args::is(&args[at], "COUNT") {
            options.count = Some(match args::natural(value, NEGATIVE_COUNT)? {
                0 => u64::MAX,
                count => count as u64,
            });
        } else if args::is(&args[at], "MAXLEN") {
            options.compare_max = match args::natural(value, NEGATIVE_MAXLEN)? {
                0 => u64::MAX,
                compare_max => compare_max as u64,
            };
        } else {
            return Err(Fault::SYNTAX);
        }
    }
    Ok(options)
}

struct Search {
    elements: ListIter,
    wanted: Box<[u8]>,
    options: Options,
    found: Vec<usize>,
}

impl Search {
    fn new(list: &List, wanted: &[u8], options: Options) -> Search {
        let elements = if options.reverse { list.iter(list.len(), true) } else { list.iter(0, false) };
        Search { elements, wanted: wanted.into(), options, found: Vec::new() }
    }

    /// Compares up to `steps` elements; true when the search is over.
    fn run(&mut self, steps: u64) -> bool {
        let wanted_max = self.options.count.unwrap_or(1);
        for _ in 0..steps {
            if self.options.compare_max == 0 || self.found.len() as u64 == wanted_max {
                return true;
            }
            let (Some(index), Some(element)) = (self.elements.index(), self.elements.next()) else {
                return true;
            };
            self.options.compare_max -= 1;
            if *element == *self.wanted {
                if self.options.skip > 0 {
                    self.options.skip -= 1;
                } else {
                    self.found.push(index);
                }
            }
        }
        false
    }

    fn reply(self, reply: &mut Reply<'_>) {
        if self.options.count.is_none() {
            match self.found.first() {
                Some(index) => reply.int(*index as i64),
                None => reply.null(),
            }
            return;
        }
        reply.array(self.found.len());
        let mut found = self.found.into_iter();
        reply.stream(move |out: &mut resp::Encoder<'_>| {
            if let Some(index) = found.next() {
                out.int(index as i64);
            }
            found.len() > 0
        });
    }
}

/// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
pub fn lpos(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let options = parse(args.from(3))?;
    let Some(list) = ctx.read::<List>(&args[1])? else {
        if options.count.is_some() {
            reply.empty_array();
        } else {
            reply.null();
        }
        return Ok(());
    };
    let mut search = Search::new(list, &args[2], options);
    if search.run(BIG_INPUT_ELEMENTS as u64) {
        search.reply(reply);
        return Ok(());
    }
    ctx.defer(move |lane| {
        search.run(u64::MAX);
        search.reply(&mut lane.reply());
        Ok(())
    });
    Ok(())
}

/// The matches that LREM removes: the first `count`, the last `-count`, or all if `count` is 0.
fn matches(list: &List, wanted: &[u8], count: i64) -> Search {
    let count_max = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let options = Options { reverse: count < 0, skip: 0, count: Some(count_max), compare_max: u64::MAX };
    Search::new(list, wanted, options)
}

/// What LREM does to a list.
enum Removal {
    /// Removes the elements at these indexes, ascending.
    At(Vec<usize>),
    /// Replaces it by a list with so many elements less.
    Replace(List, usize),
}

impl Removal {
    fn new(list: &List, mut search: Search, thresholds: &Thresholds) -> Removal {
        search.run(u64::MAX);
        let mut found = search.found;
        if search.options.reverse {
            found.reverse();
        }
        if found.len() <= REMOVED_ONE_BY_ONE_MAX {
            return Removal::At(found);
        }
        // Where many go, writing the others anew is less work than taking those out.
        let rest = if found.len() > list.len() / 16 {
            without(list, &found, thresholds)
        } else {
            let mut rest = list.clone();
            remove_at(&mut rest, &found);
            rest
        };
        Removal::Replace(rest, found.len())
    }

    /// Returns how many elements were removed.
    fn apply(self, list: &mut List) -> usize {
        match self {
            Removal::At(found) => {
                remove_at(list, &found);
                found.len()
            }
            Removal::Replace(rest, gone) => {
                *list = rest;
                gone
            }
        }
    }
}

/// Removes the elements at `indexes`, ascending.
fn remove_at(list: &mut List, indexes: &[usize]) {
    for run in indexes.chunk_by(|a, b| a + 1 == *b).rev() {
        list.remove_range(run[0], run[run.len() - 1] + 1);
    }
}

/// The elements of `list` but those at `indexes`, ascending.
fn without(list: &List, indexes: &[usize], thresholds: &Thresholds) -> List {
    let (mut rest, mut elements) = (List::new(), list.iter(0, false));
    let mut gone = indexes.iter().copied().peekable();
    while let (Some(index), Some(element)) = (elements.index(), elements.next()) {
        if gone.next_if_eq(&index).is_none() {
            rest.push_back(element, thresholds);
        }
    }
    rest
}

/// LREM key count element
pub fn lrem(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, count, wanted) = (args.at(1), args::int(&args[2])?, &args[3]);
    let thresholds = ctx.thresholds();
    let outcome = ctx.edit(key, |list: &mut List| {
        let mut search = matches(list, wanted, count);
        // What is removed from a queue mostly lies near an end.
        let over = search.run(BIG_INPUT_ELEMENTS as u64);
        let cheap = list.len() <= BIG_INPUT_ELEMENTS || search.found.len() <= REMOVED_ONE_BY_ONE_MAX;
        (over && cheap).then(|| {
            let gone = Removal::new(list, search, &thresholds).apply(list);
            (gone, list.is_empty())
        })
    })?;
    if let Some(None) = outcome {
        let wanted: Box<[u8]> = wanted.into();
        return algebra::derive(
            ctx,
            reply,
            key,
            std::iter::once(key),
            algebra::elements,
            move |inputs: &[Option<List>]| {
                let list = inputs[0].as_ref()?;
                Some(Removal::new(list, matches(list, &wanted, count), &thresholds))
            },
            |ctx, reply, key, removal| {
                let outcome = removal
                    .map(|removal| ctx.edit(key, |list: &mut List| (removal.apply(list), list.is_empty())));
                finish_lrem(ctx, reply, key, outcome.transpose()?.flatten());
                Ok(())
            },
        );
    }
    finish_lrem(ctx, reply, key, outcome.flatten());
    Ok(())
}

fn finish_lrem(ctx: &mut Ctx<'_>, reply: &mut Reply<'_>, key: &[u8], outcome: Option<(usize, bool)>) {
    let (gone, emptied) = outcome.unwrap_or((0, false));
    if gone > 0 {
        ctx.notify_removed(Event::List, "lrem", key, emptied);
    }
    reply.int(gone as i64);
}

/// LINSERT key BEFORE|AFTER pivot element
pub fn linsert(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let after = if args::is(&args[2], "AFTER") {
        1
    } else if args::is(&args[2], "BEFORE") {
        0
    } else {
        return Err(Fault::SYNTAX);
    };
    let (key, pivot, element) = (args.at(1), &args[3], &args[4]);
    let outcome = ctx.edit(key, |list: &mut List| {
        let mut search = matches(list, pivot, 1);
        search.run(BIG_INPUT_ELEMENTS as u64).then(|| search.found.first().copied())
    })?;
    match outcome {
        None => reply.int(0),
        Some(Some(pivot_at)) => insert(ctx, reply, key, pivot_at.map(|pivot_at| pivot_at + after), element)?,
        Some(None) => {
            let (pivot, element): (Box<[u8]>, Box<[u8]>) = (pivot.into(), element.into());
            return algebra::derive(
                ctx,
                reply,
                key,
                std::iter::once(key),
                algebra::elements,
                move |inputs: &[Option<List>]| {
                    let mut search = matches(inputs[0].as_ref()?, &pivot, 1);
                    search.run(u64::MAX);
                    Some(search.found.first().copied())
                },
                move |ctx, reply, key, pivot_at| match pivot_at {
                    None => {
                        reply.int(0);
                        Ok(())
                    }
                    Some(pivot_at) => {
                        insert(ctx, reply, key, pivot_at.map(|pivot_at| pivot_at + after), &element)
                    }
                },
            );
        }
    }
    Ok(())
}

/// Inserts at `index` of a list that exists; `None` is for a pivot that it does not have.
fn insert(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    key: &[u8],
    index: Option<usize>,
    element: &[u8],
) -> CmdResult {
    let Some(index) = index else {
        reply.int(-1);
        return Ok(());
    };
    let thresholds = ctx.thresholds();
    let len = ctx.edit(key, |list: &mut List| {
        list.expect_elements(element.len(), 1, &thresholds);
        list.insert(index, element);
        list.len()
    })?;
    ctx.notify(Event::List, "linsert", key);
    reply.int(len.unwrap_or(0) as i64);
    Ok(())
}
