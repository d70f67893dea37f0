//! What the loop tells the agent, without any etcd.

use super::super::tests::{Bystander, options};
use super::*;

/// Writes down what it is told.
#[derive(Default)]
struct Listener {
    told: Vec<String>,
    records: Records,
}

impl Mind for Listener {
    fn handle(&mut self, _: u64, event: Event, _: &mut Vec<Action>) {
        self.told.push(match event {
            Event::Changed { revision, .. } => format!("decide {revision}"),
            Event::Tick { .. } => "decide".to_owned(),
            other => format!("{other:?}"),
        });
    }

    fn take_in(&mut self, _: u64, revision: u64, _: Vec<(Key, Option<Record>)>) {
        self.told.push(format!("take in {revision}"));
    }

    fn records(&self) -> &Records {
        &self.records
    }

    fn configure(&mut self, _: NodeRecord, _: Promise) {}
}

fn plane() -> Plane<Listener, Bystander> {
    let (done, _) = unbounded_channel();
    let (options, part) = (options(&["http://127.0.0.1:1"]), Bystander(Instant::now()));
    let mut plane = Plane::new(options, Listener::default(), part, 0, done);
    plane.way.session = 1;
    plane
}

fn changed(session: u64, revision: u64) -> Done {
    let event = Event::Changed { revision, changes: Vec::new() };
    Done::Session(session, Told::Event(Box::new(event), Vec::new()))
}

#[test]
fn what_has_come_together_is_decided_together() {
    let mut plane = plane();
    plane.take(changed(1, 5), false);
    plane.take(changed(1, 6), true);
    plane.take(changed(1, 7), true);
    plane.take(changed(1, 8), false);
    assert_eq!(plane.mind.told, ["decide 5", "take in 6", "take in 7", "decide 8"]);
    assert_eq!(plane.way.seen, Some(8));
}

#[test]
fn what_was_taken_in_is_decided_though_nothing_comes_of_the_last() {
    let mut plane = plane();
    plane.take(changed(1, 5), true);
    plane.take(changed(0, 6), true);
    assert_eq!(plane.mind.told, ["take in 5"], "an older session's change is void, and more is waiting");
    plane.take(changed(0, 6), false);
    assert_eq!(plane.mind.told, ["take in 5", "decide"]);
    plane.take(changed(0, 6), false);
    assert_eq!(plane.mind.told.len(), 2, "it is decided once");
}
