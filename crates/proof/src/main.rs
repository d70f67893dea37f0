//! Proof that Halcyon behaves as Redis does: the differential suite, files that go from one server to the other, and
//! the fuzzers of commands, payloads and files.

mod concurrency;
mod crash;
mod differences;
mod differential;
mod directives;
mod dump;
mod duo;
mod effects;
mod events;
mod fuzz;
mod fuzz_lua;
mod fuzz_rdb;
mod fuzz_restore;
mod interchange;
mod link;
mod mutate;
mod options;
mod random;
mod rules;
mod script;
mod script_run;
mod server;
mod tally;
mod user_facts;
mod value;
mod words;

use std::process::ExitCode;

use options::{Mode, Options};

/// Counts what is allocated, so that `fuzz-rdb` sees what a file costs.
#[global_allocator]
static ALLOCATOR: rdb::alloc::Counting = rdb::alloc::Counting;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let ran = match options.mode {
        Mode::Differential => differential::run(&options),
        Mode::FuzzCommands => fuzz::run(&options),
        Mode::FuzzRestore => fuzz_restore::run(&options),
        Mode::FuzzRdb => fuzz_rdb::run(&options),
        Mode::Interchange => interchange::run(&options),
        Mode::FuzzLua => fuzz_lua::run(&options),
        Mode::Concurrency => concurrency::run(&options),
        Mode::Crash => crash::run(&options),
        Mode::Effects => effects::run(&options),
    };
    match ran {
        Ok(tally) => {
            println!("{} passed, {} failed", tally.passed, tally.failed);
            ExitCode::from(u8::from(tally.failed > 0 || tally.passed == 0))
        }
        Err(error) => {
            eprintln!("proof: {error}");
            ExitCode::from(2)
        }
    }
}
