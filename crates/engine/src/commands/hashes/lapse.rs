//! Fields past their end: whoever names one removes it, and tells of it.

use store::Hash;

use crate::args::Args;
use crate::ctx::{Ctx, Event};
use crate::fault::CmdResult;

/// What a command did to a hash, for its events and its effect.
#[derive(Default)]
pub(super) struct Changes<'f> {
    /// Fields removed that were past their end.
    pub lapsed: Vec<&'f [u8]>,
    /// Fields were given values.
    pub set: bool,
    /// Fields whose ends were taken away.
    pub persisted: Vec<&'f [u8]>,
    /// Fields that were given ends.
    pub timed: Vec<&'f [u8]>,
    /// Fields removed because they were given an end that had passed already.
    pub ended: Vec<&'f [u8]>,
    /// Fields removed because the client said so.
    pub removed: Vec<&'f [u8]>,
    /// No field is left, and so no key.
    pub emptied: bool,
}

impl Changes<'_> {
    /// Sends the events, each at most once, in Redis's order, and tells which fields were past their end.
    pub fn tell(&self, ctx: &mut Ctx<'_>, key: &[u8]) {
        ctx.server().keyspace.note_expired_fields(self.lapsed.len() + self.ended.len());
        ctx.record_fields_removal(key, &self.lapsed);
        let ends = if self.ended.is_empty() { "hexpire" } else { "hdel" };
        for (happened, name) in [
            (!self.lapsed.is_empty(), "hexpired"),
            (self.set, "hset"),
            (!self.persisted.is_empty(), "hpersist"),
            (!self.timed.is_empty() || !self.ended.is_empty(), ends),
            (!self.removed.is_empty(), "hdel"),
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

/// Removes those of `fields` that are past their end, and the key if none is left: for a command that only reads.
/// A replica leaves them to its primary.
pub(super) fn remove_past(ctx: &mut Ctx<'_>, key: &[u8], fields: Args<'_>) {
    if ctx.keeps_expired() {
        return;
    }
    let now_ms = ctx.ends_now_ms();
    remove_where(ctx, key, |hash| {
        fields.iter().filter(|field| remove_if_past(hash, field, now_ms)).collect()
    });
    ctx.no_effect();
}

/// As [`remove_past`], of a field that was met and found to be past its end or not.
#[inline]
pub(super) fn remove_met(ctx: &mut Ctx<'_>, key: &[u8], is_past: bool, field: &[u8]) {
    if is_past && !ctx.keeps_expired() {
        remove_one(ctx, key, field);
        ctx.no_effect();
    }
}

fn remove_one(ctx: &mut Ctx<'_>, key: &[u8], field: &[u8]) {
    remove_where(ctx, key, |hash| hash.remove(field).then_some(field).into_iter().collect());
}

#[cold]
fn remove_where<'f>(ctx: &mut Ctx<'_>, key: &[u8], remove: impl FnOnce(&mut Hash) -> Vec<&'f [u8]>) {
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
    let now_ms = ctx.ends_now_ms();
    loop {
        let result = ctx.edit_or_create(key, |hash: &mut Hash| {
            (!hash.is_past_end(field, now_ms)).then(|| change(hash))
        })?;
        match result {
            Some(result) => return Ok(result),
            None => remove_one(ctx, key, field),
        }
    }
}
