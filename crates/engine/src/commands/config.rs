//! CONFIG: reading and changing directives at run time.

use crate::args::{Args, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::pubsub::EventMask;
use crate::reply::Reply;
use crate::server::Server;

const HELP: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern> [<pattern> ...]",
    "    Tell the directives whose names match a glob, and their values.",
    "SET <directive> <value> [<directive> <value> ...]",
    "    Change directives, all of them or none.",
    "RESETSTAT",
    "    Set the statistics that INFO shows to zero.",
    "REWRITE",
    "    Write the configuration in force to the file it was read from.",
    "HELP",
    "    Print this text.",
];

pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

pub(crate) fn get(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let patterns: Vec<&[u8]> = args.from(2).iter().collect();
    let found = ctx.server().config.get(&patterns);
    reply.map(found.len());
    for (name, value) in &found {
        reply.text(name);
        reply.bulk(value);
    }
    Ok(())
}

pub(crate) fn set(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let words: Vec<&[u8]> = args.from(2).iter().collect();
    if !words.len().is_multiple_of(2) {
        return Err(Fault::SYNTAX);
    }
    let is_local = ctx.session().client.peer.is_local();
    if !words.iter().step_by(2).any(|name| is(name, "appendonly")) {
        set_all(ctx.server(), &words, is_local)?;
    } else if ctx.is_nested() {
        // Stripes are held, which beginning files needs.
        set_all(ctx.server(), &words, is_local)?;
        ctx.server().host.follow_appendonly();
    } else {
        let words: Vec<Vec<u8>> = words.into_iter().map(<[u8]>::to_vec).collect();
        ctx.defer_script(move |lane| {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            set_all(lane.server(), &words, is_local)?;
            follow_appendonly(lane.server())?;
            lane.reply().ok();
            Ok(())
        });
        return Ok(());
    }
    reply.ok();
    Ok(())
}

fn set_all(server: &Server, words: &[&[u8]], is_local: bool) -> CmdResult {
    let (pairs, _) = words.as_chunks::<2>();
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    let version = server.config.version();
    server.config.set_from(&pairs, is_local)?;
    server.keyspace.report_created(server.config.hot().event_mask().contains(EventMask::NEW));
    server.gates.follow(&server.config, &server.log);
    server.cluster.follow(&server.config);
    if server.config.changed_since(version).1.contains(&"requirepass") {
        server.acl.follow_requirepass();
    }
    Ok(())
}

/// Begins or ends the append-only files. What cannot be begun stays off.
fn follow_appendonly(server: &Server) -> CmdResult {
    server.follow_appendonly().map_err(|reason| {
        server.host.log(&format!("The append-only files cannot be begun: {reason}"));
        server.config.override_value("appendonly", b"no").expect("appendonly can be no");
        server.config.override_value("durability", b"auto").expect("durability can be auto");
        server.gates.follow(&server.config, &server.log);
        Fault::Text(
            "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs.",
        )
    })
}

pub(crate) fn resetstat(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.server().reset_stats();
    reply.ok();
    Ok(())
}

/// CONFIG REWRITE: waits for the disk, so it does not run on a worker.
pub(crate) fn rewrite(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    ctx.defer(|lane| {
        let server = lane.server();
        server.config.rewrite(&server.acl.config_lines()).map_err(Fault::Owned)?;
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn directives_are_read_and_changed() {
        let mut harness = Harness::new();
        for (line, expected) in [
            ("CONFIG", "-ERR wrong number of arguments for 'config' command"),
            ("CONFIG FOO", "-ERR unknown subcommand 'FOO'. Try CONFIG HELP."),
            ("CONFIG GET nosuch", "[]"),
            ("CONFIG GET maxmemory-p* timeout", "[maxmemory-policy noeviction timeout 0]"),
            ("CONFIG SET timeout", "-ERR wrong number of arguments for 'config|set' command"),
            ("CONFIG SET timeout 5 maxmemory", "-ERR syntax error"),
            (
                "CONFIG SET timeout 5 nosuch 1",
                "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'",
            ),
            ("CONFIG GET timeout", "[timeout 0]"),
            ("CONFIG SET timeout 5 maxmemory 1gb", "+OK"),
            ("CONFIG GET timeout maxmemory", "[timeout 5 maxmemory 1073741824]"),
            (
                "CONFIG SET timeout 5 appendonly yes",
                "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server logs.",
            ),
            (
                "CONFIG SET appendonly maybe",
                "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - argument must be 'yes' or 'no'",
            ),
            ("CONFIG GET appendonly", "[appendonly no]"),
            ("CONFIG REWRITE", "-ERR The server is running without a config file"),
        ] {
            harness.check(line, expected);
        }
        let mut harness = harness.resp3();
        harness.check("CONFIG GET timeout", "%{timeout=5}");
    }

    #[test]
    fn statistics_are_reset() {
        let mut harness = Harness::new();
        harness.run("GET k");
        assert!(harness.run("INFO commandstats").contains("cmdstat_get:calls=1,"));
        assert!(harness.run("INFO stats").contains("keyspace_misses:1\r\n"));
        harness.check("CONFIG RESETSTAT", "+OK");
        assert!(!harness.run("INFO commandstats").contains("cmdstat_get"));
        assert!(harness.run("INFO stats").contains("keyspace_misses:0\r\n"));
    }
}
