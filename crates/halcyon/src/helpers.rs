//! Threads that help another one: each does what it is handed, in order, and all can be waited for.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

enum Job<J> {
    Do(J),
    /// Say so when everything before is done.
    Reach(Sender<()>),
}

/// The way to them. They end when it is dropped.
pub struct Helpers<J>(Vec<SyncSender<Job<J>>>);

/// What one of them is handed.
pub struct Work<J>(Receiver<Job<J>>);

impl<J> Work<J> {
    /// Does what comes, until nothing comes any more.
    pub fn run(self, mut each: impl FnMut(J)) {
        for job in self.0 {
            match job {
                Job::Do(job) => each(job),
                // Who waits has gone only if what it waits for has failed.
                Job::Reach(reached) => drop(reached.send(())),
            }
        }
    }
}

impl<J> Helpers<J> {
    /// So many, for each of which as many as `waiting` jobs may wait; `start` starts the thread of one.
    pub fn start<E>(
        count: usize,
        waiting: usize,
        mut start: impl FnMut(usize, Work<J>) -> Result<(), E>,
    ) -> Result<Helpers<J>, E> {
        let mut helpers = Vec::with_capacity(count);
        for index in 0..count {
            let (jobs, receiver) = sync_channel(waiting);
            start(index, Work(receiver))?;
            helpers.push(jobs);
        }
        Ok(Helpers(helpers))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Hands a job to one of them. Waits while too many are waiting.
    pub fn hand(&self, helper: usize, job: J) {
        self.0[helper].send(Job::Do(job)).expect("helper-threads: take every job");
    }

    /// Returns once these have done all that they were handed.
    pub fn reach(&self, helpers: impl IntoIterator<Item = usize>) {
        let (reached, all_reached) = channel();
        let mut asked = 0;
        for helper in helpers {
            self.0[helper].send(Job::Reach(reached.clone())).expect("helper-threads: take every job");
            asked += 1;
        }
        // One that fails before it answers is noticed here.
        drop(reached);
        for _ in 0..asked {
            all_reached.recv().expect("helper-threads: answer");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::thread;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn each_does_its_jobs_in_order_and_is_waited_for() {
        let done = [const { Mutex::new(Vec::new()) }; 3];
        thread::scope(|scope| {
            let helpers = Helpers::start(3, 2, |index, work: Work<usize>| {
                let done = &done[index];
                scope.spawn(move || work.run(|job| done.lock().push(job)));
                Ok::<(), Infallible>(())
            });
            let helpers = helpers.expect("never fails");
            for job in 0..300 {
                let helper = job % helpers.count();
                helpers.hand(helper, job);
                if job % 50 == 2 {
                    helpers.reach([helper]);
                    assert_eq!(done[helper].lock().last(), Some(&job));
                }
            }
            helpers.reach(0..3);
            assert!(done.iter().all(|done| done.lock().len() == 100));
        });
        assert!(done.iter().enumerate().all(|(index, done)| done.lock().iter().all(|job| job % 3 == index)));
        assert!(done.iter().all(|done| done.lock().is_sorted()));
    }
}
