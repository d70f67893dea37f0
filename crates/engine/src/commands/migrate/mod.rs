//! MIGRATE: keys go to another server, and are deleted here once that has acknowledged them.
//!
//! A thread of its own waits for the other server, and holds no stripe while it does. What it sent are clones; under the locks
//! it then looks whether they are still what the keys hold. What somebody wrote meanwhile is sent anew, at most so many
//! times, then under the locks. So nothing written is lost, and a key that was deleted here is deleted there.

mod transfer;

use std::ops::Range;
use std::time::Duration;

use store::View;

use crate::args::{Args, int, is};
use crate::ctx::{Ctx, Event};
use crate::fault::{CmdResult, Fault};
use crate::lane::{Lane, Line};
use crate::outgoing::Target;
use crate::reply::Reply;
use crate::table::{InvalidKeys, KeyAccess};
use transfer::{Item, Outcome, transfer};

const KEY_BEFORE_KEYS: Fault =
    Fault::Text("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string");

/// Where the options begin.
const OPTIONS_AT: usize = 6;
/// For times that are none: as Redis.
const PATIENCE_MS_DEFAULT: i64 = 1000;
/// How often keys are sent without holding them.
const ATTEMPTS_MAX: usize = 3;

/// What is to be done.
struct Order {
    target: Target,
    patience: Duration,
    /// The database there, as the client said.
    db: i64,
    /// The words after AUTH.
    credentials: Vec<Vec<u8>>,
    copies: bool,
    replaces: bool,
    /// It goes into a slot that the other server does not own yet.
    is_asking: bool,
}

impl Order {
    /// The order, and where the keys stand.
    fn parse(args: Args<'_>, is_asking: bool) -> CmdResult<(Order, Range<usize>)> {
        let (mut credentials, mut copies, mut replaces, mut keys) = (Vec::new(), false, false, 3..4);
        let mut at = OPTIONS_AT;
        while let Some(word) = args.get(at) {
            let left = args.len() - 1 - at;
            let secrets = if is(word, "AUTH") { 1 } else { 2 * usize::from(is(word, "AUTH2")) };
            if is(word, "COPY") {
                copies = true;
            } else if is(word, "REPLACE") {
                replaces = true;
            } else if secrets > 0 && left >= secrets {
                credentials = (at + 1..=at + secrets).map(|at| args[at].to_vec()).collect();
                at += secrets;
            } else if is(word, "KEYS") {
                if !args[3].is_empty() {
                    return Err(KEY_BEFORE_KEYS);
                }
                keys = at + 1..args.len();
                break;
            } else {
                return Err(Fault::SYNTAX);
            }
            at += 1;
        }
        let (timeout_ms, db) = (int(&args[5])?, int(&args[4])?);
        let patience_ms = if timeout_ms <= 0 { PATIENCE_MS_DEFAULT } else { timeout_ms };
        let host = String::from_utf8_lossy(&args[1]).into_owned();
        let order = Order {
            target: Target { host, port: port(&args[2]) },
            patience: Duration::from_millis(patience_ms as u64),
            db,
            credentials,
            copies,
            replaces,
            is_asking,
        };
        Ok((order, keys))
    }
}

/// The number that a text begins with, as C reads it; 0, which nobody listens on, for what is no port.
fn port(text: &[u8]) -> u16 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    base::num::parse_i64(&text[..digits]).and_then(|port| u16::try_from(port).ok()).unwrap_or(0)
}

/// The places of the options' words, as Redis finds them: what stands where a password may is none.
fn keys_word(args: Args<'_>) -> Option<usize> {
    let mut at = OPTIONS_AT;
    while let Some(word) = args.get(at) {
        at += match word {
            // Redis's rule to find keys does not look at the last word.
            _ if is(word, "KEYS") && at + 1 < args.len() => return Some(at),
            _ if is(word, "AUTH") => 2,
            _ if is(word, "AUTH2") => 3,
            _ => 1,
        };
    }
    None
}

/// The one key, or those after KEYS.
pub(crate) fn find_migrated_keys(
    args: Args<'_>,
    each: &mut dyn FnMut(usize, KeyAccess),
) -> Result<(), InvalidKeys> {
    let access = KeyAccess::RW.union(KeyAccess::ACCESS).union(KeyAccess::DELETE);
    match keys_word(args) {
        None => each(3, access),
        Some(at) if args[3].is_empty() => (at + 1..args.len()).for_each(|at| each(at, access)),
        // The command says that this is a mistake.
        Some(_) => {}
    }
    Ok(())
}

/// Which arguments are names and passwords.
pub(crate) fn secrets(args: Args<'_>) -> Vec<usize> {
    let (mut at, mut secrets) = (OPTIONS_AT, Vec::new());
    let end = keys_word(args).unwrap_or(args.len());
    while at < end {
        let count = if is(&args[at], "AUTH") { 1 } else { 2 * usize::from(is(&args[at], "AUTH2")) };
        secrets.extend(at + 1..=at + count);
        at += 1 + count;
    }
    secrets
}

/// MIGRATE host port <key | ""> db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] [KEYS key ...]
pub(crate) fn migrate(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (order, keys) = Order::parse(args, ctx.server().cluster.enabled)?;
    let mut items = Vec::new();
    for key in keys.map(|at| &args[at]) {
        if let Some(entry) = ctx.read_any(key).map(View::to_owned) {
            items.push(Item::Restore { key: key.to_vec(), entry, replaces: order.replaces });
        }
    }
    if items.is_empty() {
        reply.simple("NOKEY");
        return Ok(());
    }
    ctx.defer_to(Line::Outgoing, move |lane| send_all(lane, &order, items));
    Ok(())
}

/// Sends the items until they are what the keys hold.
fn send_all(lane: &mut Lane<'_>, order: &Order, mut items: Vec<Item>) -> CmdResult {
    let mut fault = None;
    for attempt in 0..=ATTEMPTS_MAX {
        let outcome = if lane.held().is_some() || attempt == ATTEMPTS_MAX {
            with_keys_of(lane, &items.clone(), |ctx| {
                if attempt > 0 {
                    items.iter_mut().for_each(|item| *item = refreshed(ctx, item.key()));
                }
                let outcome = transfer(ctx.server(), order, &items);
                let left = settle(ctx, order, &items, &outcome);
                debug_assert!(left.is_empty(), "locked-set: nobody writes to what is held");
                items.clear();
                outcome
            })?
        } else {
            let outcome = transfer(lane.server(), order, &items);
            items = match order.copies {
                true => Vec::new(),
                false => with_keys_of(lane, &items, |ctx| settle(ctx, order, &items, &outcome))?,
            };
            outcome
        };
        let is_lost = outcome.is_link_lost;
        fault = fault.or(outcome.fault);
        if items.is_empty() || is_lost {
            break;
        }
    }
    fault.map_or_else(
        || {
            lane.reply().ok();
            Ok(())
        },
        Err,
    )
}

fn with_keys_of<R>(
    lane: &mut Lane<'_>,
    items: &[Item],
    work: impl FnOnce(&mut Ctx<'_>) -> R,
) -> CmdResult<R> {
    let keys: Vec<&[u8]> = items.iter().map(Item::key).collect();
    lane.with_keys(&keys, |ctx, _| Ok(work(ctx)))
}

/// What brings a key there that was sent before to what it is now. Its stripe is held.
fn refreshed(ctx: &mut Ctx<'_>, key: &[u8]) -> Item {
    match ctx.read_entry(ctx.db(), key) {
        Some(entry) => Item::Restore { key: key.to_vec(), entry, replaces: true },
        None => Item::Delete { key: key.to_vec() },
    }
}

/// Deletes the keys that are there now and have not changed meanwhile. What has to be sent again. The keys' stripes are held.
fn settle(ctx: &mut Ctx<'_>, order: &Order, items: &[Item], outcome: &Outcome) -> Vec<Item> {
    let (mut deleted, mut again): (Vec<&[u8]>, Vec<Item>) = (Vec::new(), Vec::new());
    if order.copies {
        return again;
    }
    for (item, _) in items.iter().zip(&outcome.acknowledged).filter(|(_, is_acknowledged)| **is_acknowledged)
    {
        let (key, db) = (item.key(), ctx.db());
        let sent = match item {
            Item::Restore { entry, .. } => Some(entry),
            Item::Delete { .. } => None,
        };
        match (sent, ctx.read_entry(db, key)) {
            (None, None) => {}
            (Some(sent), Some(now))
                if sent.expire_at_ms == now.expire_at_ms && sent.value.is_same(&now.value) =>
            {
                ctx.delete(key);
                ctx.notify(Event::Generic, "del", key);
                deleted.push(key);
            }
            // Named twice.
            (Some(_), None) if deleted.contains(&key) => {}
            (_, Some(entry)) => again.push(Item::Restore { key: key.to_vec(), entry, replaces: true }),
            (Some(_), None) => again.push(Item::Delete { key: key.to_vec() }),
        }
    }
    if !deleted.is_empty() {
        deleted.insert(0, b"DEL");
        ctx.effect(&deleted);
    }
    again
}
