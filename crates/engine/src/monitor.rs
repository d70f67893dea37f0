//! MONITOR: connections that are shown every command that runs. Nothing is paid for it while there are none.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base::clock::Now;
use parking_lot::Mutex;
use resp::Args;

use crate::clients::{Client, Peer};
use crate::config::text::quoted;
use crate::ctx::Ctx;
use crate::letter::Letter;
use crate::server::Server;
use crate::session::Session;
use crate::slowlog;
use crate::table::{CommandInfo, Flags};
use crate::worker::Worker;

/// The connections that sent MONITOR.
#[derive(Default)]
pub struct Monitors {
    count: AtomicUsize,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    /// True if there are any.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Adds a connection; false if it is one already.
    pub(crate) fn add(&self, client: &Arc<Client>) -> bool {
        let is_new = !client.is_monitor.swap(true, Relaxed);
        if is_new {
            let mut clients = self.clients.lock();
            clients.push(client.clone());
            self.count.store(clients.len(), Relaxed);
        }
        is_new
    }

    /// Removes a connection, if it is one.
    pub(crate) fn remove(&self, client: &Client) {
        if client.is_monitor.swap(false, Relaxed) {
            let mut clients = self.clients.lock();
            clients.retain(|other| other.id != client.id);
            self.count.store(clients.len(), Relaxed);
        }
    }
}

/// Shows a command that ran to the monitors, as `session` is after it.
#[inline]
pub(crate) fn show(
    server: &Server,
    worker: &mut Worker,
    session: &Session,
    info: &CommandInfo,
    args: Args<'_>,
) {
    if server.monitors.any() && !info.spec.flags.intersects(Flags::SKIP_MONITOR | Flags::ADMIN) {
        show_always(server, worker, session, info, args);
    }
}

/// As [`show`], whatever the command's flags say: scripts show their own call, before what they run.
#[cold]
pub(crate) fn show_always(
    server: &Server,
    worker: &mut Worker,
    session: &Session,
    info: &CommandInfo,
    args: Args<'_>,
) {
    let line: Arc<[u8]> = line(worker.now, session, info, args).into();
    for monitor in server.monitors.clients.lock().iter() {
        let letter = |token, client_id| Letter::Push { token, client_id, bytes: line.clone() };
        worker.send_to(server, monitor, letter);
    }
}

impl Ctx<'_> {
    /// Shows a script's call, which its row keeps from being shown after what it runs.
    pub(crate) fn show_script(&mut self, args: Args<'_>) {
        let server = self.server();
        if server.monitors.any()
            && let Some(info) = server.registry.find(&args[0])
        {
            let (worker, session) = self.worker_and_session();
            show_always(server, worker, session, info, args);
        }
    }
}

/// `+1700000000.123456 [0 127.0.0.1:1234] "set" "a" "b"`
fn line(now: Now, session: &Session, info: &CommandInfo, args: Args<'_>) -> Vec<u8> {
    let (seconds, micros) = (now.unix_us.div_euclid(1_000_000), now.unix_us.rem_euclid(1_000_000));
    let from = match &session.client.peer {
        _ if session.in_script => "lua".to_owned(),
        Peer::Unix(path) => format!("unix:{path}"),
        peer @ Peer::Tcp { .. } => peer.address(),
    };
    let mut line = Vec::new();
    // Writing to a vector cannot fail.
    let _ = write!(line, "+{seconds}.{micros:06} [{} {from}]", session.db);
    let secrets = slowlog::secrets(&info.full_name, args);
    for (at, arg) in args.iter().enumerate() {
        line.push(b' ');
        line.extend(quoted(if secrets.contains(&at) { slowlog::REDACTED } else { arg }));
    }
    line.extend(b"\r\n");
    line
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn commands_are_shown_as_they_ran() {
        let mut harness = Harness::new();
        harness.check("SET before v", "+OK");
        harness.on(1).check("MONITOR", "+OK");
        for (line, shown) in [
            ("set a \"b\\n\\\"\\x01c\"", r#"0 127.0.0.1:6379] "set" "a" "b\n\"\x01c""#),
            ("SELECT 3", r#"3 127.0.0.1:6379] "SELECT" "3""#),
            // What did not run, and what administrators do, is not shown.
            ("INCR", ""),
            ("NOSUCH a", ""),
            ("CONFIG GET port", ""),
            ("LPUSH a x", r#"3 127.0.0.1:6379] "LPUSH" "a" "x""#),
            ("INCR a", r#"3 127.0.0.1:6379] "INCR" "a""#),
            ("CLIENT SETNAME me", r#"3 127.0.0.1:6379] "CLIENT" "SETNAME" "me""#),
            ("AUTH me secret", r#"3 127.0.0.1:6379] "AUTH" "(redacted)" "(redacted)""#),
            ("MULTI", r#"3 127.0.0.1:6379] "MULTI""#),
            ("LLEN a", ""),
            ("EXEC", r#"3 127.0.0.1:6379] "LLEN" "a" +1704067200.000000 [3 127.0.0.1:6379] "EXEC""#),
        ] {
            harness.on(0).run(line);
            let expected =
                if shown.is_empty() { String::new() } else { format!("+1704067200.000000 [{shown}") };
            assert_eq!(harness.on(1).received(), expected, "{line}");
        }
        harness.on(1).run("RESET");
        harness.on(0).run("GET b");
        assert_eq!(harness.on(1).received(), "");
    }

    #[test]
    fn a_monitor_has_no_business_with_keys() {
        let mut harness = Harness::new();
        for (line, expected) in [
            ("MONITOR x", "-ERR wrong number of arguments for 'monitor' command"),
            ("MULTI", "+OK"),
            ("MONITOR", "+QUEUED"),
            ("EXEC", "[-ERR MONITOR isn't allowed for DENY BLOCKING client]"),
            ("MONITOR", "+OK"),
            // As Redis: no reply to the second.
            ("MONITOR", ""),
            ("GET a", "-ERR Replica can't interact with the keyspace"),
            ("SET a b", "-ERR Replica can't interact with the keyspace"),
            ("PING", "+PONG"),
            ("RESET", "+RESET"),
            ("GET a", "(nil)"),
        ] {
            harness.check(line, expected);
        }
        assert!(!harness.server.monitors.any());
    }
}
