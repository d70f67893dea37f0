//! Random datasets: what random commands leave behind, and values of every type in sizes from one element to thousands,
//! with elements of every kind, ends, groups, libraries.

use std::io;

use super::peers::FieldEnds;
use crate::dump::DATABASES;
use crate::duo::{Args, args};
use crate::link::Link;
use crate::random::{FAMILIES, FAMILIES_APART, Generator};
use crate::value::Reply;

/// Random commands of each family, at most.
const COMMANDS_MAX: usize = 150;
/// Values of random sizes, at most.
const VALUES_MAX: usize = 40;
/// Elements of a value, as a power of two.
const ELEMENTS_LOG2_MAX: u32 = 12;
/// Elements of one command.
const ELEMENTS_PER_COMMAND: usize = 100;
const STRING_BYTES_LOG2_MAX: u32 = 18;
/// Far enough that nothing ends meanwhile: the year 2096.
const END_MS_MIN: u64 = 4_000_000_000_000;

/// Fills an empty server.
pub struct Dataset<'a> {
    pub link: &'a mut Link,
    pub rng: fastrand::Rng,
    /// Some hashes get fields with ends.
    pub field_ends: FieldEnds,
}

impl Dataset<'_> {
    /// Fills three databases; true if some field has an end.
    pub fn fill(&mut self) -> io::Result<bool> {
        let families = FAMILIES[..FAMILIES.len() - FAMILIES_APART].iter();
        for family in families.filter(|family| family.name != "server") {
            let mut generator = Generator::new(self.rng.u64(..), family, false);
            let commands: Vec<Args> =
                (0..self.rng.usize(..COMMANDS_MAX)).map(|_| generator.command()).collect();
            self.run(&commands)?;
        }
        let mut has_field_ends = false;
        for number in 0..self.rng.usize(1..VALUES_MAX) {
            let database = self.rng.u8(..DATABASES).to_string();
            self.run(&[args(&["SELECT", &database])])?;
            has_field_ends |= self.value(&format!("value:{number}"))?;
        }
        for number in 0..self.rng.usize(..4) {
            let comment = "-- what it does\n".repeat(self.rng.usize(..100));
            let code = format!(
                "#!lua name=lib{number}\n{comment}redis.register_function('f{number}', function() return 1 end)"
            );
            self.run(&[args(&["FUNCTION", "LOAD", &code])])?;
        }
        Ok(has_field_ends)
    }

    fn run(&mut self, commands: &[Args]) -> io::Result<()> {
        for batch in commands.chunks(64) {
            self.link.send(batch)?;
            for _ in batch {
                self.link.reply()?;
            }
        }
        Ok(())
    }

    /// One value; true if some field of it has an end.
    fn value(&mut self, key: &str) -> io::Result<bool> {
        let count = 1 << self.rng.u32(..=ELEMENTS_LOG2_MAX);
        let count = self.rng.usize(count / 2..count) + 1;
        let style = self.rng.u8(..5);
        let mut has_field_ends = false;
        match self.rng.u8(..7) {
            0 => {
                let bytes = self.below_power(STRING_BYTES_LOG2_MAX);
                let mut text = Vec::new();
                while text.len() < bytes {
                    text.extend(self.element(style));
                }
                self.run(&[vec![b"SET".to_vec(), key.into(), text]])?;
            }
            1 => self.elements("RPUSH", key, count, |set| vec![set.element(style)])?,
            2 => self.elements("SADD", key, count, |set| vec![set.element(style)])?,
            3 => self.elements("ZADD", key, count, |set| vec![set.score(), set.element(style)])?,
            4 | 5 => {
                self.elements("HSET", key, count, |set| vec![set.element(style), set.element(style)])?;
                if self.field_ends != FieldEnds::Unknown && self.rng.bool() {
                    has_field_ends = self.end_fields(key)?;
                }
            }
            _ => self.stream(key, count.min(1_000), style)?,
        }
        if self.rng.u8(..3) == 0 {
            let end_ms = self.end_ms();
            self.run(&[args(&["PEXPIREAT", key, &end_ms])])?;
        }
        Ok(has_field_ends)
    }

    fn elements(
        &mut self,
        command: &str,
        key: &str,
        count: usize,
        mut one: impl FnMut(&mut Self) -> Vec<Vec<u8>>,
    ) -> io::Result<()> {
        for start in (0..count).step_by(ELEMENTS_PER_COMMAND) {
            let mut words = args(&[command, key]);
            for _ in start..count.min(start + ELEMENTS_PER_COMMAND) {
                words.extend(one(self));
            }
            self.run(&[words])?;
        }
        Ok(())
    }

    /// Integers of every width, short and long texts, what compresses well and what does not.
    fn element(&mut self, style: u8) -> Vec<u8> {
        match if style == 4 { self.rng.u8(..4) } else { style } {
            0 => (self.rng.i64(..) >> self.rng.u32(..64)).to_string().into_bytes(),
            1 => format!("m{}", self.rng.u32(..5_000)).into_bytes(),
            2 => {
                let bytes = self.below_power(9);
                (0..bytes).map(|_| self.rng.u8(..)).collect()
            }
            _ => format!("{} again and again;", self.rng.u8(..)).repeat(self.rng.usize(1..12)).into_bytes(),
        }
    }

    /// A number below a power of two of which the exponent is random, up to `log2_max`: small ones come often.
    fn below_power(&mut self, log2_max: u32) -> usize {
        let bits = self.rng.u32(..=log2_max);
        self.rng.usize(..1 << bits)
    }

    fn score(&mut self) -> Vec<u8> {
        match self.rng.u8(..6) {
            0 => ["inf", "-inf", "1e300", "-2.5e-300", "0", "17179869184"][self.rng.usize(..6)].into(),
            1 => self.rng.i64(..).to_string().into_bytes(),
            2 => (self.rng.f64() * 1e6).to_string().into_bytes(),
            _ => self.rng.i32(-100..100).to_string().into_bytes(),
        }
    }

    fn end_ms(&mut self) -> String {
        self.rng.u64(END_MS_MIN..2 * END_MS_MIN).to_string()
    }

    /// Gives some fields ends; false if the server has none.
    fn end_fields(&mut self, key: &str) -> io::Result<bool> {
        let fields = self.link.call(&["HKEYS", key])?.leaves();
        let mut has_ended = false;
        for field in fields.into_iter().take(300) {
            if self.rng.bool() {
                let mut command = args(&["HPEXPIREAT", key, &self.end_ms(), "FIELDS", "1"]);
                command.push(field);
                has_ended |= !self.link.run(&command)?.is_error();
            }
        }
        Ok(has_ended)
    }

    /// Entries of like and unlike fields, some removed; groups, of which consumers have read, claimed and acknowledged.
    fn stream(&mut self, key: &str, count: usize, style: u8) -> io::Result<()> {
        let (mut ms, mut sequence) = (self.rng.u64(1..1 << 40), 0);
        let mut ids = Vec::new();
        let mut commands = Vec::new();
        for _ in 0..count {
            ms += self.rng.u64(..3);
            sequence += 1 + self.below_power(20);
            let id = format!("{ms}-{sequence}");
            let mut words = args(&["XADD", key, &id, "name"]);
            words.push(self.element(style));
            for _ in 0..self.rng.u8(..8) / 6 {
                words.extend([self.element(1), self.element(style)]);
            }
            commands.push(words);
            ids.push(id);
        }
        for id in ids.iter().filter(|_| self.rng.u8(..10) == 0) {
            commands.push(args(&["XDEL", key, id]));
        }
        for number in 0..self.rng.u8(..4) {
            let group = format!("group:{number}");
            let from = if self.rng.bool() { "0" } else { &ids[self.rng.usize(..count)] };
            commands.push(args(&["XGROUP", "CREATE", key, &group, from]));
            for _ in 0..self.rng.u8(..4) {
                let consumer = format!("consumer:{}", self.rng.u8(..3));
                let most = self.rng.usize(1..200).to_string();
                commands.push(args(&[
                    "XREADGROUP",
                    "GROUP",
                    &group,
                    &consumer,
                    "COUNT",
                    &most,
                    "STREAMS",
                    key,
                    ">",
                ]));
            }
            for id in &ids {
                match self.rng.u8(..20) {
                    0 => commands.push(args(&["XACK", key, &group, id])),
                    1 => {
                        commands.push(args(&["XCLAIM", key, &group, "claimer", "0", id, "RETRYCOUNT", "70"]))
                    }
                    2 => commands.push(args(&["XDEL", key, id])),
                    _ => {}
                }
            }
        }
        match self.rng.u8(..4) {
            0 => commands.push(args(&["XTRIM", key, "MAXLEN", &(count / 2).to_string()])),
            1 => commands.push(args(&["XSETID", key, &format!("{}-7", ms + 9), "ENTRIESADDED", "100000"])),
            _ => {}
        }
        self.run(&commands)
    }
}
