//! XACK, XCLAIM and XAUTOCLAIM: what becomes of entries that were delivered.

use resp::Encoder;
use store::stream::{Group, Name, Pending};
use store::{Stream, StreamId};

use super::told::Told;
use super::{change, ids, no_group, peek, show_entry, show_id};
use crate::args::{self, Args};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// Pending entries that XAUTOCLAIM claims without COUNT.
const CLAIMED_DEFAULT: usize = 100;
/// XAUTOCLAIM looks at so many pending entries for each that it may claim.
const LOOKS_PER_CLAIM: usize = 10;
/// COUNT times [`LOOKS_PER_CLAIM`] and times the size of an id has to fit 63 bits.
const CLAIMED_MAX: i64 = i64::MAX / 16;

/// XACK key group id [id ...]
pub fn xack(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, name) = (args.at(1), Name::from(args.at(2)));
    let Some(pending) =
        ctx.read::<Stream>(key)?.and_then(|stream| stream.group(&name)).map(Group::pending_len)
    else {
        reply.int(0);
        return Ok(());
    };
    let done = ids::parse_all(args.from(3).iter())?;
    let work = done.len().min(pending);
    let acknowledge = move |stream: &mut Stream| {
        stream.edit_group(&name, |group| done.iter().filter(|id| group.acknowledge(**id)).count())
    };
    change(ctx, reply, key, work, acknowledge, |ctx, reply, _, acknowledged| {
        let acknowledged = acknowledged.flatten().unwrap_or(0);
        // Redis has no event for it.
        ctx.stats().dirty.add(acknowledged as u64);
        reply.int(acknowledged as i64);
        Ok(())
    })
}

/// A consumer that takes entries over.
struct Claimant {
    group: Name,
    consumer: Name,
    now_ms: i64,
    min_idle_ms: i64,
    delivered_ms: i64,
    retry_count: Option<u64>,
    just_id: bool,
}

/// What a claim brought.
struct Claimed {
    has_new_consumer: bool,
    /// Claimed, in the order of the reply.
    ids: Vec<StreamId>,
    /// Pending until now, but not in the stream any more.
    deleted: Vec<(StreamId, Pending)>,
    /// The group has read further.
    has_moved: bool,
    /// Where to go on.
    next: StreamId,
}

impl Claimant {
    /// Makes the consumer, if there is none, and changes its group.
    fn enter(
        &self,
        stream: &mut Stream,
        claim: impl FnOnce(&Stream, &mut Group, &mut Claimed),
    ) -> Option<Claimed> {
        let there = stream.entries_only();
        stream.edit_group(&self.group, |group| {
            let has_new_consumer = group.create_consumer(&self.consumer, self.now_ms, None);
            group.touch_consumer(&self.consumer, self.now_ms, false);
            let mut claimed = Claimed {
                has_new_consumer,
                ids: Vec::new(),
                deleted: Vec::new(),
                has_moved: false,
                next: StreamId::MIN,
            };
            claim(&there, group, &mut claimed);
            if !claimed.ids.is_empty() {
                group.touch_consumer(&self.consumer, self.now_ms, true);
            }
            claimed
        })
    }

    fn is_idle_enough(&self, pending: &Pending) -> bool {
        self.min_idle_ms == 0 || self.now_ms - pending.delivered_ms >= self.min_idle_ms
    }

    /// Takes an entry over that was delivered so often.
    fn take(&self, group: &mut Group, id: StreamId, deliveries: u64) {
        let deliveries = match self.retry_count {
            Some(count) => count,
            None => deliveries.wrapping_add(u64::from(!self.just_id)),
        };
        group.assign(
            id,
            Pending { consumer: self.consumer.clone(), delivered_ms: self.delivered_ms, deliveries },
        );
    }
}

fn min_idle(arg: &[u8], fault: &'static str) -> CmdResult<i64> {
    base::num::parse_i64(arg).map(|ms| ms.max(0)).ok_or(Fault::Text(fault))
}

/// Fails unless there is such a stream, with such a group. Returns how much is pending.
fn demand_group(ctx: &mut Ctx<'_>, key: &[u8], name: &[u8]) -> CmdResult<usize> {
    let group = peek(ctx, key)?.and_then(|stream| stream.group(name));
    group.map(Group::pending_len).ok_or_else(|| no_group(key, name, ""))
}

/// XCLAIM's arguments after the ids.
#[derive(Default)]
struct Options {
    delivered_ms: Option<i64>,
    retry_count: Option<u64>,
    force: bool,
    just_id: bool,
    last_id: StreamId,
}

impl Options {
    fn parse(args: Args<'_>, now_ms: i64) -> CmdResult<Options> {
        let mut options = Options::default();
        let number = |arg: &[u8], fault| base::num::parse_i64(arg).ok_or(Fault::Text(fault));
        let mut at = 0;
        while let Some(word) = args.get(at) {
            let value = args.get(at + 1);
            let is = |name| args::is(word, name);
            at += 1;
            match value {
                _ if is("FORCE") => options.force = true,
                _ if is("JUSTID") => options.just_id = true,
                Some(value) if is("IDLE") => {
                    let idle_ms = number(value, "ERR Invalid IDLE option argument for XCLAIM")?;
                    options.delivered_ms = Some(now_ms.wrapping_sub(idle_ms));
                    at += 1;
                }
                Some(value) if is("TIME") => {
                    options.delivered_ms =
                        Some(number(value, "ERR Invalid TIME option argument for XCLAIM")?);
                    at += 1;
                }
                Some(value) if is("RETRYCOUNT") => {
                    let count = number(value, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                    options.retry_count = u64::try_from(count).ok();
                    at += 1;
                }
                Some(value) if is("LASTID") => {
                    options.last_id = ids::parse(value, 0)?;
                    at += 1;
                }
                _ => return Err(Fault::quoting("ERR Unrecognized XCLAIM option '", word, "'")),
            }
        }
        Ok(options)
    }
}

/// XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count]
/// [FORCE] [JUSTID] [LASTID lastid]
pub fn xclaim(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, group, now_ms) = (args.at(1), args.at(2), ctx.wall_ms());
    ctx.exists(key);
    demand_group(ctx, key, group)?;
    let min_idle_ms = min_idle(&args[4], "ERR Invalid min-idle-time argument for XCLAIM")?;
    // What is no id begins the options.
    let wanted: Vec<StreamId> = args.from(5).iter().map_while(|arg| ids::parse(arg, 0).ok()).collect();
    let options = Options::parse(args.from(5 + wanted.len()), now_ms)?;
    // A time that makes no sense is the client's clock gone wrong, not worth an error.
    let delivered_ms = options.delivered_ms.filter(|ms| (0..=now_ms).contains(ms)).unwrap_or(now_ms);
    let claimant = Claimant {
        group: Name::from(group),
        consumer: Name::from(args.at(3)),
        now_ms,
        min_idle_ms,
        delivered_ms,
        retry_count: options.retry_count,
        just_id: options.just_id,
    };
    let just_id = options.just_id;
    let claim = move |stream: &mut Stream| {
        claimant.enter(stream, |stream, group, claimed| {
            if options.last_id > group.last_id() {
                claimed.has_moved = true;
                group.set_position(options.last_id, group.entries_read());
            }
            for id in &wanted {
                claim_one(&claimant, options.force, stream, group, *id, claimed);
            }
        })
    };
    let (work, name, consumer) = (args.len() - 5, Name::from(group), Name::from(args.at(3)));
    change(ctx, reply, key, work, claim, move |ctx, reply, key, claimed| {
        let claimed = claimed.flatten().ok_or_else(|| no_group(key, &name, ""))?;
        note(ctx, Told { key, group: &name }, &consumer, &claimed)?;
        show_claimed(ctx, reply, key, claimed.ids, just_id)
    })
}

fn claim_one(
    claimant: &Claimant,
    force: bool,
    stream: &Stream,
    group: &mut Group,
    id: StreamId,
    claimed: &mut Claimed,
) {
    let known = group.pending(id);
    if stream.get(id).is_none() {
        if let Some(known) = known.cloned() {
            group.acknowledge(id);
            claimed.deleted.push((id, known));
        }
        return;
    }
    let deliveries = match known {
        Some(known) if !claimant.is_idle_enough(known) => return,
        Some(known) => known.deliveries,
        // Redis makes the entry with one delivery, and then claims it.
        None if force => 1,
        None => return,
    };
    claimant.take(group, id, deliveries);
    claimed.ids.push(id);
}

/// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
pub fn xautoclaim(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, group, now_ms) = (args.at(1), args.at(2), ctx.wall_ms());
    // The key is looked for before anything is refused, but its type matters only after that.
    ctx.exists(key);
    let min_idle_ms = min_idle(&args[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let start = ids::parse_start(&args[5])?;
    let (mut count, mut just_id) = (CLAIMED_DEFAULT, false);
    let mut at = 6;
    while let Some(word) = args.get(at) {
        match args.get(at + 1) {
            Some(value) if args::is(word, "COUNT") => {
                let given = base::num::parse_i64(value).filter(|count| (1..=CLAIMED_MAX).contains(count));
                count = given.ok_or(Fault::Text("ERR COUNT must be > 0"))? as usize;
                at += 2;
            }
            _ if args::is(word, "JUSTID") => {
                just_id = true;
                at += 1;
            }
            _ => return Err(Fault::SYNTAX),
        }
    }
    let pending = demand_group(ctx, key, group)?;
    let claimant = Claimant {
        group: Name::from(group),
        consumer: Name::from(args.at(3)),
        now_ms,
        min_idle_ms,
        delivered_ms: now_ms,
        retry_count: None,
        just_id,
    };
    let claim = move |stream: &mut Stream| {
        claimant.enter(stream, |stream, group, claimed| {
            claim_idle(&claimant, stream, group, start, count, claimed)
        })
    };
    let work = pending.min(count.saturating_mul(LOOKS_PER_CLAIM));
    let (name, consumer) = (Name::from(group), Name::from(args.at(3)));
    change(ctx, reply, key, work, claim, move |ctx, reply, key, claimed| {
        let mut claimed = claimed.flatten().ok_or_else(|| no_group(key, &name, ""))?;
        note(ctx, Told { key, group: &name }, &consumer, &claimed)?;
        reply.array(3);
        show_id(&mut reply.encoder(), claimed.next);
        let deleted = std::mem::take(&mut claimed.deleted).into_iter().map(|(id, _)| id).collect();
        show_claimed(ctx, reply, key, claimed.ids, just_id)?;
        show_ids(reply, deleted);
        Ok(())
    })
}

/// Claims up to `count` entries that were idle for long enough, in the order of ids.
fn claim_idle(
    claimant: &Claimant,
    stream: &Stream,
    group: &mut Group,
    start: StreamId,
    count: usize,
    claimed: &mut Claimed,
) {
    let mut rank = group.pending_rank(start);
    let mut looks = count.saturating_mul(LOOKS_PER_CLAIM);
    while looks > 0
        && claimed.ids.len() + claimed.deleted.len() < count
        && let Some((id, known)) = group.pending_at(rank)
    {
        looks -= 1;
        let (is_idle, deliveries) = (claimant.is_idle_enough(known), known.deliveries);
        if stream.get(id).is_none() {
            let known = known.clone();
            group.acknowledge(id);
            claimed.deleted.push((id, known));
            continue;
        }
        rank += 1;
        if is_idle {
            claimant.take(group, id, deliveries);
            claimed.ids.push(id);
        }
    }
    claimed.next = group.pending_at(rank).map_or(StreamId::MIN, |(id, _)| id);
}

/// Tells of what a claim changed.
fn note(ctx: &mut Ctx<'_>, told: Told<'_>, consumer: &[u8], claimed: &Claimed) -> CmdResult {
    if claimed.has_new_consumer {
        ctx.notify_event(Event::Stream, "xgroup-createconsumer", told.key);
    }
    // Redis has no event for the rest.
    ctx.stats().dirty.add((claimed.ids.len() + claimed.deleted.len()) as u64);
    ctx.no_effect();
    if !ctx.is_journaled() {
        return Ok(());
    }
    if claimed.has_new_consumer && claimed.ids.is_empty() {
        told.consumer(ctx, consumer);
    }
    let Some(stream) = peek(ctx, told.key)?.cloned() else { return Ok(()) };
    told.claimed(ctx, &stream, &claimed.ids);
    told.gone(ctx, &stream, &claimed.deleted);
    if claimed.has_moved
        && claimed.ids.is_empty()
        && claimed.deleted.is_empty()
        && let Some(group) = stream.group(told.group)
    {
        told.position(ctx, group);
    }
    Ok(())
}

/// The claimed entries, or their ids alone.
fn show_claimed(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    key: &[u8],
    ids: Vec<StreamId>,
    just_id: bool,
) -> CmdResult {
    if just_id {
        show_ids(reply, ids);
        return Ok(());
    }
    reply.array(ids.len());
    let Some(stream) = ctx.read::<Stream>(key)?.cloned() else { return Ok(()) };
    let mut ids = ids.into_iter();
    reply.stream(move |out: &mut Encoder<'_>| {
        let Some(entry) = ids.next().and_then(|id| stream.get(id)) else { return false };
        show_entry(out, &entry);
        true
    });
    Ok(())
}

fn show_ids(reply: &mut Reply<'_>, ids: Vec<StreamId>) {
    reply.array(ids.len());
    let mut ids = ids.into_iter();
    reply.stream(move |out: &mut Encoder<'_>| {
        let Some(id) = ids.next() else { return false };
        show_id(out, id);
        true
    });
}
