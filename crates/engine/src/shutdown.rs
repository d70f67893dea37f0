//! The end of the server, as it is asked for: replicas get what was written, the data is saved where that is wanted.
//!
//! | state | left when |
//! |---|---|
//! | none | somebody asks for the end |
//! | waiting | all replicas have acknowledged everything, `shutdown-timeout` is over, or it is aborted |
//! | ending | the data is safe: the process ends; or it is not, and everything goes on |
//!
//! Nobody writes meanwhile and nothing ends ([`Server::settle_pause`]), so what is saved is all there is, and replicas go on from it after a
//! restart. Who asks while it is going on shares its fate.

use std::time::Duration;

use parking_lot::Mutex;

use crate::persistence::saving::SaveError;
use crate::replication::primary::Stage;
use crate::server::{PauseMode, Server};

/// Between looks at what is waited for.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What SHUTDOWN asks for, or a directive for a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownWish {
    /// The data is to be saved, or not; none: if there are save points.
    pub saves: Option<bool>,
    /// Replicas are not waited for.
    pub is_now: bool,
    /// Whatever cannot be saved.
    pub is_forced: bool,
}

impl ShutdownWish {
    /// Of the words of `shutdown-on-sigterm` and `shutdown-on-sigint`.
    pub fn of_words(words: &[Vec<u8>]) -> ShutdownWish {
        let has = |name: &[u8]| words.iter().any(|word| word.eq_ignore_ascii_case(name));
        let saves = if has(b"save") { Some(true) } else { has(b"nosave").then_some(false) };
        ShutdownWish { saves, is_now: has(b"now"), is_forced: has(b"force") }
    }
}

/// How far the end is.
#[derive(Default)]
pub struct Shutdown(Mutex<Going>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stand {
    #[default]
    None,
    Waiting,
    Aborted,
    Ending,
    Ended,
}

#[derive(Default)]
struct Going {
    stand: Stand,
    /// Unix milliseconds.
    ends_at_ms: i64,
    /// Attempts that have failed.
    failures: u64,
}

impl Shutdown {
    /// True from when the end is asked for until it is given up.
    pub fn is_going(&self) -> bool {
        self.0.lock().stand != Stand::None
    }

    /// How long replicas are waited for yet, if they are.
    pub(crate) fn left_ms(&self, now_ms: i64) -> Option<i64> {
        let going = self.0.lock();
        (going.stand == Stand::Waiting).then(|| (going.ends_at_ms - now_ms).max(0))
    }

    /// Gives up waiting; false if nobody waits.
    pub(crate) fn abort(&self) -> bool {
        let mut going = self.0.lock();
        let is_waiting = going.stand == Stand::Waiting;
        if is_waiting {
            going.stand = Stand::Aborted;
        }
        is_waiting
    }

    /// Begins. If it is going on already, how many attempts had failed before that.
    fn begin(&self, ends_at_ms: i64) -> Result<(), u64> {
        let mut going = self.0.lock();
        if going.stand != Stand::None {
            return Err(going.failures);
        }
        (going.stand, going.ends_at_ms) = (Stand::Waiting, ends_at_ms);
        Ok(())
    }

    /// Goes from waiting to ending; false if it was aborted.
    fn stop_waiting(&self) -> bool {
        let mut going = self.0.lock();
        let is_wanted = going.stand == Stand::Waiting;
        if is_wanted {
            going.stand = Stand::Ending;
        }
        is_wanted
    }

    fn end(&self, is_ended: bool) {
        let mut going = self.0.lock();
        going.stand = if is_ended { Stand::Ended } else { Stand::None };
        going.failures += u64::from(!is_ended);
    }

    /// Waits for the outcome of what another thread has begun after so many failures.
    fn share(&self, failures: u64) -> bool {
        loop {
            let going = self.0.lock();
            if going.stand == Stand::Ended || going.failures != failures {
                return going.stand == Stand::Ended;
            }
            drop(going);
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Server {
    /// True if the end takes no time: nothing is to be saved, no replica is waited for, and no shard is handed over.
    pub(crate) fn can_end_at_once(&self, wish: ShutdownWish) -> bool {
        if self.cluster.topology().is_some() {
            return false;
        }
        let is_free = !self.saves_at_end(wish) && !self.shutdown.is_going();
        is_free && (!self.waits_for_replicas(wish) || self.replicas_have_all())
    }

    /// Ends the process, after waiting for replicas and saving as is wished. False: the server goes on, and its log says
    /// why. Off the workers.
    pub fn shut_down(&self, wish: ShutdownWish) -> bool {
        if self.persistence.is_loading() {
            // What is being loaded is not saved: the file has more of it than memory.
            self.host.shutdown();
            return true;
        }
        if !wish.is_forced
            && let Some(risk) = self.files_at_risk()
        {
            self.host.log(&format!("The server goes on: {risk}. SHUTDOWN FORCE ends it all the same."));
            return false;
        }
        let now_ms = self.clock.now().unix_ms;
        let ends_at_ms = now_ms + self.config.int("shutdown-timeout") * 1000;
        if let Err(failures) = self.shutdown.begin(ends_at_ms) {
            return self.shutdown.share(failures);
        }
        let paused = self.pause.hold(PauseMode::Write, now_ms);
        self.settle_pause();
        let is_ended = self.wait_and_save(wish, ends_at_ms);
        self.shutdown.end(is_ended);
        if is_ended {
            self.host.shutdown();
        } else {
            self.pause.restore(paused);
            self.settle_pause();
        }
        is_ended
    }

    fn wait_and_save(&self, wish: ShutdownWish, ends_at_ms: i64) -> bool {
        if self.waits_for_replicas(wish) {
            self.await_replicas(ends_at_ms);
        }
        if !self.shutdown.stop_waiting() {
            self.notice("Shutdown manually aborted.");
            return false;
        }
        self.report_replicas();
        if !self.saves_at_end(wish) {
            return true;
        }
        let is_saved = self.save_at_end().is_ok();
        if !is_saved && !wish.is_forced {
            self.host.log("The data is not saved, so the server goes on. SHUTDOWN NOSAVE ends it without.");
        }
        is_saved || wish.is_forced
    }

    fn save_at_end(&self) -> Result<(), SaveError> {
        loop {
            match self.save() {
                // What is being saved lacks what was written since; it is waited for.
                Err(SaveError::Busy) => std::thread::sleep(LOOK_INTERVAL),
                result => return result,
            }
        }
    }

    fn saves_at_end(&self, wish: ShutdownWish) -> bool {
        wish.saves.unwrap_or_else(|| !self.save_points().is_empty())
    }

    fn waits_for_replicas(&self, wish: ShutdownWish) -> bool {
        !wish.is_now && self.config.int("shutdown-timeout") > 0 && self.replication.replicas.count() > 0
    }

    /// Waits until replicas have everything, or the time is over, or nobody wants the end any more.
    fn await_replicas(&self, ends_at_ms: i64) {
        if self.replicas_have_all() {
            return;
        }
        self.notice("Waiting for replicas before shutting down.");
        while !self.replicas_have_all() {
            let is_over = self.clock.now().unix_ms >= ends_at_ms;
            if is_over || self.shutdown.left_ms(0).is_none() {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn replicas_have_all(&self) -> bool {
        let end = self.log.end();
        let replicas = self.replication.replicas.list();
        let mut followers = replicas.iter().filter(|replica| replica.stage() != Stage::Served);
        followers.all(|replica| replica.acked_to() >= end)
    }

    /// Says which replicas do not have everything.
    fn report_replicas(&self) {
        let (end, replicas) = (self.log.end(), self.replication.replicas.list());
        for replica in &replicas {
            let lacks_bytes = end.saturating_sub(replica.acked_to());
            if lacks_bytes > 0 {
                let name = replica.name();
                self.notice(&format!("Replica {name} has not acknowledged the last {lacks_bytes} bytes"));
            }
        }
        if !replicas.is_empty() {
            let in_sync = replicas.iter().filter(|replica| replica.acked_to() >= end).count();
            self.notice(&format!("{in_sync} of {} replicas are in sync when shutting down.", replicas.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_how_it_ends() {
        for (words, saves, is_now, is_forced) in [
            ("default", None, false, false),
            ("NOSAVE now", Some(false), true, false),
            ("save force", Some(true), false, true),
        ] {
            let words: Vec<Vec<u8>> = words.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let wish = ShutdownWish { saves, is_now, is_forced };
            assert_eq!(ShutdownWish::of_words(&words), wish, "{words:?}");
        }
    }

    #[test]
    fn only_who_waits_is_aborted() {
        let shutdown = Shutdown::default();
        assert!(!shutdown.abort() && !shutdown.is_going());
        assert_eq!(shutdown.begin(500), Ok(()));
        assert_eq!((shutdown.begin(900), shutdown.left_ms(100)), (Err(0), Some(400)));
        assert!(shutdown.abort() && !shutdown.abort() && !shutdown.stop_waiting());
        shutdown.end(false);
        assert!(!shutdown.share(0), "who came meanwhile is told so");
        assert_eq!(shutdown.begin(0), Ok(()));
        assert!(shutdown.stop_waiting() && !shutdown.abort() && shutdown.is_going());
        shutdown.end(true);
        assert!(shutdown.share(1));
    }
}
