//! What comes back of forwarded requests.

use std::ops::Range;

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The connection's number on its worker.
    pub token: usize,
    /// Its client, in case the number has been given to another since.
    pub client_id: u64,
    /// The slot of the request's keys.
    pub slot: u16,
    /// The client wants no reply.
    pub is_silent: bool,
    /// The connection waits for nothing after it.
    pub is_last: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Bytes of its reply; more follow.
    Piece(&'a [u8]),
    /// The rest of its reply.
    End(&'a [u8]),
    /// It was not run: the client is to be told where to go.
    NotRun,
    /// Whether it was run is not known, or the rest of its reply will not come.
    Lost,
}

enum Kind {
    Piece(Range<usize>),
    End(Range<usize>),
    NotRun,
    Lost,
}

/// Answers in the order in which they came.
#[derive(Default)]
pub struct Answers {
    bytes: Vec<u8>,
    all: Vec<(Origin, Kind)>,
}

impl Answers {
    /// The answers, with whose they are.
    pub fn iter(&self) -> impl Iterator<Item = (Origin, Answer<'_>)> {
        self.all.iter().map(|(origin, kind)| {
            let answer = match kind {
                Kind::Piece(range) => Answer::Piece(&self.bytes[range.clone()]),
                Kind::End(range) => Answer::End(&self.bytes[range.clone()]),
                Kind::NotRun => Answer::NotRun,
                Kind::Lost => Answer::Lost,
            };
            (*origin, answer)
        })
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Forgets them; memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.all.clear();
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    pub(super) fn piece(&mut self, origin: Origin, bytes: &[u8]) {
        if !bytes.is_empty() {
            let range = self.keep(bytes);
            self.all.push((origin, Kind::Piece(range)));
        }
    }

    pub(super) fn end(&mut self, origin: Origin, bytes: &[u8]) {
        let range = self.keep(bytes);
        self.all.push((origin, Kind::End(range)));
    }

    pub(super) fn not_run(&mut self, origin: Origin) {
        self.all.push((origin, Kind::NotRun));
    }

    pub(super) fn lost(&mut self, origin: Origin) {
        self.all.push((origin, Kind::Lost));
    }
}
