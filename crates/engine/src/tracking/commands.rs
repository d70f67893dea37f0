//! What CLIENT TRACKING and CLIENT CACHING do to a connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Mode, Tracker, TrackingState};
use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// What CLIENT TRACKING ON asks for.
#[derive(Default)]
pub(crate) struct Wanted {
    redirect: Option<u64>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    noloop: bool,
    prefixes: Vec<Box<[u8]>>,
}

impl Wanted {
    /// Reads the options after ON or OFF.
    pub(crate) fn parse(ctx: &Ctx<'_>, options: Args<'_>) -> CmdResult<Wanted> {
        let mut wanted = Wanted::default();
        let mut at = 0;
        while let Some(option) = options.get(at) {
            let next = options.get(at + 1);
            match next {
                Some(id) if is(option, "REDIRECT") => {
                    wanted.redirect = Some(wanted.read_redirect(ctx, id)?);
                    at += 1;
                }
                Some(prefix) if is(option, "PREFIX") => {
                    wanted.prefixes.push(prefix.into());
                    at += 1;
                }
                _ if is(option, "BCAST") => wanted.broadcast = true,
                _ if is(option, "OPTIN") => wanted.opt_in = true,
                _ if is(option, "OPTOUT") => wanted.opt_out = true,
                _ if is(option, "NOLOOP") => wanted.noloop = true,
                _ => return Err(Fault::SYNTAX),
            }
            at += 1;
        }
        Ok(wanted)
    }

    fn read_redirect(&self, ctx: &Ctx<'_>, id: &[u8]) -> CmdResult<u64> {
        if self.redirect.is_some() {
            return Err(Fault::Text("ERR A client can only redirect to a single other client"));
        }
        let id = u64::try_from(int(id)?).ok().filter(|id| ctx.server().clients.get(*id).is_some());
        id.ok_or(Fault::Text("ERR The client ID you want redirect to does not exist"))
    }

    fn mode(&self) -> Mode {
        match (self.broadcast, self.opt_in, self.opt_out) {
            (true, ..) => Mode::Broadcast,
            (_, true, _) => Mode::OptIn,
            (.., true) => Mode::OptOut,
            _ => Mode::Default,
        }
    }

    fn check(&self, before: Option<&Tracker>) -> CmdResult {
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err(Fault::Text("ERR PREFIX option requires BCAST mode to be enabled"));
        }
        if before.is_some_and(|before| (before.mode == Mode::Broadcast) != self.broadcast) {
            return Err(Fault::Text(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling \
                 it with a different mode.",
            ));
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return Err(Fault::Text("ERR OPTIN and OPTOUT are not compatible with BCAST"));
        }
        if self.opt_in && self.opt_out {
            return Err(Fault::Text("ERR You can't specify both OPTIN mode and OPTOUT mode"));
        }
        let switches = |mode| match mode {
            Mode::OptIn => self.opt_out,
            Mode::OptOut => self.opt_in,
            _ => false,
        };
        if before.is_some_and(|before| switches(before.mode)) {
            return Err(Fault::Text(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling \
                 it with a different mode.",
            ));
        }
        self.check_prefixes(before)
    }

    fn check_prefixes(&self, before: Option<&Tracker>) -> CmdResult {
        let overlaps = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
        let fault = |prefix: &[u8], which: &str, other: &[u8]| {
            let text = [b"ERR Prefix '", prefix, b"' overlaps with ", which.as_bytes(), b" prefix '", other];
            let end = b"'. Prefixes for a single client must not overlap.";
            Err(Fault::Quoting([&text.concat()[..], end].concat()))
        };
        for (at, prefix) in self.prefixes.iter().enumerate() {
            let held = before.iter().flat_map(|before| &before.prefixes).find(|held| overlaps(held, prefix));
            if let Some(held) = held {
                return fault(prefix, "an existing", held);
            }
            if let Some(other) = self.prefixes[at + 1..].iter().find(|other| overlaps(other, prefix)) {
                return fault(prefix, "another provided", other);
            }
        }
        Ok(())
    }
}

impl Ctx<'_> {
    fn tracker(&self) -> Option<&Arc<Tracker>> {
        self.session_ref().tracking.as_ref().map(|tracking| &tracking.tracker)
    }

    /// CLIENT TRACKING ON
    pub(crate) fn start_tracking(&mut self, wanted: Wanted) -> CmdResult {
        wanted.check(self.tracker().map(|tracker| &**tracker))?;
        let mut prefixes: BTreeSet<Box<[u8]>> =
            self.tracker().map(|tracker| tracker.prefixes.clone()).unwrap_or_default();
        let mode = wanted.mode();
        prefixes.extend(wanted.prefixes);
        if mode == Mode::Broadcast && prefixes.is_empty() {
            prefixes.insert(Box::default());
        }
        let tracker = Arc::new(Tracker {
            client: self.session_ref().client.clone(),
            redirect: wanted.redirect,
            mode,
            noloop: wanted.noloop,
            prefixes,
            is_broken: AtomicBool::new(false),
        });
        self.server().tracking.start(tracker.clone());
        self.session().tracking = Some(Box::new(TrackingState { tracker, caching: None }));
        Ok(())
    }

    /// CLIENT TRACKING OFF
    pub(crate) fn stop_tracking(&mut self) {
        if self.session().tracking.take().is_some() {
            let server = self.server();
            server.tracking.stop(&self.session_ref().client);
        }
    }

    /// CLIENT CACHING YES or NO
    pub(crate) fn set_caching(&mut self, wanted: bool) -> CmdResult {
        let mode = self.tracker().map(|tracker| tracker.mode);
        let fault = match (mode, wanted) {
            (Some(Mode::OptIn), true) | (Some(Mode::OptOut), false) => None,
            (Some(Mode::OptIn), false) => {
                Some("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
            }
            (Some(_), true) => {
                Some("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
            }
            (Some(_), false) => {
                Some("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
            }
            (None, _) => Some(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ),
        };
        if let Some(text) = fault {
            return Err(Fault::Text(text));
        }
        if let Some(tracking) = &mut self.session().tracking {
            tracking.caching = Some(wanted);
        }
        Ok(())
    }

    /// CLIENT GETREDIR: -1 without tracking, 0 without a redirection.
    pub(crate) fn redirection(&self) -> i64 {
        self.tracker().map_or(-1, |tracker| tracker.redirect.map_or(0, |id| id as i64))
    }

    /// CLIENT TRACKINGINFO
    pub(crate) fn describe_tracking(&self, reply: &mut Reply<'_>) {
        let Some(state) = &self.session_ref().tracking else {
            write_tracking(reply, &["off"], -1, &BTreeSet::new());
            return;
        };
        let tracker = &state.tracker;
        let mut words = vec!["on"];
        words.extend((tracker.mode == Mode::Broadcast).then_some("bcast"));
        words.extend((tracker.mode == Mode::OptIn).then_some("optin"));
        words.extend((state.caching == Some(true)).then_some("caching-yes"));
        words.extend((tracker.mode == Mode::OptOut).then_some("optout"));
        words.extend((state.caching == Some(false)).then_some("caching-no"));
        words.extend(tracker.noloop.then_some("noloop"));
        words.extend(tracker.is_broken.load(Relaxed).then_some("broken_redirect"));
        write_tracking(reply, &words, self.redirection(), &tracker.prefixes);
    }
}

fn write_tracking(reply: &mut Reply<'_>, words: &[&str], redirect: i64, prefixes: &BTreeSet<Box<[u8]>>) {
    reply.map(3);
    reply.text("flags");
    reply.set(words.len());
    words.iter().for_each(|word| reply.text(word));
    reply.text("redirect");
    reply.int(redirect);
    reply.text("prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
}
