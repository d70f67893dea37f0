//! The sections of INFO with a line for each command, error or database that has anything to show.

use std::fmt::Write;

use crate::commands::info::{Fields, Source};
use crate::stats::{HISTOGRAM_BUCKETS, bucket_end_ns, cumulative};

pub(crate) fn commands(source: &Source<'_>, fields: &mut Fields) {
    for info in source.server.registry.all() {
        let totals = source.server.command_totals(info.id);
        if totals.calls == 0 && totals.rejected == 0 && totals.failed == 0 {
            continue;
        }
        let usec = totals.time_ns / 1000;
        let usec_per_call = totals.time_ns as f64 / 1000.0 / totals.calls.max(1) as f64;
        // Writing to a string cannot fail.
        let _ = write!(
            fields.0,
            "cmdstat_{}:calls={},usec={usec},usec_per_call={usec_per_call:.2},rejected_calls={},failed_calls={}\r\n",
            info.full_name, totals.calls, totals.rejected, totals.failed,
        );
    }
}

pub(crate) fn errors(source: &Source<'_>, fields: &mut Fields) {
    source.server.errors.each(|code, count| {
        // What would break the line is left out: an error's code may be a client's own text.
        let code = code.replace([':', '\r', '\n'], "_");
        let _ = write!(fields.0, "errorstat_{code}:count={count}\r\n");
    });
}

pub(crate) fn latencies(source: &Source<'_>, fields: &mut Fields) {
    let percentiles = source.server.config.latency_percentiles();
    for info in source.server.registry.all() {
        let Some(histogram) = source.server.histogram(info.id) else { continue };
        let _ = write!(fields.0, "latency_percentiles_usec_{}:", info.full_name);
        for (index, percent) in percentiles.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(fields.0, "{comma}p{percent}={:.3}", percentile_us(&histogram, *percent));
        }
        fields.0.push_str("\r\n");
    }
}

/// The longest time that this percentage of calls did not pass, in microseconds.
fn percentile_us(histogram: &[u64; HISTOGRAM_BUCKETS], percent: f64) -> f64 {
    let calls: u64 = histogram.iter().sum();
    let wanted = (calls as f64 * percent / 100.0).ceil().max(1.0) as u64;
    let found = cumulative(histogram).find(|(_, _, upto)| *upto >= wanted);
    let bucket = found.map_or(HISTOGRAM_BUCKETS - 1, |(bucket, _, _)| bucket);
    bucket_end_ns(bucket) as f64 / 1000.0
}

/// A line for each database that is not empty: some tools divide by the number of its keys.
pub(crate) fn keyspace(source: &Source<'_>, fields: &mut Fields) {
    let keyspace = &source.server.keyspace;
    for db in 0..keyspace.databases() {
        let mut size = keyspace.size(db, source.now.unix_ms);
        if db == 0 {
            size.keys = size.keys.saturating_sub(source.server.hidden_keys());
        }
        if size.keys > 0 {
            let _ = write!(
                fields.0,
                "db{db}:keys={},expires={},avg_ttl={},subexpiry={}\r\n",
                size.keys, size.expires, size.avg_ttl_ms, size.timed_hashes
            );
        }
    }
}

/// Halcyon's own: how far what was executed has come, and what waits for that.
pub(super) fn durability(source: &Source<'_>, fields: &mut Fields) {
    let server = source.server;
    let gates = &server.gates;
    let (written, synced) = gates.reached().map_or((0, 0), |reached| (reached.written_to, reached.synced_to));
    fields.add("durability", gates.policy().name());
    fields.add("log_offset_executed", server.log.end());
    fields.add("log_offset_written", written);
    fields.add("log_offset_synced", synced);
    fields.add("log_offset_acknowledged", server.replication.replicas.acked_to());
    let gated = server.total(|stats| &stats.gated_replies);
    // The two sums are not of one instant.
    fields.add("replies_waiting", gated.saturating_sub(server.total(|stats| &stats.released_replies)));
    fields.add("connections_waiting", server.total(|stats| &stats.gated_connections));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Harness;

    #[test]
    fn percentiles_are_ends_of_buckets() {
        let mut histogram = [0; HISTOGRAM_BUCKETS];
        (histogram[3], histogram[12], histogram[20]) = (50, 49, 1);
        for (percent, expected_us) in
            [(0.0, 1.031), (50.0, 1.031), (50.1, 4.127), (99.0, 4.127), (99.9, 1056.767), (100.0, 1056.767)]
        {
            assert!((percentile_us(&histogram, percent) - expected_us).abs() < 1e-9, "{percent}");
        }
    }

    #[test]
    fn commands_count_what_became_of_them() {
        let mut harness = Harness::new();
        for line in ["SET k v", "INCR k", "GET", "GET k", "CONFIG GET port", "DEBUG ERROR a:b", "NOSUCH"] {
            harness.run(line);
        }
        let info = harness.run("INFO commandstats");
        for line in [
            "cmdstat_set:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0",
            "cmdstat_incr:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1",
            "cmdstat_get:calls=1,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0",
            "cmdstat_config|get:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0",
        ] {
            assert!(info.lines().any(|found| found == line), "{line} in {info}");
        }
        assert!(!info.contains("nosuch"));
        harness.server.errors.count("a:b\r\nc");
        let info = harness.run("INFO errorstats");
        assert!(info.contains("errorstat_a_b__c:count=1\r\n"), "{info}");
    }
}
