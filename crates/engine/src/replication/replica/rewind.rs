//! What a member of a shard has beyond the point from which its primary has gone on is void. It is cut off this server's own files,
//! and the rest of them loaded again: then the primary need send only what came since, and not everything.

use crate::persistence::files::FilesState;
use crate::persistence::saving::SavePurpose;
use crate::server::Server;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewound {
    /// This server's log ends there now.
    Done,
    /// Something is under way that has to end first.
    Later,
    /// It cannot be done: the primary is to send everything.
    Refused(String),
}

impl Server {
    /// Goes back to `offset` of the stream that this server has, for the link of this term. On the link's thread.
    pub fn rewind(&self, term: u64, offset: u64) -> Rewound {
        let state = &self.persistence;
        if state.files.state() != FilesState::On || !self.host.can_cut_files(self, offset) {
            self.replication.following.forget_position(term);
            return Rewound::Refused("no append-only file of this server has that offset in it".to_owned());
        }
        // What is saved or rewritten now would be of what is void, and the files are to be left alone.
        if !state.claim(SavePurpose::Rewrite, self.clock.now().unix_ms / 1000) {
            return Rewound::Later;
        }
        let rewound = self.rewind_alone(term, offset);
        state.let_go();
        rewound
    }

    fn rewind_alone(&self, term: u64, offset: u64) -> Rewound {
        let state = &self.persistence;
        if !self.begin_sync_load(term, 0) {
            return Rewound::Later;
        }
        state.files.set_recovering(true);
        self.host.end_files(self);
        let loaded = self.host.load_cut_files(self, offset);
        state.files.set_recovering(false);
        let rewound = match loaded {
            Ok(db) => {
                self.end_rewind(offset, db);
                Rewound::Done
            }
            Err(reason) => {
                self.forget_data();
                Rewound::Refused(reason)
            }
        };
        self.end_loading();
        let are_lost = !state.files.are_kept() && self.config.bool("appendonly");
        let followed = match &rewound {
            // Others are begun once there are data for them; until then a start finds what there was.
            Rewound::Refused(reason) if are_lost => Err(reason.clone()),
            _ => self.follow_appendonly(),
        };
        if let Err(reason) = followed {
            self.miss_files(&reason);
        }
        rewound
    }

    /// The data are those at `offset` of the stream that this server had, and the log ends there.
    fn end_rewind(&self, offset: u64, db: usize) {
        let following = &self.replication.following;
        let _gate = following.gate.lock();
        self.gates.restart();
        following.note_rewound(offset, db);
        self.replication.group.forget_replayed();
    }
}
