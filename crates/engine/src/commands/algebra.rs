//! Results computed from all elements of some keys: set algebra and whatever else reads whole collections.
//!
//! Inputs are O(1) clones, taken under the locks of the command. Where the work on them is small it is done at
//! once. Otherwise it moves to the long lane, and nobody but the asking connection waits for it:
//! - [`answer`] replies with what it finds in the clones: the command took place when they were taken;
//! - [`derive`] hands a computed value over under the locks, but only if all inputs are then what they were
//!   (*derived-from-current*): the command takes place at that instant, atomically. Where writers keep changing the
//!   inputs, the value is computed anew, and at last under the locks.

use base::limits::BIG_INPUT_ELEMENTS;
use store::{Hash, List, Set, Stream, Typed, Value, ValueRef, View, ZSet};

use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::value::{OwnedStr, Str};

/// How often a value is computed without holding the locks before they are held for it.
const ATTEMPTS_MAX: usize = 3;

/// What a command reads whole. Clones are O(1).
pub trait Input: Clone + Send + 'static {
    /// A clone of the value at `key`. Counts as a read; a value of another type is a fault.
    fn read(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<Self>>;
    /// Elements in it.
    fn elements(&self) -> usize;
    /// True only if nothing was written between the two clones. May be false where they merely have equal elements.
    fn is_same(&self, other: &Self) -> bool;
}

macro_rules! inputs {
    ($($type:ident)*) => {
        $(impl Input for $type {
            fn read(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<Self>> {
                Ok(ctx.read::<$type>(key)?.cloned())
            }
            fn elements(&self) -> usize {
                self.len()
            }
            fn is_same(&self, other: &Self) -> bool {
                $type::is_same(self, other)
            }
        })*
    };
}
inputs!(List Set ZSet Hash Stream);

impl Input for OwnedStr {
    fn read(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<Self>> {
        Ok(ctx.read_str(key)?.map(Str::to_owned))
    }

    fn elements(&self) -> usize {
        self.work()
    }

    fn is_same(&self, other: &Self) -> bool {
        OwnedStr::is_same(self, other)
    }
}

/// A set, or a sorted set: what ZUNION, ZINTER and ZDIFF read. The members of a set have score 1. Reading them is not
/// counted as a look at the key: that is done before, with the options.
#[derive(Clone)]
pub enum Members {
    /// Members alone.
    Set(Set),
    /// Members with scores.
    ZSet(ZSet),
}

impl Input for Members {
    fn read(ctx: &mut Ctx<'_>, key: &[u8]) -> CmdResult<Option<Self>> {
        let members = |value: &Value| match Set::of(value) {
            Some(set) => Ok(Members::Set(set.clone())),
            None => ZSet::of(value).cloned().map(Members::ZSet).ok_or(Fault::WRONG_TYPE),
        };
        match ctx.peek(key).map(View::value) {
            None => Ok(None),
            Some(ValueRef::Object(value)) => members(value).map(Some),
            Some(ValueRef::Inline(_)) => Err(Fault::WRONG_TYPE),
        }
    }

    fn elements(&self) -> usize {
        match self {
            Members::Set(set) => set.len(),
            Members::ZSet(zset) => zset.len(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Members::Set(a), Members::Set(b)) => a.is_same(b),
            (Members::ZSet(a), Members::ZSet(b)) => a.is_same(b),
            _ => false,
        }
    }
}

/// Clones of the values at `keys`, in their order. All are looked at, so that a wrong type is always found.
pub fn read_all<'k, I: Input>(
    ctx: &mut Ctx<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> CmdResult<Vec<Option<I>>> {
    keys.map(|key| I::read(ctx, key)).collect()
}

/// Elements in all inputs.
pub fn elements<I: Input>(inputs: &[Option<I>]) -> usize {
    inputs.iter().flatten().map(I::elements).sum()
}

/// Replies from `inputs`, on the long lane if `work` (elements to be visited) is large.
pub fn answer<I: Send + 'static>(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    work: usize,
    inputs: I,
    run: impl FnOnce(I, &mut Reply<'_>) -> CmdResult + Send + 'static,
) -> CmdResult {
    if work <= BIG_INPUT_ELEMENTS {
        return run(inputs, reply);
    }
    ctx.defer(move |lane| run(inputs, &mut lane.reply()));
    Ok(())
}

/// Computes a value from those at `sources` and hands it to `finish`, which stores it at `destination` (or does
/// whatever the command is for) and replies, under the locks of all these keys.
///
/// `work` tells how many elements `compute` has to visit. `compute` must depend on nothing but its inputs (a missing
/// key is `None`) and what it has captured: it may run several times, and without locks. `finish` runs once.
pub fn derive<'k, I, V, W, C, F>(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    destination: &'k [u8],
    sources: impl Iterator<Item = &'k [u8]> + Clone,
    work: W,
    compute: C,
    finish: F,
) -> CmdResult
where
    I: Input,
    W: FnOnce(&[Option<I>]) -> usize,
    C: Fn(&[Option<I>]) -> V + Send + 'static,
    F: FnOnce(&mut Ctx<'_>, &mut Reply<'_>, &[u8], V) -> CmdResult + Send + 'static,
{
    let mut inputs: Vec<Option<I>> = read_all(ctx, sources.clone())?;
    if work(&inputs) <= BIG_INPUT_ELEMENTS {
        let value = compute(&inputs);
        // Before the destination is replaced: it may be a source, and its old value is freed by whoever
        // lets go of it last, which has to be the reaper.
        drop(inputs);
        return finish(ctx, reply, destination, value);
    }
    let keys: Vec<Box<[u8]>> = std::iter::once(destination).chain(sources).map(Box::from).collect();
    ctx.defer(move |lane| {
        let locked: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        let mut finish = Some(finish);
        for attempt in 0..=ATTEMPTS_MAX {
            let under_locks = attempt == ATTEMPTS_MAX;
            // Declared out here so that neither stale values nor old inputs are freed under the locks.
            let mut value = (!under_locks).then(|| compute(&inputs));
            let mut current: Vec<Option<I>> = Vec::new();
            lane.with_keys(&locked, |ctx, reply| {
                current = read_all(ctx, locked[1..].iter().copied())?;
                if under_locks {
                    value = Some(compute(&current));
                } else if !all_same(&inputs, &current) {
                    return Ok(());
                }
                match (finish.take(), value.take()) {
                    (Some(finish), Some(value)) => finish(ctx, reply, locked[0], value),
                    _ => unreachable!("derive: finished once"),
                }
            })?;
            if finish.is_none() {
                break;
            }
            inputs = current;
        }
        Ok(())
    });
    Ok(())
}

/// Stores what a command computed at `destination`, whatever is there, and replies with its size. Without elements it
/// deletes the key. `event` is the command's.
pub fn store_result<T: Typed>(
    ctx: &mut Ctx<'_>,
    reply: &mut Reply<'_>,
    destination: &[u8],
    result: T,
    class: Event,
    event: &'static str,
) {
    let len = result.elements();
    if len > 0 {
        ctx.put(destination, result);
        ctx.notify(class, event, destination);
    } else if ctx.delete(destination) {
        ctx.notify(Event::Generic, "del", destination);
    }
    reply.int(len as i64);
}

fn all_same<I: Input>(before: &[Option<I>], now: &[Option<I>]) -> bool {
    before.len() == now.len()
        && before.iter().zip(now).all(|pair| match pair {
            (None, None) => true,
            (Some(before), Some(now)) => before.is_same(now),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use base::limits::BIG_INPUT_ELEMENTS;
    use resp::Proto;
    use store::entry::Payload;
    use store::{Expiry, Instant, Set, Thresholds, Typed};

    use super::derive;
    use crate::ctx::Ctx;
    use crate::lane;
    use crate::output::Output;
    use crate::reply::Reply;
    use crate::server::Server;
    use crate::session::Session;
    use crate::testing::Harness;
    use crate::worker::Worker;

    const SOURCE: &[u8] = b"source";
    const DESTINATION: &[u8] = b"destination";

    /// Stores a set of `len` members at the source, as another worker would.
    fn write_source(server: &Server, len: usize) {
        let members: Vec<String> = (0..len).map(|n| n.to_string()).collect();
        let value = Payload::Object(Set::from_members(members, &Thresholds::default()).into_value());
        let position = server.keyspace.position(SOURCE);
        let at = Instant { now_ms: server.clock.now().unix_ms, touch: None };
        server.keyspace.lock(position).put(0, position, SOURCE, value, Expiry::Clear, at);
    }

    /// Runs `derive` on a source that is written to during its first `disturbances` computations, which each add a
    /// member. Returns how often the value was computed, and what was stored.
    fn derive_disturbed(initial_len: usize, disturbances: usize) -> (usize, usize) {
        let server = Arc::new(Harness::new().server);
        let mut worker = Worker::new(0, server.stats[0].clone(), 1, server.clock.now());
        let peer = crate::clients::Peer::Unix("".into());
        let mut session = Session::new(server.clients.open(peer, 0, 0), server.acl.default_user());
        write_source(&server, initial_len);

        let runs = Arc::new(AtomicUsize::new(0));
        let (counter, other_worker) = (runs.clone(), server.clone());
        let mut out = Output::new();
        let mut stripes =
            vec![server.keyspace.position(SOURCE).stripe(), server.keyspace.position(DESTINATION).stripe()];
        let locked = server.keyspace.lock_stripes(&mut stripes);
        derive(
            &mut Ctx::new(&server, &mut worker, &mut session, Some(locked), None),
            &mut Reply::new(&mut out, Proto::V2),
            DESTINATION,
            std::iter::once(SOURCE),
            |inputs: &[Option<Set>]| super::elements(inputs),
            move |inputs| {
                let run = counter.fetch_add(1, Relaxed);
                let len = inputs[0].as_ref().map_or(0, Set::len);
                if run < disturbances {
                    write_source(&other_worker, len + 1);
                }
                len
            },
            |ctx, reply, destination, len| {
                ctx.put_str(destination, len.to_string().as_bytes(), Expiry::Clear);
                reply.int(len as i64);
                Ok(())
            },
        )
        .expect("no fault");
        if let Some(deferred) = worker.deferred.take() {
            out = lane::run(&server, &mut worker, deferred);
        }
        let position = server.keyspace.position(DESTINATION);
        let mut locked = server.keyspace.lock(position);
        let mut stored = String::new();
        let at = Instant { now_ms: server.clock.now().unix_ms, touch: None };
        if let Some(store::ValueRef::Inline(text)) =
            locked.get(0, position, DESTINATION, at).map(|view| view.value())
        {
            stored = String::from_utf8_lossy(text).into_owned();
        }
        assert_eq!(out.plain(), Some(format!(":{stored}\r\n").as_bytes()), "replied what was stored");
        (runs.load(Relaxed), stored.parse().expect("a stored length"))
    }

    #[test]
    fn a_result_is_derived_from_what_the_sources_are_when_it_is_stored() {
        // Up to the limit nothing is deferred: the locks are held, and nobody can disturb.
        assert_eq!(derive_disturbed(BIG_INPUT_ELEMENTS, 0), (1, BIG_INPUT_ELEMENTS));
        let len = BIG_INPUT_ELEMENTS + 1;
        for disturbances in 0..=super::ATTEMPTS_MAX {
            assert_eq!(derive_disturbed(len, disturbances), (disturbances + 1, len + disturbances));
        }
    }
}
