//! Fields past their end: whoever names one removes it, and tells of it.

use store::Hash;

use crate::args::Args;
use crate::ctx::{Ctx, Event};
use crate::fault::CmdResult;

/// What a command did to a hash, for its events.
#[derive(Default)]
pub(super) struct Changes {
    /// Fields removed that were past their end.
    pub lapsed: usize,
    /// Fields were given values.
    pub set: bool,
    /// Ends that were taken away.
    pub persisted: usize,
    /// Ends that were given.
    pub timed: usize,
    /// Fields removed because they were given an end that had passed already.
    pub ended: usize,
    /// Fields removed because the client said so.
    pub removed: usize,
    /// No field is left, and so no key.
    pub emptied: bool,
}

impl Changes {
    /// Sends the events, each at most once, in Redis's order.
    pub fn tell(&self, ctx: &mut Ctx<'_>, key: &[u8]) {
        ctx.server().keyspace.note_expired_fields(self.lapsed + self.ended);
        let ends = if self.ended > 0 { "hdel" } else { "hexpire" };
        for (happened, name) in [
            (self.lapsed > 0, "hexpired"),
            (self.set, "hset"),
            (self.persisted > 0, "hpersist"),
            (self.timed + self.ended > 0, ends),
            (self.removed > 0, "hdel"),
        ] {
            if happened {
                ctx.notify(Event::Hash, name, key);
            }
        }
        if self.emptied {
            ctx.notify(Event::Generic, "del", key);
        }
    }
}

/// Removes `field` if it is past its end; true if it was.
pub(super) fn remove_if_past(hash: &mut Hash, field: &[u8], now_ms: i64) -> bool {
    hash.is_past_end(field, now_ms) && hash.remove(field)
}

/// Removes those of `fields` that are past their end, and the key if none is left.
pub(super) fn remove_past(ctx: &mut Ctx<'_>, key: &[u8], fields: Args<'_>) {
    let now_ms = ctx.now_ms();
    remove_where(ctx, key, |hash| fields.iter().filter(|field| remove_if_past(hash, field, now_ms)).count());
}

/// As [`remove_past`], of a field that was met and found to be past its end or not.
#[inline]
pub(super) fn remove_met(ctx: &mut Ctx<'_>, key: &[u8], is_past: bool, field: &[u8]) {
    if is_past {
        remove_where(ctx, key, |hash| usize::from(hash.remove(field)));
    }
}

#[cold]
fn remove_where(ctx: &mut Ctx<'_>, key: &[u8], remove: impl FnOnce(&mut Hash) -> usize) {
    let changes = ctx.edit(key, |hash: &mut Hash| {
        let lapsed = remove(hash);
        Changes { lapsed, emptied: hash.is_empty(), ..Changes::default() }
    });
    if let Ok(Some(changes)) = changes {
        changes.tell(ctx, key);
    }
}

/// Changes a field of a hash, which is created if there is none. Where the field is past its end, it is removed first,
/// and `change` does not see it.
pub(super) fn edit_field<R>(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    field: &[u8],
    mut change: impl FnMut(&mut Hash) -> R,
) -> CmdResult<R> {
    let now_ms = ctx.now_ms();
    loop {
        let result = ctx.edit_or_create(key, |hash: &mut Hash| {
            (!hash.is_past_end(field, now_ms)).then(|| change(hash))
        })?;
        match result {
            Some(result) => return Ok(result),
            None => remove_met(ctx, key, true, field),
        }
    }
}
