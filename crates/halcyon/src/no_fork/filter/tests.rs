//! What the filter answers to each call, by running its programs here, and what the kernel makes of it, by giving up a
//! process to it.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use super::*;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const NO_SUCH_CALL: u32 = 0x0005_0000 | libc::ENOSYS as u32;

#[cfg(target_arch = "x86_64")]
const OWN: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN: u32 = 0xc000_00b7;
/// Programs of 32 bits, whose calls the same kernel serves: `fork` is 2 for i386, `read` 3.
#[cfg(target_arch = "x86_64")]
const OTHER: u32 = 0x4000_0003;
#[cfg(target_arch = "aarch64")]
const OTHER: u32 = 0x4000_0028;

/// What the kernel shows a filter of a call: number, architecture, and the lower half of the first argument.
struct Call {
    number: i64,
    architecture: u32,
    first_argument: u32,
}

/// What one program answers, by the few instructions that these programs have.
fn answer(program: &BpfProgram, call: &Call) -> u32 {
    let (mut at, mut word) = (0, 0);
    loop {
        let step = &program[at];
        at += 1;
        match (step.code, step.k) {
            (0x20, 0) => word = call.number as u32,
            (0x20, 4) => word = call.architecture,
            (0x20, 16) => word = call.first_argument,
            (0x54, mask) => word &= mask,
            (0x15, wanted) => at += usize::from(if word == wanted { step.jt } else { step.jf }),
            (0x05, distance) => at += distance as usize,
            (0x06, answer) => return answer,
            other => panic!("an instruction that these programs do not have: {other:x?}"),
        }
    }
}

fn check(name: &str, architecture: u32, number: i64, first_argument: i32, wanted: u32) {
    let call = Call { number, architecture, first_argument: first_argument as u32 };
    let programs = programs().expect("the filter can be built");
    // The kernel's order of severity.
    let severest = programs.iter().map(|program| answer(program, &call)).min_by_key(|answer| *answer as i32);
    assert_eq!(severest, Some(wanted), "{name} ({number}) with {first_argument:#x}");
}

#[test]
fn each_call_has_its_answer() {
    let thread = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS;
    let spawn = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    for (name, number, first_argument, wanted) in [
        ("clone of a thread", libc::SYS_clone, thread, ALLOW),
        ("clone as fork", libc::SYS_clone, libc::SIGCHLD, KILL),
        ("clone as vfork", libc::SYS_clone, spawn, KILL),
        ("clone without flags", libc::SYS_clone, 0, KILL),
        ("clone of all but a thread", libc::SYS_clone, !libc::CLONE_THREAD, KILL),
        ("clone3", libc::SYS_clone3, 0, NO_SUCH_CALL),
        ("execve", libc::SYS_execve, 0, KILL),
        ("execveat", libc::SYS_execveat, 0, KILL),
        ("read", libc::SYS_read, 0, ALLOW),
        ("write", libc::SYS_write, 1, ALLOW),
        ("fdatasync", libc::SYS_fdatasync, 1, ALLOW),
        ("accept4", libc::SYS_accept4, 1, ALLOW),
        ("futex", libc::SYS_futex, 0, ALLOW),
        ("renameat2", libc::SYS_renameat2, 0, ALLOW),
        ("exit_group", libc::SYS_exit_group, 0, ALLOW),
    ] {
        check(name, OWN, number, first_argument, wanted);
        check(name, OTHER, number, first_argument, KILL);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_that_only_x86_has_are_deadly_too() {
    let thread = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    check("fork", OWN, libc::SYS_fork, 0, KILL);
    check("vfork", OWN, libc::SYS_vfork, 0, KILL);
    check("x32 fork", OWN, X32 | 57, 0, KILL);
    check("x32 vfork", OWN, X32 | 58, 0, KILL);
    check("x32 clone", OWN, X32 | 56, thread, KILL);
    check("x32 clone3", OWN, X32 | 435, 0, KILL);
    check("x32 execve", OWN, X32 | 520, 0, KILL);
    check("x32 execveat", OWN, X32 | 545, 0, KILL);
}

/// Tells a child of the test below what to try.
const ATTEMPT: &str = "HALCYON_TEST_ATTEMPT";
/// The test below, as the test program knows it.
const THIS_TEST: &str = "no_fork::filter::tests::the_kernel_ends_who_forks_or_executes";
/// The child's exit code once it has done what it was to try.
const DONE: i32 = 42;

#[test]
fn the_kernel_ends_who_forks_or_executes() {
    if let Ok(attempt) = std::env::var(ATTEMPT) {
        attempt_as_told(&attempt);
    }
    for deadly in ["posix_spawn", "fork", "execve", "posix_spawn of another thread"] {
        assert_eq!(child(deadly, "open").code(), Some(DONE), "{deadly} without the filter");
        assert_eq!(child(deadly, "filtered").signal(), Some(libc::SIGSYS), "{deadly} under the filter");
    }
    assert_eq!(child("thread", "filtered").code(), Some(DONE), "a thread under the filter");
}

/// Runs this test again as a child that tries it, and returns how that ended.
fn child(attempt: &str, filter: &str) -> ExitStatus {
    let own = std::env::current_exe().expect("the test program has a path");
    let told = format!("{filter} {attempt}");
    let output = Command::new(own).args(["--exact", THIS_TEST, "--nocapture"]).env(ATTEMPT, told).output();
    output.expect("the test program can be started again").status
}

/// What the child does: it does not come back.
fn attempt_as_told(told: &str) -> ! {
    let (filter, attempt) = told.split_once(' ').expect("a filter and an attempt");
    // A thread from before the filter, which has to reach it as well.
    let (start, started) = std::sync::mpsc::channel();
    let earlier = std::thread::spawn(move || {
        if started.recv() == Ok(true) {
            shell().status().expect("a shell can be started");
        }
    });
    if filter == "filtered" {
        install().expect("this kernel takes filters");
    }
    match attempt {
        "posix_spawn" => drop(shell().status().expect("a shell can be started")),
        // With a PATH of its own to search, the standard library forks instead.
        "fork" => drop(shell().env("PATH", "/usr/bin:/bin").status().expect("a shell can be started")),
        "execve" => panic!("not executed: {}", shell().exec()),
        "posix_spawn of another thread" => start.send(true).expect("the thread waits"),
        "thread" => std::thread::spawn(|| ()).join().expect("a thread can be started"),
        other => panic!("an attempt that nobody knows: {other}"),
    }
    drop(start);
    earlier.join().expect("the earlier thread ends");
    std::process::exit(DONE)
}

/// A program that ends at once, with the code that a child ends with.
fn shell() -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exit {DONE}"));
    command
}
