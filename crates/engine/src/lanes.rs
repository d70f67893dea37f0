//! Which commands may run side by side: those of a primary's stream, and those of append-only files.
//!
//! Each stripe belongs to a lane. Commands of different lanes have no key in common, so that different threads may run
//! them, each lane in its own order. What belongs to several lanes, or to none, runs alone.

use resp::Args;
use store::{Keyspace, Locked, Position};

use crate::reach::Reach;
use crate::table::CommandInfo;

/// The stripes that commands need which run as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Needs {
    /// None.
    #[default]
    Nothing,
    /// That of their one key.
    Key(Position),
    /// These.
    Stripes(Vec<usize>),
    /// All.
    Everything,
}

impl Needs {
    /// Those of one command.
    pub fn of(keyspace: &Keyspace, info: &CommandInfo, args: Args<'_>) -> Needs {
        let mut needs = Needs::default();
        needs.add(keyspace, info, args, info.only_key(args).map(|key| keyspace.position(key)));
        needs
    }

    /// One more command runs with them; `position` is that of its key, if it has only one and that is known.
    pub fn add(
        &mut self,
        keyspace: &Keyspace,
        info: &CommandInfo,
        args: Args<'_>,
        position: Option<Position>,
    ) {
        if *self == Needs::Everything || info.may_touch_any_key(args) {
            *self = Needs::Everything;
            return;
        }
        if let (Needs::Nothing, Some(position)) = (&self, position) {
            *self = Needs::Key(position);
            return;
        }
        let mut reach = Reach::default();
        reach.add_command(keyspace, info, args, position);
        if reach.stripes.is_empty() {
            return;
        }
        match self {
            Needs::Key(first) => reach.stripes.push(first.stripe()),
            Needs::Stripes(others) => reach.stripes.append(others),
            Needs::Nothing | Needs::Everything => {}
        }
        *self = Needs::Stripes(reach.stripes);
    }

    /// Their only stripe, if they need no other.
    pub fn only_stripe(&self) -> Option<usize> {
        match self {
            Needs::Key(position) => Some(position.stripe()),
            _ => None,
        }
    }

    /// The lane that they belong to; `None`: they run alone.
    pub fn lane(&self, lanes: usize) -> Option<usize> {
        match self {
            _ if lanes == 0 => None,
            Needs::Key(position) => Some(position.stripe() % lanes),
            Needs::Stripes(stripes) => {
                let first = stripes.first()? % lanes;
                stripes.iter().all(|stripe| stripe % lanes == first).then_some(first)
            }
            Needs::Everything | Needs::Nothing => None,
        }
    }

    /// Takes the stripes.
    pub fn lock<'k>(&self, keyspace: &'k Keyspace) -> Option<Locked<'k>> {
        match self {
            Needs::Nothing => None,
            Needs::Key(position) => Some(keyspace.lock(*position)),
            Needs::Stripes(stripes) => Some(keyspace.lock_stripes(&mut stripes.clone())),
            Needs::Everything => Some(keyspace.lock_all()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Harness;

    fn needs(harness: &Harness, commands: &[&str]) -> Needs {
        let mut needs = Needs::default();
        for command in commands {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let args = Args::from_slices(&words);
            let info = harness.server.registry.resolve(args).expect("a row");
            let position = info.only_key(args).map(|key| harness.server.keyspace.position(key));
            needs.add(&harness.server.keyspace, info, args, position);
        }
        needs
    }

    #[test]
    fn what_commands_need() {
        let harness = Harness::new();
        let at = |key: &str| harness.server.keyspace.position(key.as_bytes());
        let stripes = |keys: &[&str]| keys.iter().map(|key| at(key).stripe()).collect::<Vec<_>>();
        for (commands, expected) in [
            (&["SELECT 1"][..], Needs::Nothing),
            (&["SET k v"], Needs::Key(at("k"))),
            (&["SELECT 1", "SET k v"], Needs::Key(at("k"))),
            (&["MSET a 1 b 2"], Needs::Stripes(stripes(&["a", "b"]))),
            (&["SET a 1", "INCR b"], Needs::Stripes(stripes(&["b", "a"]))),
            (&["SET a 1", "SELECT 1", "MSET b 1 c 2"], Needs::Stripes(stripes(&["b", "c", "a"]))),
            (&["FLUSHALL"], Needs::Everything),
            (&["SET a 1", "EVAL x 1 k"], Needs::Everything),
            (&["EVAL x 1 k", "SET a 1"], Needs::Everything),
        ] {
            assert_eq!(needs(&harness, commands), expected, "{commands:?}");
        }
    }

    #[test]
    fn lanes_have_no_stripe_in_common() {
        let key = |stripe: usize| Needs::Stripes(vec![stripe]);
        assert_eq!((key(5).lane(2), key(4).lane(2), key(4).lane(0)), (Some(1), Some(0), None));
        assert_eq!(Needs::Stripes(vec![1, 3, 7]).lane(2), Some(1));
        assert_eq!(Needs::Stripes(vec![1, 3, 6]).lane(2), None);
        assert_eq!((Needs::Nothing.lane(2), Needs::Everything.lane(2)), (None, None));
    }
}
