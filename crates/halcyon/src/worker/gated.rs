//! Connections that wait for the log: their replies for it to be safe ([`engine::gates`]), their commands for room in it.
//!
//! Nothing is polled: before the worker sleeps it asks to be woken by the next progress of the files, and looks for the
//! last time at what there was. Whoever writes the files makes their progress known first and then looks who asked. So one
//! of the two sees the other, and a sync costs at most one wake-up a worker.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use super::Worker;
use crate::connection::{Connection, Wait};

/// The worker's connections that wait for the log.
#[derive(Default)]
pub(super) struct Gated {
    /// Those whose next bytes are held back; each has [`Connection::gated`] set.
    replies: Vec<usize>,
    /// How far the log was safe when they were last looked at.
    looked_at: u64,
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
            self.gated.looked_at = 0;
        }
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
        self.shared.await_progress(self.index);
        fence(SeqCst);
        self.release_replies();
        self.release_writers();
        self.engine.stats.gated_connections.set(self.gated.replies.len() as u64);
    }

    /// Gives a turn to the connections whose next bytes may leave by now.
    fn release_replies(&mut self) {
        let synced_to = self.shared.server.gates.synced_to();
        if std::mem::replace(&mut self.gated.looked_at, synced_to) == synced_to {
            return;
        }
        for token in std::mem::take(&mut self.gated.replies) {
            // Another may have its number by now, which is listed by itself.
            let Some(Some(connection)) = self.connections.get_mut(token) else { continue };
            if !connection.gated {
                continue;
            }
            if connection.out.waits_for().is_some_and(|offset| offset > synced_to) {
                self.gated.replies.push(token);
                continue;
            }
            connection.gated = false;
            self.turn(token);
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
