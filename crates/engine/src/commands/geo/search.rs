//! GEOSEARCH, GEORADIUS and their like: which members lie within a shape.

use std::ops::Bound;

use resp::Encoder;
use store::{Thresholds, Typed, ValueRef, ZSet};

use super::cell::Point;
use super::query::{Form, Order, Query};
use super::{reply_distance, reply_point};
use crate::args::Args;
use crate::commands::algebra;
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// A place costs this many times what visiting an element costs.
const PLACE_WORK_ELEMENTS: usize = 4;

/// A member that lies within.
struct Found {
    member: Box<[u8]>,
    score: f64,
    point: Point,
    distance_m: f64,
}

/// The ranks of the members to be looked at, one range for each cell.
fn candidates(zset: &ZSet, query: &Query) -> CmdResult<Vec<std::ops::Range<usize>>> {
    let cells = query.shape(zset)?.cells();
    let ranks = cells.into_iter().map(|cell| {
        let (min, max) = cell.scores();
        zset.ranks_by_score(Bound::Included(min), Bound::Excluded(max))
    });
    Ok(ranks.collect())
}

fn work(zset: &ZSet, query: &Query) -> usize {
    let ranks = candidates(zset, query).unwrap_or_default();
    ranks.iter().map(ExactSizeIterator::len).sum::<usize>().saturating_mul(PLACE_WORK_ELEMENTS)
}

/// The results, in their order.
fn search(zset: &ZSet, query: &Query) -> CmdResult<Vec<Found>> {
    let shape = query.shape(zset)?;
    let enough = if query.any { query.count } else { usize::MAX };
    let mut found = Vec::new();
    'cells: for ranks in candidates(zset, query)? {
        let mut members = zset.range(ranks.start, false);
        for _ in ranks {
            let Some((member, score)) = members.next() else { break };
            let point = Point::of_score(score);
            if let Some(distance_m) = shape.distance_within_m(point) {
                found.push(Found { member: member.into(), score, point, distance_m });
                if found.len() >= enough {
                    break 'cells;
                }
            }
        }
    }
    match query.order {
        Some(Order::NearestFirst) => found.sort_by(|a, b| a.distance_m.total_cmp(&b.distance_m)),
        Some(Order::FarthestFirst) => found.sort_by(|a, b| b.distance_m.total_cmp(&a.distance_m)),
        None => {}
    }
    if query.count > 0 {
        found.truncate(query.count);
    }
    Ok(found)
}

fn reply_found(reply: &mut Reply<'_>, found: Vec<Found>, query: &Query) {
    let (distance, hash, coordinates) = (query.with_distance, query.with_hash, query.with_coordinates);
    let extras = usize::from(distance) + usize::from(hash) + usize::from(coordinates);
    let unit_m = query.unit_m;
    reply.array(found.len());
    if found.is_empty() {
        return;
    }
    let mut found = found.into_iter();
    reply.stream(move |out: &mut Encoder<'_>| {
        let Some(one) = found.next() else { return false };
        if extras > 0 {
            out.array(1 + extras);
        }
        out.bulk(&one.member);
        if distance {
            reply_distance(out, one.distance_m / unit_m);
        }
        if hash {
            out.int(one.score as i64);
        }
        if coordinates {
            reply_point(out, one.point);
        }
        found.len() > 0
    });
}

fn results(zset: &ZSet, query: &Query, distances: bool, thresholds: &Thresholds) -> CmdResult<ZSet> {
    let scored = search(zset, query)?.into_iter().map(|one| {
        let score = if distances { one.distance_m / query.unit_m } else { one.score };
        (one.member, score)
    });
    Ok(ZSet::from_entries(scored.collect(), thresholds))
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>, form: Form) -> CmdResult {
    let key = args.at(form.source_at());
    let zset = peek(ctx, key)?;
    // The key was looked for all the same.
    let query =
        Query::parse(args, form, zset.as_ref()).inspect_err(|_| ctx.count_peek(key, zset.is_some()))?;
    let Some(store) = query.store else {
        let Some(zset) = ctx.read::<ZSet>(key)?.cloned() else {
            reply.empty_array();
            return Ok(());
        };
        return algebra::answer(ctx, reply, work(&zset, &query), zset, move |zset, reply| {
            reply_found(reply, search(&zset, &query)?, &query);
            Ok(())
        });
    };
    drop(zset);
    let thresholds = ctx.thresholds();
    let event = if form == Form::SearchStore { "geosearchstore" } else { "georadiusstore" };
    let asked = query.clone();
    algebra::derive(
        ctx,
        reply,
        args.at(store.destination_at),
        std::iter::once(key),
        move |inputs: &[Option<ZSet>]| inputs[0].as_ref().map_or(0, |zset| work(zset, &asked)),
        move |inputs| match &inputs[0] {
            Some(zset) => results(zset, &query, store.distances, &thresholds),
            None => Ok(ZSet::new()),
        },
        move |ctx, reply, destination, results| {
            algebra::store_result(ctx, reply, destination, results?, Event::ZSet, event);
            Ok(())
        },
    )
}

/// A clone of the places at a key, not counted as a read.
fn peek(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<ZSet>> {
    match ctx.peek(key).map(|view| view.value()) {
        None => Ok(None),
        Some(ValueRef::Object(value)) => ZSet::of(value).cloned().map(Some).ok_or(Fault::WRONG_TYPE),
        Some(ValueRef::Inline(_)) => Err(Fault::WRONG_TYPE),
    }
}

/// GEORADIUS key longitude latitude radius unit [options]
pub(crate) fn georadius(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    run(ctx, args, reply, Form::Radius { may_store: true })
}

/// GEORADIUS_RO key longitude latitude radius unit [options]
pub(crate) fn georadius_ro(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    run(ctx, args, reply, Form::Radius { may_store: false })
}

/// GEORADIUSBYMEMBER key member radius unit [options]
pub(crate) fn georadiusbymember(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    run(ctx, args, reply, Form::RadiusByMember { may_store: true })
}

/// GEORADIUSBYMEMBER_RO key member radius unit [options]
pub(crate) fn georadiusbymember_ro(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    run(ctx, args, reply, Form::RadiusByMember { may_store: false })
}

/// GEOSEARCH key from by [options]
pub(crate) fn geosearch(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    run(ctx, args, reply, Form::Search)
}

/// GEOSEARCHSTORE destination source from by [options]
pub(crate) fn geosearchstore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    run(ctx, args, reply, Form::SearchStore)
}
