//! The destination's end of a move: CLUSTER SYNCSLOTS.

use super::slot_set::SlotSet;
use crate::fault::{CmdResult, Fault};
use crate::server::Server;
use crate::session::Session;

/// Begins what is said to who may come again: what was there before goes soon.
pub const NOT_YET: &str = "ERR Slots ";
const BUSY: Fault = Fault::Text("ERR Slots are being imported already");
const NOT_EMPTY: Fault = Fault::Text("ERR Slots to be imported hold keys");
const OWN: Fault = Fault::Text("ERR Slots to be imported are this node's already");
pub(crate) const UNKNOWN_IMPORT: Fault = Fault::Text("ERR No such import on this connection");

/// Slots that are being received.
#[derive(Debug)]
pub(super) struct Import {
    /// What both ends call it.
    id: String,
    slots: SlotSet,
    /// The connection that they come by; 0, which none has: it is gone, or needed no more.
    client_id: u64,
    /// Keys that came are gone: what comes is refused.
    is_spoilt: bool,
    /// All has come: who owns the slots decides what becomes of it.
    is_ready: bool,
}

/// How an import stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportView {
    /// What both ends call it.
    pub id: String,
    /// The slots.
    pub slots: SlotSet,
    /// All has come.
    pub is_ready: bool,
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
        let (id, client_id) = (id.to_owned(), session.client.id);
        imports.push(Import { id, slots, client_id, is_spoilt: false, is_ready: false });
        Ok(())
    }

    /// True if the connection may touch the keys of a slot, which it sends. The slot's stripe is held: who ends the import, and
    /// then takes the stripes once, knows that nothing comes any more.
    pub(crate) fn takes_from(&self, session: &Session, slot: u16) -> bool {
        let imports = self.slot_moves.imports.lock();
        let is_it = |import: &Import| import.client_id == session.client.id && import.slots.has(slot);
        imports.iter().any(|import| is_it(import) && !import.is_spoilt)
    }

    /// All has come: it is kept until the slots' owner is known.
    pub(crate) fn complete_import(&self, session: &Session, id: &str) -> CmdResult {
        let mut imports = self.slot_moves.imports.lock();
        let is_it = |import: &&mut Import| import.id == id && import.client_id == session.client.id;
        let import =
            imports.iter_mut().find(is_it).filter(|import| !import.is_spoilt).ok_or(UNKNOWN_IMPORT)?;
        import.is_ready = true;
        Ok(())
    }

    /// The connection says how its import ended. That the slots are this node's, the records have to say as well: until they do,
    /// nothing is visible.
    pub(crate) fn end_import(&self, session: &mut Session, id: &str, is_ours: bool) -> CmdResult {
        let mut imports = self.slot_moves.imports.lock();
        let is_it = |import: &&mut Import| import.id == id && import.client_id == session.client.id;
        let was_importing = std::mem::take(&mut session.importing);
        let import = match imports.iter_mut().find(is_it) {
            Some(import) => import,
            // The records have said so before.
            None if was_importing => return Ok(()),
            None => return Err(UNKNOWN_IMPORT),
        };
        let is_alone = self.cluster.topology().is_none();
        let is_known = is_alone || import.slots.slots().all(|slot| self.cluster.owns(slot));
        if is_ours && !is_known && import.is_ready {
            import.client_id = 0;
            return Ok(());
        }
        drop(imports);
        self.settle_import(id, is_ours);
        Ok(())
    }

    /// It is known whose the slots of an import are: the keys become visible, or are let go of. False if there is no such import,
    /// or not any more. Whoever says that they are not this node's has made sure that they cannot become it by this move.
    pub fn settle_import(&self, id: &str, is_ours: bool) -> bool {
        let mut imports = self.slot_moves.imports.lock();
        let Some(at) = imports.iter().position(|import| import.id == id) else { return false };
        let slots = imports.swap_remove(at).slots;
        // Who holds stripes may want this lock.
        drop(imports);
        if !is_ours {
            // Commands that were let in before have run once their stripes are to be had.
            drop(self.keyspace.lock_stripes(&mut slots.stripes()));
            // Before the marks go: who imports the slots anew finds them occupied.
            self.leave_slots(slots.clone());
        }
        self.slot_moves.importing.unmark(&slots);
        true
    }

    /// Nothing that comes is wanted any more, as this node is the primary of its shard no longer. What has come, who is primary
    /// lets go of.
    pub fn forget_imports(&self) {
        let imports: Vec<Import> = self.slot_moves.imports.lock().drain(..).collect();
        imports.iter().for_each(|import| self.slot_moves.importing.unmark(&import.slots));
    }

    /// All that is being received.
    pub fn imports(&self) -> Vec<ImportView> {
        let imports = self.slot_moves.imports.lock();
        let view = |import: &Import| ImportView {
            id: import.id.clone(),
            slots: import.slots.clone(),
            is_ready: import.is_ready,
        };
        imports.iter().map(view).collect()
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
            import.client_id = 0;
            return;
        }
        let id = import.id.clone();
        drop(imports);
        self.settle_import(&id, false);
    }

    /// Lets go of what this node holds of slots that are others', if it is not about to have them: whoever was to do it has died.
    pub fn clear_left_behind(&self, slots: &SlotSet) {
        // No import begins meanwhile.
        let _imports = self.slot_moves.imports.lock();
        let is_left = |slot: u16| {
            self.keyspace.count_in_slot(0, slot) > 0
                && !self.slot_moves.importing.has(slot)
                && !self.cluster.imports(slot)
                && !self.cluster.owns(slot)
        };
        let left = SlotSet::of(slots.slots().filter(|slot| is_left(*slot)).map(|slot| slot..=slot));
        if !left.is_empty() {
            self.leave_slots(left);
        }
    }

    /// Every key goes: what comes is no whole any more.
    pub(crate) fn spoil_imports(&self) {
        self.slot_moves.imports.lock().iter_mut().for_each(|import| import.is_spoilt = true);
    }

    /// True if nothing may end by itself in a stripe, since the source of what it holds says what has ended.
    pub(crate) fn imports_into(&self, stripe: usize) -> bool {
        self.slot_moves.importing.any() && self.slot_moves.importing.has_in_stripe(stripe)
    }

    /// True if a slot is being received: nobody sees its keys.
    #[inline]
    pub(crate) fn hides(&self, slot: u16) -> bool {
        self.slot_moves.importing.any() && self.slot_moves.importing.has(slot)
    }

    /// As [`Server::hides`], of a key.
    #[inline]
    pub(crate) fn hides_key(&self, key: &[u8]) -> bool {
        self.slot_moves.importing.any() && self.hides(self.keyspace.position(key).slot())
    }

    /// Keys of a slot that clients may be told of.
    pub(crate) fn visible_in_slot(&self, slot: u16) -> usize {
        if self.hides(slot) { 0 } else { self.keyspace.count_in_slot(0, slot) }
    }

    /// Keys that nobody sees.
    pub(crate) fn hidden_keys(&self) -> usize {
        if !self.slot_moves.importing.any() {
            return 0;
        }
        let imports = self.slot_moves.imports.lock();
        let slots = imports.iter().flat_map(|import| import.slots.slots().collect::<Vec<_>>());
        slots.map(|slot| self.keyspace.count_in_slot(0, slot)).sum()
    }
}
