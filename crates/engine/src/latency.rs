//! The latency monitor: events that took longer than `latency-monitor-threshold`.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use crate::server::Server;

/// Samples kept of an event (Redis: LATENCY_TS_LEN).
const SAMPLES_MAX: usize = 160;

/// The history of one event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// (unix seconds, ms), oldest first; one a second, the worst.
    pub samples: VecDeque<(i64, u64)>,
    /// The worst ever.
    pub max_ms: u64,
}

/// All events, by name.
#[derive(Default)]
pub struct LatencyMonitor(Mutex<BTreeMap<String, Event>>);

impl LatencyMonitor {
    /// Notes an event that took `latency_ms`; the caller has compared it with the threshold.
    pub fn record(&self, name: &str, latency_ms: u64, now_s: i64) {
        let mut events = self.0.lock();
        let event = events.entry(name.to_owned()).or_default();
        event.max_ms = event.max_ms.max(latency_ms);
        match event.samples.back_mut() {
            Some((at, worst)) if *at == now_s => *worst = (*worst).max(latency_ms),
            _ => event.samples.push_back((now_s, latency_ms)),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    /// Notes an event that took `elapsed_us`, if the monitor is on and that is long enough.
    pub fn record_above(&self, server: &Server, name: &str, elapsed_us: u64, now_s: i64) {
        let threshold_ms = server.config.hot().latency_monitor_threshold_ms();
        if threshold_ms > 0 && elapsed_us / 1000 >= threshold_ms as u64 {
            self.record(name, elapsed_us / 1000, now_s);
        }
    }

    /// A copy of all events.
    pub fn events(&self) -> Vec<(String, Event)> {
        self.0.lock().iter().map(|(name, event)| (name.clone(), event.clone())).collect()
    }

    /// Forgets these events, all for none; returns how many were there.
    pub fn reset(&self, names: &[&[u8]]) -> usize {
        let mut events = self.0.lock();
        if names.is_empty() {
            let count = events.len();
            events.clear();
            return count;
        }
        let known_before = events.len();
        events.retain(|known, _| !names.contains(&known.as_bytes()));
        known_before - events.len()
    }
}
