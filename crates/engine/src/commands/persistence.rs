//! SAVE, BGSAVE and LASTSAVE.

use crate::args::{Args, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::persistence::saving::SaveError;
use crate::reply::Reply;

const BUSY: Fault = Fault::Text("ERR Background save already in progress");

/// SAVE: its client waits for the disk; nobody else does.
pub(crate) fn save(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    if ctx.server().persistence.is_saving() {
        return Err(BUSY);
    }
    ctx.defer_script(|lane| match lane.server().save() {
        Ok(()) => {
            lane.reply().ok();
            Ok(())
        }
        Err(SaveError::Busy) => Err(BUSY),
        Err(SaveError::Disk(reason)) => Err(Fault::owned(format!("ERR {reason}"))),
    });
    Ok(())
}

/// BGSAVE [SCHEDULE]
pub(crate) fn bgsave(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if args.len() > 2 || (args.len() == 2 && !is(&args[1], "SCHEDULE")) {
        return Err(Fault::SYNTAX);
    }
    ctx.server().save_in_background().map_err(|_| BUSY)?;
    reply.simple("Background saving started");
    Ok(())
}

/// LASTSAVE
pub(crate) fn lastsave(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.server().persistence.saved_at_s());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn saves_are_answered_as_by_redis() {
        let mut harness = Harness::new();
        for (command, reply) in [
            ("SET k v", "+OK"),
            ("BGSAVE WHENEVER", "-ERR syntax error"),
            ("SAVE", "+OK"),
            ("BGSAVE SCHEDULE", "+Background saving started"),
            ("SAVE", "-ERR Background save already in progress"),
            ("BGSAVE", "-ERR Background save already in progress"),
        ] {
            harness.check(command, reply);
        }
    }
}
