//! redis-rs at work while its cluster changes; see ../../../changes.md.

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{Commands, RedisResult};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LOOPS: usize = 3;
const TAGS: usize = 12;
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);
const INCREMENT: &str = "return redis.call('INCR', KEYS[1])";
// So many attempts, so far apart at the most, outlast a failover.
const ATTEMPTS: u32 = 60;
const ATTEMPT_PAUSE_MS: u64 = 200;

/// What happened since the last phase began; shared by all loops.
#[derive(Default)]
struct Report {
    phase: String,
    done: u64,
    errors: BTreeMap<String, u64>,
    wrong: Vec<String>,
}

impl Report {
    /// Ends the phase, and returns what there is to say of it.
    fn take(&mut self, next: &str) -> String {
        let errors: Vec<String> =
            self.errors.iter().map(|(text, count)| format!("{}: {count}", quote(text))).collect();
        let wrong: Vec<String> = self.wrong.iter().map(|text| quote(text)).collect();
        let told = format!(
            "{{\"phase\": {}, \"done\": {}, \"errors\": {{{}}}, \"wrong\": [{}]}}",
            quote(&self.phase),
            self.done,
            errors.join(", "),
            wrong.join(", ")
        );
        *self = Report { phase: next.to_owned(), ..Report::default() };
        told
    }
}

fn quote(text: &str) -> String {
    let plain = |character: char| if character < ' ' { ' ' } else { character };
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").chars().map(plain).collect::<String>())
}

/// How far a loop is.
#[derive(Default)]
struct Course {
    begun: AtomicU64,
    good_begun_at: AtomicU64,
}

/// One thread that writes keys of its own and reads them again.
struct Loop {
    client: ClusterConnection,
    report: Arc<Mutex<Report>>,
    course: Arc<Course>,
    tags: Vec<String>,
    tried: [i64; TAGS],
    written: [i64; TAGS],
    counted: [i64; TAGS],
}

type Step = fn(&mut Loop, usize) -> RedisResult<()>;

impl Loop {
    fn run(&mut self, is_stopping: &AtomicBool) {
        let each: [(&str, Step); 3] = [("write", Loop::write), ("read", Loop::read), ("count", Loop::count)];
        // No pipelines: where one node of several fails, the library leaves the replies of the others unread, and takes them
        // for those of later commands.
        let once: [(&str, Step); 2] = [("several", Loop::several), ("script", Loop::script)];
        while !is_stopping.load(SeqCst) {
            let begun = self.course.begun.fetch_add(1, SeqCst) + 1;
            let mut good = true;
            for at in 0..TAGS {
                for (name, step) in each {
                    good &= self.tries(name, step, at);
                }
                thread::sleep(PAUSE);
            }
            for (name, step) in once {
                good &= self.tries(name, step, begun as usize % TAGS);
            }
            if good {
                self.course.good_begun_at.store(begun, SeqCst);
            }
        }
    }

    fn tries(&mut self, name: &str, step: Step, at: usize) -> bool {
        let result = step(self, at);
        let mut report = self.report.lock().expect("nobody panics with it");
        match result {
            Ok(()) => report.done += 1,
            Err(error) => {
                let text = format!("{name}: {:?}: {error}", error.kind());
                *report.errors.entry(text.chars().take(300).collect()).or_default() += 1;
                return false;
            }
        }
        true
    }

    fn holds(&self, holds: bool, what: String) {
        if !holds {
            self.report.lock().expect("nobody panics with it").wrong.push(what);
        }
    }

    fn key(&self, at: usize, name: &str) -> String {
        format!("{}{name}", self.tags[at])
    }

    fn write(&mut self, at: usize) -> RedisResult<()> {
        self.tried[at] += 1;
        let (key, value) = (self.key(at, "v"), self.tried[at]);
        let _: () = self.client.set(key, value)?;
        self.written[at] = value;
        Ok(())
    }

    fn read(&mut self, at: usize) -> RedisResult<()> {
        let key = self.key(at, "v");
        let value: Option<i64> = self.client.get(key)?;
        self.expect_value(at, value);
        Ok(())
    }

    fn expect_value(&self, at: usize, value: Option<i64>) {
        let (least, most) = (self.written[at], self.tried[at]);
        let holds = (least..=most).contains(&value.unwrap_or(0));
        self.holds(holds, format!("GET {}: {value:?}, written {least} to {most}", self.tags[at]));
    }

    fn count(&mut self, at: usize) -> RedisResult<()> {
        let key = self.key(at, "c");
        let count = self.client.incr(key, 1)?;
        self.expect_count(at, count, 1);
        Ok(())
    }

    /// Holds if so many were added just now, with this count; a library that asks again may count twice.
    fn expect_count(&mut self, at: usize, count: i64, added: i64) {
        let before = self.counted[at];
        self.holds(count >= before + added, format!("INCR {}: {count} after {before}", self.tags[at]));
        self.counted[at] += added;
    }

    fn several(&mut self, at: usize) -> RedisResult<()> {
        let (a, b, none) = (self.key(at, "a"), self.key(at, "b"), self.key(at, "none"));
        let _: () = self.client.mset(&[(&a, 1), (&b, 2)])?;
        let found: Vec<Option<i64>> = self.client.mget(&[&a, &b, &none])?;
        self.holds(found == [Some(1), Some(2), None], format!("MGET {}: {found:?}", self.tags[at]));
        Ok(())
    }

    fn script(&mut self, at: usize) -> RedisResult<()> {
        let key = self.key(at, "c");
        let count = redis::cmd("EVAL").arg(INCREMENT).arg(1).arg(key).query(&mut self.client)?;
        self.expect_count(at, count, 1);
        Ok(())
    }

    fn last(&mut self, at: usize) -> RedisResult<()> {
        let key = self.key(at, "c");
        let count: Option<i64> = self.client.get(key)?;
        self.expect_count(at, count.unwrap_or(0), 0);
        Ok(())
    }
}

fn option(name: &str) -> String {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == name).unwrap_or_else(|| panic!("{name} is missing"));
    words[at + 1].clone()
}

/// Clients that go on trying for as long as a failover may take, by the library's own means.
fn loops(report: &Arc<Mutex<Report>>) -> Vec<Loop> {
    let nodes: Vec<String> = option("--nodes").split(',').map(|node| format!("redis://{node}/")).collect();
    let name = option("--name");
    let client = ClusterClient::builder(nodes)
        .retries(ATTEMPTS)
        .max_retry_wait(ATTEMPT_PAUSE_MS)
        .response_timeout(PATIENCE)
        .build()
        .expect("the addresses are well-formed");
    (0..LOOPS)
        .map(|number| Loop {
            client: client.get_connection().expect("the cluster is there"),
            report: report.clone(),
            course: Arc::default(),
            tags: (0..TAGS).map(|tag| format!("{{{name}:{number}:{tag}}}")).collect(),
            tried: [0; TAGS],
            written: [0; TAGS],
            counted: [0; TAGS],
        })
        .collect()
}

/// Every loop begins a cycle from now on and ends it without an error.
fn await_good_cycles(courses: &[Arc<Course>]) {
    for course in courses {
        let begun = course.begun.load(SeqCst);
        while course.good_begun_at.load(SeqCst) <= begun {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn main() {
    let report = Arc::new(Mutex::new(Report::default()));
    let take = |next: &str| report.lock().expect("nobody panics with it").take(next);
    let loops = loops(&report);
    let courses: Vec<Arc<Course>> = loops.iter().map(|one| one.course.clone()).collect();
    println!("ready");
    let mut lines = std::io::stdin().lock().lines().map(|line| line.expect("standard input is text"));
    take(&lines.next().unwrap_or_default());
    let is_stopping = Arc::new(AtomicBool::new(false));
    let start = |mut one: Loop| {
        let is_stopping = is_stopping.clone();
        thread::spawn(move || {
            one.run(&is_stopping);
            one
        })
    };
    let running: Vec<_> = loops.into_iter().map(start).collect();
    for line in lines.take_while(|line| line != "stop") {
        if line == "cycle" {
            await_good_cycles(&courses);
            println!("cycle");
        } else {
            println!("{}", take(&line));
        }
    }
    is_stopping.store(true, SeqCst);
    let mut ended: Vec<Loop> =
        running.into_iter().map(|thread| thread.join().expect("loops do not panic")).collect();
    println!("{}", take("end"));
    for one in &mut ended {
        for at in 0..TAGS {
            one.tries("read", Loop::read, at);
            one.tries("last", Loop::last, at);
        }
    }
    println!("{}", take(""));
}
