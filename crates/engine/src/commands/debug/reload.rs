//! DEBUG RELOAD and LOADAOF: the data is dropped and loaded from its files, as by a restart.

use std::thread;
use std::time::Duration;

use crate::args::{Args, is};
use crate::commands::keys;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::lane::Lane;
use crate::persistence::saving::SavePurpose;
use crate::reply::Reply;

/// Between looks whether another save is over.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);

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

/// DEBUG LOADAOF
pub(super) fn load_aof(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    ctx.defer_script(|lane| {
        let server = lane.server();
        server.host.reload_files(server).map_err(|reason| {
            server.host.log(&format!("DEBUG LOADAOF: {reason}"));
            Fault::Text("ERR Error trying to load the AOF files, check server logs.")
        })?;
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}
