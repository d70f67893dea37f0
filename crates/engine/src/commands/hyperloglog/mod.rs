//! HyperLogLogs: how many different elements were added, in at most 12 KiB.
//!
//! A HyperLogLog is a string that any server of the family reads: after the same commands its bytes are Redis's.

mod dense;
mod estimate;
mod selftest;
mod sketch;
mod sparse;

use base::limits::BIG_INPUT_ELEMENTS;

use self::sketch::{Encoding, HEADER_BYTES, Sketch, Union};
use self::sparse::Corrupted;
use crate::args::{Args, is};
use crate::commands::algebra::{self, Input};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::value::{OwnedStr, Str};

pub(crate) use selftest::pfselftest;

const NOT_A_SKETCH: Fault = Fault::Text("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPTED: Fault = Fault::Text("INVALIDOBJ Corrupted HLL object detected");
const NO_KEY: Fault = Fault::Text("ERR The specified key does not exist");
const NOT_SPARSE: Fault = Fault::Text("ERR HLL encoding is not sparse");

/// Merging a dense value into others visits each of its registers.
const DENSE_WORK_ELEMENTS: usize = BIG_INPUT_ELEMENTS / 16;

impl From<Corrupted> for Fault {
    fn from(_: Corrupted) -> Fault {
        CORRUPTED
    }
}

/// A string that is known to be a HyperLogLog.
#[derive(Clone)]
struct Stored {
    text: OwnedStr,
    encoding: Encoding,
}

impl Stored {
    fn check(text: Str<'_>) -> CmdResult<Encoding> {
        let encoding = sketch::encoding(&text.window::<HEADER_BYTES>(0), text.len()).ok_or(NOT_A_SKETCH)?;
        // Whatever a client has made of it: nothing longer is ever copied.
        if text.len() > sketch::BYTES_MAX { Err(CORRUPTED) } else { Ok(encoding) }
    }

    fn sketch(&self, sparse_bytes_max: usize) -> Sketch {
        Sketch::from_bytes(&self.text.as_str().to_vec(), sparse_bytes_max)
    }
}

impl Input for Stored {
    fn read(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<Self>> {
        let Some(text) = ctx.read_str(key)? else { return Ok(None) };
        let stored = Stored { encoding: Stored::check(text)?, text: text.to_owned() };
        if stored.encoding == Encoding::Sparse {
            // What is wrong with a key is told before the next is looked at.
            stored.sketch(0).check()?;
        }
        Ok(Some(stored))
    }

    fn elements(&self) -> usize {
        if self.encoding == Encoding::Dense { DENSE_WORK_ELEMENTS } else { self.text.work() }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.text.is_same(&other.text)
    }
}

fn sparse_bytes_max(ctx: &Ctx<'_>) -> usize {
    ctx.server().config.hot().hll_sparse_bytes_max() as usize
}

/// PFADD key [element [element ...]]
pub(crate) fn pfadd(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, elements) = (&args[1], args.from(2).iter());
    let sparse_bytes_max = sparse_bytes_max(ctx);
    let (mut sketch, is_new) = match ctx.peek_str(key)? {
        None => (Sketch::new(sparse_bytes_max), true),
        Some(text) => match (Stored::check(text)?, text) {
            // The usual big one is changed where it lies.
            (Encoding::Dense, Str::Long(long)) => {
                let places = sketch::missing_from_dense(long.piece(0), elements);
                if !places.is_empty() {
                    ctx.edit_long(key, |long| sketch::raise_dense(long.piece_mut(0), &places));
                    ctx.notify(Event::String, "pfadd", key);
                }
                reply.int(i64::from(!places.is_empty()));
                return Ok(());
            }
            (_, text) => (Sketch::from_bytes(&text.to_vec(), sparse_bytes_max), false),
        },
    };
    let mut changed = is_new;
    let mut add = |element| sketch.add(element).map(|added| changed |= added);
    if let Err(corrupted) = elements.into_iter().try_for_each(&mut add) {
        // As in Redis, what was added before the damage showed stays, and nobody is told of it.
        let bytes = sketch.into_bytes();
        ctx.put_raw_str(key, &bytes);
        ctx.effect(&[b"SET", key, &bytes, b"KEEPTTL"]);
        return Err(corrupted.into());
    }
    if changed {
        sketch.outdate();
        ctx.put_raw_str(key, &sketch.into_bytes());
        ctx.notify(Event::String, "pfadd", key);
    }
    reply.int(i64::from(changed));
    Ok(())
}

/// PFCOUNT key [key ...]
pub(crate) fn pfcount(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len() == 2 {
        return count_one(ctx, &args[1], reply);
    }
    let inputs: Vec<Option<Stored>> = algebra::read_all(ctx, args.from(1).iter())?;
    algebra::answer(ctx, reply, algebra::elements(&inputs), inputs, |inputs, reply| {
        let mut union = Union::new();
        for stored in inputs.iter().flatten() {
            union.add(&stored.sketch(0))?;
        }
        reply.int(union.cardinality() as i64);
        Ok(())
    })
}

/// Answers the cardinality in a value's header, which is brought up to date if need be.
fn count_one(ctx: &mut Ctx<'_>, key: &[u8], reply: &mut Reply<'_>) -> CmdResult {
    let Some(text) = ctx.read_str(key)? else {
        reply.int(0);
        return Ok(());
    };
    Stored::check(text)?;
    if let Some(cardinality) = sketch::cached_cardinality(&text.window(0)) {
        reply.int(cardinality as i64);
        return Ok(());
    }
    let mut bytes = text.to_vec();
    let is_long = matches!(text, Str::Long(_));
    let cardinality = Sketch::from_bytes(&bytes, 0).cardinality()?;
    if is_long {
        ctx.edit_long(key, |long| sketch::cache_cardinality(long.piece_mut(0), cardinality));
    } else {
        sketch::cache_cardinality(&mut bytes, cardinality);
        ctx.put_raw_str(key, &bytes);
    }
    ctx.touch(key);
    reply.int(cardinality as i64);
    Ok(())
}

/// PFMERGE destination [key [key ...]]
pub(crate) fn pfmerge(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let sparse_bytes_max = sparse_bytes_max(ctx);
    algebra::derive(
        ctx,
        reply,
        args.at(1),
        // What the destination holds is merged too.
        args.from(1).iter(),
        |inputs: &[Option<Stored>]| algebra::elements(inputs),
        move |inputs| merge(inputs, sparse_bytes_max),
        |ctx, reply, destination, merged| {
            ctx.put_raw_str(destination, &merged?.into_bytes());
            ctx.notify(Event::String, "pfadd", destination);
            reply.ok();
            Ok(())
        },
    )
}

/// The first input with the elements of all. It is dense if any of them is.
fn merge(inputs: &[Option<Stored>], sparse_bytes_max: usize) -> Result<Sketch, Corrupted> {
    let mut union = Union::new();
    for stored in inputs.iter().flatten() {
        union.add(&stored.sketch(0))?;
    }
    let mut merged = match &inputs[0] {
        Some(stored) => stored.sketch(sparse_bytes_max),
        None => Sketch::new(sparse_bytes_max),
    };
    if inputs.iter().flatten().any(|stored| stored.encoding == Encoding::Dense) {
        merged.make_dense()?;
    }
    for (index, value) in union.registers() {
        merged.raise(index, value)?;
    }
    merged.outdate();
    Ok(merged)
}

/// PFDEBUG subcommand key: GETREG, DECODE, ENCODING or TODENSE.
pub(crate) fn pfdebug(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (word, key) = (&args[1], &args[2]);
    let text = ctx.peek_str(key)?.ok_or(NO_KEY)?;
    Stored::check(text)?;
    let mut sketch = Sketch::from_bytes(&text.to_vec(), sparse_bytes_max(ctx));
    let was_dense = sketch.is_dense();
    if is(word, "GETREG") || is(word, "TODENSE") {
        if !was_dense {
            sketch.make_dense()?;
            ctx.put_raw_str(key, &sketch.clone().into_bytes());
            // Redis has no event for it.
            ctx.stats().dirty.add(1);
        }
        if is(word, "TODENSE") {
            reply.int(i64::from(!was_dense));
            return Ok(());
        }
        reply.array(estimate::REGISTERS);
        dense::values(sketch.body()).for_each(|value| reply.int(value.into()));
    } else if is(word, "DECODE") {
        if was_dense {
            return Err(NOT_SPARSE);
        }
        reply.text(&sparse::describe(sketch.body()));
    } else if is(word, "ENCODING") {
        reply.simple(if was_dense { "dense" } else { "sparse" });
    } else {
        return Err(Fault::quoting("ERR Unknown PFDEBUG subcommand '", word, "'"));
    }
    Ok(())
}
