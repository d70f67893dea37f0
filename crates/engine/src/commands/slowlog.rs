//! SLOWLOG: the commands that took long.

use base::num::parse_i64;

use crate::args::Args;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

const DEFAULT_COUNT: usize = 10;

const HELP: &[&str] = &[
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Tell the newest <count> entries (default: 10, -1 for all). An entry is made of:",
    "    its number, its unix time, microseconds it took, its arguments, the client's",
    "    address, the client's name",
    "LEN",
    "    Count the entries.",
    "RESET",
    "    Forget all entries.",
    "HELP",
    "    Print this text.",
];

pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

pub(crate) fn get(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let count = match args.get(2) {
        _ if args.len() > 3 => return Err(Fault::wrong_subcommand("SLOWLOG", &args[1])),
        None => Some(DEFAULT_COUNT),
        Some(count) => match parse_i64(count) {
            Some(-1) => None,
            Some(count @ 0..) => Some(count as usize),
            _ => return Err(Fault::Text("ERR count should be greater than or equal to -1")),
        },
    };
    let entries = ctx.server().slowlog.newest(count);
    reply.array(entries.len());
    for entry in &entries {
        reply.array(6);
        reply.int(entry.id as i64);
        reply.int(entry.at_s);
        reply.int(entry.duration_us as i64);
        reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| reply.bulk(arg));
        reply.text(&entry.address);
        reply.bulk(&entry.name);
    }
    Ok(())
}

pub(crate) fn len(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.server().slowlog.len() as i64);
    Ok(())
}

pub(crate) fn reset(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    ctx.server().slowlog.clear();
    reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn entries_show_no_secrets() {
        let mut harness = Harness::with_config(&[("slowlog-log-slower-than", "0"), ("slowlog-max-len", "4")]);
        for line in [
            "GET k",
            "CONFIG SET timeout 0 requirepass secret tls-key-file-pass secret",
            "AUTH secret",
            "HELLO 2 SETNAME AUTH AUTH default secret",
            "CLIENT SETNAME me",
        ] {
            harness.run(line);
        }
        let shown = harness.run("SLOWLOG GET");
        assert!(!shown.contains("secret"), "{shown}");
        let at = "1704067200";
        let from = "127.0.0.1:6379";
        assert_eq!(
            shown,
            format!(
                "[[:4 :{at} :0 [CLIENT SETNAME me] {from} me] \
                 [:3 :{at} :0 [HELLO 2 SETNAME AUTH AUTH (redacted) (redacted)] {from} AUTH] \
                 [:2 :{at} :0 [AUTH (redacted)] {from} ] \
                 [:1 :{at} :0 [CONFIG SET timeout 0 requirepass (redacted) tls-key-file-pass (redacted)] {from} ]]"
            )
        );
    }

    #[test]
    fn what_the_long_lane_runs_is_counted_once() {
        let settings = [("slowlog-log-slower-than", "0"), ("enable-debug-command", "yes")];
        let mut harness = Harness::with_config(&settings);
        harness.check("DEBUG SLEEP 0", "+OK");
        harness.check("CONFIG REWRITE", "-ERR The server is running without a config file");
        let shown = harness.run("SLOWLOG GET");
        assert_eq!(shown.matches("[DEBUG SLEEP 0]").count(), 1, "{shown}");
        let info = harness.run("INFO commandstats");
        for line in [
            "cmdstat_debug:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0",
            "cmdstat_config|rewrite:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1",
        ] {
            assert!(info.lines().any(|found| found == line), "{line} in {info}");
        }
    }

    #[test]
    fn entries_are_counted_and_forgotten() {
        let mut harness = Harness::with_config(&[("slowlog-log-slower-than", "0")]);
        for (line, expected) in [
            ("SLOWLOG GET x", "-ERR count should be greater than or equal to -1"),
            ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"),
            (
                "SLOWLOG GET 1 2",
                "-ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.",
            ),
            ("SLOWLOG LEN", ":3"),
            ("SLOWLOG GET 0", "[]"),
            ("SLOWLOG RESET", "+OK"),
            ("SLOWLOG LEN", ":1"),
        ] {
            harness.check(line, expected);
        }
    }
}
