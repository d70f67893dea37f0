//! The LCS command: its options, its limits and its replies. The algorithm is in `lcs.rs`.

use super::lcs::{self, Match};
use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::value::{OwnedStr, Str};

/// Table cells up to which LCS runs on the loop: some 30 microseconds.
const CELLS_INLINE_MAX: u64 = 1 << 20;

const NOT_STRINGS: Fault = Fault::Text("ERR The specified keys must contain string values");
const LEN_WITH_IDX: Fault = Fault::Text("ERR If you want both the length and indexes, please just use IDX.");
const TABLE_TOO_BIG: Fault =
    Fault::Text("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");

#[derive(Default)]
struct Options {
    length_only: bool,
    indexes: bool,
    match_bytes_min: usize,
    with_match_length: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> CmdResult<Self> {
        let mut options = Self::default();
        let mut at = 3;
        while let Some(word) = args.get(at) {
            match (word, args.get(at + 1)) {
                _ if is(word, "IDX") => options.indexes = true,
                _ if is(word, "LEN") => options.length_only = true,
                _ if is(word, "WITHMATCHLEN") => options.with_match_length = true,
                (_, Some(bytes)) if is(word, "MINMATCHLEN") => {
                    options.match_bytes_min = usize::try_from(int(bytes)?).unwrap_or(0);
                    at += 1;
                }
                _ => return Err(Fault::SYNTAX),
            }
            at += 1;
        }
        if options.length_only && options.indexes { Err(LEN_WITH_IDX) } else { Ok(options) }
    }
}

pub(crate) fn lcs(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    // Both are looked for before the type of one is refused.
    let (a, b) = (read(ctx, &args[1]), read(ctx, &args[2]));
    let (a, b) = (a?, b?);
    let options = Options::parse(args)?;
    // The table that Redis would build decides what is refused, so that both refuse the same.
    let cells = (a.len() as u64 + 1).saturating_mul(b.len() as u64 + 1);
    if cells.saturating_mul(size_of::<u32>() as u64) > ctx.server().config.hot().proto_max_bulk_bytes() {
        return Err(TABLE_TOO_BIG);
    }
    if cells <= CELLS_INLINE_MAX {
        answer(a, b, &options, reply);
    } else {
        ctx.defer(move |lane| {
            answer(a, b, &options, &mut lane.reply());
            Ok(())
        });
    }
    Ok(())
}

fn read(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<OwnedStr> {
    let text = ctx.read_str(key).map_err(|_| NOT_STRINGS)?;
    Ok(text.unwrap_or(Str::Inline(b"")).to_owned())
}

fn answer(a: OwnedStr, b: OwnedStr, options: &Options, reply: &mut Reply<'_>) {
    let (a, b) = (a.as_str().to_vec(), b.as_str().to_vec());
    if options.length_only {
        reply.int(lcs::length(&a, &b) as i64);
        return;
    }
    let matches = lcs::matches(&a, &b);
    if options.indexes {
        answer_indexes(&matches, options, reply);
        return;
    }
    let common: Vec<u8> = matches
        .iter()
        .rev()
        .flat_map(|found| &a[found.a_start..found.a_start + found.length])
        .copied()
        .collect();
    reply.bulk(&common);
}

fn answer_indexes(matches: &[Match], options: &Options, reply: &mut Reply<'_>) {
    let shown = || matches.iter().filter(|found| found.length >= options.match_bytes_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(shown().count());
    for found in shown() {
        reply.array(if options.with_match_length { 3 } else { 2 });
        for start in [found.a_start, found.b_start] {
            reply.array(2);
            reply.int(start as i64);
            reply.int((start + found.length - 1) as i64);
        }
        if options.with_match_length {
            reply.int(found.length as i64);
        }
    }
    reply.bulk(b"len");
    reply.int(matches.iter().map(|found| found.length as i64).sum());
}
