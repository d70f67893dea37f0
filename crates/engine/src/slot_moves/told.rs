//! Moves as clients are told of them: CLUSTER GETSLOTMIGRATIONS.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::limits::SLOT_MOVES_TOLD_MAX;
use parking_lot::Mutex;

use super::sending::SlotMove;
use crate::server::Server;

/// A move from or to this node's shard, as it stands in the cluster's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// 40 hex digits.
    pub name: String,
    /// The slots go from here.
    pub is_export: bool,
    /// `0-5 7-7`
    pub slots: String,
    /// The primary that is to have them.
    pub target: String,
    /// The primary that had them.
    pub source: String,
    /// When it was asked for.
    pub begun_s: i64,
    /// When its state changed last.
    pub changed_s: i64,
    /// Valkey's word for it.
    pub state: &'static str,
    /// Why it failed.
    pub message: String,
}

/// How far this node is with a move, or was when that ended here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// Keys that were copied.
    pub keys: u64,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Microseconds for which the slots' commands waited.
    pub paused_us: u64,
}

#[derive(Default)]
pub(super) struct Told {
    migrations: Mutex<Arc<Vec<Migration>>>,
    /// The newest last.
    tasks: Mutex<VecDeque<(String, Arc<SlotMove>)>>,
}

impl Server {
    /// What the records say of moves from and to this node's shard, the newest first.
    pub fn tell_migrations(&self, migrations: Vec<Migration>) {
        *self.slot_moves.told.migrations.lock() = Arc::new(migrations);
    }

    /// As [`Server::tell_migrations`] has said last.
    pub(crate) fn migrations(&self) -> Arc<Vec<Migration>> {
        self.slot_moves.told.migrations.lock().clone()
    }

    /// This node begins with the move of this name.
    pub fn note_move(&self, name: String, task: Arc<SlotMove>) {
        let mut tasks = self.slot_moves.told.tasks.lock();
        tasks.push_back((name, task));
        if tasks.len() > SLOT_MOVES_TOLD_MAX {
            tasks.pop_front();
        }
    }

    /// How far this node is with a move.
    pub(crate) fn telling(&self, name: &str) -> Telling {
        let tasks = self.slot_moves.told.tasks.lock();
        let found = tasks.iter().rev().find(|(known, _)| known == name);
        let progress = found.map(|(_, task)| &task.progress);
        progress.map_or(Telling::default(), |progress| Telling {
            keys: progress.keys.load(Relaxed),
            bytes: progress.bytes.load(Relaxed),
            paused_us: progress.paused_us.load(Relaxed),
        })
    }
}
