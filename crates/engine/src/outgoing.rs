//! Connections to other servers that commands ask for (MIGRATE). Those that are done with one keep it for the next.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use base::limits::{LINK_IDLE_US_MAX, LINKS_KEPT_MAX};
use parking_lot::Mutex;

/// A connection to another server. It blocks, but no longer than its patience: then it fails with
/// [`io::ErrorKind::TimedOut`].
pub trait Link: Send {
    /// How long one sending or receiving waits for the other end from now on.
    fn set_patience(&mut self, patience: Duration) -> io::Result<()>;
    /// Sends all bytes.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Appends what has come: at least a byte. The end of the connection is [`io::ErrorKind::UnexpectedEof`].
    fn receive(&mut self, bytes: &mut Vec<u8>) -> io::Result<()>;
}

/// Where a server is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// A connection, and which database it works on, if that is known.
pub struct Kept {
    /// The connection.
    pub link: Box<dyn Link>,
    /// The database, as it was asked for.
    pub db: Option<i64>,
}

/// Connections that nobody uses just now, one for each server.
#[derive(Default)]
pub struct Links(Mutex<HashMap<Target, (Kept, u64)>>);

impl Links {
    /// Takes out the connection to a server.
    pub fn take(&self, target: &Target) -> Option<Kept> {
        self.0.lock().remove(target).map(|(kept, _)| kept)
    }

    /// Keeps a connection that was used until now.
    pub fn keep(&self, target: Target, kept: Kept, now_us: u64) {
        let mut links = self.0.lock();
        if links.len() >= LINKS_KEPT_MAX
            && let Some(oldest) =
                links.iter().min_by_key(|(_, (_, used_us))| *used_us).map(|(key, _)| key.clone())
        {
            links.remove(&oldest);
        }
        links.insert(target, (kept, now_us));
    }

    /// Closes those that nobody has used for a while.
    pub fn close_idle(&self, now_us: u64) {
        self.0.lock().retain(|_, (_, used_us)| now_us.saturating_sub(*used_us) < LINK_IDLE_US_MAX);
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// True if none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl Link for Nowhere {
        fn set_patience(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }
        fn send(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn receive(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    #[test]
    fn few_are_kept_and_not_for_long() {
        let links = Links::default();
        let target = |port| Target { host: "a".to_owned(), port };
        for port in 0..=LINKS_KEPT_MAX as u16 {
            links.keep(target(port), Kept { link: Box::new(Nowhere), db: None }, u64::from(port));
        }
        assert_eq!(links.len(), LINKS_KEPT_MAX);
        assert!(links.take(&target(0)).is_none(), "the one not used for longest went");
        assert!(links.take(&target(1)).is_some());
        assert!(links.take(&target(1)).is_none(), "who uses one has it alone");
        links.close_idle(LINK_IDLE_US_MAX + 2);
        assert_eq!(links.len(), LINKS_KEPT_MAX - 2, "the third was used last {LINK_IDLE_US_MAX} us ago");
        links.close_idle(2 * LINK_IDLE_US_MAX);
        assert!(links.is_empty());
    }
}
