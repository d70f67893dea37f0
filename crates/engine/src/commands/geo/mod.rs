//! Places in sorted sets: a member's score is its place, of which `cell.rs` tells.
//!
//! Specified by Redis's `geo.c`.

mod cell;
mod query;
mod search;
mod shape;

use base::num::{write_f64, write_fixed};
use store::ZSet;

use self::cell::{LATITUDE_MAX, LONGITUDE_MAX, Point};
use super::zsets::{AddOptions, add_scored};
use crate::args::{self, Args, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

pub(crate) use search::{
    georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore,
};

const BAD_UNIT: Fault = Fault::Text("ERR unsupported unit provided. please use M, KM, FT, MI");
/// Decimals of a distance.
const DISTANCE_DECIMALS: usize = 4;
/// Decimals of a coordinate, before trailing zeros are taken away.
const COORDINATE_DECIMALS: usize = 17;

/// A longitude and the latitude after it.
fn point(longitude: &[u8], latitude: &[u8]) -> CmdResult<Point> {
    let point = Point { longitude: args::float(longitude)?, latitude: args::float(latitude)? };
    if point.longitude.abs() > LONGITUDE_MAX || point.latitude.abs() > LATITUDE_MAX {
        let Point { longitude, latitude } = point;
        let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        return Err(Fault::owned(text));
    }
    Ok(point)
}

/// The metres of a unit.
fn unit_m(word: &[u8]) -> CmdResult<f64> {
    const UNITS_M: [(&str, f64); 4] = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let known = UNITS_M.iter().find(|(name, _)| is(word, name));
    known.map(|(_, unit_m)| *unit_m).ok_or(BAD_UNIT)
}

fn reply_distance(reply: &mut resp::Encoder<'_>, distance: f64) {
    let mut text = Vec::new();
    write_fixed(&mut text, distance, DISTANCE_DECIMALS);
    reply.bulk(&text);
}

fn reply_point(reply: &mut resp::Encoder<'_>, point: Point) {
    reply.array(2);
    for coordinate in [point.longitude, point.latitude] {
        let mut text = Vec::new();
        write_fixed(&mut text, coordinate, COORDINATE_DECIMALS);
        let significant = text.iter().rposition(|byte| *byte != b'0').map_or(0, |last| last + 1);
        text.truncate(significant);
        if text.ends_with(b".") {
            text.pop();
        }
        reply.double_text(if text == b"-0" { b"0" } else { &text });
    }
}

/// GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]
pub(crate) fn geoadd(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let mut options = AddOptions::default();
    let mut at = 2;
    while let Some(word) = args.get(at) {
        match word {
            _ if is(word, "NX") => options.only_new = true,
            _ if is(word, "XX") => options.only_existing = true,
            _ if is(word, "CH") => options.count_changes = true,
            _ => break,
        }
        at += 1;
    }
    let places = args.from(at);
    let is_contradictory = options.only_new && options.only_existing;
    if places.is_empty() || !places.len().is_multiple_of(3) || is_contradictory {
        return Err(Fault::SYNTAX);
    }
    let starts = (0..places.len()).step_by(3);
    let scores: Vec<f64> =
        starts.map(|at| point(&places[at], &places[at + 1]).map(Point::score)).collect::<CmdResult<_>>()?;
    let member = |index: usize| places.at(3 * index + 2);
    let dirty_before = ctx.stats().dirty.get();
    add_scored(ctx, &args[1], &scores, member, options, reply)?;
    if ctx.is_journaled() && ctx.stats().dirty.get() != dirty_before {
        // As what it is, which takes no sines.
        let scores: Vec<Vec<u8>> = scores.iter().map(|score| show_score(*score)).collect();
        let mut words: Vec<&[u8]> = args.from(2).first(at - 2).iter().collect();
        words.extend(scores.iter().enumerate().flat_map(|(index, score)| [&**score, member(index)]));
        ctx.effect_with(&[b"ZADD", &args[1]], Args::from_slices(&words));
    }
    Ok(())
}

fn show_score(score: f64) -> Vec<u8> {
    let mut text = Vec::new();
    write_f64(&mut text, score);
    text
}

/// GEODIST key member1 member2 [M | KM | FT | MI]
pub(crate) fn geodist(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let unit_m = match args.len() {
        4 => 1.0,
        5 => unit_m(&args[4])?,
        _ => return Err(Fault::SYNTAX),
    };
    let zset = ctx.read::<ZSet>(&args[1])?;
    let place = |member: &[u8]| zset.and_then(|zset| zset.score(member)).map(Point::of_score);
    match (place(&args[2]), place(&args[3])) {
        (Some(from), Some(to)) => {
            reply_distance(&mut reply.encoder(), shape::distance_m(from, to) / unit_m);
        }
        _ => reply.null(),
    }
    Ok(())
}

/// GEOHASH key [member [member ...]]
pub(crate) fn geohash(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let zset = ctx.read::<ZSet>(&args[1])?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members.iter() {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => reply.bulk(&Point::of_score(score).geohash()),
            None => reply.null(),
        }
    }
    Ok(())
}

/// GEOPOS key [member [member ...]]
pub(crate) fn geopos(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let zset = ctx.read::<ZSet>(&args[1])?;
    let members = args.from(2);
    reply.array(members.len());
    for member in members.iter() {
        match zset.and_then(|zset| zset.score(member)) {
            Some(score) => reply_point(&mut reply.encoder(), Point::of_score(score)),
            None => reply.null_array(),
        }
    }
    Ok(())
}
