//! What came of a run, for people and for programs.

use std::fmt::Write;

use super::changes::Waits;

/// A run.
pub struct Report {
    pub nodes: usize,
    pub agents: usize,
    pub joined_us: u64,
    pub leases_lost: usize,
    /// By the name of the kind of changes.
    pub waits: Vec<(&'static str, Waits)>,
}

/// The median, what 99 of 100 are not above, and the longest.
struct Summary {
    median_us: u64,
    p99_us: u64,
    longest_us: u64,
}

impl Summary {
    fn of(samples_us: &[u64]) -> Summary {
        let mut sorted_us = samples_us.to_vec();
        sorted_us.sort_unstable();
        let share = |percent: usize| {
            let wanted = (sorted_us.len() * percent).div_ceil(100).max(1);
            sorted_us.get(wanted - 1).copied().unwrap_or(0)
        };
        Summary { median_us: share(50), p99_us: share(99), longest_us: share(100) }
    }

    fn json(&self) -> String {
        let ms = [self.median_us, self.p99_us, self.longest_us].map(|us| us as f64 / 1e3);
        format!(r#"{{"median_ms":{:.3},"p99_ms":{:.3},"longest_ms":{:.3}}}"#, ms[0], ms[1], ms[2])
    }

    fn text(&self) -> String {
        let ms = [self.median_us, self.p99_us, self.longest_us].map(|us| us as f64 / 1e3);
        format!("{:>10.1} {:>10.1} {:>10.1}", ms[0], ms[1], ms[2])
    }
}

impl Waits {
    /// By what each is called in JSON, and for people.
    fn summaries(&self) -> [(&'static str, &'static str, Summary); 6] {
        [
            ("committed", "etcd says that it is done", Summary::of(&self.committed_us)),
            ("arrived", "it comes to a node", Summary::of(&self.arrived_us)),
            ("in_place", "a node routes by it", Summary::of(&self.in_place_us)),
            ("all", "all nodes have it", Summary::of(&self.all_us)),
            ("read", "(reading it)", Summary::of(&self.read_us)),
            ("work", "(deciding and routing by it)", Summary::of(&self.work_us)),
        ]
    }
}

impl Report {
    /// One line.
    pub fn json(&self) -> String {
        let kinds: Vec<String> = self
            .waits
            .iter()
            .map(|(kind, waits)| {
                let summaries =
                    waits.summaries().map(|(name, _, summary)| format!(r#""{name}":{}"#, summary.json()));
                format!(r#""{kind}":{{"changes":{},{}}}"#, waits.all_us.len(), summaries.join(","))
            })
            .collect();
        let (nodes, agents, lost) = (self.nodes, self.agents, self.leases_lost);
        let joined_s = self.joined_us as f64 / 1e6;
        let kinds = kinds.join(",");
        let counts =
            format!(r#""nodes":{nodes},"agents":{agents},"joined_s":{joined_s:.3},"leases_lost":{lost}"#);
        format!("{{{counts},\"waits\":{{{kinds}}}}}\n")
    }

    /// A table for each kind.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} nodes, of which {} decide, joined in {:.1} s; leases lost: {}\n",
            self.nodes,
            self.agents,
            self.joined_us as f64 / 1e6,
            self.leases_lost
        );
        for (kind, waits) in &self.waits {
            let title = format!("{} changes of: {kind}", waits.all_us.len());
            let _ = writeln!(text, "\n{title:<34}{:>10} {:>10} {:>10}", "median ms", "p99 ms", "longest ms");
            for (_, name, summary) in waits.summaries() {
                let _ = writeln!(text, "{name:<34}{}", summary.text());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_samples() {
        let samples: Vec<u64> = (1..=200).rev().collect();
        let summary = Summary::of(&samples);
        assert_eq!((summary.median_us, summary.p99_us, summary.longest_us), (100, 198, 200));
        let none = Summary::of(&[]);
        assert_eq!((none.median_us, none.longest_us), (0, 0));
    }

    #[test]
    fn a_report_for_programs_and_one_for_people() {
        let waits = Waits { all_us: vec![1_500], work_us: vec![20], ..Waits::default() };
        let report = Report {
            nodes: 2,
            agents: 1,
            joined_us: 2_000_000,
            leases_lost: 0,
            waits: vec![("slot", waits)],
        };
        let json = report.json();
        assert!(json.starts_with(
            r#"{"nodes":2,"agents":1,"joined_s":2.000,"leases_lost":0,"waits":{"slot":{"changes":1,"#
        ));
        assert!(json.contains(r#""all":{"median_ms":1.500,"p99_ms":1.500,"longest_ms":1.500}"#), "{json}");
        assert!(json.ends_with("}}}}\n"), "{json}");
        assert!(report.text().contains("all nodes have it"));
    }
}
