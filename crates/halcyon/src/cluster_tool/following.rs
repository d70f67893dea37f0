//! Moves of slots that the cluster carries out: asked for in its records, and followed there until they have ended. Whoever is
//! interrupted follows them by saying the same again.

use std::io::{self, Write};
use std::time::Duration;

use cluster::edits::{Edit, Wish};
use cluster::ids::ShardId;
use cluster::records::{MoveRecord, MoveState};
use cluster::slots::SlotRanges;
use cluster::topology::Records;

use super::asking::{self, Answer};
use super::plan::SlotMove;
use super::show;
use super::steps::Steps;

/// Between looks how far moves are.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

/// Characters of a progress bar.
const BAR_WIDTH: usize = 30;

/// Moves that are followed: their shards, and their numbers there.
pub type Names = Vec<(ShardId, u64)>;

/// Moves that have not ended.
pub fn open(records: &Records) -> Names {
    let open = records.moves.iter().filter(|(_, (record, _))| record.state.is_open());
    open.map(|(name, _)| name.clone()).collect()
}

impl Steps<'_> {
    /// Asks the cluster for these moves.
    pub async fn ask_for(&self, moves: &[SlotMove]) -> Result<Names, String> {
        let mut names = Names::new();
        for it in moves {
            let name = asking::new_name()?;
            let wish = Wish { name: name.clone(), slots: it.slots.clone(), to: it.to.clone() };
            self.edit(&Edit::Moves(it.from.clone(), vec![wish], asking::now_ms())).await?;
            let records = self.records().await?;
            let found = records.moves.iter().find(|(_, (record, _))| record.name == name);
            names.extend(found.map(|(name, _)| name.clone()));
        }
        Ok(names)
    }

    /// Follows moves until all have ended. The error names those that came to nothing.
    pub async fn follow(&self, names: &Names) -> Result<(), String> {
        loop {
            let records = self.records().await?;
            let known: Vec<&MoveRecord> =
                names.iter().filter_map(|name| records.moves.get(name)).map(|(record, _)| record).collect();
            let keys: u64 = names
                .iter()
                .filter(|name| is_open(&records, name))
                .map(|name| self.copied(&records, name))
                .sum();
            show_progress(&known, keys);
            if known.iter().all(|record| !record.state.is_open()) {
                println!();
                return came_to(&known);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Keys that the source of a move has copied, as far as it says so.
    fn copied(&self, records: &Records, name: &(ShardId, u64)) -> u64 {
        let Some((record, _)) = records.moves.get(name) else { return 0 };
        let source = records.shards.get(&name.0).map(|(shard, _)| &shard.primary.node);
        let Some(node) = source.and_then(|node| records.nodes.get(node)) else { return 0 };
        let answer = asking::ask(self.config, node, &["CLUSTER", "GETSLOTMIGRATIONS"]);
        let Ok(Answer::List(migrations)) = answer else { return 0 };
        let fields = migrations.into_iter().filter_map(|migration| match migration {
            Answer::List(fields) => Some(fields),
            _ => None,
        });
        let mut ours = fields.filter(|fields| field(fields, "name") == Some(record.name.clone()));
        ours.next().and_then(|fields| field(&fields, "copied_keys")?.parse().ok()).unwrap_or(0)
    }
}

fn is_open(records: &Records, name: &(ShardId, u64)) -> bool {
    records.moves.get(name).is_some_and(|(record, _)| record.state.is_open())
}

fn field(fields: &[Answer], name: &str) -> Option<String> {
    let pair = fields.chunks(2).find(|pair| pair[0].to_string() == name)?;
    pair.get(1).map(ToString::to_string)
}

fn came_to(records: &[&MoveRecord]) -> Result<(), String> {
    let failed = records.iter().filter(|record| record.state != MoveState::Done);
    let lines: Vec<String> = failed
        .map(|record| {
            let why = if record.state == MoveState::Cancelled { "cancelled" } else { &record.error };
            format!(
                "Slots {} have not moved to shard {}: {why}",
                record.slots,
                show::short(record.to.as_str())
            )
        })
        .collect();
    match lines.is_empty() {
        true => Ok(()),
        false => Err(format!("{}\nSay the same again to go on", lines.join("\n"))),
    }
}

fn show_progress(records: &[&MoveRecord], keys: u64) {
    let count = |records: &[&MoveRecord]| records.iter().map(|record| record.slots.count()).sum::<usize>();
    let done: Vec<&MoveRecord> =
        records.iter().copied().filter(|record| record.state == MoveState::Done).collect();
    let (done, total) = (count(&done), count(records));
    let filled = done * BAR_WIDTH / total.max(1);
    let (bar, rest) = ("#".repeat(filled), ".".repeat(BAR_WIDTH - filled));
    let keys = if keys == 0 { String::new() } else { format!(", {keys} keys copied of others") };
    print!("\r[{bar}{rest}] {done} of {total} slots{keys}    ");
    // Who does not see it does not miss it.
    let _ = io::stdout().flush();
}

/// Of slots that are to go from one shard to another: those that still have to be asked for, and the moves that are under way. Of
/// a number of slots, those that move already are the first.
pub fn left_to_ask(records: &Records, wanted: &SlotMove, is_number: bool) -> (SlotRanges, Names) {
    let under_way: Vec<(&(ShardId, u64), &MoveRecord)> = records
        .moves
        .iter()
        .filter(|((from, _), (record, _))| {
            record.state.is_open() && *from == wanted.from && record.to == wanted.to
        })
        .map(|(name, (record, _))| (name, record))
        .filter(|(_, record)| is_number || record.slots.slots().any(|slot| wanted.slots.has(slot)))
        .collect();
    let is_moving = |slot: u16| under_way.iter().any(|(_, record)| record.slots.has(slot));
    let owned = records.slots.0.of(&wanted.to);
    let has_moved = |slot: u16| owned.is_some_and(|owned| owned.has(slot));
    let names = under_way.iter().map(|(name, _)| (*name).clone()).collect();
    let left: Vec<u16> = if is_number {
        let moving: usize = under_way.iter().map(|(_, record)| record.slots.count()).sum();
        let free = records.slots.0.of(&wanted.from).cloned().unwrap_or_default();
        let free: Vec<u16> = free.slots().filter(|slot| !is_moving(*slot)).collect();
        free.into_iter().take(wanted.slots.count().saturating_sub(moving)).collect()
    } else {
        wanted.slots.slots().filter(|slot| !is_moving(*slot) && !has_moved(*slot)).collect()
    };
    (SlotRanges::of(left), names)
}

#[cfg(test)]
mod tests {
    use cluster::records::{Key, Record};
    use cluster::slots::SlotMap;

    use super::*;

    fn shard(digit: &str) -> ShardId {
        ShardId::new(&digit.repeat(40)).expect("40 digits")
    }

    fn slots(text: &str) -> SlotRanges {
        SlotRanges::try_from(text.to_owned()).expect("ranges")
    }

    /// `a` owns 0 to 99 but for 0 to 4, which have moved to `b`; 5 to 9 are moving there.
    fn halfway() -> Records {
        let mut records = Records::default();
        let mut map = SlotMap::default();
        map.assign(5..100, Some(&shard("a"))).expect("one owner each");
        map.assign(0..5, Some(&shard("b"))).expect("one owner each");
        records.put(Key::Slots, Record::Slots(map), 1);
        for (number, ranges, state) in [(0, "0-4", MoveState::Done), (1, "5-9", MoveState::Copying)] {
            let record = MoveRecord {
                slots: slots(ranges),
                to: shard("b"),
                state,
                error: String::new(),
                name: number.to_string(),
                begun_ms: 1,
                changed_ms: 2,
            };
            records.put(Key::Move(shard("a"), number), Record::Move(record), 2);
        }
        records
    }

    #[test]
    fn who_says_the_same_again_goes_on() {
        let wanted = |text| SlotMove { from: shard("a"), to: shard("b"), slots: slots(text) };
        let moving = vec![(shard("a"), 1)];
        for (text, left, names) in [
            ("0-19", "10-19", &moving),
            ("0-9", "", &moving),
            ("0-4", "", &Vec::new()),
            ("9-10", "10", &moving),
            ("20-29", "20-29", &Vec::new()),
        ] {
            assert_eq!(left_to_ask(&halfway(), &wanted(text), false), (slots(left), names.clone()), "{text}");
        }
        // So many slots: those that move already are among them.
        assert_eq!(left_to_ask(&halfway(), &wanted("5-14"), true), (slots("10-14"), moving.clone()));
        assert_eq!(left_to_ask(&halfway(), &wanted("5-7"), true), (slots(""), moving));
        assert_eq!(open(&halfway()), [(shard("a"), 1)]);
    }

    #[test]
    fn what_has_not_moved_is_told() {
        let records = halfway();
        let all: Vec<&MoveRecord> = records.moves.values().map(|(record, _)| record).collect();
        assert_eq!(came_to(&all[..1]), Ok(()));
        let failed = MoveRecord { state: MoveState::Failed, error: "why".to_owned(), ..all[1].clone() };
        let told = came_to(&[all[0], &failed]).expect_err("one has failed");
        assert!(told.starts_with("Slots 5-9 have not moved to shard bbbbbbbb: why\n"), "{told}");
    }
}
