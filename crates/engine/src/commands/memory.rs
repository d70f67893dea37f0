//! MEMORY: what memory is used for.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use store::TABLE_BYTES_PER_KEY;

use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::server::Server;

const HELP: &[&str] = &[
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Tell in words what is wrong with the use of memory.",
    "MALLOC-STATS",
    "    Tell what the allocator has counted.",
    "PURGE",
    "    Ask the allocator to give unused memory back.",
    "STATS",
    "    Tell what memory is used for.",
    "USAGE <key> [SAMPLES <count>]",
    "    Tell how many bytes <key> and its value take. They are counted, not estimated:",
    "    <count> changes nothing.",
    "HELP",
    "    Print this text.",
];

/// Bytes that a time to live takes in the index of its stripe.
const INDEX_BYTES_PER_EXPIRY: usize = 24;

/// Figures of the process's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryFigures {
    /// Allocated and not freed.
    pub used: u64,
    /// The most that ever was.
    pub peak: u64,
    /// Used before there was any key or client.
    pub startup: u64,
    /// Held by the operating system for the process.
    pub resident: u64,
    /// Of `used`, connections with their buffers.
    pub clients: u64,
    /// Of `used`, tables and indexes of all databases.
    pub tables: u64,
    /// Keys in all databases.
    pub keys: u64,
}

impl MemoryFigures {
    /// The figures as of now. Costs the same with any number of keys and clients.
    pub fn of(server: &Server, now_ms: i64) -> MemoryFigures {
        let used = store::alloc::used_bytes() as u64;
        let sizes = (0..server.keyspace.databases()).map(|db| server.keyspace.size(db, now_ms));
        let (keys, expires) = sizes.fold((0, 0), |sum, size| (sum.0 + size.keys, sum.1 + size.expires));
        MemoryFigures {
            used,
            peak: store::alloc::peak_bytes() as u64,
            startup: server.startup_bytes.min(used),
            resident: server.resident_bytes.load(Relaxed),
            clients: server.clients.memory_bytes(),
            tables: (keys * TABLE_BYTES_PER_KEY + expires * INDEX_BYTES_PER_EXPIRY) as u64,
            keys: keys as u64,
        }
    }

    /// What is neither key nor value.
    pub fn overhead(&self) -> u64 {
        self.startup + self.clients + self.tables
    }

    /// Keys and values.
    pub fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead())
    }

    /// Keys and values, in percent of what was allocated since the start.
    pub fn dataset_percent(&self) -> f64 {
        percent(self.dataset(), self.used - self.startup)
    }

    /// Used now, in percent of the peak.
    pub fn peak_percent(&self) -> f64 {
        percent(self.used, self.peak)
    }

    /// Resident bytes for each byte used.
    pub fn fragmentation(&self) -> f64 {
        self.resident as f64 / self.used.max(1) as f64
    }

    /// Resident bytes that are not used.
    pub fn fragmentation_bytes(&self) -> i64 {
        self.resident as i64 - self.used as i64
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

/// MEMORY USAGE key [SAMPLES count]
pub(crate) fn usage(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let mut at = 3;
    while at < args.len() {
        if !is(args.at(at), "SAMPLES") || at + 1 == args.len() {
            return Err(Fault::SYNTAX);
        }
        if int(args.at(at + 1))? < 0 {
            return Err(Fault::SYNTAX);
        }
        at += 2;
    }
    match ctx.peek(&args[2]) {
        Some(view) => reply.int(view.memory_bytes() as i64),
        None => reply.null(),
    }
    Ok(())
}

pub(crate) fn purge(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    // The allocator gives pages back by itself, soon after they are free.
    reply.ok();
    Ok(())
}

enum Figure {
    Bytes(i64),
    Ratio(f64),
    Database { main: usize, expires: usize },
}

/// MEMORY STATS, in the names and order of Redis 7.4.
pub(crate) fn stats(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, now_ms) = (ctx.server(), ctx.now_ms());
    let memory = MemoryFigures::of(server, now_ms);
    let bytes = |bytes: u64| Figure::Bytes(bytes as i64);
    let mut figures: Vec<(String, Figure)> = Vec::with_capacity(40);
    let mut add = |name: &str, figure: Figure| figures.push((name.to_owned(), figure));
    add("peak.allocated", bytes(memory.peak));
    add("total.allocated", bytes(memory.used));
    add("startup.allocated", bytes(memory.startup));
    add("replication.backlog", bytes(0));
    add("clients.slaves", bytes(0));
    add("clients.normal", bytes(memory.clients));
    add("cluster.links", bytes(0));
    add("aof.buffer", bytes(0));
    add("lua.caches", bytes(server.scripting.scripts.bytes()));
    add("functions.caches", bytes(server.scripting.functions.bytes()));
    for db in 0..server.keyspace.databases() {
        let size = server.keyspace.size(db, now_ms);
        if size.keys > 0 {
            let main = size.keys * TABLE_BYTES_PER_KEY;
            let expires = size.expires * INDEX_BYTES_PER_EXPIRY;
            add(&format!("db.{db}"), Figure::Database { main, expires });
        }
    }
    add("overhead.total", bytes(memory.overhead()));
    add("keys.count", bytes(memory.keys));
    let dataset_used = memory.used.saturating_sub(memory.startup);
    add("keys.bytes-per-key", bytes(dataset_used.checked_div(memory.keys).unwrap_or(0)));
    add("dataset.bytes", bytes(memory.dataset()));
    add("dataset.percentage", Figure::Ratio(memory.dataset_percent()));
    add("peak.percentage", Figure::Ratio(memory.peak_percent()));
    add("allocator.allocated", bytes(memory.used));
    add("allocator.active", bytes(memory.used));
    add("allocator.resident", bytes(memory.resident));
    add("allocator-fragmentation.ratio", Figure::Ratio(1.0));
    add("allocator-fragmentation.bytes", bytes(0));
    add("allocator-rss.ratio", Figure::Ratio(memory.fragmentation()));
    add("allocator-rss.bytes", Figure::Bytes(memory.fragmentation_bytes()));
    add("rss-overhead.ratio", Figure::Ratio(1.0));
    add("rss-overhead.bytes", bytes(0));
    add("fragmentation", Figure::Ratio(memory.fragmentation()));
    add("fragmentation.bytes", Figure::Bytes(memory.fragmentation_bytes()));
    reply.map(figures.len());
    for (name, figure) in &figures {
        reply.text(name);
        match *figure {
            Figure::Bytes(bytes) => reply.int(bytes),
            Figure::Ratio(ratio) => reply.double(ratio),
            Figure::Database { main, expires } => {
                reply.map(2);
                reply.text("overhead.hashtable.main");
                reply.int(main as i64);
                reply.text("overhead.hashtable.expires");
                reply.int(expires as i64);
            }
        }
    }
    Ok(())
}

/// Below this, nothing that could be said of the use of memory would matter.
const DIAGNOSABLE_BYTES: u64 = 5 << 20;
const WASTE_BYTES_MIN: i64 = 10 << 20;

/// MEMORY DOCTOR
pub(crate) fn doctor(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, now_ms) = (ctx.server(), ctx.now_ms());
    let limit = server.config.hot().maxmemory_bytes();
    let report = diagnosis(&MemoryFigures::of(server, now_ms), limit);
    reply.verbatim("txt", report.as_bytes());
    Ok(())
}

fn diagnosis(memory: &MemoryFigures, limit: u64) -> String {
    if memory.used < DIAGNOSABLE_BYTES {
        return "This server holds next to nothing: there is nothing to diagnose yet.\n".to_owned();
    }
    let mut findings = Vec::new();
    if memory.peak > memory.used + memory.used / 2 {
        findings.push(format!(
            "Peak: it once used {:.1} times as much memory as it does now. If resident memory is still near that peak, it falls as \
             the allocator gives pages back, or at a restart.",
            memory.peak as f64 / memory.used as f64
        ));
    }
    if memory.fragmentation() > 1.4 && memory.fragmentation_bytes() > WASTE_BYTES_MIN {
        findings.push(format!(
            "Resident memory: the process holds {:.2} times the memory that it uses. That is usual after many keys were deleted.",
            memory.fragmentation()
        ));
    }
    if limit > 0 && memory.used as f64 > limit as f64 * 0.9 {
        findings.push(format!(
            "Limit: {:.0} % of maxmemory are used. Once it is reached, writes that need memory are refused or keys are evicted, as \
             maxmemory-policy says.",
            memory.used as f64 * 100.0 / limit as f64
        ));
    }
    if findings.is_empty() {
        return "No problem with the use of memory was found.\n".to_owned();
    }
    let mut report = String::from("Findings:\n");
    for finding in findings {
        report.push_str("\n * ");
        report.push_str(&finding);
        report.push('\n');
    }
    report
}

/// MEMORY MALLOC-STATS
pub(crate) fn malloc_stats(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, now_ms) = (ctx.server(), ctx.now_ms());
    let memory = MemoryFigures::of(server, now_ms);
    let mut text = String::from("allocator: mimalloc, every live byte counted\n");
    let figures = [
        ("allocated_bytes", memory.used),
        ("peak_bytes", memory.peak),
        ("startup_bytes", memory.startup),
        ("resident_bytes", memory.resident),
        ("values_waiting_to_be_freed", server.keyspace.garbage_pending() as u64),
    ];
    for (name, figure) in figures {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}: {figure}");
    }
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Harness;

    #[test]
    fn usage_grows_with_the_value() {
        let mut harness = Harness::new();
        harness.run("SET small v");
        harness.run(&format!("SET big {}", "v".repeat(10_000)));
        let mut usage =
            |line: &str| -> usize { harness.run(line).trim_start_matches(':').parse().expect("a number") };
        let small = usage("MEMORY USAGE small");
        assert!((16..128).contains(&small), "{small}");
        let big = usage("MEMORY USAGE big SAMPLES 0");
        assert!((10_000..16_000).contains(&big), "{big}");
        for (line, expected) in [
            ("MEMORY USAGE missing", "(nil)"),
            ("MEMORY USAGE small SAMPLES", "-ERR syntax error"),
            ("MEMORY USAGE small SAMPLES x", "-ERR value is not an integer or out of range"),
            ("MEMORY USAGE small SAMPLES -1", "-ERR syntax error"),
            ("MEMORY USAGE small FOO 1", "-ERR syntax error"),
            ("MEMORY PURGE", "+OK"),
            ("MEMORY", "-ERR wrong number of arguments for 'memory' command"),
        ] {
            harness.check(line, expected);
        }
    }

    #[test]
    fn statistics_tell_databases_apart() {
        let mut harness = Harness::new().resp3();
        harness.run("SET k v EX 100");
        let stats = harness.run("MEMORY STATS");
        assert!(stats.starts_with("%{peak.allocated=:"), "{stats}");
        assert!(
            stats
                .contains("db.0=%{overhead.hashtable.main=:9 overhead.hashtable.expires=:24} overhead.total"),
            "{stats}"
        );
        assert!(stats.contains("keys.count=:1 ") && stats.contains("dataset.percentage=,"), "{stats}");
    }

    #[test]
    fn the_doctor_sees_what_is_wrong() {
        let well = MemoryFigures {
            used: 100 << 20,
            peak: 110 << 20,
            startup: 1 << 20,
            resident: 120 << 20,
            clients: 0,
            tables: 0,
            keys: 1,
        };
        for (memory, limit, found) in [
            (MemoryFigures { used: 1 << 20, ..well }, 0, "nothing to diagnose"),
            (well, 0, "No problem"),
            (well, 200 << 20, "No problem"),
            (well, 105 << 20, "95 % of maxmemory"),
            (MemoryFigures { peak: 300 << 20, ..well }, 0, "3.0 times as much"),
            (MemoryFigures { resident: 200 << 20, ..well }, 0, "2.00 times the memory"),
        ] {
            let report = diagnosis(&memory, limit);
            assert!(report.contains(found), "{report}");
        }
    }
}
