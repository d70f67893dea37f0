//! PSYNC: whether a replica may go on with the stream where it stopped.

use std::ops::RangeInclusive;

use crate::replication::Ids;

/// Why a replica has to be sent everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It asked for that.
    Wanted,
    /// What it has is of another stream.
    OtherStream,
    /// It has more of the stream before this one than this one has in common with it.
    TooFar,
    /// What it lacks is no more there, or is not there yet.
    Gone,
}

impl Refusal {
    /// The rest of a line of the log.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Refusal::Wanted => "it has nothing yet",
            Refusal::OtherStream => "what it has is of another stream",
            Refusal::TooFar => "it went on with the former stream for longer than this server",
            Refusal::Gone => "what it lacks is neither in memory nor on the disk",
        }
    }
}

/// The offset in the log from which a replica goes on that has the stream `id` up to the byte before `next`; Redis
/// counts from 1. `has` says for an offset whether the stream is there from it on.
pub(crate) fn resume(ids: &Ids, id: &[u8], next: i64, has: impl FnOnce(u64) -> bool) -> Result<u64, Refusal> {
    if id == b"?" {
        return Err(Refusal::Wanted);
    }
    if !id.eq_ignore_ascii_case(ids.id.as_bytes()) {
        if !id.eq_ignore_ascii_case(ids.id2.as_bytes()) {
            return Err(Refusal::OtherStream);
        }
        if next > ids.second_offset {
            return Err(Refusal::TooFar);
        }
    }
    match next.checked_sub(1).and_then(|offset| u64::try_from(offset).ok()) {
        Some(offset) if has(offset) => Ok(offset),
        _ => Err(Refusal::Gone),
    }
}

/// Whether the stream is there from `offset` on: in `memory`, or in `files` as far as memory does not reach back.
pub(crate) fn has_from(offset: u64, memory: Option<RangeInclusive<u64>>, files: Option<(u64, u64)>) -> bool {
    let Some(memory) = memory else { return false };
    let in_files = files.is_some_and(|(from, end)| (from..=end).contains(&offset) && end >= *memory.start());
    memory.contains(&offset) || in_files
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";
    const ID2: &str = "ffffffffffffffffffffffffffffffffffffffff";

    fn ids() -> Ids {
        Ids { id: ID.to_owned(), id2: ID2.to_owned(), second_offset: 1001 }
    }

    #[test]
    fn streams_are_told_apart_as_by_redis() {
        let upper = ID.to_uppercase();
        for (id, next, expected) in [
            ("?", -1, Err(Refusal::Wanted)),
            (ID, 1001, Ok(1000)),
            (&upper, 1501, Ok(1500)),
            (ID, 1502, Err(Refusal::Gone)),
            (ID, 900, Err(Refusal::Gone)),
            (ID, 0, Err(Refusal::Gone)),
            (ID, i64::MIN, Err(Refusal::Gone)),
            (ID2, 1001, Ok(1000)),
            (ID2, 1002, Err(Refusal::TooFar)),
            ("x", 1001, Err(Refusal::OtherStream)),
        ] {
            let has = |offset| has_from(offset, Some(1000..=1500), None);
            assert_eq!(resume(&ids(), id.as_bytes(), next, has), expected, "{id} {next}");
        }
    }

    #[test]
    fn files_reach_further_back_than_memory() {
        for (offset, memory, files, expected) in [
            (5, None, Some((0, 100)), false),
            (5, Some(50..=120), None, false),
            (5, Some(50..=120), Some((0, 100)), true),
            (5, Some(50..=120), Some((6, 100)), false),
            // A gap between the files and memory.
            (5, Some(50..=120), Some((0, 49)), false),
            (5, Some(50..=120), Some((0, 50)), true),
            (120, Some(50..=120), None, true),
            (121, Some(50..=120), Some((0, 120)), false),
        ] {
            assert_eq!(has_from(offset, memory.clone(), files), expected, "{offset} {memory:?} {files:?}");
        }
    }
}
