//! Commands about the server as a whole.

use std::sync::atomic::Ordering::Relaxed;

use crate::args::{Args, int, is};
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;
use crate::server::REDIS_VERSION;
use crate::shutdown::ShutdownWish;

pub(crate) fn time(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let now_us = ctx.now().unix_us;
    reply.array(2);
    reply.bulk_int(now_us / 1_000_000);
    reply.bulk_int(now_us % 1_000_000);
    Ok(())
}

/// MONITOR: from now on the connection is shown every command.
pub(crate) fn monitor(ctx: &mut Ctx<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    if ctx.is_nested() {
        return Err(Fault::Text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let client = ctx.session().client.clone();
    if client.is_replica.load(Relaxed) {
        return Ok(());
    }
    // As Redis: whoever is one already gets no reply.
    if ctx.server().monitors.add(&client) {
        reply.ok();
    }
    Ok(())
}

const CANNOT_END: Fault = Fault::Text("ERR Errors trying to SHUTDOWN. Check logs.");

/// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]
pub(crate) fn shutdown(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (mut save, mut nosave, mut now, mut force, mut abort) = (false, false, false, false, false);
    for word in args.from(1).iter() {
        let options = [
            ("SAVE", &mut save),
            ("NOSAVE", &mut nosave),
            ("NOW", &mut now),
            ("FORCE", &mut force),
            ("ABORT", &mut abort),
        ];
        let option = options.into_iter().find(|(name, _)| is(word, name));
        *option.ok_or(Fault::SYNTAX)?.1 = true;
    }
    if (save && nosave) || (abort && (save || nosave || now || force)) {
        return Err(Fault::SYNTAX);
    }
    let server = ctx.server();
    if abort {
        if !server.shutdown.abort() {
            return Err(Fault::Text("ERR No shutdown in progress."));
        }
        reply.ok();
        return Ok(());
    }
    let saves = if save { Some(true) } else { nosave.then_some(false) };
    let wish = ShutdownWish { saves, is_now: now, is_forced: force };
    if server.can_end_at_once(wish) && (force || server.files_at_risk().is_none()) {
        ctx.session().close_after_reply = true;
        ctx.server().host.shutdown();
        return Ok(());
    }
    ctx.defer_script(move |lane| if lane.server().shut_down(wish) { Ok(()) } else { Err(CANNOT_END) });
    Ok(())
}

/// Columns and rows of the picture, unless the arguments say otherwise.
const PICTURE: (usize, usize) = (66, 16);
const PICTURE_MAX: usize = 200;

/// LOLWUT [VERSION version [columns [rows]]]: a kingfisher's view of calm water, different each time.
pub(crate) fn lolwut(ctx: &mut Ctx<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> CmdResult {
    let (mut columns, mut rows) = PICTURE;
    if args.len() >= 3 && is(&args[1], "VERSION") {
        let mut numbers = [0, columns as i64, rows as i64];
        for (number, word) in numbers.iter_mut().zip(args.from(2).iter()) {
            *number = int(word)?;
        }
        columns = numbers[1].clamp(8, PICTURE_MAX as i64) as usize;
        rows = numbers[2].clamp(4, PICTURE_MAX as i64) as usize;
    }
    let mut picture = calm_water(columns, rows, ctx.rng());
    picture.push_str("\nHalcyon days: the sea lies still. Redis ver. ");
    picture.push_str(REDIS_VERSION);
    picture.push('\n');
    reply.verbatim("txt", picture.as_bytes());
    Ok(())
}

/// A sun over the horizon and its glitter path on the sea, ripples spreading out by chance.
fn calm_water(columns: usize, rows: usize, rng: &mut fastrand::Rng) -> String {
    let horizon = rows / 2;
    let radius = (rows as f64 / 3.0).max(1.5);
    let sun = columns as f64 * (0.25 + 0.5 * rng.f64());
    let mut picture = String::with_capacity((columns + 1) * rows * 3);
    for row in 0..rows {
        for column in 0..columns {
            // A character cell is about twice as high as it is wide.
            let aside = (column as f64 - sun) / 2.0;
            let above = horizon as f64 - row as f64;
            let glyph = if row < horizon {
                if aside.hypot(above) < radius { '#' } else { ' ' }
            } else {
                let depth = (row - horizon) as f64;
                let in_path = aside.abs() < radius * (0.4 + depth / rows as f64);
                let ripple = rng.f64() < if in_path { 0.75 } else { 0.12 };
                if row == horizon {
                    '_'
                } else if ripple {
                    '~'
                } else {
                    ' '
                }
            };
            picture.push(glyph);
        }
        picture.push('\n');
    }
    picture
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use crate::clients::Client;
    use crate::persistence::saving::Save;
    use crate::server::{CpuSeconds, Host, NoHost, Server};
    use crate::testing::Harness;

    #[test]
    fn facts_of_the_server() {
        let mut harness = Harness::new();
        harness.advance_ms(1);
        for (line, expected) in [
            ("TIME", "[1704067200 1000]"),
            ("TIME x", "-ERR wrong number of arguments for 'time' command"),
            ("ROLE", "[master :0 []]"),
            ("LOLWUT VERSION x", "-ERR value is not an integer or out of range"),
        ] {
            harness.check(line, expected);
        }
        let picture = harness.run("LOLWUT VERSION 5 20 6");
        let widths: Vec<usize> = picture.lines().take(6).map(str::len).collect();
        assert_eq!(widths, [20; 6], "{picture}");
        assert!(picture.contains("Redis ver. 7."), "{picture}");
    }

    struct Watched(Arc<AtomicBool>);

    impl Host for Watched {
        fn fill_random(&self, _: &mut [u8]) {}
        fn kill(&self, _: &Client) {}
        fn post(&self, _: usize, _: crate::letter::Letter) {}
        fn shutdown(&self) {
            self.0.store(true, Relaxed);
        }
        fn save(&self, server: &Server, save: &Save) -> Result<(), String> {
            NoHost::default().save(server, save)?;
            Err("no room".to_owned())
        }
        fn save_in_background(&self) {}
        fn cpu_seconds(&self) -> CpuSeconds {
            CpuSeconds::default()
        }
        fn resident_bytes(&self) -> u64 {
            0
        }
    }

    #[test]
    fn shutdown_happens_only_when_it_is_meant() {
        let ended = Arc::new(AtomicBool::new(false));
        let mut harness = Harness::new();
        let server = std::sync::Arc::get_mut(&mut harness.server).expect("nobody else has the server yet");
        server.host = Box::new(Watched(ended.clone()));
        for (line, expected) in [
            ("SHUTDOWN FOO", "-ERR syntax error"),
            ("SHUTDOWN SAVE NOSAVE", "-ERR syntax error"),
            ("SHUTDOWN ABORT NOW", "-ERR syntax error"),
            ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
            ("SHUTDOWN SAVE", "-ERR Errors trying to SHUTDOWN. Check logs."),
        ] {
            harness.check(line, expected);
            assert!(!ended.load(Relaxed), "{line}");
        }
        harness.check("SHUTDOWN NOSAVE NOW", "");
        assert!(ended.load(Relaxed));
    }

    #[test]
    fn shutdown_while_loading_leaves_the_file_alone() {
        let ended = Arc::new(AtomicBool::new(false));
        let mut harness = Harness::new();
        let server = std::sync::Arc::get_mut(&mut harness.server).expect("nobody else has the server yet");
        // Whose saves all fail.
        server.host = Box::new(Watched(ended.clone()));
        server.begin_loading(1);
        harness.check("SET k v", "-LOADING Redis is loading the dataset in memory");
        harness.check("SHUTDOWN SAVE", "");
        assert!(ended.load(Relaxed));
    }
}
