//! CLUSTER SYNCSLOTS: what the primary that moves slots tells the one that is to have them.

use base::slot::SLOT_COUNT;

use super::cluster::enabled;
use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::slot_moves::SlotSet;

const INVALID_SLOT: Fault = Fault::Text("ERR Invalid or out of range slot");

/// CLUSTER SYNCSLOTS <START id start-slot end-slot ... | READY id | DONE id | CANCEL id>
pub(crate) fn syncslots(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let server = ctx.server();
    let (word, id) = (&args[2], String::from_utf8_lossy(&args[3]));
    if is(word, "START") && args.len() > 4 && args.len().is_multiple_of(2) {
        if server.replication.following.is_replica() {
            return Err(Fault::Text("ERR Slots can only be moved to a primary"));
        }
        server.begin_import(ctx.session(), &id, slots(args.from(4))?)?;
    } else if args.len() != 4 {
        return Err(Fault::SYNTAX);
    } else if is(word, "READY") {
        server.complete_import(ctx.session_ref(), &id)?;
    } else if is(word, "DONE") || is(word, "CANCEL") {
        server.end_import(ctx.session(), &id, is(word, "DONE"))?;
    } else {
        return Err(Fault::SYNTAX);
    }
    reply.ok();
    Ok(())
}

/// Ranges of slots, each by its first and last.
fn slots(args: Args<'_>) -> CmdResult<SlotSet> {
    let slot = |arg: &[u8]| {
        let slot = u16::try_from(int(arg).map_err(|_| INVALID_SLOT)?);
        slot.ok().filter(|slot| *slot < SLOT_COUNT).ok_or(INVALID_SLOT)
    };
    let mut ranges = Vec::new();
    for at in (0..args.len()).step_by(2) {
        let (start, end) = (slot(&args[at])?, slot(&args[at + 1])?);
        if start > end {
            return Err(Fault::owned(format!(
                "ERR start slot number {start} is greater than end slot number {end}"
            )));
        }
        ranges.push(start..=end);
    }
    Ok(SlotSet::of(ranges))
}
