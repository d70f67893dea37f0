//! Counts what the program verified and reports it group by group.

use redis::{RedisError, RedisResult};
use std::fmt::Debug;
use std::ops::RangeInclusive;

/// One run of the client.
pub struct Checks {
    pub port: u16,
    pub cluster: bool,
    passed: usize,
    failures: Vec<String>,
}

pub fn text(value: &str) -> String {
    value.to_owned()
}

/// The words of `value`.
pub fn texts(value: &str) -> Vec<String> {
    value.split(' ').map(text).collect()
}

impl Checks {
    pub fn from_arguments() -> Self {
        let words: Vec<String> = std::env::args().collect();
        let port =
            words.iter().position(|word| word == "--port").and_then(|at| words.get(at + 1)?.parse().ok());
        let Some(port) = port else {
            eprintln!("--port is missing");
            std::process::exit(2);
        };
        Self { port, cluster: words.iter().any(|word| word == "--cluster"), passed: 0, failures: Vec::new() }
    }

    pub fn holds(&mut self, what: &str, holds: bool) {
        if holds {
            self.passed += 1;
        } else {
            self.failures.push(what.to_owned());
        }
    }

    pub fn equal<T: PartialEq + Debug>(&mut self, what: &str, got: T, want: T) {
        let shown: String = format!("{what}: got {got:?}, want {want:?}").chars().take(400).collect();
        self.holds(&shown, got == want);
    }

    /// Holds when the reply, read as the type of `want`, equals it.
    pub fn is<T: PartialEq + Debug>(&mut self, what: &str, got: RedisResult<T>, want: T) {
        match got {
            Ok(got) => self.equal(what, got, want),
            Err(error) => self.failures.push(format!("{what}: {error}")),
        }
    }

    pub fn within(&mut self, what: &str, got: RedisResult<i64>, range: RangeInclusive<i64>) {
        self.holds(&format!("{what}: got {got:?}"), got.is_ok_and(|got| range.contains(&got)));
    }

    /// Holds when the library reports an error reply with this code and text.
    pub fn fails(&mut self, what: &str, got: RedisResult<redis::Value>, code: &str, text: &str) {
        let holds =
            got.as_ref().is_err_and(|error| error.code() == Some(code) && error.to_string().contains(text));
        self.holds(&format!("{what}: {got:?}"), holds);
    }

    pub fn group(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let (passed, failed) = (self.passed, self.failures.len());
        body(self);
        println!("{name}: {} passed, {} failed", self.passed - passed, self.failures.len() - failed);
        for failure in &self.failures[failed..] {
            println!("  FAIL {failure}");
        }
    }

    pub fn give_up(mut self, error: &RedisError) -> ! {
        println!("connect: 0 passed, 1 failed\n  FAIL {error}");
        self.failures.push(error.to_string());
        self.finish()
    }

    /// Prints the verdict and ends the process.
    pub fn finish(self) -> ! {
        let mode = if self.cluster { "cluster" } else { "alone" };
        let name = format!("client redis-rs {} {mode}", env!("REDIS_RS_VERSION"));
        if self.failures.is_empty() && self.passed > 0 {
            println!("{name}: {} checks passed", self.passed);
            std::process::exit(0);
        }
        println!("{name}: {} checks FAILED", self.failures.len());
        std::process::exit(1);
    }
}
