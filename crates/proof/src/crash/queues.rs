//! Elements that wander: pushed by some connections, taken by others that wait for them. None is lost, none is there twice.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use fastrand::Rng;
use resp::Value;

use crate::duo::args;
use crate::link::Link;
use crate::value::Reply;

/// Lists that elements are pushed to.
const QUEUES: usize = 3;
/// Seconds that a consumer waits.
const PATIENCE_S: &str = "0.05";

/// What one connection knows of the elements it pushed or took.
#[derive(Default)]
pub struct Ledger {
    /// Elements whose push was sent, and when it was answered.
    pub pushed: Vec<(String, Option<Instant>)>,
    /// Elements that were taken, the list they went to if any, and when that was answered.
    pub taken: Vec<(String, Option<String>, Instant)>,
    /// The last request was not answered, and takes an element out.
    pub may_have_popped: bool,
}

fn queue(round: usize, number: usize) -> String {
    format!("queue:{round}:{number}")
}

fn done(round: usize, consumer: usize) -> String {
    format!("queue:{round}:done:{consumer}")
}

/// Pushes elements, each with a name of its own, until the connection breaks.
pub fn produce(link: &mut Link, round: usize, number: usize, seed: u64) -> Result<Ledger, String> {
    let (mut rng, mut ledger) = (Rng::with_seed(seed), Ledger::default());
    for count in 0.. {
        let element = format!("{round}.{number}.{count}");
        let end = if rng.bool() { "RPUSH" } else { "LPUSH" };
        ledger.pushed.push((element.clone(), None));
        match link.call(&[end, &queue(round, rng.usize(..QUEUES)), &element]) {
            Ok(reply) if reply.is_error() => return Err(format!("{end}: {}", reply.notation())),
            Ok(_) => ledger.pushed[count].1 = Some(Instant::now()),
            Err(_) => break,
        }
    }
    Ok(ledger)
}

/// Takes elements, some into a list of its own and some out of the server, until the connection breaks.
pub fn consume(link: &mut Link, round: usize, number: usize, seed: u64) -> Result<Ledger, String> {
    let (mut rng, mut ledger) = (Rng::with_seed(seed), Ledger::default());
    let (queues, done): (Vec<String>, String) =
        ((0..QUEUES).map(|number| queue(round, number)).collect(), done(round, number));
    loop {
        let from = &queues[rng.usize(..QUEUES)];
        let moves = rng.u8(..4) > 0;
        let command = match moves {
            true => args(&["BLMOVE", from, &done, "LEFT", "RIGHT", PATIENCE_S]),
            false => args(&["BLPOP", &queues[0], &queues[1], &queues[2], PATIENCE_S]),
        };
        let Ok(reply) = link.run(&command) else {
            ledger.may_have_popped = !moves;
            return Ok(ledger);
        };
        if reply.is_error() {
            return Err(format!("{command:?}: {}", reply.notation()));
        }
        if let Some(element) = reply.leaves().last() {
            let element = String::from_utf8_lossy(element).into_owned();
            ledger.taken.push((element, moves.then(|| done.clone()), Instant::now()));
        }
    }
}

/// Compares what a server holds with what was answered until `cutoff`. Returns how many elements were looked at, or what is
/// wrong.
pub fn check(
    link: &mut Link,
    round: usize,
    ledgers: &[Ledger],
    cutoff: Option<Instant>,
) -> io::Result<Result<usize, String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let lists = link.call(&["KEYS", &format!("queue:{round}:*")])?.leaves();
    for list in lists.iter().map(|name| String::from_utf8_lossy(name).into_owned()) {
        for element in link.call(&["LRANGE", &list, "0", "-1"])?.leaves() {
            let element = String::from_utf8_lossy(&element).into_owned();
            places.entry(element).or_default().push(list.clone());
        }
        let removed = link.call(&["DEL", &list])?;
        if removed != Value::Int(1) {
            return Ok(Err(format!("DEL {list}: {}", removed.notation())));
        }
    }
    Ok(judge(&places, ledgers, cutoff))
}

fn judge(
    places: &BTreeMap<String, Vec<String>>,
    ledgers: &[Ledger],
    cutoff: Option<Instant>,
) -> Result<usize, String> {
    let is_due = |at: Instant| cutoff.is_some_and(|cutoff| at <= cutoff);
    let taken: BTreeMap<&str, (&Option<String>, Instant)> = ledgers
        .iter()
        .flat_map(|ledger| &ledger.taken)
        .map(|(element, into, at)| (&**element, (into, *at)))
        .collect();
    let pushed: BTreeMap<&str, Option<Instant>> =
        ledgers.iter().flat_map(|ledger| &ledger.pushed).map(|(element, at)| (&**element, *at)).collect();
    if let Some(unknown) = places.keys().find(|element| !pushed.contains_key(&***element)) {
        return Err(format!("element {unknown} was never pushed"));
    }
    let mut popped_unanswered = 0;
    for (element, pushed_at) in &pushed {
        let lists = places.get(*element).map_or(&[][..], Vec::as_slice);
        let found = format!("element {element}: found in {lists:?}");
        if lists.len() > 1 {
            return Err(format!("{found}, should be there once"));
        }
        let Some((into, taken_at)) = taken.get(element) else {
            // A move whose answer did not come leaves it in some list.
            popped_unanswered += usize::from(pushed_at.is_some_and(is_due) && lists.is_empty());
            continue;
        };
        let is_there = lists.first();
        match into {
            Some(_) if is_there.is_none() && (is_due(*taken_at) || pushed_at.is_some_and(is_due)) => {
                return Err(format!("{found}, was only moved"));
            }
            Some(list) if is_there.is_some_and(|found| found != list) && is_due(*taken_at) => {
                return Err(format!("{found}, was moved to {list}"));
            }
            None if is_there.is_some() && is_due(*taken_at) => return Err(format!("{found}, was taken out")),
            _ => {}
        }
    }
    let allowed = ledgers.iter().filter(|ledger| ledger.may_have_popped).count();
    if popped_unanswered > allowed {
        return Err(format!(
            "{popped_unanswered} elements are lost, of which {allowed} may have been taken out"
        ));
    }
    Ok(pushed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(places: &[(&str, &[&str])], ledger: Ledger) -> Result<usize, String> {
        let place = |(element, lists): &(&str, &[&str])| {
            ((*element).to_owned(), lists.iter().map(|list| (*list).to_owned()).collect())
        };
        judge(&places.iter().map(place).collect(), &[ledger], Some(Instant::now()))
    }

    fn ledger(taken_into: Option<Option<&str>>) -> Ledger {
        let at = Instant::now();
        let taken = taken_into.map(|list| ("e".to_owned(), list.map(str::to_owned), at));
        Ledger {
            pushed: vec![("e".to_owned(), Some(at))],
            taken: taken.into_iter().collect(),
            may_have_popped: false,
        }
    }

    #[test]
    fn what_is_lost_or_there_twice_or_taken_back_is_found() {
        assert_eq!(judged(&[("e", &["q"])], ledger(None)), Ok(1));
        assert!(judged(&[], ledger(None)).is_err());
        assert!(judged(&[("e", &["q", "d"])], ledger(None)).is_err());
        assert!(judged(&[("f", &["q"])], ledger(None)).is_err());
        assert_eq!(judged(&[("e", &["d"])], ledger(Some(Some("d")))), Ok(1));
        assert!(judged(&[("e", &["q"])], ledger(Some(Some("d")))).is_err());
        assert!(judged(&[], ledger(Some(Some("d")))).is_err());
        assert_eq!(judged(&[], ledger(Some(None))), Ok(1));
        assert!(judged(&[("e", &["q"])], ledger(Some(None))).is_err());
        let unanswered = Ledger { may_have_popped: true, ..ledger(None) };
        assert_eq!(judged(&[], unanswered), Ok(1));
    }
}
