//! ACL: users and their permissions, seen and changed at run time.

use std::sync::atomic::Ordering::Relaxed;

use crate::acl::{self, Concerned, DEFAULT_USER, User, UserId, line_of};
use crate::args::{Args, int, is};
use crate::clients::Client;
use crate::commands::client_list::{LISTED_ON_WORKER_MAX, alive};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::letter::Letter;
use crate::reply::Reply;
use crate::server::Server;
use crate::table::CATEGORY_WORDS;

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    Tell the categories of commands, or the commands of one.",
    "DELUSER <username> [<username> ...]",
    "    Delete users, and close their connections.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Tell whether a user may run a command, without running it.",
    "GETUSER <username>",
    "    Tell everything about a user.",
    "GENPASS [<bits>]",
    "    Make a password of 256 bits, or of as many as <bits> says.",
    "LIST",
    "    Tell all users, as lines of a configuration file.",
    "LOAD",
    "    Read the users from the ACL file again.",
    "LOG [<count> | RESET]",
    "    Tell what was refused lately, or forget it.",
    "SAVE",
    "    Write the users to the ACL file.",
    "SETUSER <username> [<modifier> ...]",
    "    Make a user, or change one.",
    "USERS",
    "    Tell the names of all users.",
    "WHOAMI",
    "    Tell the name of this connection's user.",
    "HELP",
    "    Print this text.",
];

/// Entries that ACL LOG shows when it is not told how many.
const LOG_ENTRIES_SHOWN: i64 = 10;

/// Most bits of a generated password.
const PASSWORD_BITS_MAX: i64 = 4096;

pub(crate) fn help(_: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.status_lines(HELP);
    Ok(())
}

/// An error reply of this text.
fn fault(text: Vec<u8>) -> Fault {
    Fault::Quoting([b"ERR ", &text[..]].concat())
}

/// ACL SETUSER username [modifier ...]
pub(crate) fn setuser(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if acl::has_spaces(&args[2]) {
        return Err(Fault::Text("ERR Usernames can't contain spaces or null characters"));
    }
    let concerned = ctx.server().acl.set_user(&args[2], args.from(3)).map_err(fault)?;
    settle(ctx, concerned, reply, |reply| reply.ok());
    Ok(())
}

/// ACL DELUSER username [username ...]
pub(crate) fn deluser(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let names = args.from(2);
    if names.iter().any(|name| name == DEFAULT_USER) {
        return Err(Fault::Text("ERR The 'default' user cannot be removed"));
    }
    let acl = &ctx.server().acl;
    let deleted: Vec<UserId> = names.iter().filter_map(|name| acl.delete(name)).collect();
    let count = deleted.len() as i64;
    settle(ctx, Concerned { deleted, ..Concerned::default() }, reply, move |reply| reply.int(count));
    Ok(())
}

/// Closes connections after a change and answers; where there are many, not on the worker.
fn settle(
    ctx: &mut Ctx<'_>,
    concerned: Concerned,
    reply: &mut Reply<'_>,
    answer: impl FnOnce(&mut Reply<'_>) + Send + 'static,
) {
    let server = ctx.server();
    let session = ctx.session();
    if concerned.is_nobody() {
        answer(reply);
    } else if server.clients.connected() > LISTED_ON_WORKER_MAX {
        let me = session.client.clone();
        ctx.defer(move |lane| {
            close_connections(lane.server(), &concerned, &me);
            answer(&mut lane.reply());
            Ok(())
        });
    } else {
        close_connections(server, &concerned, &session.client);
        if concerned.deleted.contains(&session.user.id()) {
            session.become_user(server.acl.default_user(), false);
            session.close_after_reply = true;
        }
        session.close_after_reply |= session.listens_unduly();
        answer(reply);
    }
}

/// Closes connections of users that are no more, and those that listen to what their user may not. They can do nothing
/// undue already. `me` gets its reply first, and is closed after it or at its next command.
fn close_connections(server: &Server, concerned: &Concerned, me: &Client) {
    if concerned.is_nobody() {
        return;
    }
    for client in alive(server).into_iter().filter(|client| client.id != me.id) {
        let user = client.user.load(Relaxed);
        if concerned.deleted.contains(&user) {
            server.host.kill(&client);
        } else if concerned.narrowed.contains(&user) && client.is_subscribed() {
            server.post(&client, |token, client_id| Letter::CheckChannels { token, client_id });
        }
    }
}

/// ACL GETUSER username
pub(crate) fn getuser(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let Some(user) = ctx.server().acl.find(&args[2]) else {
        reply.null();
        return Ok(());
    };
    let description = user.describe();
    reply.map(6);
    reply.text("flags");
    reply.set(description.flags.len());
    description.flags.iter().for_each(|flag| reply.text(flag));
    reply.text("passwords");
    reply.array(description.passwords.len());
    description.passwords.iter().for_each(|hash| reply.text(hash));
    let (root, others) = description.selectors.split_first().expect("root-selector: every user has one");
    let fields = |reply: &mut Reply<'_>, selector: &[(&str, Vec<u8>)]| {
        for (field, rules) in selector {
            reply.text(field);
            reply.bulk(rules);
        }
    };
    fields(reply, root);
    reply.text("selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(selector.len());
        fields(reply, selector);
    }
    Ok(())
}

pub(crate) fn list(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply_with_users(ctx, reply, line_of)
}

pub(crate) fn users(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply_with_users(ctx, reply, |user| user.name().to_vec())
}

fn reply_with_users(ctx: &mut Ctx<'_>, reply: &mut Reply<'_>, shown: fn(&User) -> Vec<u8>) -> CmdResult {
    let users = ctx.server().acl.list();
    reply.array(users.len());
    users.iter().for_each(|user| reply.bulk(&shown(user)));
    Ok(())
}

pub(crate) fn whoami(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    reply.bulk(ctx.session().user.name());
    Ok(())
}

/// ACL CAT [category]
pub(crate) fn cat(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let Some(name) = optional(args)? else {
        reply.array(CATEGORY_WORDS.len());
        CATEGORY_WORDS.iter().for_each(|(_, word)| reply.text(word));
        return Ok(());
    };
    let unknown = || Fault::quoting("ERR Unknown category '", &name[..name.len().min(128)], "'");
    let category = acl::category_of(name).ok_or_else(unknown)?;
    let commands =
        ctx.server().registry.listed().filter(|info| info.spec.all_categories().intersects(category));
    let commands: Vec<_> = commands.collect();
    reply.array(commands.len());
    commands.iter().for_each(|info| reply.text(&info.full_name));
    Ok(())
}

/// The one argument that a subcommand may have.
fn optional(args: Args<'_>) -> CmdResult<Option<&[u8]>> {
    if args.len() > 3 {
        return Err(Fault::wrong_subcommand("ACL", &args[1]));
    }
    Ok(args.get(2))
}

/// ACL GENPASS [bits]
pub(crate) fn genpass(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let bits = optional(args)?.map_or(Ok(256), int)?;
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Fault::Text(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    // One digit for each four bits, begun ones included.
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    ctx.server().host.fill_random(&mut bytes);
    reply.text(&acl::hex(&bytes)[..digits]);
    Ok(())
}

/// ACL LOG [count | RESET]
pub(crate) fn log(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let server = ctx.server();
    let count = match optional(args)? {
        Some(word) if is(word, "RESET") => {
            server.acl.clear_log();
            reply.ok();
            return Ok(());
        }
        Some(count) => int(count)?.max(0),
        None => LOG_ENTRIES_SHOWN,
    };
    let now_ms = ctx.now_ms();
    let entries = server.acl.log_entries(count as usize);
    reply.array(entries.len());
    for entry in entries {
        reply.map(10);
        reply.text("count");
        reply.int(entry.count as i64);
        reply.text("reason");
        reply.text(entry.reason.word());
        reply.text("context");
        reply.text(entry.context.word());
        reply.text("object");
        reply.bulk(&entry.object);
        reply.text("username");
        reply.bulk(&entry.user);
        reply.text("age-seconds");
        reply.double((now_ms - entry.updated_ms) as f64 / 1000.0);
        reply.text("client-info");
        reply.text(&entry.client);
        reply.text("entry-id");
        reply.int(entry.id as i64);
        reply.text("timestamp-created");
        reply.int(entry.created_ms);
        reply.text("timestamp-last-updated");
        reply.int(entry.updated_ms);
    }
    Ok(())
}

/// ACL DRYRUN username command [arg ...]
pub(crate) fn dryrun(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (server, command) = (ctx.server(), args.from(3));
    let user = server.acl.find(&args[2]);
    let user = user.ok_or_else(|| Fault::quoting("ERR User '", &args[2], "' not found"))?;
    let registry = server.registry;
    let info = registry.find(&command[0]).and_then(|info| match command.get(1) {
        Some(word) if !info.subcommands.is_empty() => registry.find_sub(info, word),
        _ => Some(info),
    });
    let info = info.ok_or_else(|| Fault::quoting("ERR Command '", &command[0], "' not found"))?;
    if !info.arity_fits(command.len()) {
        return Err(Fault::wrong_arity(&info.full_name));
    }
    match acl::check(server, &user, info, command) {
        Ok(()) => reply.ok(),
        Err(denied) => reply.bulk(&denied.explanation(&user, info, command)),
    }
    Ok(())
}

/// ACL LOAD: waits for the disk, so it does not run on a worker.
pub(crate) fn load(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    let me = ctx.session().client.clone();
    ctx.defer(move |lane| {
        let concerned = lane.server().acl.load().map_err(fault)?;
        close_connections(lane.server(), &concerned, &me);
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

/// ACL SAVE: likewise.
pub(crate) fn save(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    ctx.defer(|lane| {
        let server = lane.server();
        server.acl.save(|line| server.host.log(line)).map_err(fault)?;
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}
