//! OBJECT: how a value is kept.

use base::num::parse_i64;
use store::{Encoding, ValueRef, View, access};

use crate::args::Args;
use crate::config::Config;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// What Redis answers as the reference count of the small integers that it keeps one copy of.
const SHARED_REFERENCES: i64 = i32::MAX as i64;
/// Integers from 0 up to this are such.
const SHARED_INTEGERS: i64 = 10_000;

const NO_FREQUENCY: Fault = Fault::Text(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at \
     runtime LRU and LFU data will take some time to adjust.",
);
const NO_IDLE_TIME: Fault = Fault::Text(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime \
     LRU and LFU data will take some time to adjust.",
);

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Tell in which representation the value of <key> is kept in memory.",
    "FREQ <key>",
    "    Tell the access frequency counter of <key>, which grows with the logarithm of",
    "    its recent use.",
    "IDLETIME <key>",
    "    Tell about how many seconds ago <key> was last used.",
    "REFCOUNT <key>",
    "    Tell how many references the value of <key> has.",
    "HELP",
    "    Print this text.",
];

pub(crate) fn encoding(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    match ctx.peek(&args[2]) {
        Some(view) => reply.text(view.encoding().as_str()),
        None => reply.null(),
    }
    Ok(())
}

pub(crate) fn refcount(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let config = &ctx.server().config;
    match ctx.peek(&args[2]) {
        Some(view) if is_small_integer(view) && shares_integers(config) => reply.int(SHARED_REFERENCES),
        Some(_) => reply.int(1),
        None => reply.null(),
    }
    Ok(())
}

fn is_small_integer(view: View<'_>) -> bool {
    match view.value() {
        ValueRef::Inline(text) if view.encoding() == Encoding::Int => {
            parse_i64(text).is_some_and(|number| (0..SHARED_INTEGERS).contains(&number))
        }
        _ => false,
    }
}

/// Policies that judge each value by its use cannot have values shared.
fn shares_integers(config: &Config) -> bool {
    config.hot().maxmemory_bytes() == 0 || !config.hot().maxmemory_policy().judges_by_use()
}

pub(crate) fn idletime(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (config, now_ms) = (&ctx.server().config, ctx.now_ms());
    match ctx.peek(&args[2]) {
        Some(_) if config.hot().maxmemory_policy().judges_by_frequency() => return Err(NO_IDLE_TIME),
        Some(view) => reply.int(i64::from(access::idle_s(view.clock(), now_ms))),
        None => reply.null(),
    }
    Ok(())
}

pub(crate) fn freq(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (config, now_ms) = (&ctx.server().config, ctx.now_ms());
    match ctx.peek(&args[2]) {
        Some(_) if !config.hot().maxmemory_policy().judges_by_frequency() => return Err(NO_FREQUENCY),
        Some(view) => {
            let count = access::count(view.clock(), now_ms, config.hot().lfu_decay_time_min());
            reply.int(i64::from(count));
        }
        None => reply.null(),
    }
    Ok(())
}

pub(crate) fn help(_ctx: &mut Ctx<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}
