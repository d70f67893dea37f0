//! LATENCY: events that took long, and how run times are distributed.

use crate::args::Args;
use crate::commands::latency_report;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::latency::Event;
use crate::reply::Reply;
use crate::server::Server;
use crate::stats::{bucket_end_us, cumulative};
use crate::table::CommandInfo;

const HELP: &[&str] = &[
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Explain the latencies seen, in words.",
    "GRAPH <event>",
    "    Draw the latencies of <event>.",
    "HISTOGRAM [<command> ...]",
    "    Tell how the run times of these commands, or of all, are distributed: for each power",
    "    of two in microseconds, how many calls took no longer.",
    "HISTORY <event>",
    "    Tell when <event> took how many milliseconds.",
    "LATEST",
    "    Tell the latest latency of every event.",
    "RESET [<event> ...]",
    "    Forget the latencies of these events, or of all.",
    "HELP",
    "    Print this text.",
];

pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

/// The event of this name, if it has samples.
fn event(server: &Server, name: &[u8]) -> Option<(String, Event)> {
    let found = server.latency.events().into_iter().find(|(known, _)| known.as_bytes() == name);
    found.filter(|(_, event)| !event.samples.is_empty())
}

pub(crate) fn history(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let samples = event(ctx.server(), &args[2]).map(|(_, event)| event.samples).unwrap_or_default();
    reply.array(samples.len());
    for (at_s, latency_ms) in samples {
        reply.array(2);
        reply.int(at_s);
        reply.int(latency_ms as i64);
    }
    Ok(())
}

pub(crate) fn latest(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let events = ctx.server().latency.events();
    reply.array(events.len());
    for (name, event) in events {
        let (at_s, latency_ms) = event.samples.back().copied().unwrap_or_default();
        reply.array(4);
        reply.text(&name);
        reply.int(at_s);
        reply.int(latency_ms as i64);
        reply.int(event.max_ms as i64);
    }
    Ok(())
}

pub(crate) fn reset(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let names: Vec<&[u8]> = args.from(2).iter().collect();
    reply.int(ctx.server().latency.reset(&names) as i64);
    Ok(())
}

pub(crate) fn graph(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let now_s = ctx.now_ms() / 1000;
    let Some((name, event)) = event(ctx.server(), &args[2]) else {
        return Err(Fault::quoting("ERR No samples available for event '", &args[2], "'"));
    };
    reply.verbatim("txt", latency_report::graph(&name, &event, now_s).as_bytes());
    Ok(())
}

pub(crate) fn doctor(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    let hot = server.config.hot();
    let threshold_ms = hot.latency_monitor_threshold_ms();
    let slowlog_us = hot.slowlog_log_slower_than_us();
    let report = latency_report::doctor(&server.latency.events(), threshold_ms, slowlog_us);
    reply.verbatim("txt", report.as_bytes());
    Ok(())
}

/// LATENCY HISTOGRAM [command ...]: for a container, its subcommands; what was never called is left out.
pub(crate) fn histogram(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    let registry = server.registry;
    let mut chosen: Vec<&CommandInfo> = Vec::new();
    if args.len() == 2 {
        chosen.extend(registry.all());
    }
    for name in args.from(2).iter() {
        let Some(info) = registry.find_full(name) else { continue };
        chosen.push(info);
        chosen.extend(info.subcommands.iter().map(|id| registry.get(*id)));
    }
    let histograms: Vec<_> =
        chosen.into_iter().filter_map(|info| Some((info, server.histogram(info.id)?))).collect();
    reply.map(histograms.len());
    for (info, histogram) in &histograms {
        let steps: Vec<(u64, u64)> = cumulative(histogram)
            .filter(|(_, here, _)| *here > 0)
            .map(|(bucket, _, upto)| (bucket_end_us(bucket), upto))
            .collect();
        reply.text(&info.full_name);
        reply.map(2);
        reply.text("calls");
        reply.int(histogram.iter().sum::<u64>() as i64);
        reply.text("histogram_usec");
        reply.map(merged(&steps).count());
        for (end_us, calls) in merged(&steps) {
            reply.int(end_us as i64);
            reply.int(calls as i64);
        }
    }
    Ok(())
}

/// Of steps that end at the same microsecond, the last: buckets below one microsecond count as one.
fn merged(steps: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    let is_last = |at: &usize| steps.get(at + 1).is_none_or(|next| next.0 != steps[*at].0);
    (0..steps.len()).filter(is_last).map(|at| steps[at])
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn events_are_shown_and_forgotten() {
        let mut harness = Harness::new();
        for (name, latency_ms, at_s) in
            [("command", 20, 100), ("command", 30, 100), ("command", 10, 160), ("fast-command", 7, 150)]
        {
            harness.server.latency.record(name, latency_ms, at_s);
        }
        for (line, expected) in [
            ("LATENCY LATEST", "[[command :160 :10 :30] [fast-command :150 :7 :7]]"),
            ("LATENCY HISTORY command", "[[:100 :30] [:160 :10]]"),
            ("LATENCY HISTORY nosuch", "[]"),
            ("LATENCY HISTORY", "-ERR wrong number of arguments for 'latency|history' command"),
            ("LATENCY GRAPH nosuch", "-ERR No samples available for event 'nosuch'"),
            ("LATENCY RESET command nosuch", ":1"),
            ("LATENCY LATEST", "[[fast-command :150 :7 :7]]"),
            ("LATENCY RESET", ":1"),
            ("LATENCY RESET", ":0"),
        ] {
            harness.check(line, expected);
        }
    }

    #[test]
    fn histograms_are_cumulative() {
        let mut harness = Harness::new();
        let id = |name: &str| crate::table::registry().find_full(name.as_bytes()).expect("a command").id;
        // 1.024 us is the first end, 2.048 us the next.
        for time_ns in [1, 900, 1500, 1700, 30_000_000] {
            harness.server.stats[0].command(id("get")).record(time_ns, true);
        }
        harness.server.stats[1].command(id("get")).record(3000, true);
        harness.server.stats[0].command(id("config|get")).record(20_000, true);
        for (line, expected) in [
            ("LATENCY HISTOGRAM get nosuch", "[get [calls :6 histogram_usec [:1 :2 :2 :4 :4 :5 :33816 :6]]]"),
            ("LATENCY HISTOGRAM config", "[config|get [calls :1 histogram_usec [:33 :1]]]"),
            ("LATENCY HISTOGRAM set", "[]"),
        ] {
            harness.check(line, expected);
        }
        let info = harness.run("INFO latencystats");
        assert!(
            info.contains("latency_percentiles_usec_get:p50=2.063,p99=33816.575,p99.9=33816.575\r\n"),
            "{info}"
        );
        harness.check("CONFIG SET latency-tracking-info-percentiles \"0 100\"", "+OK");
        let info = harness.run("INFO latencystats");
        assert!(info.contains("latency_percentiles_usec_get:p0=1.031,p100=33816.575\r\n"), "{info}");
    }
}
