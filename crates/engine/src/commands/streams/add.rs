//! Adding entries, trimming, and the counters of a stream.

use store::stream::Trim;
use store::{Stream, StreamId};

use super::ids::{self, NewId, Shown};
use super::{Trimming, peek, show_id, trim};
use crate::args::{self, Args};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// Bytes of one entry's fields that Redis takes.
const ENTRY_BYTES_MAX: usize = 1 << 30;
/// Without LIMIT, so many nodes are trimmed at most.
const TRIMMED_NODES_MAX: usize = 100;
/// Without LIMIT and without a bound on a node's entries, so many entries.
const TRIMMED_ENTRIES_DEFAULT: usize = 10_000;
/// Without LIMIT, so many entries whatever a node holds.
const TRIMMED_ENTRIES_MAX: usize = 1_000_000;

const TWO_STRATEGIES: Fault =
    Fault::Text("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const NEGATIVE_MAXLEN: Fault = Fault::Text("ERR The MAXLEN argument must be >= 0.");
const NEGATIVE_LIMIT: Fault = Fault::Text("ERR The LIMIT argument must be >= 0.");
const LIMIT_WITHOUT_STRATEGY: Fault =
    Fault::Text("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const NO_STRATEGY: Fault = Fault::Text("ERR syntax error, XTRIM must be called with a trimming strategy");
const EXACT_LIMIT: Fault = Fault::Text("ERR syntax error, LIMIT cannot be used without the special ~ option");
const ID_ZERO: Fault = Fault::Text("ERR The ID specified in XADD must be greater than 0-0");
const ID_TOO_SMALL: Fault =
    Fault::Text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: Fault =
    Fault::Text("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: Fault = Fault::Text("ERR Elements are too large to be stored");

/// What XADD and XTRIM have in common.
struct Options {
    trimming: Option<Trimming>,
    only_existing: bool,
    /// The first argument that is no option: XADD's id.
    rest_at: usize,
}

impl Options {
    fn parse(ctx: &Ctx<'_>, args: Args<'_>, adding: bool) -> CmdResult<Options> {
        let (mut trim, mut approximate, mut limit) = (None, false, None);
        let mut only_existing = false;
        let mut at = 2;
        while let Some(word) = args.get(at) {
            let has_value = at + 1 < args.len();
            if adding && word == b"*" {
                break;
            } else if has_value && (args::is(word, "MAXLEN") || args::is(word, "MINID")) {
                if trim.is_some() {
                    return Err(TWO_STRATEGIES);
                }
                let sign =
                    Some(&args[at + 1]).filter(|sign| at + 2 < args.len() && matches!(sign, [b'~' | b'=']));
                approximate = sign == Some(b"~");
                at += 1 + usize::from(sign.is_some());
                trim = Some(threshold(word, &args[at])?);
            } else if has_value && args::is(word, "LIMIT") {
                at += 1;
                limit = Some(usize::try_from(args::int(&args[at])?).map_err(|_| NEGATIVE_LIMIT)?);
            } else if adding && args::is(word, "NOMKSTREAM") {
                only_existing = true;
            } else if adding {
                break;
            } else {
                return Err(Fault::SYNTAX);
            }
            at += 1;
        }
        if adding && let Some(id) = args.get(at) {
            // Before what the options may not be together, as in Redis.
            ids::parse_new(id)?;
        }
        let Some(trim) = trim else {
            return match limit {
                Some(1..) => Err(LIMIT_WITHOUT_STRATEGY),
                _ if !adding => Err(NO_STRATEGY),
                Some(0) => Err(EXACT_LIMIT),
                None => Ok(Options { trimming: None, only_existing, rest_at: at }),
            };
        };
        let nodes_limit = match (approximate, limit) {
            // Redis leaves the word where it tells others of the exact bound.
            (false, Some(_)) if !ctx.repeats_effects() => return Err(EXACT_LIMIT),
            (false, Some(_)) => None,
            (false, None) => None,
            // No limit at all.
            (true, Some(0)) => Some(usize::MAX),
            (true, limit) => Some(limit.unwrap_or_else(|| default_limit(ctx))),
        };
        Ok(Options { trimming: Some(Trimming { trim, nodes_limit }), only_existing, rest_at: at })
    }
}

fn threshold(strategy: &[u8], arg: &[u8]) -> CmdResult<Trim> {
    if args::is(strategy, "MAXLEN") {
        return usize::try_from(args::int(arg)?).map(Trim::MaxLen).map_err(|_| NEGATIVE_MAXLEN);
    }
    ids::parse(arg, 0).map(Trim::MinId)
}

fn default_limit(ctx: &Ctx<'_>) -> usize {
    match ctx.thresholds().stream_node_max_entries.saturating_mul(TRIMMED_NODES_MAX) {
        0 => TRIMMED_ENTRIES_DEFAULT,
        entries => entries.min(TRIMMED_ENTRIES_MAX),
    }
}

/// XADD key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]
pub fn xadd(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, options) = (&args[1], Options::parse(ctx, args, true)?);
    let fields_at = options.rest_at + 1;
    if args.len() < fields_at + 2 || !(args.len() - fields_at).is_multiple_of(2) {
        return Err(Fault::wrong_arity("xadd"));
    }
    let new_id = ids::parse_new(&args[options.rest_at])?;
    // Before a stream is made for it.
    if new_id == NewId::Exact(StreamId::MIN) {
        return Err(ID_ZERO);
    }
    let (now_ms, thresholds) = (ctx.now_ms(), ctx.thresholds());
    let fields = args.from(fields_at);
    if fields.iter().map(<[u8]>::len).sum::<usize>() > ENTRY_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    let add = |stream: &mut Stream| -> CmdResult<StreamId> {
        let id = choose_id(stream.last_id(), new_id, now_ms)?;
        let pairs = (0..fields.len() / 2).map(|pair| (&fields[2 * pair], &fields[2 * pair + 1]));
        stream.append(id, pairs, &thresholds);
        Ok(id)
    };
    let added = match options.only_existing {
        true => ctx.edit(key, add)?,
        false => Some(ctx.edit_or_create(key, add)?),
    };
    let Some(id) = added else {
        reply.null();
        return Ok(());
    };
    let id = id?;
    ctx.notify(Event::Stream, "xadd", key);
    if let Some(trimming) = options.trimming {
        trim(ctx, key, trimming)?;
    }
    if ctx.is_journaled() {
        tell_added(ctx, args, &options, new_id, id)?;
    }
    show_id(&mut reply.encoder(), id);
    Ok(())
}

/// The effect of XADD: with the id that the entry got, and the bound that it was trimmed to.
fn tell_added(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    options: &Options,
    new_id: NewId,
    id: StreamId,
) -> CmdResult {
    let is_approximate = options.trimming.is_some_and(|trimming| trimming.nodes_limit.is_some());
    if matches!(new_id, NewId::Exact(_)) && !is_approximate {
        return Ok(());
    }
    let (key, shown) = (&args[1], Shown::new(id));
    let bound = bound(ctx, key, options.trimming)?;
    let mut words: Vec<&[u8]> = vec![&args[0], key];
    if options.only_existing {
        words.push(b"NOMKSTREAM");
    }
    if let Some((strategy, threshold)) = &bound {
        words.extend([strategy, &b"="[..], threshold]);
    }
    words.push(shown.as_bytes());
    ctx.effect_with(&words, args.from(options.rest_at + 1));
    Ok(())
}

/// The exact bound that trimming a stream has come to: which nodes are whole is nobody else's business.
fn bound(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    trimming: Option<Trimming>,
) -> CmdResult<Option<(&'static [u8], Vec<u8>)>> {
    let Some(trimming) = trimming else { return Ok(None) };
    let left = peek(ctx, key)?.map(|stream| (stream.len(), stream.first_entry_id()));
    let (len, first_id) = left.unwrap_or_default();
    let is_exact = trimming.nodes_limit.is_none();
    let show = |id: StreamId| Shown::new(id).as_bytes().to_vec();
    Ok(Some(match trimming.trim {
        Trim::MaxLen(max) => (b"MAXLEN", if is_exact { max } else { len }.to_string().into_bytes()),
        Trim::MinId(min) => (b"MINID", show(if is_exact { min } else { first_id.unwrap_or(StreamId::MAX) })),
    }))
}

fn choose_id(last: StreamId, new_id: NewId, now_ms: i64) -> CmdResult<StreamId> {
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    let id = match new_id {
        NewId::Exact(id) => id,
        NewId::AutoSeq(ms) if ms == last.ms => {
            StreamId::new(ms, last.seq.checked_add(1).ok_or(ID_TOO_SMALL)?)
        }
        NewId::AutoSeq(ms) => StreamId::new(ms, 0),
        NewId::Auto => match u64::try_from(now_ms) {
            Ok(now_ms) if now_ms > last.ms => StreamId::new(now_ms, 0),
            _ => last.next().ok_or(EXHAUSTED)?,
        },
    };
    if id > last { Ok(id) } else { Err(ID_TOO_SMALL) }
}

/// XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]
pub fn xtrim(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let Some(trimming) = Options::parse(ctx, args, false)?.trimming else { return Err(NO_STRATEGY) };
    let trimmed = trim(ctx, &args[1], trimming)?;
    if trimmed > 0
        && trimming.nodes_limit.is_some()
        && let Some((strategy, threshold)) = bound(ctx, &args[1], Some(trimming))?
    {
        ctx.effect(&[b"XTRIM", &args[1], strategy, b"=", &threshold]);
    }
    reply.int(trimmed as i64);
    Ok(())
}

/// XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]
pub fn xsetid(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, id) = (&args[1], ids::parse(&args[2], 0)?);
    let (mut entries_added, mut max_deleted_id) = (None, StreamId::MIN);
    let mut at = 3;
    while at < args.len() {
        let value = args.get(at + 1).ok_or(Fault::SYNTAX)?;
        if args::is(&args[at], "ENTRIESADDED") {
            let negative = Fault::Text("ERR entries_added must be positive");
            entries_added = Some(u64::try_from(args::int(value)?).map_err(|_| negative)?);
        } else if args::is(&args[at], "MAXDELETEDID") {
            max_deleted_id = ids::parse(value, 0)?;
            if id < max_deleted_id {
                return Err(Fault::Text(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(Fault::SYNTAX);
        }
        at += 2;
    }
    let set = ctx.edit(key, |stream: &mut Stream| set_counters(stream, id, entries_added, max_deleted_id))?;
    set.ok_or(Fault::NO_SUCH_KEY)??;
    ctx.notify_event(Event::Stream, "xsetid", key);
    reply.ok();
    Ok(())
}

fn set_counters(
    stream: &mut Stream,
    id: StreamId,
    entries_added: Option<u64>,
    max_deleted_id: StreamId,
) -> CmdResult {
    if id < stream.max_deleted_id() {
        return Err(Fault::Text(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ));
    }
    if let Some(last) = stream.last_entry_id() {
        if id < last {
            return Err(Fault::Text(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if entries_added.is_some_and(|added| added < stream.len() as u64) {
            return Err(Fault::Text(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    stream.set_last_id(id);
    if let Some(added) = entries_added {
        stream.set_entries_added(added);
    }
    if max_deleted_id != StreamId::MIN {
        stream.set_max_deleted_id(max_deleted_id);
    }
    Ok(())
}
