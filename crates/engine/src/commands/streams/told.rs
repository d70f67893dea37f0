//! What the log is told of those who read in groups: commands after which the same entries are pending for the same
//! consumers, whenever they are run.
//!
//! As Redis has it, an entry that a consumer is given again from its history is not told. Unlike Redis, a consumer that was
//! made and given nothing is.

use base::num::{I64_TEXT_BYTES_MAX, format_i64, format_u64};
use store::stream::{Group, Pending};
use store::{Stream, StreamId};

use super::ids::Shown;
use crate::ctx::Ctx;

/// The group that is told of.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) key: &'a [u8],
    pub(super) group: &'a [u8],
}

impl Told<'_> {
    /// A consumer was made.
    pub(super) fn consumer(self, ctx: &mut Ctx<'_>, consumer: &[u8]) {
        ctx.effect(&[b"XGROUP", b"CREATECONSUMER", self.key, self.group, consumer]);
    }

    /// An entry is pending like this, or was: where it is gone, running this forgets that it was pending. `last_id` is up
    /// to where the group has read.
    fn pending(self, ctx: &mut Ctx<'_>, id: StreamId, pending: &Pending, last_id: StreamId) {
        let (id, last_id) = (Shown::new(id), Shown::new(last_id));
        let (mut time, mut count) = ([0; I64_TEXT_BYTES_MAX], [0; 20]);
        ctx.effect(&[
            b"XCLAIM",
            self.key,
            self.group,
            &pending.consumer,
            b"0",
            id.as_bytes(),
            b"TIME",
            format_i64(pending.delivered_ms, &mut time),
            b"RETRYCOUNT",
            format_u64(pending.deliveries, &mut count),
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            last_id.as_bytes(),
        ]);
    }

    /// The group has read up to where it says.
    pub(super) fn position(self, ctx: &mut Ctx<'_>, group: &Group) {
        let entries_read = group.entries_read().map_or_else(|| "-1".to_owned(), |read| read.to_string());
        let last_id = Shown::new(group.last_id());
        ctx.effect(&[
            b"XGROUP",
            b"SETID",
            self.key,
            self.group,
            last_id.as_bytes(),
            b"ENTRIESREAD",
            entries_read.as_bytes(),
        ]);
    }

    /// These entries were delivered for the first time, one after another.
    pub(super) fn delivered(self, ctx: &mut Ctx<'_>, stream: &Stream, ids: impl Iterator<Item = StreamId>) {
        let Some(group) = stream.group(self.group) else { return };
        for id in ids {
            if let Some(pending) = group.pending(id) {
                self.pending(ctx, id, pending, id);
            }
        }
    }

    /// These entries were taken over.
    pub(super) fn claimed(self, ctx: &mut Ctx<'_>, stream: &Stream, ids: &[StreamId]) {
        let Some(group) = stream.group(self.group) else { return };
        for id in ids {
            if let Some(pending) = group.pending(*id) {
                self.pending(ctx, *id, pending, group.last_id());
            }
        }
    }

    /// These entries were pending, until they were found to be gone.
    pub(super) fn gone(self, ctx: &mut Ctx<'_>, stream: &Stream, gone: &[(StreamId, Pending)]) {
        let Some(group) = stream.group(self.group) else { return };
        for (id, pending) in gone {
            self.pending(ctx, *id, pending, group.last_id());
        }
    }
}
