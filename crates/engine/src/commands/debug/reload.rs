//! DEBUG RELOAD and LOADAOF: the data is dropped and loaded from its files, as by a restart.

use std::thread;
use std::time::Duration;

use crate::args::{Args, is};
use crate::commands::keys;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::persistence::replaying::Replayer;
use crate::persistence::saving::SavePurpose;
use crate::reply::Reply;

/// Between looks whether another save is over.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);

/// How often, and in which steps, it is tried to come between two batches of a primary's stream.
const GATE_ATTEMPTS: usize = 1000;
const GATE_INTERVAL: Duration = Duration::from_millis(1);

/// What a reload consists of.
#[derive(Clone, Copy)]
struct Steps {
    saves: bool,
    empties: bool,
    /// Keys and libraries that are there already are replaced; else they are errors.
    replaces: bool,
}

/// DEBUG RELOAD [MERGE] [NOFLUSH] [NOSAVE]: under every stripe, so that nobody writes what would be lost, nor sees a part.
pub(super) fn reload(ctx: &mut Ctx<'_>, args: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    let mut steps = Steps { saves: true, empties: true, replaces: false };
    for word in args.from(2).iter() {
        match word {
            word if is(word, "MERGE") => steps.replaces = true,
            word if is(word, "NOFLUSH") => steps.empties = false,
            word if is(word, "NOSAVE") => steps.saves = false,
            _ => {
                return Err(Fault::Text(
                    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
                ));
            }
        }
    }
    ctx.defer_script(move |lane| {
        claim(lane)?;
        let result = lane.with_stripes(None, |ctx, reply| run(ctx, steps).map(|()| reply.ok()));
        lane.server().persistence.let_go();
        result
    });
    Ok(())
}

/// Waits until no snapshot is taken: one that runs needs the stripes that are going to be held.
fn claim(lane: &Lane<'_>) -> CmdResult {
    let server = lane.server();
    while !server.persistence.claim(SavePurpose::Snapshot, server.clock.now().unix_ms / 1000) {
        if lane.held().is_some() {
            return Err(Fault::Text("ERR Background save already in progress"));
        }
        thread::sleep(BUSY_INTERVAL);
    }
    if server.persistence.is_loading() {
        server.persistence.let_go();
        return Err(Fault::Text("LOADING Redis is loading the dataset in memory"));
    }
    Ok(())
}

fn run(ctx: &mut Ctx<'_>, steps: Steps) -> CmdResult {
    let server = ctx.server();
    if steps.saves {
        server.save_held(ctx.locked_all()).map_err(|reason| Fault::owned(format!("ERR {reason}")))?;
    }
    if steps.empties {
        keys::whole::empty(ctx, None);
        server.scripting.functions.flush();
    }
    server.host.load_held(server, ctx.locked_all(), steps.replaces).map_err(|reason| {
        server.host.log(&format!("DEBUG RELOAD: {reason}"));
        Fault::Text("ERR Error trying to load the RDB dump, check server logs.")
    })
}

/// DEBUG LOADAOF: under every stripe, so that all that was written before is in the files, and nothing comes in between.
pub(super) fn load_aof(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    ctx.defer_script(|lane| {
        for _ in 0..GATE_ATTEMPTS {
            if lane.with_stripes(None, |ctx, _| load_held(ctx))? {
                lane.reply().ok();
                return Ok(());
            }
            if lane.held().is_some() {
                break;
            }
            thread::sleep(GATE_INTERVAL);
        }
        Err(Fault::Text("ERR The primary's stream does not pause; try again later"))
    });
    Ok(())
}

/// False if a batch of the primary's stream is being applied, which has to be over first (*gate-first*).
fn load_held(ctx: &mut Ctx<'_>) -> CmdResult<bool> {
    let server = ctx.server();
    let Some(_gate) = server.replication.following.gate.try_lock() else { return Ok(false) };
    let told = |reason: String| {
        server.host.log(&format!("DEBUG LOADAOF: {reason}"));
        Fault::Text("ERR Error trying to load the AOF files, check server logs.")
    };
    if server.persistence.is_loading() {
        return Err(told("the data is still being loaded".to_owned()));
    }
    server.host.complete_files(server).map_err(told)?;
    keys::whole::empty(ctx, None);
    server.scripting.functions.flush();
    let mut replayer = Replayer::within(ctx);
    let loaded = server.host.reload_files(&mut replayer);
    replayer.end();
    ctx.no_effect();
    loaded.map_err(told).map(|()| true)
}
