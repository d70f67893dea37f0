//! The thread beside the loop: it reads the names of phases, and asks the servers for their figures where one ends.

use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mio::Waker;

use super::servers::{Figures, Waiting};

/// How the first phase is called.
const FIRST: &str = "quiet";

/// A phase ends here, and the next begins.
pub struct Mark {
    /// Of the phase that begins; None where the run ends, or an error for which it has to.
    pub name: Result<Option<String>, String>,
    /// Of all servers together.
    pub figures: Figures,
    pub at: Instant,
}

/// Where phases begin and end, and how to wake up the loop for it.
pub struct Marks {
    pub nodes: Vec<SocketAddr>,
    pub warm_up: Duration,
    pub marks: Sender<Mark>,
    pub waker: Waker,
}

impl Marks {
    /// Sends a mark after the warm-up, one for each line of `input`, and one at its end. Returns early if nobody listens.
    pub fn send_all(self, input: impl BufRead) {
        std::thread::sleep(self.warm_up);
        if let Err(error) = self.try_all(input) {
            self.send(Err(error), Figures::default());
        }
    }

    /// An error is for the loop.
    fn try_all(&self, input: impl BufRead) -> Result<(), String> {
        let servers: Result<Vec<Waiting>, String> =
            self.nodes.iter().map(|node| Waiting::connect(*node)).collect();
        let mut servers = servers?;
        let mut mark = |name| {
            let mut figures = Figures::default();
            for server in &mut servers {
                figures.add(&server.figures()?);
            }
            Ok::<bool, String>(self.send(Ok(name), figures))
        };
        let mut is_heard = mark(Some(FIRST.to_owned()))?;
        for line in input.lines() {
            let name = line.map_err(|error| format!("standard input: {error}"))?;
            if !is_heard {
                return Ok(());
            }
            is_heard = mark(Some(name.trim().to_owned()))?;
        }
        mark(None).map(|_| ())
    }

    /// Whether the loop is still there.
    fn send(&self, name: Result<Option<String>, String>, figures: Figures) -> bool {
        let is_sent = self.marks.send(Mark { name, figures, at: Instant::now() }).is_ok();
        is_sent && self.waker.wake().is_ok()
    }
}
