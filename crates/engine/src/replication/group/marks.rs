//! Instants of the log: where it ended when. An acknowledgement proves by them when it was sent, at the earliest.

use std::collections::VecDeque;

/// Marks that are kept: some seconds' worth.
const MARKS_MAX: usize = 64;

/// The newest marks, in order.
#[derive(Default)]
pub(super) struct Marks(VecDeque<Mark>);

#[derive(Clone, Copy)]
struct Mark {
    /// The log's end, read after the clock.
    end: u64,
    /// `Now::mono_us`.
    at_us: u64,
}

impl Marks {
    /// The log ended here when the clock, which was read before that, said this.
    pub(super) fn add(&mut self, end: u64, at_us: u64) {
        if self.0.len() == MARKS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Mark { end, at_us });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The newest instant after which an acknowledgement of `acked_to` was sent: some of what it acknowledges was appended
    /// later. 0: nobody knows.
    pub(super) fn heard_us(&self, acked_to: u64) -> u64 {
        self.newest(|mark| mark.end < acked_to)
    }

    /// The newest instant at which the log held no more than was acknowledged by now. 0: nobody knows.
    pub(super) fn caught_up_us(&self, acked_to: u64) -> u64 {
        self.newest(|mark| mark.end <= acked_to)
    }

    /// When the newest was made; 0: there is none.
    pub(super) fn newest_us(&self) -> u64 {
        self.0.back().map_or(0, |mark| mark.at_us)
    }

    fn newest(&self, fits: impl Fn(&&Mark) -> bool) -> u64 {
        self.0.iter().rev().find(fits).map_or(0, |mark| mark.at_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_as_new_as_what_it_acknowledges() {
        let mut marks = Marks::default();
        assert_eq!((marks.heard_us(10), marks.caught_up_us(10)), (0, 0));
        marks.add(10, 100);
        marks.add(24, 300);
        marks.add(24, 500);
        assert_eq!(marks.heard_us(10), 0, "all of it was there before the first mark");
        assert_eq!(marks.heard_us(11), 100);
        assert_eq!(marks.heard_us(24), 100, "it may have been sent at once");
        assert_eq!(marks.heard_us(25), 500);
        assert_eq!((marks.caught_up_us(23), marks.caught_up_us(24)), (100, 500));
        for at_us in 0..200 {
            marks.add(1000 + at_us, at_us);
        }
        assert_eq!((marks.heard_us(1100), marks.heard_us(1199)), (0, 198), "the old ones are gone");
    }
}
