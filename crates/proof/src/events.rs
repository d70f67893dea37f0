//! The keyspace events that both sides publish while the same commands run.
//!
//! On each side one connection listens to all events; a message that another one publishes says where
//! the events of the commands before it end.

use std::io;

use resp::Value;

use crate::duo::{Disagreement, args};
use crate::link::Link;
use crate::server::{Pair, Server};
use crate::value::Reply;
use crate::words;

/// Every class, published by key, but misses (`m`): where a command is refused, or waits and looks again,
/// versions differ in which keys it has looked for by then. `A` has no creations (`n`).
const CLASSES: &str = "KAn";
/// What each server finds the time for at its own moment, and what 7.2 does sooner: a consumer is made by XREADGROUP
/// or XCLAIM though there is nothing to give it, and so is there to be removed.
const UNTIMELY: &[&[u8]] =
    &[b"expired", b"hexpired", b"evicted", b"xgroup-createconsumer", b"xgroup-delconsumer"];
/// The channel of the messages that mark an end.
const MARKS: &str = "proof:mark";

/// Events shown before and after the first one that differs.
const SHOWN_BEFORE: usize = 2;
const SHOWN_AFTER: usize = 4;

/// What listens on both sides.
pub struct Events {
    oracle: Listener,
    halcyon: Listener,
}

impl Events {
    /// Asks both sides for their events and listens.
    pub fn open(pair: &Pair) -> io::Result<Events> {
        let (oracle, halcyon) = (&pair.oracle, &pair.halcyon);
        Ok(Events { oracle: Listener::open(oracle)?, halcyon: Listener::open(halcyon)? })
    }

    /// Compares the events since the last call, which `about` has set off.
    pub fn compare(&mut self, about: &str) -> io::Result<Option<Disagreement>> {
        let (oracle, halcyon) = (self.oracle.take()?, self.halcyon.take()?);
        let agreeing = oracle.iter().zip(&halcyon).take_while(|(one, other)| one == other).count();
        let shown = |events: &[String]| {
            let around = agreeing.saturating_sub(SHOWN_BEFORE)..events.len().min(agreeing + SHOWN_AFTER);
            format!("{} after {agreeing}: {}", events.len(), events[around].join(", "))
        };
        Ok((oracle != halcyon).then(|| Disagreement {
            about: format!("events of {about}"),
            oracle: shown(&oracle),
            halcyon: shown(&halcyon),
        }))
    }

    /// Forgets the events since the last call.
    pub fn skip(&mut self) -> io::Result<()> {
        self.oracle.take()?;
        self.halcyon.take()?;
        Ok(())
    }

    /// Asks for no more events.
    pub fn close(mut self) -> io::Result<()> {
        for side in [&mut self.oracle, &mut self.halcyon] {
            side.sender.call(&["CONFIG", "SET", "notify-keyspace-events", ""])?;
        }
        Ok(())
    }
}

struct Listener {
    listening: Link,
    sender: Link,
    marks: u64,
}

impl Listener {
    fn open(server: &Server) -> io::Result<Listener> {
        let (mut listening, mut sender) = (server.connect()?, server.connect()?);
        sender.call(&["CONFIG", "SET", "notify-keyspace-events", CLASSES])?;
        listening.call(&["SUBSCRIBE", MARKS])?;
        listening.call(&["PSUBSCRIBE", "__keyspace@*"])?;
        Ok(Listener { listening, sender, marks: 0 })
    }

    fn take(&mut self) -> io::Result<Vec<String>> {
        self.marks += 1;
        let mark = self.marks.to_string();
        self.sender.send([&args(&["PUBLISH", MARKS, &mark])])?;
        let mut events = Vec::new();
        loop {
            let message = self.listening.next()?;
            match message.leaves().as_slice() {
                [kind, _, text] if kind == b"message" && *text == mark.as_bytes() => break,
                [kind, _, channel, event] if kind == b"pmessage" => {
                    if !UNTIMELY.contains(&&**event) {
                        events.push(shown(channel, event));
                    }
                }
                _ => return Err(io::Error::other(format!("no event: {}", message.notation()))),
            }
        }
        match self.sender.reply()? {
            Value::Int(_) => Ok(events),
            other => Err(io::Error::other(format!("PUBLISH is answered with {}", other.notation()))),
        }
    }
}

/// An event as it is compared and shown. What SPOP takes out of one side, the suite takes out of the other with SREM.
fn shown(channel: &[u8], event: &[u8]) -> String {
    let place = channel.strip_prefix(b"__keyspace@").unwrap_or(channel);
    let event = if event == b"spop" { b"srem" } else { event };
    format!("{} {}", words::quote(place), words::quote(event))
}
