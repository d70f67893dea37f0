//! HRANDFIELD.

use base::limits::{BIG_INPUT_ELEMENTS, EXPIRE_SLICE_KEYS};
use fastrand::Rng;
use resp::{Encoder, Proto};
use store::{Hash, Value, ValueRef, View};

use super::lapse::Changes;
use super::{Show, stream_all};
use crate::args::Args;
use crate::commands::random::{Draw, DrawCount};
use crate::ctx::Ctx;
use crate::fault::CmdResult;
use crate::lane::Lane;
use crate::reply::Reply;

/// HRANDFIELD key [count [WITHVALUES]]
pub(crate) fn hrandfield(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let wanted = match args.len() {
        2 => None,
        _ => Some(DrawCount::parse_pairs(args, "WITHVALUES")?),
    };
    let (key, now_ms, rng) = (&args[1], ctx.ends_now_ms(), ctx.rng().fork());
    match ctx.read::<Hash>(key)? {
        Some(hash) if hash.past_len(now_ms) > 0 => remove_past(ctx, key),
        found => {
            answer_without_past(reply, found, wanted, rng);
            return Ok(());
        }
    }
    let left = match ctx.peek(key).map(View::value) {
        Some(ValueRef::Object(Value::Hash(hash))) => Some(hash),
        _ => None,
    };
    let Some(hash) = left.filter(|hash| hash.past_len(now_ms) > 0) else {
        answer_without_past(reply, left, wanted, rng);
        return Ok(());
    };
    if hash.len() <= BIG_INPUT_ELEMENTS {
        answer(reply, hash, Places::live(hash, now_ms), wanted, rng);
    } else {
        // Many fields ended at once and are still being removed: those that live have to be sought out.
        let hash = hash.clone();
        ctx.defer(move |lane: &mut Lane<'_>| {
            answer(&mut lane.reply(), &hash, Places::live(&hash, now_ms), wanted, rng);
            Ok(())
        });
    }
    Ok(())
}

fn answer_without_past(
    reply: &mut Reply<'_>,
    hash: Option<&Hash>,
    wanted: Option<(DrawCount, bool)>,
    rng: Rng,
) {
    match hash {
        Some(hash) => answer(reply, hash, Places::All(hash.len()), wanted, rng),
        None if wanted.is_some() => reply.empty_array(),
        None => reply.null(),
    }
}

/// Removes fields that are past their end, but no more than a slice of expiry does.
fn remove_past(ctx: &mut Ctx<'_>, key: &[u8]) {
    if ctx.keeps_expired() {
        return;
    }
    let now_ms = ctx.ends_now_ms();
    let removed = ctx.edit(key, |hash: &mut Hash| {
        let lapsed = hash.remove_past(now_ms, EXPIRE_SLICE_KEYS);
        (lapsed, hash.is_empty())
    });
    if let Ok(Some((lapsed, emptied))) = removed {
        let lapsed = lapsed.iter().map(|field| &**field).collect();
        Changes { lapsed, emptied, ..Changes::default() }.tell(ctx, key);
        ctx.no_effect();
    }
}

/// The ranks that may be drawn.
enum Places {
    /// All below this.
    All(usize),
    /// These.
    Some(Vec<usize>),
}

impl Places {
    fn live(hash: &Hash, now_ms: i64) -> Places {
        let is_live =
            |rank: &usize| hash.at(*rank).is_some_and(|(field, _)| !hash.is_past_end(field, now_ms));
        Places::Some((0..hash.len()).filter(is_live).collect())
    }

    fn len(&self) -> usize {
        match self {
            Places::All(len) => *len,
            Places::Some(ranks) => ranks.len(),
        }
    }

    fn rank(&self, place: usize) -> usize {
        match self {
            Places::All(_) => place,
            Places::Some(ranks) => ranks[place],
        }
    }
}

fn answer(
    reply: &mut Reply<'_>,
    hash: &Hash,
    places: Places,
    wanted: Option<(DrawCount, bool)>,
    mut rng: Rng,
) {
    let len = places.len();
    let Some((draw, with_values)) = wanted else {
        let drawn = (len > 0).then(|| places.rank(rng.usize(..len)));
        reply.encoder().bulk_or_null(drawn.and_then(|rank| hash.at(rank)).map(|(field, _)| field));
        return;
    };
    if len == 0 {
        reply.empty_array();
        return;
    }
    reply.array_of(draw.drawn(len), with_values);
    let show: Show = match (with_values, reply.proto()) {
        (false, _) => |out, field, _| out.bulk(field),
        (true, Proto::V2) => |out, field, value| {
            out.bulk(field);
            out.bulk(value);
        },
        (true, Proto::V3) => |out, field, value| {
            out.array(2);
            out.bulk(field);
            out.bulk(value);
        },
    };
    let hash = hash.clone();
    match places {
        Places::All(_) if draw.distinct && draw.count >= len => stream_all(reply, hash.iter(), show),
        places if draw.distinct => {
            let drawn = Draw::new(len, rng).take(draw.count);
            stream_ranks(reply, hash, drawn.map(move |place| places.rank(place)), show);
        }
        places => {
            let drawn = (0..draw.count).map(move |_| rng.usize(..len));
            stream_ranks(reply, hash, drawn.map(move |place| places.rank(place)), show);
        }
    }
}

/// The fields of these ranks; the head of the reply is written.
fn stream_ranks(
    reply: &mut Reply<'_>,
    hash: Hash,
    mut ranks: impl Iterator<Item = usize> + Send + 'static,
    show: Show,
) {
    reply.stream(move |out: &mut Encoder<'_>| match ranks.next().and_then(|rank| hash.at(rank)) {
        Some((field, value)) => {
            show(out, field, value);
            true
        }
        None => false,
    });
}
