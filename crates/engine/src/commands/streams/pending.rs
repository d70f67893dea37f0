//! XPENDING: what was delivered and is not acknowledged.

use base::limits::BIG_INPUT_ELEMENTS;
use resp::Encoder;
use store::stream::{Consumer, Group, Pending};
use store::{Stream, StreamId};

use super::{ids, no_group, show_id};
use crate::args::{self, Args};
use crate::commands::algebra;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
pub fn xpending(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (key, name) = (&args[1], &args[2]);
    let wanted = match args.len() {
        3 => None,
        6..=9 => Some(Wanted::parse(ctx.now_ms(), args)?),
        _ => return Err(Fault::SYNTAX),
    };
    let group = ctx.read::<Stream>(key)?.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_group(key, name, ""))?;
    let Some(wanted) = wanted else {
        summary(reply, group);
        return Ok(());
    };
    let consumer = match args.get(wanted.consumer_at) {
        None => None,
        Some(name) => match group.consumer(name) {
            Some(consumer) => Some(consumer.clone()),
            None => {
                reply.empty_array();
                return Ok(());
            }
        },
    };
    let source = Source { group: group.clone(), consumer };
    let ranks = source.rank(wanted.start)..wanted.end.next().map_or(source.len(), |next| source.rank(next));
    // Without IDLE, what is found is what is looked at.
    let len = ranks.len();
    if wanted.min_idle_ms == 0 {
        stream_all(reply, source, ranks.start, len.min(wanted.count), wanted.now_ms);
        return Ok(());
    }
    let work = if len > BIG_INPUT_ELEMENTS { len } else { 0 };
    algebra::answer(ctx, reply, work, source, move |source, reply| {
        let is_idle = |pending: &Pending| wanted.now_ms - pending.delivered_ms >= wanted.min_idle_ms;
        let found = ranks.filter(|rank| source.at(*rank).is_some_and(|(_, pending)| is_idle(pending)));
        let found: Vec<usize> = found.take(wanted.count).collect();
        reply.array(found.len());
        let mut found = found.into_iter();
        reply.stream(move |out: &mut Encoder<'_>| {
            found.next().is_some_and(|rank| source.show(out, rank, wanted.now_ms))
        });
        Ok(())
    })
}

/// What the long form asks for.
struct Wanted {
    now_ms: i64,
    min_idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer_at: usize,
}

impl Wanted {
    fn parse(now_ms: i64, args: Args<'_>) -> CmdResult<Wanted> {
        let (mut at, mut min_idle_ms) = (3, 0);
        if args::is(&args[3], "IDLE") {
            min_idle_ms = args::int(&args[4])?;
            if args.len() < 8 {
                return Err(Fault::SYNTAX);
            }
            at = 5;
        }
        let count = usize::try_from(args::int(&args[at + 2])?).unwrap_or(0);
        let (start, end) = (ids::parse_start(&args[at])?, ids::parse_end(&args[at + 1])?);
        Ok(Wanted { now_ms, min_idle_ms, start, end, count, consumer_at: at + 3 })
    }
}

fn summary(reply: &mut Reply<'_>, group: &Group) {
    let out = &mut reply.encoder();
    out.array(4);
    out.int(group.pending_len() as i64);
    let first = group.pending_at(0);
    let last = group.pending_len().checked_sub(1).and_then(|rank| group.pending_at(rank));
    let (Some((first, _)), Some((last, _))) = (first, last) else {
        out.null();
        out.null();
        out.null_array();
        return;
    };
    show_id(out, first);
    show_id(out, last);
    let mut consumers = group.consumers();
    let (mut busy, mut shown) = (0, Vec::new());
    let mut list = Encoder::new(&mut shown, out.proto);
    while let Some((name, consumer)) = consumers.next() {
        if consumer.pending_len() > 0 {
            busy += 1;
            list.array(2);
            list.bulk(name);
            list.bulk_int(consumer.pending_len() as i64);
        }
    }
    out.array(busy);
    out.raw(&shown);
}

/// Pending entries of a group, or of one of its consumers.
struct Source {
    group: Group,
    consumer: Option<Consumer>,
}

impl Source {
    fn len(&self) -> usize {
        self.consumer.as_ref().map_or(self.group.pending_len(), Consumer::pending_len)
    }

    fn rank(&self, id: StreamId) -> usize {
        match &self.consumer {
            Some(consumer) => consumer.pending_rank(id),
            None => self.group.pending_rank(id),
        }
    }

    fn at(&self, rank: usize) -> Option<(StreamId, &Pending)> {
        match &self.consumer {
            Some(consumer) => {
                let id = consumer.pending_at(rank)?;
                Some((id, self.group.pending(id)?))
            }
            None => self.group.pending_at(rank),
        }
    }

    fn show(&self, out: &mut Encoder<'_>, rank: usize, now_ms: i64) -> bool {
        let Some((id, pending)) = self.at(rank) else { unreachable!("pending-owner: within the list") };
        out.array(4);
        show_id(out, id);
        out.bulk(&pending.consumer);
        out.int((now_ms - pending.delivered_ms).max(0));
        out.int(pending.deliveries as i64);
        true
    }
}

fn stream_all(reply: &mut Reply<'_>, source: Source, first: usize, count: usize, now_ms: i64) {
    reply.array(count);
    let mut ranks = first..first + count;
    reply
        .stream(move |out: &mut Encoder<'_>| ranks.next().is_some_and(|rank| source.show(out, rank, now_ms)));
}
