//! CLIENT LIST, INFO and KILL: every connection, seen from one of them.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::num::parse_i64;

use crate::acl::UserId;
use crate::args::{Args, is};
use crate::clients::{Client, Identity, Peer};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::server::Server;

/// A type of connection, as LIST and KILL select by it. All are normal so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    Primary,
    Replica,
    PubSub,
}

impl ClientType {
    fn parse(word: &[u8]) -> CmdResult<ClientType> {
        let known = [
            ("normal", ClientType::Normal),
            ("master", ClientType::Primary),
            ("replica", ClientType::Replica),
            ("slave", ClientType::Replica),
            ("pubsub", ClientType::PubSub),
        ];
        let found = known.iter().find(|(name, _)| is(word, name)).map(|(_, found)| *found);
        found.ok_or_else(|| Fault::quoting("ERR Unknown client type '", word, "'"))
    }

    fn of(server: &Server, client: &Client) -> ClientType {
        if server.replication.following.is_link(client.id) {
            ClientType::Primary
        } else if client.is_replica.load(Relaxed) {
            ClientType::Replica
        } else if client.is_subscribed() {
            ClientType::PubSub
        } else {
            ClientType::Normal
        }
    }
}

pub(crate) fn info(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, now_ms) = (ctx.server(), ctx.now_ms());
    let mut line = String::new();
    describe(server, &ctx.session().client, now_ms, &mut line);
    reply.verbatim("txt", line.as_bytes());
    Ok(())
}

/// With more connections than this, going through them all would hold up others on the worker.
pub(crate) const LISTED_ON_WORKER_MAX: u64 = 1000;

/// CLIENT LIST [TYPE type] [ID id ...]
pub(crate) fn list(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, now_ms) = (ctx.server(), ctx.now_ms());
    let wanted = match args.get(2) {
        None => None,
        Some(option) if is(option, "TYPE") && args.len() == 4 => Some(ClientType::parse(&args[3])?),
        Some(option) if is(option, "ID") && args.len() > 3 => {
            let found = by_ids(server, args.from(3))?;
            if found.len() as u64 > LISTED_ON_WORKER_MAX {
                ctx.defer(move |lane| {
                    let lines = lines_of(lane.server(), &found, now_ms);
                    lane.reply().verbatim("txt", lines.as_bytes());
                    Ok(())
                });
                return Ok(());
            }
            let lines = lines_of(server, &found, now_ms);
            reply.verbatim("txt", lines.as_bytes());
            return Ok(());
        }
        Some(_) => return Err(Fault::SYNTAX),
    };
    let of_type = move |server: &Server| {
        let mut clients = alive(server);
        clients.retain(|client| wanted.is_none_or(|wanted| ClientType::of(server, client) == wanted));
        clients
    };
    if server.clients.connected() > LISTED_ON_WORKER_MAX {
        ctx.defer(move |lane| {
            let lines = lines_of(lane.server(), &of_type(lane.server()), now_ms);
            lane.reply().verbatim("txt", lines.as_bytes());
            Ok(())
        });
    } else {
        let lines = lines_of(server, &of_type(server), now_ms);
        reply.verbatim("txt", lines.as_bytes());
    }
    Ok(())
}

fn lines_of(server: &Server, clients: &[Arc<Client>], now_ms: i64) -> String {
    let mut lines = String::with_capacity(clients.len() * 320);
    clients.iter().for_each(|client| describe(server, client, now_ms, &mut lines));
    lines
}

/// Connections that nobody has killed; one that was killed may still be on its way out.
pub(crate) fn alive(server: &Server) -> Vec<Arc<Client>> {
    let mut clients = server.clients.list();
    clients.retain(|client| !client.kill.load(Relaxed));
    clients
}

fn by_ids(server: &Server, ids: Args<'_>) -> CmdResult<Vec<Arc<Client>>> {
    let mut found = Vec::new();
    for id in ids.iter() {
        let id = parse_i64(id).ok_or(Fault::Text("ERR Invalid client ID"))?;
        let client = u64::try_from(id).ok().and_then(|id| server.clients.get(id));
        found.extend(client.filter(|client| !client.kill.load(Relaxed)));
    }
    Ok(found)
}

/// A connection's line, without its end.
pub(crate) fn line(server: &Server, client: &Client, now_ms: i64) -> String {
    let mut line = String::new();
    describe(server, client, now_ms, &mut line);
    line.pop();
    line
}

/// Appends a connection's line, in the fields and order of Redis 7.4.
///
/// Buffers are borrowed from the worker, so `qbuf-free`, `rbs` and `rbp` have nothing to count; `obl` is always 0
/// and all unsent bytes stand in `omem`.
fn describe(server: &Server, client: &Client, now_ms: i64, out: &mut String) {
    let Identity { name, lib_name, lib_ver, replica: _ } = client.identity();
    let (input_bytes, output_bytes) = (client.input_bytes.load(Relaxed), client.output_bytes.load(Relaxed));
    let held_bytes = client.memory_bytes.load(Relaxed);
    let last = client.last_command.load(Relaxed);
    let command = match last.checked_sub(1) {
        Some(id) => server.registry.get(usize::from(id)).full_name.as_str(),
        None => "NULL",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={} \
         qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll={} omem={} tot-mem={} events=r cmd={} user={} redir={} \
         resp={} lib-name={} lib-ver={}",
        client.id,
        client.peer.address(),
        client.peer.local_address(),
        client.fd.load(Relaxed),
        String::from_utf8_lossy(&name),
        (now_ms / 1000 - client.created_s).max(0),
        ((now_ms - client.last_active_ms.load(Relaxed)) / 1000).max(0),
        flags(server, client),
        client.db.load(Relaxed),
        client.channels.load(Relaxed),
        client.patterns.load(Relaxed),
        client.shard_channels.load(Relaxed),
        client.queued.load(Relaxed),
        client.watching.load(Relaxed),
        input_bytes,
        u8::from(output_bytes > 0),
        output_bytes,
        held_bytes,
        command,
        String::from_utf8_lossy(&server.acl.name_of(client.user.load(Relaxed))),
        client.redirect.load(Relaxed),
        client.resp.load(Relaxed),
        String::from_utf8_lossy(&lib_name),
        String::from_utf8_lossy(&lib_ver),
    );
}

fn flags(server: &Server, client: &Client) -> String {
    let tracking = client.tracking.load(Relaxed);
    let all = [
        ('M', server.replication.following.is_link(client.id)),
        ('S', client.is_replica.load(Relaxed)),
        ('O', client.is_monitor.load(Relaxed)),
        ('P', client.is_subscribed()),
        ('t', tracking & Client::TRACKED != 0),
        ('R', tracking & Client::TRACKED_BROKEN != 0),
        ('B', tracking & Client::TRACKED_BROADCAST != 0),
        ('x', client.queued.load(Relaxed) >= 0),
        ('b', client.blocked.load(Relaxed)),
        ('U', matches!(client.peer, Peer::Unix(_))),
        ('e', client.no_evict.load(Relaxed)),
        ('T', client.no_touch.load(Relaxed)),
    ];
    let set: String = all.iter().filter(|(_, is_set)| *is_set).map(|(letter, _)| *letter).collect();
    if set.is_empty() { "N".to_owned() } else { set }
}

/// Which connections to close: those that every filter that is given applies to.
struct KillFilter<'a> {
    id: Option<u64>,
    client_type: Option<ClientType>,
    user: Option<UserId>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    age_min_s: Option<i64>,
    skip_me: bool,
}

impl<'a> KillFilter<'a> {
    fn parse(server: &Server, options: Args<'a>) -> CmdResult<KillFilter<'a>> {
        let mut filter = KillFilter {
            id: None,
            client_type: None,
            user: None,
            address: None,
            local_address: None,
            age_min_s: None,
            skip_me: true,
        };
        let mut at = 0;
        while at < options.len() {
            let value = options.get(at + 1).ok_or(Fault::SYNTAX)?;
            filter.set(server, options.at(at), value)?;
            at += 2;
        }
        Ok(filter)
    }

    fn set(&mut self, server: &Server, option: &[u8], value: &'a [u8]) -> CmdResult {
        if is(option, "ID") {
            let id = parse_i64(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            self.id = Some(id.ok_or(Fault::Text("ERR client-id should be greater than 0"))?);
        } else if is(option, "TYPE") {
            self.client_type = Some(ClientType::parse(value)?);
        } else if is(option, "ADDR") {
            self.address = Some(value);
        } else if is(option, "LADDR") {
            self.local_address = Some(value);
        } else if is(option, "USER") {
            let user = server.acl.find(value);
            let user = user.ok_or_else(|| Fault::quoting("ERR No such user '", value, "'"))?;
            self.user = Some(user.id());
        } else if is(option, "MAXAGE") {
            let age_s =
                parse_i64(value).ok_or(Fault::Text("ERR maxage is not an integer or out of range"))?;
            if age_s <= 0 {
                return Err(Fault::Text("ERR maxage should be greater than 0"));
            }
            self.age_min_s = Some(age_s);
        } else if is(option, "SKIPME") && (is(value, "yes") || is(value, "no")) {
            self.skip_me = is(value, "yes");
        } else {
            return Err(Fault::SYNTAX);
        }
        Ok(())
    }

    fn applies_to(&self, server: &Server, client: &Client, me: u64, now_s: i64) -> bool {
        self.id.is_none_or(|id| client.id == id)
            && self.client_type.is_none_or(|wanted| ClientType::of(server, client) == wanted)
            && self.user.is_none_or(|id| client.user.load(Relaxed) == id)
            && self.address.is_none_or(|wanted| client.peer.address().as_bytes() == wanted)
            && self.local_address.is_none_or(|wanted| client.peer.local_address().as_bytes() == wanted)
            && self.age_min_s.is_none_or(|age_s| now_s - client.created_s >= age_s)
            && !(self.skip_me && client.id == me)
    }
}

/// CLIENT KILL ip:port | option value [option value ...]
pub(crate) fn kill(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, now_s) = (ctx.server(), ctx.now_ms() / 1000);
    let is_old_form = args.len() == 3;
    let filter = if is_old_form {
        KillFilter { skip_me: false, address: Some(&args[2]), ..KillFilter::parse(server, args.from(3))? }
    } else {
        KillFilter::parse(server, args.from(2))?
    };
    let me = ctx.session().client.id;
    let candidates = match filter.id {
        Some(id) => Vec::from_iter(server.clients.get(id).filter(|client| !client.kill.load(Relaxed))),
        None => alive(server),
    };
    let mut killed = 0;
    for client in candidates {
        if !filter.applies_to(server, &client, me, now_s) {
            continue;
        }
        killed += 1;
        if client.id == me {
            // Closed by its own worker, once it has its reply.
            ctx.session().close_after_reply = true;
        } else {
            server.host.kill(&client);
        }
        if is_old_form {
            break;
        }
    }
    match (is_old_form, killed) {
        (true, 0) => return Err(Fault::Text("ERR No such client")),
        (true, _) => reply.ok(),
        (false, killed) => reply.int(killed),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use crate::clients::{Client, Peer};
    use crate::testing::Harness;

    fn connect(harness: &Harness, port: u16) -> Arc<Client> {
        let local = SocketAddr::from(([127, 0, 0, 1], 6379));
        let peer = SocketAddr::from(([10, 0, 0, 1], port));
        let now_ms = harness.server.clock.now().unix_ms;
        harness.server.clients.open(Peer::tcp(peer, local), 0, now_ms)
    }

    #[test]
    fn lines_have_every_field_in_order() {
        let mut harness = Harness::new();
        harness.advance_ms(5000);
        harness.check("CLIENT SETNAME me", "+OK");
        let line = harness.run("CLIENT INFO");
        let keys: Vec<&str> = line.split_whitespace().filter_map(|field| field.split('=').next()).collect();
        assert_eq!(
            keys.join(" "),
            "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs rbp obl oll \
             omem tot-mem events cmd user redir resp lib-name lib-ver"
        );
        assert!(
            line.starts_with("id=1 addr=127.0.0.1:6379 laddr=127.0.0.1:6379 fd=-1 name=me age=5 "),
            "{line}"
        );
        assert!(line.contains(" cmd=client|info user=default redir=-1 resp=2 "), "{line}");
    }

    #[test]
    fn lists_select() {
        let mut harness = Harness::new();
        connect(&harness, 1);
        connect(&harness, 2);
        let ids = |listed: String| -> String {
            let ids = listed
                .lines()
                .filter_map(|line| line.strip_prefix("id=")?.split(' ').next().map(String::from));
            ids.collect::<Vec<_>>().join(",")
        };
        for (line, expected) in [
            ("CLIENT LIST", "1,2,3"),
            ("CLIENT LIST TYPE normal", "1,2,3"),
            ("CLIENT LIST TYPE pubsub", ""),
            ("CLIENT LIST ID 3 9 1 -4", "3,1"),
        ] {
            assert_eq!(ids(harness.run(line)), expected, "{line}");
        }
        for (line, expected) in [
            ("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'"),
            ("CLIENT LIST TYPE", "-ERR syntax error"),
            ("CLIENT LIST ID", "-ERR syntax error"),
            ("CLIENT LIST ID 1 x", "-ERR Invalid client ID"),
            ("CLIENT LIST TYPE normal ID 1", "-ERR syntax error"),
            ("CLIENT LIST FOO", "-ERR syntax error"),
        ] {
            harness.check(line, expected);
        }
    }

    #[test]
    fn many_are_listed_as_few_are() {
        let mut harness = Harness::new();
        let connections: Vec<_> = (0..1500).map(|port| connect(&harness, 1000 + port)).collect();
        assert_eq!(harness.run("CLIENT LIST").lines().count(), 1501);
        assert_eq!(harness.run("CLIENT LIST TYPE pubsub"), "");
        assert_eq!(harness.run("CLIENT LIST ID 7 8").lines().count(), 2);
        assert_eq!(connections.len(), 1500);
    }

    #[test]
    fn kills_select_and_happen_once() {
        let mut harness = Harness::new();
        let old = connect(&harness, 1);
        harness.advance_ms(10_000);
        let young: Vec<_> = (2..6).map(|port| connect(&harness, port)).collect();
        for (line, expected) in [
            ("CLIENT KILL 1.2.3.4:5", "-ERR No such client"),
            ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0"),
            ("CLIENT KILL ID x", "-ERR client-id should be greater than 0"),
            ("CLIENT KILL TYPE nosuch", "-ERR Unknown client type 'nosuch'"),
            ("CLIENT KILL TYPE replica", ":0"),
            ("CLIENT KILL USER nosuch", "-ERR No such user 'nosuch'"),
            ("CLIENT KILL SKIPME maybe", "-ERR syntax error"),
            ("CLIENT KILL FOO bar", "-ERR syntax error"),
            ("CLIENT KILL ID 1 ADDR", "-ERR syntax error"),
            ("CLIENT KILL MAXAGE 0", "-ERR maxage should be greater than 0"),
            ("CLIENT KILL MAXAGE x", "-ERR maxage is not an integer or out of range"),
            ("CLIENT KILL MAXAGE 11", ":0"),
            ("CLIENT KILL MAXAGE 10 ADDR 10.0.0.1:9", ":0"),
            ("CLIENT KILL MAXAGE 10", ":1"),
            ("CLIENT KILL MAXAGE 10", ":0"),
            ("CLIENT KILL 10.0.0.1:2", "+OK"),
            ("CLIENT KILL 10.0.0.1:2", "-ERR No such client"),
            ("CLIENT KILL ID 4", ":1"),
            ("CLIENT KILL ID 1", ":0"),
            ("CLIENT KILL LADDR 127.0.0.1:6379 TYPE normal USER default", ":2"),
        ] {
            harness.check(line, expected);
        }
        assert!(old.kill.load(Relaxed) && young.iter().all(|client| client.kill.load(Relaxed)));
        harness.check("CLIENT KILL ID 1 SKIPME no", ":1");
    }
}
