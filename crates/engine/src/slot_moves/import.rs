//! The destination's end of a move: CLUSTER SYNCSLOTS.

use store::Position;

use super::slot_set::SlotSet;
use crate::fault::{CmdResult, Fault};
use crate::server::Server;
use crate::session::Session;

const BUSY: Fault = Fault::Text("ERR Slots are being imported already");
const NOT_EMPTY: Fault = Fault::Text("ERR Slots to be imported hold keys");
const OWN: Fault = Fault::Text("ERR Slots to be imported are this node's already");
const UNKNOWN: Fault = Fault::Text("ERR No such import on this connection");

/// Slots that are being received.
#[derive(Debug)]
pub struct Import {
    /// What both ends call it.
    pub id: String,
    /// The slots.
    pub slots: SlotSet,
    /// The connection that they come by.
    client_id: u64,
    /// All has come: who owns the slots decides what becomes of it.
    is_ready: bool,
}

impl Server {
    /// From now on the connection may write to these slots, which are nobody's here: they hold nothing, and nobody reads them.
    pub(crate) fn begin_import(&self, session: &mut Session, id: &str, slots: SlotSet) -> CmdResult {
        let moves = &self.slot_moves;
        let mut imports = moves.imports.lock();
        if session.importing || moves.importing.meets(&slots) || imports.iter().any(|import| import.id == id)
        {
            return Err(BUSY);
        }
        if self.cluster.topology().is_some() && slots.slots().any(|slot| self.cluster.owns(slot)) {
            return Err(OWN);
        }
        let is_used = |slot: u16| self.keyspace.count_in_slot(0, slot) > 0;
        if self.is_leaving(&slots) || slots.slots().any(is_used) {
            return Err(NOT_EMPTY);
        }
        moves.importing.mark(&slots);
        session.importing = true;
        imports.push(Import { id: id.to_owned(), slots, client_id: session.client.id, is_ready: false });
        Ok(())
    }

    /// All has come: it is kept until the slots' owner is known.
    pub(crate) fn complete_import(&self, session: &Session, id: &str) -> CmdResult {
        let mut imports = self.slot_moves.imports.lock();
        let is_it = |import: &&mut Import| import.id == id && import.client_id == session.client.id;
        let import = imports.iter_mut().find(is_it).ok_or(UNKNOWN)?;
        import.is_ready = true;
        Ok(())
    }

    /// The connection says how its import ended.
    pub(crate) fn end_import(&self, session: &mut Session, id: &str, is_ours: bool) -> CmdResult {
        let is_it = |import: &Import| import.id == id && import.client_id == session.client.id;
        if !self.slot_moves.imports.lock().iter().any(is_it) {
            return Err(UNKNOWN);
        }
        session.importing = false;
        self.settle_import(id, is_ours);
        Ok(())
    }

    /// It is known whose the slots of an import are: the keys become visible, or are let go of. False if there is no such import,
    /// or not any more. Whoever says that they are not this node's has made sure that they cannot become it by this move.
    pub fn settle_import(&self, id: &str, is_ours: bool) -> bool {
        let mut imports = self.slot_moves.imports.lock();
        let Some(at) = imports.iter().position(|import| import.id == id) else { return false };
        let import = imports.swap_remove(at);
        if !is_ours {
            // Before the marks go: who imports the slots anew finds them occupied.
            self.leave_slots(import.slots.clone());
        }
        self.slot_moves.importing.unmark(&import.slots);
        true
    }

    /// Imports that are complete and whose connection is gone: somebody has to find out whose the slots are, and say so by
    /// [`Server::settle_import`].
    pub fn undecided_imports(&self) -> Vec<(String, SlotSet)> {
        let imports = self.slot_moves.imports.lock();
        let undecided = imports.iter().filter(|import| import.is_ready && import.client_id == 0);
        undecided.map(|import| (import.id.clone(), import.slots.clone())).collect()
    }

    /// The connection by which slots came is gone.
    pub(crate) fn abandon_import(&self, session: &Session) {
        let mut imports = self.slot_moves.imports.lock();
        let Some(import) = imports.iter_mut().find(|import| import.client_id == session.client.id) else {
            return;
        };
        if import.is_ready {
            // No connection has this number.
            import.client_id = 0;
            return;
        }
        let id = import.id.clone();
        drop(imports);
        self.settle_import(&id, false);
    }

    /// True if nothing may end by itself in a stripe, since the source of what it holds says what has ended.
    pub(crate) fn imports_into(&self, stripe: usize) -> bool {
        self.slot_moves.importing.any() && self.slot_moves.importing.has_in_stripe(stripe)
    }

    /// True if a key's slot is being received.
    pub fn is_importing(&self, position: Position) -> bool {
        self.slot_moves.importing.any() && self.slot_moves.importing.has(position.slot())
    }
}
