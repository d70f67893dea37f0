//! Connections that wait for the log: their replies for it to be safe ([`engine::gates`]), their commands for room in it.
//!
//! Nothing is polled: before the worker sleeps it asks to be woken by the next progress of the files, and looks for the
//! last time at what there was. Whoever writes the files makes their progress known first and then looks who asked. So one
//! of the two sees the other, and a sync costs at most one wake-up a worker.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use engine::gates::{Awaits, Safe};

use super::Worker;
use crate::connection::{Connection, Wait};

/// The worker's connections that wait for the log.
#[derive(Default)]
pub(super) struct Gated {
    /// Those whose next bytes are held back; each has [`Connection::gated`] set.
    replies: Vec<usize>,
    /// How far the log was safe when they were last looked at, and whether this server led.
    looked_at: Option<(Safe, bool)>,
    /// One of them waits for this server's disk.
    awaits_disk: bool,
    /// Those whose next command may write.
    writers: Vec<usize>,
}

impl Worker {
    /// Enters a connection whose next bytes are held back.
    #[cold]
    pub(super) fn list_gated(&mut self, token: usize, connection: &mut Connection) {
        if !std::mem::replace(&mut connection.gated, true) {
            self.gated.replies.push(token);
            // It is looked at once, in case that what it waits for has come since it was found waiting.
            self.gated.looked_at = None;
        }
        let closed = connection.out.closed_gate();
        self.gated.awaits_disk |= closed.is_some_and(|(_, awaits)| awaits.has(Awaits::DISK));
    }

    /// A connection's next command goes on when the log has room.
    #[cold]
    pub(super) fn wait_for_room(&mut self, token: usize, connection: &mut Connection) {
        connection.wait = Wait::Room;
        self.gated.writers.push(token);
    }

    /// Before the worker sleeps: lets go on who can, and asks to be woken for the others.
    #[inline]
    pub(super) fn await_log(&mut self) {
        if !self.gated.replies.is_empty() || !self.gated.writers.is_empty() {
            self.await_log_slow();
        }
    }

    #[cold]
    fn await_log_slow(&mut self) {
        let wants_sync = self.gated.awaits_disk || !self.gated.writers.is_empty();
        self.shared.await_progress(self.index, wants_sync);
        fence(SeqCst);
        self.release_replies();
        self.release_writers();
        self.engine.stats.gated_connections.set(self.gated.replies.len() as u64);
    }

    /// Gives a turn to the connections whose next bytes may leave by now.
    fn release_replies(&mut self) {
        let gates = &self.shared.server.gates;
        let look = (self.shared.server.safe(), gates.copies.leads());
        if self.gated.looked_at.replace(look) == Some(look) {
            return;
        }
        let shared = self.shared.clone();
        self.gated.awaits_disk = false;
        for token in std::mem::take(&mut self.gated.replies) {
            // Another may have its number by now, which is listed by itself.
            let Some(Some(connection)) = self.connections.get_mut(token) else { continue };
            if !connection.gated {
                continue;
            }
            if let Some((offset, awaits)) = connection.out.closed_gate()
                && offset > look.0.to(awaits)
            {
                if !shared.server.gates.copies.is_lost(awaits) {
                    self.gated.replies.push(token);
                    self.gated.awaits_disk |= awaits.has(Awaits::DISK);
                    continue;
                }
                // Whether others have what it waits for, nobody here is told any more.
                connection.aborted = true;
            }
            connection.gated = false;
            self.engine.looked = Some(look.0);
            self.turn(token);
            self.engine.looked = None;
        }
    }

    /// Lets the connections try again whose command waits for room.
    fn release_writers(&mut self) {
        if self.gated.writers.is_empty() || self.shared.server.is_log_full() {
            return;
        }
        for token in std::mem::take(&mut self.gated.writers) {
            if let Some(Some(connection)) = self.connections.get_mut(token)
                && connection.wait == Wait::Room
            {
                connection.wait = Wait::None;
                self.turn(token);
            }
        }
    }
}
