//! The Halcyon server.

mod check;
mod cluster;
mod cluster_tool;
mod connection;
mod courtesy;
mod helpers;
mod lane;
mod listeners;
mod logging;
mod machine;
mod mailbox;
mod no_fork;
mod outgoing;
mod persistence;
mod placement;
mod remote_subscriptions;
mod replication;
mod serve;
mod shared;
mod tls;
mod worker;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: store::alloc::Counting = store::alloc::Counting;

const USAGE: &str = "\
Usage: halcyon [/path/to/redis.conf] [--directive value ...] [-]
       halcyon check FILE|DIRECTORY ... [--fix]
       halcyon cluster COMMAND ...
       halcyon lab COMMAND ...
       halcyon -v or --version
       halcyon -h or --help

A file and options are as redis-server takes them; '-' reads directives from standard input.

check looks through snapshots and append-only files and says whether they are whole; --fix cuts off what
is not whole at the end of an append-only file. Its exit code is 0 if all can be loaded.

cluster looks after a cluster on etcd: create, status, add-shard, remove-shard, move-slots, rebalance, failover,
forget; 'halcyon cluster help' tells more.

lab measures servers as clients see them, and how many nodes a cluster can have; 'halcyon lab help' tells more.

Examples:
       halcyon
       halcyon /etc/redis/redis.conf
       halcyon --port 7777 --requirepass secret
       halcyon --port 7000 --cluster-enabled yes
       halcyon --port 7000 --cluster-enabled yes --cluster-etcd http://a:2379,http://b:2379 --cluster-name prod
       halcyon --port 0 --tls-port 6379 --tls-cert-file c.pem --tls-key-file k.pem --tls-ca-cert-file ca.pem
       halcyon --threads 4 --server-cpulist 0-3 --log-format json

Directives of Halcyon's own:
       threads N            worker threads; 0, the default: one per usable or chosen CPU (alias: io-threads)
       server-cpulist LIST  CPUs that workers are bound to, as in Redis, or 'auto': off those that interrupts take
       client-compat MODE   auto, modern or legacy: reply shapes for clients of any age
       log-format FORMAT    text or json
       no-fork yes|no       have the kernel end the process if it forks or executes; yes by default
";

fn main() -> ExitCode {
    let args: Vec<Vec<u8>> = std::env::args_os().skip(1).map(OsString::into_vec).collect();
    match args.first().map(Vec::as_slice) {
        Some(b"-v" | b"--version") => {
            println!("Halcyon server v={} bits={} malloc=mimalloc", env!("CARGO_PKG_VERSION"), usize::BITS);
            ExitCode::SUCCESS
        }
        Some(b"-h" | b"--help") => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Some(b"check") => match check::check(&args[1..], &mut |line| println!("{line}")) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(text) => {
                eprintln!("{text}");
                ExitCode::FAILURE
            }
        },
        Some(b"cluster") => match cluster_tool::run(&args[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => {
                eprintln!("{text}");
                ExitCode::FAILURE
            }
        },
        Some(b"lab") => match tools::lab::run(&args[1..], &[cluster::crowd::TOOL]) {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(text) => {
                eprintln!("{text}");
                ExitCode::FAILURE
            }
        },
        _ => match serve::serve(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => {
                eprintln!("{text}");
                ExitCode::FAILURE
            }
        },
    }
}
