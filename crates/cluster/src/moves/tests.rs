//! Moves that are asked for, begun, flipped and ended, and what their ends conclude.

use super::*;
use crate::edits::{Edit, MOVE_IS_DONE, MOVE_LEFT, Wish};
use crate::ids::{Life, NodeId};
use crate::records::{Key, LiveRecord, Promise, Record, ShardRecord};
use crate::slots::SlotMap;

fn shard(digit: &str) -> ShardId {
    ShardId::new(&digit.repeat(40)).expect("40 digits")
}

fn member(digit: &str, life: u64) -> Member {
    Member { node: NodeId::new(&digit.repeat(40)).expect("40 digits"), life: Life(life) }
}

fn slots(text: &str) -> SlotRanges {
    SlotRanges::try_from(text.to_owned()).expect("ranges")
}

/// Two shards, `a` with the slots 0 to 99 and `b` with those up to 199, and whoever changes them.
struct World(Records);

impl World {
    fn new() -> World {
        let mut world = World(Records::default());
        for digit in ["a", "b"] {
            world.lead(digit, 1, 1);
        }
        let mut map = SlotMap::default();
        map.assign(0..100, Some(&shard("a"))).expect("one owner each");
        map.assign(100..200, Some(&shard("b"))).expect("one owner each");
        world.put(Key::Slots, Record::Slots(map));
        world
    }

    fn put(&mut self, key: Key, record: Record) {
        let revision = self.0.revision + 1;
        self.0.put(key, record, revision);
    }

    fn lead(&mut self, digit: &str, life: u64, epoch: u64) {
        let primary = member(digit, life);
        let in_sync = vec![primary.clone()];
        let live = Record::Live(LiveRecord { life: primary.life });
        self.put(Key::Live(primary.node.clone()), live);
        let record = ShardRecord { epoch, primary, in_sync, promise: Promise::Nothing, began_at: 0 };
        self.put(Key::Shard(shard(digit)), Record::Shard(record));
    }

    /// Makes the edit, if what it compares is as it is now.
    fn edit(&mut self, edit: Edit) -> Result<(), String> {
        let change = edit.change(&self.0, &member("a", 1))?;
        self.commit(&change.compares, change.writes);
        Ok(())
    }

    fn commit(&mut self, compares: &[(Key, u64)], writes: Vec<(Key, Option<Record>)>) -> bool {
        let is_so = compares.iter().all(|(key, revision)| self.0.written_at(key) == *revision);
        if is_so && !writes.is_empty() {
            let revision = self.0.revision + 1;
            for (key, record) in writes {
                match record {
                    Some(record) => self.0.put(key, record, revision),
                    None => self.0.remove(&key, revision),
                }
            }
        }
        is_so
    }

    fn ask(&mut self, ranges: &str, to: &str) -> Result<(), String> {
        let wish = Wish { name: "f".repeat(40), slots: slots(ranges), to: shard(to) };
        self.edit(Edit::Moves(shard("a"), vec![wish], 5))
    }

    fn begin(&mut self, number: u64) -> MoveId {
        assert_eq!(self.edit(Edit::MoveBegun(shard("a"), number, 6)), Ok(()));
        MoveId { from: shard("a"), number, epoch: 1, revision: self.0.revision, attempt: 1 }
    }

    fn state(&self, number: u64) -> MoveState {
        self.0.moves[&(shard("a"), number)].0.state
    }

    fn fate(&self, id: &MoveId, ranges: &str) -> Fate {
        fate(&self.0, &shard("b"), Some(id), &slots(ranges))
    }
}

fn flip(number: u64) -> Edit {
    let id = MoveId { from: shard("a"), number, epoch: 1, revision: 0, attempt: 1 };
    Edit::Flip(id, 1, 7)
}

fn failed(number: u64) -> Edit {
    Edit::MoveFailed(shard("a"), number, 8, "why".to_owned())
}

fn cancelled(number: Option<u64>) -> Edit {
    Edit::CancelMoves(shard("a"), number, 9)
}

#[test]
fn a_flip_gives_the_slots_and_ends_the_move_at_once() {
    let mut world = World::new();
    assert_eq!(world.ask("10-19", "b"), Ok(()));
    assert!(world.edit(flip(0)).is_err(), "nothing was copied");
    let id = world.begin(0);
    assert_eq!(world.fate(&id, "10-19"), Fate::Open);
    assert_eq!(world.edit(flip(0)), Ok(()));
    assert_eq!(world.state(0), MoveState::Done);
    assert_eq!(world.0.slots.0.of(&shard("b")), Some(&slots("10-19,100-199")));
    assert_eq!(world.fate(&id, "10-19"), Fate::Ours);
    assert_eq!(world.edit(flip(0)), Ok(()), "so it is already");
    assert_eq!(world.edit(failed(0)), Err(MOVE_IS_DONE.to_owned()));
    assert!(world.edit(cancelled(None)).is_err());
    assert_eq!(left_behind(&world.0, &shard("a")), [(world.0.revision, slots("10-19"))]);
    assert_eq!(left_behind(&world.0, &shard("b")), []);
}

/// Each of these comes true between the making of a flip and its commit, or makes another one impossible.
#[test]
fn a_flip_that_was_asked_for_comes_to_nothing_once_the_move_has_ended_or_its_ends_have_changed() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 6] = [
        ("failed", |world| assert_eq!(world.edit(failed(0)), Ok(()))),
        ("cancelled", |world| assert_eq!(world.edit(cancelled(Some(0))), Ok(()))),
        ("another source", |world| world.lead("a", 2, 2)),
        ("another destination", |world| world.lead("b", 2, 2)),
        ("the destination has gone", |world| {
            let revision = world.0.revision + 1;
            world.0.remove(&Key::Live(member("b", 1).node), revision);
        }),
        ("the move was forgotten", |world| {
            let revision = world.0.revision + 1;
            world.0.remove(&Key::Move(shard("a"), 0), revision);
        }),
    ];
    for (what, change) in changes {
        let mut world = World::new();
        world.ask("10-19", "b").expect("they are there");
        let id = world.begin(0);
        let asked = flip(0).change(&world.0, &member("a", 1)).expect("it is copied");
        change(&mut world);
        assert!(!world.commit(&asked.compares, asked.writes), "{what}");
        let is_over = !matches!(what, "another destination" | "the destination has gone");
        let expected = if is_over { Fate::NotOurs } else { Fate::Open };
        assert_eq!(world.fate(&id, "10-19"), expected, "{what}");
    }
}

/// An administrator can raise the epoch of a primary, which stays primary.
#[test]
fn what_came_in_an_earlier_epoch_does_not_flip_in_a_later_one() {
    let mut world = World::new();
    world.ask("10-19", "b").expect("they are there");
    let id = world.begin(0);
    assert_eq!(world.edit(Edit::Epoch(shard("a"), None)), Ok(()));
    assert_eq!(world.fate(&id, "10-19"), Fate::NotOurs, "the destination lets go of it");
    assert!(world.edit(flip(0)).is_err());
    let mut world = World::new();
    world.ask("10-19", "b").expect("they are there");
    world.begin(0);
    world.lead("b", 1, 3);
    assert!(world.edit(flip(0)).is_err(), "somebody else led there, who may have let go of it");
    assert_eq!(world.0.slots.0.of(&shard("a")), Some(&slots("0-99")));
}

#[test]
fn slots_flip_only_from_who_has_them_to_who_is_there() {
    let mut world = World::new();
    let given =
        Edit::SetSlots(shard("b"), slots("10")).change(&world.0, &member("a", 1)).expect("nothing moves");
    world.ask("10-19", "b").expect("they are there");
    world.begin(0);
    assert!(world.commit(&given.compares, given.writes), "who made it did not know of the move");
    assert!(world.edit(flip(0)).is_err());
    let mut world = World::new();
    world.ask("10-19", "b").expect("they are there");
    world.begin(0);
    let revision = world.0.revision + 1;
    world.0.remove(&Key::Live(member("b", 1).node), revision);
    assert!(world.edit(flip(0)).is_err());
}

#[test]
fn who_cannot_have_seen_the_move_waits_for_it() {
    let mut world = World::new();
    let before = World(world.0.clone());
    world.ask("10-19", "b").expect("they are there");
    let id = world.begin(0);
    assert_eq!(before.fate(&id, "10-19"), Fate::Open);
    assert_eq!(fate(&world.0, &shard("b"), None, &slots("10-19")), Fate::NotOurs);
    assert_eq!(fate(&world.0, &shard("b"), None, &slots("110-119")), Fate::Ours);
    let text = id.to_string();
    assert_eq!(MoveId::parse(&text), Some(id));
    for wrong in ["", "move-1", &text[1..], &format!("{text}-1")] {
        assert_eq!(MoveId::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn slots_move_once_at_a_time_and_only_from_who_has_them() {
    let mut world = World::new();
    for (ranges, to, why) in [
        ("10-19", "a", "ERR Target node can not be this node."),
        ("90-100", "b", "ERR Slots are not served by this node."),
        ("", "b", "ERR No slot ranges specified"),
    ] {
        assert_eq!(world.ask(ranges, to), Err(why.to_owned()));
    }
    assert!(world.ask("1", "c").is_err());
    assert_eq!(world.ask("10-19", "b"), Ok(()));
    assert_eq!(world.ask("19-20", "b"), Err("ERR I am already migrating slot 19.".to_owned()));
    let wish = |ranges| Wish { name: String::new(), slots: slots(ranges), to: shard("b") };
    let both = Edit::Moves(shard("a"), vec![wish("1-2"), wish("2-3")], 5);
    assert_eq!(world.edit(both), Err("ERR Slot ranges in migrations overlap".to_owned()));
    for edit in [Edit::SetSlots(shard("b"), slots("15")), Edit::DeleteSlots(shard("a"), slots("15"))] {
        assert!(world.edit(edit).is_err_and(|why| why.contains("15 is moving")));
    }
    assert_eq!(world.ask("0-9,20", "b"), Ok(()));
    let me = member("a", 1);
    assert_eq!(due(&world.0, &me).map(|(_, number, _)| number).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(due(&world.0, &member("a", 2)).count(), 0);
    assert_eq!(world.edit(cancelled(None)), Ok(()));
    assert_eq!([world.state(0), world.state(1)], [MoveState::Cancelled; 2]);
    assert_eq!(due(&world.0, &me).count(), 0);
    assert!(world.edit(flip(0)).is_err() && world.edit(Edit::MoveBegun(shard("a"), 0, 9)).is_err());
    assert_eq!(world.edit(failed(0)), Ok(()), "it is over");
    assert_eq!(world.state(0), MoveState::Cancelled);
    world.lead("a", 2, 2);
    assert_eq!(world.ask("10-19", "b"), Ok(()));
    assert_eq!(world.edit(Edit::MoveBegun(shard("a"), 2, 9)), Err(MOVE_LEFT.to_owned()));
    assert_eq!(world.edit(failed(2)), Err(MOVE_LEFT.to_owned()));
}

#[test]
fn few_that_have_ended_are_remembered() {
    let mut world = World::new();
    for number in 0..130 {
        assert_eq!(world.ask("10-19", "b"), Ok(()));
        assert_eq!(world.edit(cancelled(Some(number))), Ok(()));
    }
    assert_eq!(world.0.moves.len(), 101);
    assert!(world.0.moves.contains_key(&(shard("a"), 129)));
}
