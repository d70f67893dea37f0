//! The cluster commands that tell of the cluster, and those with which clients say how they read.

use std::sync::Arc;

use base::slot::{SLOT_COUNT, slot_of};

use crate::args::{Args, int, is};
use crate::cluster_face::{Node, Picture, Replies, line};
use crate::compat::Compat;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

const DISABLED: Fault = Fault::Text("ERR This instance has cluster support disabled");

/// An error if this is no cluster.
pub(super) fn enabled(ctx: &Ctx<'_>) -> CmdResult {
    if ctx.server().cluster.enabled { Ok(()) } else { Err(DISABLED) }
}

/// The replies as this connection is given them, and what decides on their shape. The error says why the cluster is not known.
fn encoded(ctx: &Ctx<'_>) -> CmdResult<(Arc<Replies>, Compat)> {
    let server = ctx.server();
    server.cluster.replies(&server.config, &ctx.session_ref().client.peer)
}

/// CLUSTER SLOTS
pub fn slots(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let (replies, compat) = encoded(ctx)?;
    let (shape, proto) = (compat.shape(ctx.session_ref().introduced), reply.proto());
    let turn = ctx.session_ref().client.id;
    replies.slots(shape, proto, turn).into_iter().for_each(|part| reply.encoder().raw(part));
    Ok(())
}

/// CLUSTER SHARDS
pub fn shards(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let (replies, _) = encoded(ctx)?;
    let proto = reply.proto();
    let server = ctx.server();
    replies.shards(proto, &mut reply.encoder(), |node| server.offset_of_node(node));
    Ok(())
}

/// CLUSTER NODES
pub fn nodes(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let (replies, _) = encoded(ctx)?;
    let proto = reply.proto();
    reply.encoder().raw(replies.nodes(proto));
    Ok(())
}

/// CLUSTER INFO
pub fn info(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    reply.verbatim("txt", ctx.server().cluster.info(ctx.now().mono_us).as_bytes());
    Ok(())
}

/// CLUSTER MYID
pub fn myid(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    reply.text(&ctx.server().cluster.identity.node_id);
    Ok(())
}

/// CLUSTER MYSHARDID
pub fn myshardid(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let cluster = &ctx.server().cluster;
    cluster.check_known(&ctx.session_ref().client.peer)?;
    reply.text(&cluster.shard_id());
    Ok(())
}

/// CLUSTER LINKS: nodes tell each other nothing.
pub fn links(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    reply.empty_array();
    Ok(())
}

/// CLUSTER KEYSLOT key
pub fn keyslot(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    reply.int(slot_of(&args[2]).into());
    Ok(())
}

/// CLUSTER COUNTKEYSINSLOT slot
pub fn countkeysinslot(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let slot = slot_in_range(int(&args[2])?).ok_or(Fault::Text("ERR Invalid slot"))?;
    reply.int(ctx.server().visible_in_slot(slot) as i64);
    Ok(())
}

/// CLUSTER GETKEYSINSLOT slot count
pub fn getkeysinslot(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let slot = slot_in_range(int(&args[2])?);
    let count = usize::try_from(int(&args[3])?).ok();
    let invalid = Fault::Text("ERR Invalid slot or number of keys");
    let (slot, count) = slot.zip(count).ok_or(invalid)?;
    let count = if ctx.server().hides(slot) { 0 } else { count };
    let keys = ctx.server().keyspace.keys_in_slot(ctx.held(), 0, slot, count);
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn slot_in_range(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOT_COUNT)
}

/// CLUSTER REPLICAS node-id
pub fn replicas(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let (replies, _) = encoded(ctx)?;
    let picture = replies.picture();
    let node = known_node(picture, &args[2])?;
    if !node.is_primary {
        return Err(Fault::Text("ERR The specified node is not a master"));
    }
    let replicas: Vec<_> = node.shard.into_iter().flat_map(|shard| picture.replicas_of(shard)).collect();
    reply.array(replicas.len());
    replicas.into_iter().for_each(|node| reply.text(&line(picture, node)));
    Ok(())
}

/// CLUSTER COUNT-FAILURE-REPORTS node-id: nobody reports any; who is there, etcd says.
pub fn count_failure_reports(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let (replies, _) = encoded(ctx)?;
    known_node(replies.picture(), &args[2])?;
    reply.int(0);
    Ok(())
}

fn known_node<'p>(picture: &'p Picture, id: &[u8]) -> CmdResult<&'p Node> {
    let node = picture.nodes.iter().find(|node| node.id.as_bytes() == id);
    node.ok_or_else(|| Fault::quoting("ERR Unknown node ", id, ""))
}

/// CLUSTER SLOT-STATS <SLOTSRANGE start-slot end-slot | ORDERBY metric [LIMIT limit] [ASC | DESC]>
pub fn slot_stats(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    let (server, topology) = (ctx.server(), ctx.server().cluster.topology());
    let is_own = |slot: &u16| topology.is_none() || server.cluster.owns(*slot);
    let key_count = |slot: u16| (slot, server.visible_in_slot(slot) as u64);
    let stats: Vec<(u16, u64)> = match &args[2] {
        word if is(word, "SLOTSRANGE") && args.len() == 5 => {
            let invalid = Fault::Text("ERR Invalid or out of range slot");
            let slot = |at: usize| int(&args[at]).ok().and_then(slot_in_range).ok_or(invalid.clone());
            let (start, end) = (slot(3)?, slot(4)?);
            if start > end {
                let why = format!("ERR Start slot number {start} is greater than end slot number {end}");
                return Err(Fault::Owned(why));
            }
            (start..=end).filter(is_own).map(key_count).collect()
        }
        word if is(word, "ORDERBY") && args.len() >= 4 => {
            if !is(&args[3], "KEY-COUNT") {
                return Err(Fault::Text("ERR Unrecognized sort metric for ORDERBY."));
            }
            let (limit, descending) = order(args.from(4))?;
            let mut stats: Vec<(u16, u64)> = (0..SLOT_COUNT).filter(is_own).map(key_count).collect();
            // Stable: slots of the same count stay in ascending order.
            stats.sort_by(|a, b| if descending { b.1.cmp(&a.1) } else { a.1.cmp(&b.1) });
            stats.truncate(limit);
            stats
        }
        _ => return Err(Fault::wrong_subcommand("CLUSTER", &args[1])),
    };
    reply.array(stats.len());
    for (slot, keys) in stats {
        reply.array(2);
        reply.int(slot.into());
        reply.map(1);
        reply.bulk(b"key-count");
        reply.int(keys as i64);
    }
    Ok(())
}

/// `[LIMIT limit] [ASC | DESC]`: how many, and whether from the greatest on.
fn order(options: Args<'_>) -> CmdResult<(usize, bool)> {
    let (mut limit, mut descending) = (None, None);
    let mut rest = options;
    while let Some(word) = rest.get(0) {
        let repeated;
        if is(word, "LIMIT")
            && let Some(number) = rest.get(1)
        {
            let in_range = int(number).ok().filter(|limit| (1..=i64::from(SLOT_COUNT)).contains(limit));
            let out_of_range = "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
            repeated = limit.replace(in_range.ok_or(Fault::Text(out_of_range))? as usize).is_some();
            rest = rest.from(2);
        } else if is(word, "ASC") || is(word, "DESC") {
            repeated = descending.replace(is(word, "DESC")).is_some();
            rest = rest.from(1);
        } else {
            return Err(Fault::SYNTAX);
        }
        if repeated {
            return Err(Fault::Text("ERR you cannot provide multiple filters of the same type."));
        }
    }
    Ok((limit.unwrap_or(SLOT_COUNT.into()), descending.unwrap_or(true)))
}

/// CLUSTER HELP
pub fn help(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    super::command::help(ctx, args, reply)
}

/// READONLY
pub fn readonly(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    ctx.session().readonly = true;
    reply.ok();
    Ok(())
}

/// READWRITE
pub fn readwrite(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    ctx.session().readonly = false;
    reply.ok();
    Ok(())
}

/// ASKING
pub fn asking(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    enabled(ctx)?;
    ctx.session().asking = true;
    reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    fn cluster() -> Harness {
        Harness::with_config(&[("cluster-enabled", "yes")])
    }

    #[test]
    fn without_a_cluster_everything_is_refused() {
        let disabled = "-ERR This instance has cluster support disabled";
        for line in ["SLOTS", "SHARDS", "NODES", "INFO", "MYID", "MYSHARDID", "LINKS", "HELP", "KEYSLOT a"] {
            Harness::new().check(&format!("CLUSTER {line}"), disabled);
        }
        for line in ["READONLY", "READWRITE", "ASKING"] {
            Harness::new().check(line, disabled);
            cluster().check(line, "+OK");
        }
        Harness::new().check("CLUSTER nosuch", "-ERR unknown subcommand 'nosuch'. Try CLUSTER HELP.");
        Harness::new().check("CLUSTER", "-ERR wrong number of arguments for 'cluster' command");
    }

    #[test]
    fn one_node_answers_for_all() {
        let id = "0".repeat(40);
        let mut harness = cluster();
        for (line, expected) in [
            ("MYID", id.as_str()),
            ("MYSHARDID", &id),
            ("LINKS", "[]"),
            ("REPLICAS x", "-ERR Unknown node x"),
            ("COUNT-FAILURE-REPORTS x", "-ERR Unknown node x"),
            ("KEYSLOT foo", ":12182"),
            ("KEYSLOT {foo}bar", ":12182"),
            ("SLOTS x", "-ERR wrong number of arguments for 'cluster|slots' command"),
        ] {
            harness.check(&format!("CLUSTER {line}"), expected);
        }
        harness.check(&format!("CLUSTER REPLICAS {id}"), "[]");
        harness.check(&format!("CLUSTER SLAVES {id}"), "[]");
        harness.check(&format!("CLUSTER COUNT-FAILURE-REPORTS {id}"), ":0");
        assert!(harness.run("CLUSTER INFO").starts_with("cluster_state:ok\r\n"));
        assert!(harness.run("CLUSTER HELP").contains("+KEYSLOT <key> +    "));
    }

    #[test]
    fn keys_are_counted_by_slot() {
        let not_integer = "-ERR value is not an integer or out of range";
        let mut harness = cluster();
        for line in ["SET {foo}1 v", "SET {foo}2 v", "SET bar v"] {
            harness.check(line, "+OK");
        }
        for (line, expected) in [
            ("COUNTKEYSINSLOT 12182", ":2"),
            ("COUNTKEYSINSLOT 1", ":0"),
            ("COUNTKEYSINSLOT 16384", "-ERR Invalid slot"),
            ("COUNTKEYSINSLOT -1", "-ERR Invalid slot"),
            ("COUNTKEYSINSLOT x", not_integer),
            ("GETKEYSINSLOT 5061 9", "[bar]"),
            ("GETKEYSINSLOT 12182 0", "[]"),
            ("GETKEYSINSLOT 12182 -1", "-ERR Invalid slot or number of keys"),
            ("GETKEYSINSLOT 16384 1", "-ERR Invalid slot or number of keys"),
            ("GETKEYSINSLOT 1 x", not_integer),
            ("SLOT-STATS SLOTSRANGE 5060 5061", "[[:5060 [key-count :0]] [:5061 [key-count :1]]]"),
            ("SLOT-STATS ORDERBY key-count LIMIT 3", {
                "[[:12182 [key-count :2]] [:5061 [key-count :1]] [:0 [key-count :0]]]"
            }),
            ("SLOT-STATS ORDERBY KEY-COUNT ASC LIMIT 1", "[[:0 [key-count :0]]]"),
            ("SLOT-STATS SLOTSRANGE 2 1", "-ERR Start slot number 2 is greater than end slot number 1"),
            ("SLOT-STATS SLOTSRANGE 0 16384", "-ERR Invalid or out of range slot"),
            ("SLOT-STATS ORDERBY cpu-usec", "-ERR Unrecognized sort metric for ORDERBY."),
            ("SLOT-STATS ORDERBY key-count LIMIT", "-ERR syntax error"),
            ("SLOT-STATS ORDERBY key-count LIMIT 0", {
                "-ERR Limit has to lie in between 1 and 16384 (maximum number of slots)."
            }),
            ("SLOT-STATS ORDERBY key-count ASC DESC", {
                "-ERR you cannot provide multiple filters of the same type."
            }),
            ("SLOT-STATS SLOTSRANGE 1", {
                "-ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP."
            }),
        ] {
            harness.check(&format!("CLUSTER {line}"), expected);
        }
        let mut both: Vec<String> =
            harness.run("CLUSTER GETKEYSINSLOT 12182 9").split([' ', '[', ']']).map(str::to_owned).collect();
        both.sort();
        assert_eq!(both, ["", "", "{foo}1", "{foo}2"]);
        let mut harness = cluster().resp3();
        harness.check("CLUSTER SLOT-STATS SLOTSRANGE 0 0", "[[:0 %{key-count=:0}]]");
    }

    #[test]
    fn keys_of_one_command_share_a_slot() {
        let cross = "-CROSSSLOT Keys in request don't hash to the same slot";
        for (line, expected) in [
            ("MSET a 1 b 2", cross),
            ("MSET {t}a 1 {t}b 2", "+OK"),
            ("SINTERCARD 2 a b", cross),
            ("SINTERCARD 2 {t}a {t}b", ":0"),
            ("SINTERSTORE d a a", cross),
            ("RENAME a b", cross),
            ("LMOVE a b LEFT LEFT", cross),
            ("COPY {t}a b", cross),
            ("MOVE a 1", "-ERR MOVE is not allowed in cluster mode"),
            ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode"),
            ("COPY {t}a {t}b DB 1", "-ERR Copying to another database is not allowed in cluster mode"),
        ] {
            let mut harness = cluster();
            harness.check(line, expected);
        }
    }
}
