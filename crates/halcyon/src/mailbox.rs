//! A worker's letter box: how other threads reach a loop that sleeps in its poll.
//!
//! The protocol: a sender puts its letter in, then raises `awake`, and whoever raised it wakes the owner. The owner, woken,
//! lowers `awake`, then takes the letters. Invariant *no-lost-wake*: while a letter is in the box, or a `wake` has not been
//! answered by a `take`, the owner has a wake-up to come or is before its `take`. The tests run the protocol under every
//! schedule of two threads and many of more (shuttle, which takes every atomic for sequentially consistent), with a bell in
//! the waker's place.

use std::io;
use std::sync::atomic::Ordering;

#[cfg(not(test))]
use parking_lot::Mutex;
#[cfg(not(test))]
use std::sync::atomic::AtomicBool;
#[cfg(test)]
use tests::{AtomicBool, Mutex};

/// What ends the owner's sleep. A wake-up that comes while the owner is awake must end its next sleep.
pub trait Wake {
    /// Ends the owner's sleep.
    fn wake(&self) -> io::Result<()>;
}

impl Wake for mio::Waker {
    fn wake(&self) -> io::Result<()> {
        mio::Waker::wake(self)
    }
}

/// The box: senders pay one lock, and one wake-up for all letters of a turn.
pub struct Mailbox<M, W> {
    letters: Mutex<Vec<M>>,
    waker: Mutex<Option<W>>,
    awake: AtomicBool,
}

impl<M, W> Default for Mailbox<M, W> {
    fn default() -> Mailbox<M, W> {
        Mailbox { letters: Mutex::new(Vec::new()), waker: Mutex::new(None), awake: AtomicBool::new(false) }
    }
}

impl<M, W: Wake> Mailbox<M, W> {
    /// Hands over the owner's waker, once. Others may have sent before: workers start one after another.
    pub fn open(&self, waker: W) {
        *self.waker.lock() = Some(waker);
        // Whoever raised the flag before found no waker.
        if self.awake.load(Ordering::Acquire) {
            self.ring();
        }
    }

    /// Leaves a letter.
    pub fn send(&self, letter: M) {
        self.letters.lock().push(letter);
        self.wake();
    }

    /// Has the owner's poll return.
    pub fn wake(&self) {
        if !self.awake.swap(true, Ordering::AcqRel) {
            self.ring();
        }
    }

    fn ring(&self) {
        if let Some(waker) = &*self.waker.lock()
            && let Err(error) = waker.wake()
        {
            tracing::warn!("cannot wake a worker: {error}");
            // The next sender tries again.
            self.awake.store(false, Ordering::Release);
        }
    }

    /// Takes all letters. Called by the owner when its waker fired.
    pub fn take(&self) -> Vec<M> {
        // Lowered first: a letter that comes after the lock is taken wakes again. Acquired too: what a
        // thread did before a `wake` that found the flag raised is seen by the owner from here on.
        self.awake.swap(false, Ordering::AcqRel);
        std::mem::take(&mut *self.letters.lock())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shuttle::sync::MutexGuard;
    use shuttle::sync::mpsc::{Receiver, Sender, channel};
    use shuttle::thread;

    use super::*;

    pub(super) use shuttle::sync::atomic::AtomicBool;

    /// shuttle's lock with the face of parking_lot's.
    pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a schedule that panics has failed already")
        }
    }

    /// In the place of a waker: whoever rings ends one wait of the owner.
    struct Bell(Sender<()>);

    impl Wake for Bell {
        fn wake(&self) -> io::Result<()> {
            self.0.send(()).map_err(io::Error::other)
        }
    }

    /// In the place of a poll. A lost wake-up leaves the owner here for ever, which shuttle reports as a deadlock.
    fn wait(bell: &Receiver<()>) {
        bell.recv().expect("the box keeps its bell");
        // As an event counter does: what was rung so far ends one sleep, not several.
        while bell.try_recv().is_ok() {}
    }

    type Letters = Mailbox<(usize, usize), Bell>;

    /// One schedule: `senders` leave `each` letters; the owner opens the box before or meanwhile, and
    /// waits until it has them all.
    fn deliver(senders: usize, each: usize, open_first: bool) {
        let (letters, (ring, bell)) = (Arc::new(Letters::default()), channel());
        let open_later = if open_first {
            letters.open(Bell(ring));
            None
        } else {
            Some(Bell(ring))
        };
        let threads: Vec<_> = (0..senders)
            .map(|sender| {
                let letters = letters.clone();
                thread::spawn(move || (0..each).for_each(|number| letters.send((sender, number))))
            })
            .collect();
        if let Some(bell) = open_later {
            letters.open(bell);
        }
        let mut received = Vec::new();
        while received.len() < senders * each {
            wait(&bell);
            received.extend(letters.take());
        }
        threads.into_iter().for_each(|thread| thread.join().expect("a sender ends"));
        for sender in 0..senders {
            let numbers = received.iter().filter(|(from, _)| *from == sender).map(|(_, number)| *number);
            assert!(numbers.eq(0..each), "each letter once, in its sender's order: {received:?}");
        }
    }

    /// One schedule: a flag is raised, then the owner woken, while letters come in.
    fn stop() {
        let (letters, (ring, bell)) = (Arc::new(Letters::default()), channel());
        let stopping = Arc::new(AtomicBool::new(false));
        letters.open(Bell(ring));
        let sender = letters.clone();
        let sender = thread::spawn(move || sender.send((0, 0)));
        let (waker, flag) = (letters.clone(), stopping.clone());
        let stopper = thread::spawn(move || {
            flag.store(true, Ordering::Release);
            waker.wake();
        });
        while !stopping.load(Ordering::Acquire) {
            wait(&bell);
            letters.take();
        }
        sender.join().expect("the sender ends");
        stopper.join().expect("the stopper ends");
    }

    #[test]
    fn no_schedule_of_two_threads_loses_a_letter() {
        shuttle::check_dfs(|| deliver(1, 2, true), None);
        shuttle::check_dfs(|| deliver(1, 1, false), None);
    }

    #[test]
    fn no_wake_up_is_lost_among_many_threads() {
        shuttle::check_random(|| deliver(3, 3, true), 1_000);
        shuttle::check_random(|| deliver(2, 2, false), 1_000);
        shuttle::check_pct(|| deliver(2, 3, false), 1_000, 3);
    }

    #[test]
    fn the_owner_sees_the_flag_it_was_woken_for() {
        shuttle::check_random(stop, 1_000);
        shuttle::check_pct(stop, 1_000, 3);
    }
}
