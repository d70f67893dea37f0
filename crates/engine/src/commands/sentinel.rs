//! SENTINEL, for clients that find their primary through Redis Sentinel. Any node answers, on `sentinel-port`, from the topology:
//! each shard that owns slots is a primary by the name of `sentinel-master-name`, with its shard's id behind that where there
//! are several.

use std::net::SocketAddr;

use parking_lot::Mutex;

use crate::args::Args;
use crate::clients::Peer;
use crate::cluster_face::{Node, Picture};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::pubsub::{Space, publish};
use crate::reply::Reply;
use crate::server::Server;
use crate::session::Session;

/// Digits of a shard's id that tell apart the primaries of several.
const SHARD_DIGITS: usize = 8;

/// What is told of how long a node may be silent: nodes are there as long as their leases.
const DOWN_AFTER_MS: u64 = cluster::agent::LEASE_S * 1000;

const UNKNOWN: Fault = Fault::Text("ERR No such master with that name");

const HELP: &[&str] = &[
    "SENTINEL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CKQUORUM <master-name>",
    "    Tell whether enough nodes are there to agree on another primary.",
    "GET-MASTER-ADDR-BY-NAME <master-name>",
    "    Tell the address and port of the primary with that name.",
    "IS-MASTER-DOWN-BY-ADDR <ip> <port> <current-epoch> <runid>",
    "    Tell whether the primary at this address is gone.",
    "MASTER <master-name>",
    "    Tell of the primary with that name.",
    "MASTERS",
    "    Tell of all primaries.",
    "MYID",
    "    Print the id of this node.",
    "REPLICAS <master-name>",
    "    Tell of the replicas of the primary with that name.",
    "SENTINELS <master-name>",
    "    Tell of the other nodes, each of which answers as this one does.",
    "HELP",
    "    Print this text.",
];

/// True if this is SENTINEL, on a connection that may run it.
#[cold]
pub(crate) fn is_asked(server: &Server, session: &Session, args: Args<'_>) -> bool {
    args[0].eq_ignore_ascii_case(b"sentinel") && came_to_port(server, session)
}

/// True if the connection came to `sentinel-port`.
pub(crate) fn came_to_port(server: &Server, session: &Session) -> bool {
    let port = server.config.int("sentinel-port");
    match session.client.peer {
        Peer::Tcp { local, .. } if port != 0 && server.cluster.enabled => {
            i64::from(SocketAddr::from(local).port()) == port
        }
        _ => false,
    }
}

/// The primaries, each with its name and its shard.
struct Primaries {
    picture: Picture,
    names: Vec<(String, usize)>,
}

impl Primaries {
    fn of(server: &Server) -> Primaries {
        let picture = server.cluster.picture(&server.config);
        let owning = (0..picture.shards.len()).filter(|shard| !picture.shards[*shard].slots.is_empty());
        let owning: Vec<usize> = owning.filter(|shard| picture.primary_of(*shard).is_some()).collect();
        let name = server.config.string("sentinel-master-name");
        let named = |shard: usize| match owning.len() {
            1 => (name.clone(), shard),
            _ => (format!("{name}-{}", &picture.shards[shard].id[..SHARD_DIGITS]), shard),
        };
        Primaries { names: owning.iter().copied().map(named).collect(), picture }
    }

    fn shard(&self, name: &[u8]) -> CmdResult<usize> {
        let found = self.names.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, shard)| *shard).ok_or(UNKNOWN)
    }

    fn primary(&self, shard: usize) -> &Node {
        self.picture.primary_of(shard).expect("named-primary: it is known")
    }

    /// Where a node is reached.
    fn address(&self, node: &Node) -> (String, u16) {
        let port = if node.port == 0 { node.tls_port } else { node.port };
        (node.legacy_endpoint(self.picture.endpoint).to_owned(), port)
    }

    fn others(&self) -> impl Iterator<Item = &Node> {
        self.picture.nodes.iter().filter(|node| !node.is_myself)
    }

    fn live_count(&self) -> usize {
        self.picture.nodes.iter().filter(|node| is_there(node)).count()
    }

    fn majority(&self) -> usize {
        self.picture.nodes.len() / 2 + 1
    }

    /// The addresses of all primaries, by name.
    fn addresses(&self) -> Addresses {
        let with_address =
            |(name, shard): &(String, usize)| (name.clone(), self.address(self.primary(*shard)));
        self.names.iter().map(with_address).collect()
    }
}

fn is_there(node: &Node) -> bool {
    node.is_live || node.is_myself
}

/// What all kinds of nodes are told of with, in Redis's order.
fn common(
    name: &str,
    address: &(String, u16),
    node: &Node,
    kind: &'static str,
) -> Vec<(&'static str, String)> {
    let flags = match (is_there(node), kind) {
        (true, _) => kind.to_owned(),
        (false, "master") => "s_down,o_down,master,disconnected".to_owned(),
        (false, _) => format!("s_down,{kind},disconnected"),
    };
    let zero = || "0".to_owned();
    let mut fields = vec![
        ("name", name.to_owned()),
        ("ip", address.0.clone()),
        ("port", address.1.to_string()),
        ("runid", node.id.clone()),
        ("flags", flags),
        ("link-pending-commands", zero()),
        ("link-refcount", "1".to_owned()),
        ("last-ping-sent", zero()),
        ("last-ok-ping-reply", zero()),
        ("last-ping-reply", zero()),
    ];
    if !is_there(node) {
        fields.push(("s-down-time", DOWN_AFTER_MS.to_string()));
        if kind == "master" {
            fields.push(("o-down-time", DOWN_AFTER_MS.to_string()));
        }
    }
    fields.push(("down-after-milliseconds", DOWN_AFTER_MS.to_string()));
    if kind != "sentinel" {
        fields.extend([
            ("info-refresh", zero()),
            ("role-reported", kind.to_owned()),
            ("role-reported-time", zero()),
        ]);
    }
    fields
}

fn primary_fields(all: &Primaries, name: &str, shard: usize) -> Vec<(&'static str, String)> {
    let node = all.primary(shard);
    let mut fields = common(name, &all.address(node), node, "master");
    fields.extend([
        ("config-epoch", all.picture.shards[shard].epoch.to_string()),
        ("num-slaves", all.picture.replicas_of(shard).count().to_string()),
        ("num-other-sentinels", all.others().count().to_string()),
        ("quorum", all.majority().to_string()),
        ("failover-timeout", "180000".to_owned()),
        ("parallel-syncs", "1".to_owned()),
    ]);
    fields
}

fn replica_fields(all: &Primaries, shard: usize, node: &Node) -> Vec<(&'static str, String)> {
    let (address, primary) = (all.address(node), all.address(all.primary(shard)));
    let mut fields = common(&format!("{}:{}", address.0, address.1), &address, node, "slave");
    fields.extend([
        ("master-link-down-time", "0".to_owned()),
        ("master-link-status", if is_there(node) { "ok" } else { "err" }.to_owned()),
        ("master-host", primary.0),
        ("master-port", primary.1.to_string()),
        ("slave-priority", "100".to_owned()),
        ("slave-repl-offset", "0".to_owned()),
        ("replica-announced", "1".to_owned()),
    ]);
    fields
}

fn write(reply: &mut Reply<'_>, fields: &[(&'static str, String)]) {
    reply.map(fields.len());
    for (name, value) in fields {
        reply.text(name);
        reply.text(value);
    }
}

/// SENTINEL MASTERS
pub(crate) fn masters(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let all = Primaries::of(ctx.server());
    reply.array(all.names.len());
    all.names.iter().for_each(|(name, shard)| write(reply, &primary_fields(&all, name, *shard)));
    Ok(())
}

/// SENTINEL MASTER name
pub(crate) fn master(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let all = Primaries::of(ctx.server());
    let shard = all.shard(&args[2])?;
    write(reply, &primary_fields(&all, &String::from_utf8_lossy(&args[2]), shard));
    Ok(())
}

/// SENTINEL REPLICAS name
pub(crate) fn replicas(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let all = Primaries::of(ctx.server());
    let shard = all.shard(&args[2])?;
    reply.array(all.picture.replicas_of(shard).count());
    all.picture.replicas_of(shard).for_each(|node| write(reply, &replica_fields(&all, shard, node)));
    Ok(())
}

/// SENTINEL SENTINELS name: every node has the same `sentinel-port`.
pub(crate) fn sentinels(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let all = Primaries::of(ctx.server());
    all.shard(&args[2])?;
    let port = ctx.server().config.int("sentinel-port") as u16;
    reply.array(all.others().count());
    for node in all.others() {
        let mut fields = common(&node.id, &(all.address(node).0, port), node, "sentinel");
        fields.extend([
            ("last-hello-message", "0".to_owned()),
            ("voted-leader", "?".to_owned()),
            ("voted-leader-epoch", "0".to_owned()),
        ]);
        write(reply, &fields);
    }
    Ok(())
}

/// SENTINEL GET-MASTER-ADDR-BY-NAME name
pub(crate) fn get_master_addr_by_name(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let all = Primaries::of(ctx.server());
    let Ok(shard) = all.shard(&args[2]) else {
        reply.null_array();
        return Ok(());
    };
    let (host, port) = all.address(all.primary(shard));
    reply.array(2);
    reply.text(&host);
    reply.text(&port.to_string());
    Ok(())
}

/// SENTINEL IS-MASTER-DOWN-BY-ADDR ip port current-epoch runid
pub(crate) fn is_master_down_by_addr(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let port = crate::args::int(&args[3])?;
    crate::args::int(&args[4])?;
    let all = Primaries::of(ctx.server());
    let is_meant = |node: &&Node| {
        let (host, known) = all.address(node);
        host.as_bytes() == &args[2] && i64::from(known) == port
    };
    let mut primaries = all.names.iter().map(|(_, shard)| all.primary(*shard));
    let is_down = primaries.find(is_meant).is_some_and(|node| !is_there(node));
    reply.array(3);
    reply.int(i64::from(is_down));
    reply.text("*");
    reply.int(0);
    Ok(())
}

/// SENTINEL CKQUORUM name
pub(crate) fn ckquorum(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let all = Primaries::of(ctx.server());
    all.shard(&args[2])?;
    let usable = all.live_count();
    if usable < all.majority() {
        return Err(Fault::Owned(format!(
            "NOQUORUM {usable} usable Sentinels. Not enough available Sentinels to reach the specified quorum for this \
             master. Not enough available Sentinels to reach the majority and authorize a failover"
        )));
    }
    reply.simple(&format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached"));
    Ok(())
}

/// SENTINEL MYID
pub(crate) fn myid(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.text(&ctx.server().cluster.identity.node_id);
    Ok(())
}

/// SENTINEL HELP
pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

/// What ROLE answers on `sentinel-port`.
pub(crate) fn role(server: &Server, reply: &mut Reply<'_>) {
    let all = Primaries::of(server);
    reply.array(2);
    reply.text("sentinel");
    reply.array(all.names.len());
    all.names.iter().for_each(|(name, _)| reply.text(name));
}

/// The section that INFO has on `sentinel-port`.
pub(crate) fn info(server: &Server) -> String {
    let all = Primaries::of(server);
    let mut text = format!(
        "# Sentinel\r\nsentinel_masters:{}\r\nsentinel_tilt:0\r\nsentinel_tilt_since_seconds:-1\r\n\
         sentinel_running_scripts:0\r\nsentinel_scripts_queue_length:0\r\nsentinel_simulate_failure_flags:0\r\n",
        all.names.len()
    );
    for (at, (name, shard)) in all.names.iter().enumerate() {
        let node = all.primary(*shard);
        let ((host, port), state) = (all.address(node), if is_there(node) { "ok" } else { "odown" });
        let (replicas, nodes) = (all.picture.replicas_of(*shard).count(), all.picture.nodes.len());
        text.push_str(&format!(
            "master{at}:name={name},status={state},address={host}:{port},slaves={replicas},sentinels={nodes}\r\n"
        ));
    }
    text
}

/// Who was the primary of each name when subscribers were last told.
#[derive(Default)]
pub(crate) struct Told(Mutex<Option<Addresses>>);

/// Host and port of primaries, by name.
type Addresses = Vec<(String, (String, u16))>;

/// Tells subscribers of `+switch-master` of primaries that have changed.
pub(crate) fn tell_switches(server: &Server) {
    if server.config.int("sentinel-port") == 0 {
        return;
    }
    let now = Primaries::of(server).addresses();
    let before = server.cluster.told.0.lock().replace(now.clone()).unwrap_or_default();
    for (name, (host, port)) in now {
        let old = before.iter().find(|(known, _)| *known == name).map(|(_, address)| address);
        if let Some((old_host, old_port)) = old
            && (old_host, *old_port) != (&host, port)
        {
            let message = format!("{name} {old_host} {old_port} {host} {port}");
            publish(server, None, Space::Channel, b"+switch-master", message.as_bytes());
        }
    }
}
