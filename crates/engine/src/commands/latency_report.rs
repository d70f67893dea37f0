//! LATENCY GRAPH and DOCTOR: what the latency monitor has seen, for people to read.

use std::collections::VecDeque;
use std::fmt::Write;

use crate::latency::Event;

const GRAPH_COLUMNS: usize = 80;
const GRAPH_ROWS: usize = 4;
/// Glyphs of a cell that is filled by one, two and three thirds.
const GLYPHS: [char; 3] = ['_', 'o', '#'];
const FULL: char = '|';

/// Columns of bars, the newest to the right, each over its age written downwards.
pub(crate) fn graph(name: &str, event: &Event, now_s: i64) -> String {
    let samples: Vec<(i64, u64)> =
        event.samples.iter().copied().skip(event.samples.len().saturating_sub(GRAPH_COLUMNS)).collect();
    let high = samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
    let low = samples.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
    let max = event.max_ms;
    let mut out = format!("{name} - high {high} ms, low {low} ms (all time high {max} ms)\n");
    out.push_str(&"-".repeat(GRAPH_COLUMNS));
    out.push('\n');
    let steps = (GRAPH_ROWS * GLYPHS.len() - 1) as u64;
    for row in (0..GRAPH_ROWS).rev() {
        for (_, ms) in &samples {
            let level = ((ms - low) * steps).checked_div(high - low).unwrap_or(0) as usize;
            out.push(match level.checked_sub(row * GLYPHS.len()) {
                None => ' ',
                Some(third) => GLYPHS.get(third).copied().unwrap_or(FULL),
            });
        }
        out.push('\n');
    }
    out.push('\n');
    let ages: Vec<Vec<char>> = samples.iter().map(|(at_s, _)| age(now_s - at_s).chars().collect()).collect();
    for line in 0..ages.iter().map(Vec::len).max().unwrap_or(0) {
        out.extend(ages.iter().map(|age| age.get(line).copied().unwrap_or(' ')));
        out.push('\n');
    }
    out
}

fn age(seconds: i64) -> String {
    match seconds.max(0) {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3600 => format!("{}m", s / 60),
        s @ 3600..86_400 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

/// What the samples of an event tell.
struct Summary {
    average_ms: u64,
    deviation_ms: u64,
    period_s: f64,
}

impl Summary {
    fn of(samples: &VecDeque<(i64, u64)>) -> Summary {
        let count = samples.len().max(1) as u64;
        let average_ms = samples.iter().map(|(_, ms)| ms).sum::<u64>() / count;
        let deviation_ms = samples.iter().map(|(_, ms)| ms.abs_diff(average_ms)).sum::<u64>() / count;
        let seconds = match (samples.front(), samples.back()) {
            (Some((first, _)), Some((last, _))) => last - first,
            _ => 0,
        };
        Summary { average_ms, deviation_ms, period_s: seconds.max(1) as f64 / count as f64 }
    }
}

/// A report over all events; `slowlog_us` is from where on the slow log takes commands, negative for never.
pub(crate) fn doctor(events: &[(String, Event)], threshold_ms: i64, slowlog_us: i64) -> String {
    if threshold_ms <= 0 {
        return "The latency monitor is off, so there is nothing to report. Turn it on with 'CONFIG SET latency-monitor-threshold \
                <milliseconds>'.\n"
            .to_owned();
    }
    let mut report = String::new();
    for (number, (name, event)) in events.iter().filter(|(_, event)| !event.samples.is_empty()).enumerate() {
        let Summary { average_ms, deviation_ms, period_s } = Summary::of(&event.samples);
        // Writing to a string cannot fail.
        let _ = writeln!(
            report,
            "{}. {name}: {} latency spikes (average {average_ms}ms, mean deviation {deviation_ms}ms, period {period_s:.2} sec). \
             Worst all time event {}ms.",
            number + 1,
            event.samples.len(),
            event.max_ms,
        );
    }
    if report.is_empty() {
        return "No event took as long as latency-monitor-threshold.\n".to_owned();
    }
    report.push_str("\nAdvice:\n\n");
    let threshold_us = threshold_ms.saturating_mul(1000);
    if slowlog_us < 0 || slowlog_us > threshold_us {
        let _ = writeln!(
            report,
            "- The slow log misses commands that the latency monitor counts. Use 'CONFIG SET slowlog-log-slower-than {threshold_us}'."
        );
    }
    report.push_str("- Look at SLOWLOG GET: it tells which commands took so long, with which arguments.\n");
    report.push_str(
        "- Commands flagged slow over many elements (SORT, large ranges, set algebra) take their time; those over very large inputs \
         run beside the workers and delay only the connection that sent them.\n",
    );
    if events.iter().any(|(name, _)| name == "fast-command") {
        report.push_str(
            "- Commands that touch one element were late as well: the machine may be short of CPU. See that no other process competes \
             for the CPUs of the workers (threads, server-cpulist).\n",
        );
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(samples: &[(i64, u64)]) -> Event {
        let max_ms = samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
        Event { samples: samples.iter().copied().collect(), max_ms }
    }

    #[test]
    fn a_graph_has_a_bar_for_each_sample() {
        let drawn = graph("command", &event(&[(900, 10), (940, 65), (995, 120)]), 1000);
        let lines: Vec<&str> = drawn.lines().skip(2).collect();
        assert_eq!(drawn.lines().next(), Some("command - high 120 ms, low 10 ms (all time high 120 ms)"));
        assert_eq!(lines, ["  #", "  |", " #|", "_||", "", "115", "mms"]);
        let flat = graph("command", &event(&[(1000, 10)]), 1000);
        assert!(flat.ends_with("\n \n \n \n_\n\n0\ns\n"), "{flat}");
        let many: Vec<(i64, u64)> = (0..160).map(|at| (at, at as u64)).collect();
        assert_eq!(graph("command", &event(&many), 1000).lines().nth(5).map(str::len), Some(GRAPH_COLUMNS));
    }

    #[test]
    fn the_doctor_reads_the_samples() {
        let events = [("command".to_owned(), event(&[(100, 10), (110, 30)]))];
        assert!(doctor(&events, 0, 10_000).contains("monitor is off"));
        assert!(doctor(&[], 5, 10_000).contains("No event"));
        let report = doctor(&events, 5, 10_000);
        assert!(
            report.contains(
                "1. command: 2 latency spikes (average 20ms, mean deviation 10ms, period 5.00 sec). Worst all time event 30ms."
            ),
            "{report}"
        );
        assert!(
            report.contains("slowlog-log-slower-than 5000'") && !report.contains("short of CPU"),
            "{report}"
        );
        assert!(!doctor(&events, 5, 5000).contains("slowlog-log-slower-than"));
    }
}
