//! LPOS. A search that does not find what it wants soon goes on in a clone, on the long lane.

use base::limits::BIG_INPUT_ELEMENTS;
use store::{List, ListIter};

use crate::args::{self, Args};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

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
    let not_negative = |arg: &[u8], fault| {
        let number = args::int(arg).ok().and_then(|number| u64::try_from(number).ok());
        number.ok_or(Fault::Text(fault))
    };
    for at in (0..args.len()).step_by(2) {
        let Some(value) = args.get(at + 1) else { return Err(Fault::SYNTAX) };
        if args::is(&args[at], "RANK") {
            let rank = args::int(value)?;
            if rank == i64::MIN {
                return Err(Fault::Text(
                    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
                ));
            }
            if rank == 0 {
                return Err(Fault::Text(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                     negative to start from the end of the list",
                ));
            }
            (options.reverse, options.skip) = (rank < 0, rank.unsigned_abs() - 1);
        } else if args::is(&args[at], "COUNT") {
            options.count = Some(match not_negative(value, "ERR COUNT can't be negative")? {
                0 => u64::MAX,
                count => count,
            });
        } else if args::is(&args[at], "MAXLEN") {
            options.compare_max = match not_negative(value, "ERR MAXLEN can't be negative")? {
                0 => u64::MAX,
                compare_max => compare_max,
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
    let elements = if options.reverse { list.iter(list.len(), true) } else { list.iter(0, false) };
    let mut search = Search { elements, wanted: Box::from(&args[2]), options, found: Vec::new() };
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
