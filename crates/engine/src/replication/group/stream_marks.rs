//! What the log says of itself: `PING "halcyon-stream ID EPOCH"`, the first record of each epoch and one of the records now
//! and then, says that it is the stream of this id, and of which epoch. So who is killed finds both in its append-only files, and
//! however these end, they are the beginning of that stream.

use crate::args::Args;
use crate::replication::Ids;
use crate::server::Server;

/// What the text of a PING begins with that is such a mark.
const MARK: &str = "halcyon-stream ";
/// Digits of a stream's id.
const ID_DIGITS: usize = 40;

/// Which stream the log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamMark {
    /// 40 hex digits.
    pub id: String,
    /// The epoch in which it was written.
    pub epoch: u64,
}

impl StreamMark {
    /// What a PING says; None: it is another.
    fn of_ping(args: Args<'_>) -> Option<StreamMark> {
        let text = std::str::from_utf8(args.get(1)?).ok()?.strip_prefix(MARK)?;
        let (id, epoch) = text.split_once(' ')?;
        let is_id = id.len() == ID_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
        Some(StreamMark { id: id.to_owned(), epoch: epoch.parse().ok()? }).filter(|_| is_id)
    }

    /// The record.
    pub(super) fn record(&self) -> Vec<u8> {
        let text = format!("{MARK}{} {}", self.id, self.epoch);
        let mut record = Vec::new();
        resp::write_command(&mut record, [b"PING".as_slice(), text.as_bytes()]);
        record
    }
}

impl Server {
    /// The mark of what is written from now on.
    pub(super) fn stream_mark(&self, epoch: u64) -> StreamMark {
        let Ids { id, .. } = &*self.replication.ids.lock();
        StreamMark { id: id.clone(), epoch }
    }

    /// A PING of this server's own files. If it is a mark, they hold what was written in its epoch.
    pub fn note_replayed_ping(&self, args: Args<'_>) {
        if let Some(mark) = StreamMark::of_ping(args) {
            let mut state = self.replication.group.state.lock();
            state.log_epoch = state.log_epoch.max(mark.epoch);
            state.replayed = Some(mark);
        }
    }

    /// The files are loaded, and end at `offset`: goes on with the stream that they say they are, so that its primary need send
    /// only the rest. Of a member of a cluster, which leads no stream of its own before it is told to; of nobody else.
    pub fn resume_replayed(&self, offset: u64, db: usize) {
        let mark = self.replication.group.state.lock().replayed.take();
        if let Some(StreamMark { id, .. }) = mark.filter(|_| self.replication.following.stands()) {
            self.resume_at(&id, offset, db);
        }
    }
}

#[cfg(test)]
mod tests {
    use resp::{Batch, DecodeLimits, Decoder};

    use super::*;

    fn read(record: &[u8]) -> Option<StreamMark> {
        let mut batch = Batch::new();
        Decoder::new().decode(record, &DecodeLimits::default(), 1, &mut batch).expect("a command");
        StreamMark::of_ping(batch.command(0, record))
    }

    #[test]
    fn a_mark_is_read_as_it_is_written_and_nothing_else_is_one() {
        let mark = StreamMark { id: "0123456789abcdef0123456789abcdef01234567".to_owned(), epoch: 12 };
        let record = mark.record();
        assert_eq!(read(&record), Some(mark.clone()));
        let text = String::from_utf8(record).expect("words");
        for other in
            [text.replace("stream", "strewn"), text.replace(" 12", " 1x"), text.replace("567 ", "56g ")]
        {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
        assert_eq!(read(b"*1\r\n$4\r\nPING\r\n"), None);
    }
}
