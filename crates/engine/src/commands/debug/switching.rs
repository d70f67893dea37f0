//! DEBUG subcommands that change how the server behaves, or that other servers need for that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base::glob;

use super::leading_number;
use crate::args::{Args, int, is};
use crate::config::text::memory_bytes;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// What a list element may have and still share a node, in Redis: 4 GiB less 1 MiB.
const PACKED_THRESHOLD_BYTES_MAX: u64 = (1 << 32) - (1 << 20);
/// Rounds of STRINGMATCH-TEST, and the longest pattern and string in them.
const MATCH_ROUNDS: usize = 20_000;
const MATCH_BYTES_MAX: usize = 32;

fn switch(to: &AtomicBool, arg: &[u8], reply: &mut Reply<'_>) -> CmdResult {
    to.store(leading_number(arg).trunc() != 0.0, Relaxed);
    reply.ok();
    Ok(())
}

pub(super) fn active_expire(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    switch(&ctx.server().active_expire, &args[2], reply)
}

pub(super) fn skip_checksums(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    switch(&ctx.server().debug.skips_checksums, &args[2], reply)
}

pub(super) fn disable_deny_scripts(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    switch(&ctx.server().debug.allows_all_in_scripts, &args[2], reply)
}

pub(super) fn pause_cron(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    switch(&ctx.server().debug.pauses_cron, &args[2], reply)
}

pub(super) fn pause_journal(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    switch(&ctx.server().debug.pauses_journal, &args[2], reply)?;
    ctx.server().host.sync_files();
    Ok(())
}

/// For what Redis has and this server has not: tables that are resized as a whole, reply buffers of a client's own.
pub(super) fn accept(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.ok();
    Ok(())
}

/// DEBUG REPLYBUFFER PEAK-RESET-TIME never|reset|ms, DEBUG REPLYBUFFER RESIZING 0|1
pub(super) fn reply_buffer(_: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (what, value) = (&args[2], &args[3]);
    if is(what, "PEAK-RESET-TIME") {
        if !is(value, "NEVER") && !is(value, "RESET") {
            int(value)?;
        }
    } else if !is(what, "RESIZING") {
        return Err(Fault::wrong_subcommand("DEBUG", &args[1]));
    }
    reply.ok();
    Ok(())
}

/// DEBUG QUICKLIST-PACKED-THRESHOLD size: elements of any size are kept apart from 1 KiB on.
pub(super) fn packed_threshold(_: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    match memory_bytes(&args[2]) {
        Some(0..=PACKED_THRESHOLD_BYTES_MAX) => {
            reply.ok();
            Ok(())
        }
        _ => Err(Fault::Text("ERR argument must be a memory value bigger than 1 and smaller than 4gb")),
    }
}

pub(super) fn change_replication_id(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.server().change_stream_id();
    reply.ok();
    Ok(())
}

/// DEBUG LOG message
pub(super) fn log(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.server().host.log(&format!("DEBUG LOG: {}", String::from_utf8_lossy(&args[2])));
    reply.ok();
    Ok(())
}

/// DEBUG STRINGMATCH-LEN pattern string
pub(super) fn string_match(_: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(i64::from(glob::matches(&args[2], &args[3], false)));
    Ok(())
}

/// DEBUG STRINGMATCH-TEST: random patterns on random strings.
pub(super) fn string_match_test(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    ctx.defer(|lane| {
        for _ in 0..MATCH_ROUNDS {
            let rng = lane.rng();
            let mut random = |alphabet: &[u8]| -> Vec<u8> {
                let len = rng.usize(..=MATCH_BYTES_MAX);
                (0..len)
                    .map(|_| if rng.bool() { alphabet[rng.usize(..alphabet.len())] } else { rng.u8(..) })
                    .collect()
            };
            let (pattern, text) = (random(b"*?[]^-\\a"), random(b"a"));
            glob::matches(&pattern, &text, false);
        }
        lane.reply().simple("Apparently Redis did not crash: test passed");
        Ok(())
    });
    Ok(())
}

/// DEBUG STRUCTSIZE: what stands for Redis's structures here.
pub(super) fn struct_size(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.simple(&format!(
        "bits:{} robj:{} dictentry:{} sdshdr5:0 sdshdr8:0 sdshdr16:0 sdshdr32:0 sdshdr64:0",
        usize::BITS,
        size_of::<store::Value>(),
        store::TABLE_BYTES_PER_KEY,
    ));
    Ok(())
}
