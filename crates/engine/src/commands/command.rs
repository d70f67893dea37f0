//! COMMAND: the server tells of its commands.

use resp::{Encoder, Proto};

use super::command_shape as shape;
use crate::args::{Args, is};
use crate::compat::{Compat, Shape};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::table::{
    CATEGORY_WORDS, Categories, CommandInfo, ENCODED_REPLIES, Flags, KeyAccess, Registry, syntax,
};

/// Where the registry keeps a reply about all commands.
fn encoded_index(kind: usize, proto: Proto) -> usize {
    const KINDS: usize = 3;
    const _: () = assert!(KINDS * 2 == ENCODED_REPLIES, "encoded-replies: one for each kind and version");
    kind * 2 + usize::from(proto == Proto::V3)
}

/// Entries of all commands, in the shape that the connection can read.
fn entries(registry: &Registry, reply: &mut Reply<'_>, shape: Shape) {
    let proto = reply.proto();
    let index = encoded_index(usize::from(shape == Shape::Legacy), proto);
    let bytes = registry.encoded_once(index, || {
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes, proto);
        out.array(registry.top_level().count());
        registry.top_level().for_each(|info| shape::entry(&mut out, registry, info, shape));
        bytes
    });
    reply.encoder().raw(bytes);
}

/// Documentation of all commands.
fn all_docs(registry: &Registry, reply: &mut Reply<'_>) {
    let proto = reply.proto();
    let bytes = registry.encoded_once(encoded_index(2, proto), || {
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes, proto);
        out.map(registry.top_level().count());
        registry.top_level().for_each(|info| shape::docs(&mut out, registry, info));
        bytes
    });
    reply.encoder().raw(bytes);
}

/// COMMAND
pub fn command(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let compat = Compat::of(&ctx.server().config);
    let shape = compat.shape(ctx.session_ref().introduced);
    entries(ctx.server().registry, reply, shape);
    Ok(())
}

/// COMMAND COUNT
pub fn count(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.int(ctx.server().registry.top_level().count() as i64);
    Ok(())
}

/// COMMAND INFO [command-name ...]: who asks this way knows today's shape.
pub fn info(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let names = args.from(2);
    let registry = ctx.server().registry;
    if names.is_empty() {
        entries(registry, reply, Shape::Modern);
        return Ok(());
    }
    reply.array(names.len());
    for name in names {
        match registry.find_full(name) {
            Some(info) => shape::entry(&mut reply.encoder(), registry, info, Shape::Modern),
            None => reply.null(),
        }
    }
    Ok(())
}

/// COMMAND DOCS [command-name ...]
pub fn docs(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let names = args.from(2);
    let registry = ctx.server().registry;
    if names.is_empty() {
        all_docs(registry, reply);
        return Ok(());
    }
    let found: Vec<&CommandInfo> = names.iter().filter_map(|name| registry.find_full(name)).collect();
    reply.map(found.len());
    found.iter().for_each(|info| shape::docs(&mut reply.encoder(), registry, info));
    Ok(())
}

/// COMMAND LIST [FILTERBY <MODULE name | ACLCAT category | PATTERN pattern>]
pub fn list(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let matches: Box<dyn Fn(&CommandInfo) -> bool> = match args.len() {
        2 => Box::new(|_| true),
        5 if is(&args[2], "FILTERBY") => {
            let wanted = &args[4];
            match &args[3] {
                // There are no modules, so none has a command.
                word if is(word, "MODULE") => Box::new(|_| false),
                word if is(word, "ACLCAT") => {
                    let named = CATEGORY_WORDS.iter().find(|(_, word)| is(wanted, word));
                    let category = named.map_or(Categories::empty(), |(category, _)| *category);
                    Box::new(move |info| info.spec.all_categories().intersects(category))
                }
                word if is(word, "PATTERN") => {
                    Box::new(|info| base::glob::matches(wanted, info.full_name.as_bytes(), true))
                }
                _ => return Err(Fault::SYNTAX),
            }
        }
        _ => return Err(Fault::SYNTAX),
    };
    let found: Vec<&CommandInfo> = ctx.server().registry.callable().filter(|info| matches(info)).collect();
    reply.array(found.len());
    found.iter().for_each(|info| reply.text(&info.full_name));
    Ok(())
}

/// COMMAND GETKEYS command [arg ...]
pub fn getkeys(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let args = args.from(2);
    let keys = keys_of(ctx, args)?;
    reply.array(keys.len());
    keys.iter().for_each(|(index, _)| reply.bulk(&args[*index]));
    Ok(())
}

/// COMMAND GETKEYSANDFLAGS command [arg ...]
pub fn getkeysandflags(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let args = args.from(2);
    let keys = keys_of(ctx, args)?;
    reply.array(keys.len());
    for (index, access) in keys {
        reply.array(2);
        reply.bulk(&args[index]);
        shape::access(&mut reply.encoder(), access);
    }
    Ok(())
}

/// The keys in a command's arguments: their places, and what is done to them.
fn keys_of(ctx: &Ctx<'_>, args: Args<'_>) -> CmdResult<Vec<(usize, KeyAccess)>> {
    let registry = ctx.server().registry;
    let invalid = Fault::Text("ERR Invalid command specified");
    let mut info = registry.find(&args[0]).ok_or(invalid.clone())?;
    if let Some(word) = args.get(1)
        && !info.subcommands.is_empty()
    {
        info = registry.find_sub(info, word).ok_or(invalid)?;
    }
    if !info.has_keys() {
        return Err(Fault::Text("ERR The command has no key arguments"));
    }
    if !info.arity_fits(args.len()) {
        return Err(Fault::Text("ERR Invalid number of arguments specified for command"));
    }
    let mut keys = Vec::new();
    let found = info.each_key(args, &mut |index, access| keys.push((index, access)));
    if found.is_ok() && !keys.is_empty() {
        return Ok(keys);
    }
    if info.spec.flags.contains(Flags::NO_MANDATORY_KEYS) {
        return Ok(Vec::new());
    }
    Err(Fault::Text("ERR Invalid arguments specified for command"))
}

/// HELP of any container: its subcommands, as their rows describe them.
pub fn help(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let registry = ctx.server().registry;
    let info = registry.find(&args[0]).expect("table-help: HELP runs as a subcommand");
    let mut lines = vec![format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        info.spec.name.to_uppercase()
    )];
    if info.runs_alone() {
        lines.push("(no subcommand)".to_owned());
        lines.push(format!("    {}", info.spec.summary));
    }
    let mut subs: Vec<_> = info.subcommands.iter().map(|id| registry.get(*id).spec).collect();
    subs.sort_by_key(|sub| (sub.name == "help", sub.name));
    for sub in subs {
        let syntax = syntax::for_people(sub.syntax);
        let gap = if syntax.is_empty() { "" } else { " " };
        lines.push(format!("{}{gap}{syntax}", sub.name.to_uppercase()));
        lines.push(format!("    {}", sub.summary));
    }
    reply.status_lines(&lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::table::registry;
    use crate::testing::Harness;

    fn modern() -> Harness {
        Harness::with_config(&[("client-compat", "modern")])
    }

    #[test]
    fn entries_have_ten_elements() {
        let mut harness = modern();
        harness.check(
            "COMMAND INFO get nosuch config|nosuch",
            "[[get :2 [+readonly +fast] :1 :1 :1 [+@read +@string +@fast] [] [[flags [+RO +access] begin_search \
             [type index spec [index :1]] find_keys [type range spec [lastkey :0 keystep :1 limit :0]]]] []] (nil) \
             (nil)]",
        );
        harness.check(
            "COMMAND INFO Cluster|KeySlot",
            "[[cluster|keyslot :3 [+stale] :0 :0 :0 [+@slow] [] [] []]]",
        );
        let mut harness = modern().resp3();
        harness.check(
            "COMMAND INFO get",
            "[[get :2 ~[+readonly +fast] :1 :1 :1 ~[+@read +@string +@fast] ~[] ~[%{flags=~[+RO +access] \
             begin_search=%{type=index spec=%{index=:1}} find_keys=%{type=range spec=%{lastkey=:0 keystep=:1 \
             limit=:0}}}] ~[]]]",
        );
        let whole = harness.run_raw("COMMAND");
        assert_eq!(whole, harness.run_raw("COMMAND INFO"));
        assert!(whole.starts_with(format!("*{}\r\n", registry().top_level().count()).as_bytes()));
        harness.check("COMMAND COUNT", &format!(":{}", registry().top_level().count()));
    }

    #[test]
    fn who_did_not_introduce_itself_gets_six() {
        let mut harness = Harness::new();
        let whole = harness.run("COMMAND");
        for expected in [
            "[get :2 [+readonly +fast] :1 :1 :1] ",
            "[object :-2 [+readonly] :2 :2 :1]",
            "[cluster :-2 [+admin +stale] :0 :0 :0]",
        ] {
            assert!(whole.contains(expected), "{expected} in {whole}");
        }
        assert!(!whole.contains('@'), "no categories");
        assert!(harness.run("COMMAND INFO object").contains("object|freq"), "asked for, it is complete");
    }

    #[test]
    fn docs_tell_of_arguments() {
        let mut harness = modern();
        harness.check("COMMAND DOCS nosuch", "[]");
        let shown = harness.run("COMMAND DOCS GET nosuch");
        assert!(shown.starts_with("[get [summary "), "{shown}");
        assert!(
            shown.ends_with(
                "since 1.0.0 group string complexity O(1) arguments [[name key type key key_spec_index :0]]]]"
            ),
            "{shown}"
        );
        let shown = modern().resp3().run("COMMAND DOCS cluster|slots set");
        assert!(shown.starts_with("%{cluster|slots=%{summary="), "{shown}");
        assert!(
            shown.contains("doc_flags=~[+deprecated] deprecated_since=7.0.0 replaced_by=`CLUSTER SHARDS`")
        );
        assert!(shown.contains("%{name=nx type=pure-token token=NX}"), "{shown}");
        assert!(shown.contains("flags=~[+optional]"), "{shown}");
        let shown = harness.run("COMMAND DOCS");
        assert!(shown.contains(" command [summary "), "{shown}");
        assert!(shown.contains(" subcommands [command|count [summary "), "{shown}");
    }

    #[test]
    fn names_are_listed_and_filtered() {
        let mut harness = Harness::new();
        let all: Vec<&str> = registry().listed().map(|info| info.full_name.as_str()).collect();
        harness.check("COMMAND LIST", &format!("[{}]", all.join(" ")));
        for (filter, expected) in [
            ("PATTERN STRL*", "[strlen]"),
            ("pattern cluster|key*", "[cluster|keyslot]"),
            ("PATTERN nosuch", "[]"),
            ("MODULE json", "[]"),
            ("ACLCAT nosuch", "[]"),
            ("ACLCAT @read", "[]"),
            ("FLAG x", "-ERR syntax error"),
            ("PATTERN", "-ERR syntax error"),
            ("PATTERN a b", "-ERR syntax error"),
        ] {
            harness.check(&format!("COMMAND LIST FILTERBY {filter}"), expected);
        }
        harness.check("COMMAND LIST all", "-ERR syntax error");
        assert!(harness.run("COMMAND LIST FILTERBY ACLCAT Connection").contains("ping"));
        assert!(harness.run("COMMAND LIST FILTERBY ACLCAT read").contains("strlen"));
    }

    #[test]
    fn keys_are_picked_from_arguments() {
        let no_keys = "-ERR The command has no key arguments";
        let invalid = "-ERR Invalid command specified";
        let invalid_arguments = "-ERR Invalid arguments specified for command";
        for (line, expected) in [
            ("GETKEYS get a", "[a]"),
            ("GETKEYS mset a b c d", "[a c]"),
            ("GETKEYS MSET a b c", "[a c]"),
            ("GETKEYS object freq k", "[k]"),
            ("GETKEYS object nosuch k", invalid),
            ("GETKEYS nosuch k", invalid),
            ("GETKEYS cluster", "-ERR wrong number of arguments for 'command|getkeys' command"),
            ("GETKEYS ping", "-ERR wrong number of arguments for 'command|getkeys' command"),
            ("GETKEYS ping x", no_keys),
            ("GETKEYS cluster keyslot x", no_keys),
            ("GETKEYS set a", "-ERR Invalid number of arguments specified for command"),
            ("GETKEYS sintercard 0 a", "-ERR Invalid arguments specified for command"),
            ("GETKEYS sintercard 3 a b", "-ERR Invalid arguments specified for command"),
            ("GETKEYS sintercard x a", "-ERR Invalid arguments specified for command"),
            ("GETKEYS sintercard 2 a b LIMIT 1", "[a b]"),
            ("GETKEYS sintercard 02 a b", "[a b]"),
            ("GETKEYS sintercard +1x a b", "[a]"),
            ("GETKEYS zunionstore d 2 a b", "[d a b]"),
            ("GETKEYS zunionstore d 02 a b", "[a b d]"),
            ("GETKEYS zunionstore d 03 a b", invalid_arguments),
            ("GETKEYSANDFLAGS get a", "[[a [+RO +access]]]"),
            ("GETKEYSANDFLAGS set a b", "[[a [+OW +update]]]"),
            ("GETKEYSANDFLAGS set a b EX 1 get", "[[a [+RW +access +update]]]"),
            ("GETKEYSANDFLAGS lmove a b left left", "[[a [+RW +access +delete]] [b [+RW +insert]]]"),
        ] {
            Harness::new().check(&format!("COMMAND {line}"), expected);
        }
    }

    #[test]
    fn what_nobody_may_run_is_not_told_of() {
        let mut harness =
            Harness::with_options(&["--rename-command", "get", "", "--rename-command", "cluster", ""]);
        assert!(harness.run("COMMAND LIST FILTERBY PATTERN *").contains("strlen"));
        harness.check("COMMAND LIST FILTERBY PATTERN get", "[]");
        harness.check("COMMAND LIST FILTERBY PATTERN cluster*", "[]");
        harness.check("COMMAND INFO get cluster|slots", "[(nil) (nil)]");
        harness.check("COMMAND COUNT", &format!(":{}", registry().top_level().count() - 2));
        assert!(!harness.run("COMMAND").contains("[get :2 "));
        assert!(!harness.run("COMMAND DOCS").contains(" get [summary"));
        assert!(Harness::new().run("COMMAND").contains("[get :2 "), "another server has it");
    }

    #[test]
    fn help_is_made_of_rows() {
        let mut harness = Harness::new();
        let help = harness.run("COMMAND HELP");
        for expected in [
            "[+COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are: +(no subcommand) +    ",
            "+GETKEYS <command> <arg> [<arg> ...] +    ",
            "+LIST [FILTERBY (MODULE <module-name>|ACLCAT <category>|PATTERN <pattern>)] +    ",
            "+HELP +    Prints this text.]",
        ] {
            assert!(help.contains(expected), "{expected} in {help}");
        }
        harness.check("COMMAND nosuch", "-ERR unknown subcommand 'nosuch'. Try COMMAND HELP.");
        harness.check("COMMAND COUNT x", "-ERR wrong number of arguments for 'command|count' command");
    }
}
