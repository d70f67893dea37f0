//! The filter itself: seccomp programs for Linux on x86-64 and ARM64.
//!
//! | call | answer |
//! |---|---|
//! | `fork`, `vfork`, `execve`, `execveat` | the process ends, by SIGSYS |
//! | `clone` without CLONE_THREAD | the same: that makes a process |
//! | `clone3` | ENOSYS: its flags lie in memory, where a filter cannot look. C libraries then start threads by `clone` |
//! | any call by the numbers of another architecture | the process ends: those numbers mean something else |
//! | everything else | as without a filter; the kernel remembers which, and then does not ask |

use nix::libc;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Calls that end the process whatever their arguments are.
#[cfg(target_arch = "x86_64")]
const DEADLY: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_execve,
    libc::SYS_execveat,
    // The same again, and clone, as a kernel with the x32 ABI takes them from any process.
    X32 | libc::SYS_fork,
    X32 | libc::SYS_vfork,
    X32 | libc::SYS_clone,
    X32 | libc::SYS_clone3,
    X32 | libc::SYS_execve,
    X32 | libc::SYS_execveat,
    X32 | 520,
    X32 | 545,
];
/// ARM64 has neither `fork` nor `vfork`.
#[cfg(target_arch = "aarch64")]
const DEADLY: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];

/// What marks a call's number as one of the x32 ABI; `execve` and `execveat` have numbers of their own there (520, 545).
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Puts the filter over every thread of the process, and so over all that they will start. There is no way back.
pub fn install() -> Result<(), Error> {
    // If the second is refused, the first alone does no harm.
    programs()?.iter().try_for_each(|program| seccompiler::apply_filter_all_threads(program))
}

/// The filter, one program for each answer. The kernel asks all of them and takes the severest.
fn programs() -> Result<[BpfProgram; 2], Error> {
    let no_thread = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
    let no_thread = SeccompCondition::new(0, SeccompCmpArgLen::Dword, no_thread, 0)?;
    let makes_process = (libc::SYS_clone, vec![SeccompRule::new(vec![no_thread])?]);
    let deadly = DEADLY.iter().map(|number| (*number, Vec::new())).chain([makes_process]);
    Ok([
        program([(libc::SYS_clone3, Vec::new())], SeccompAction::Errno(libc::ENOSYS as u32))?,
        program(deadly, SeccompAction::KillProcess)?,
    ])
}

/// A program with this answer to calls under these rules, which lets everything else pass.
fn program(
    calls: impl IntoIterator<Item = (i64, Vec<SeccompRule>)>,
    answer: SeccompAction,
) -> Result<BpfProgram, Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(calls.into_iter().collect(), SeccompAction::Allow, answer, architecture)?;
    Ok(BpfProgram::try_from(filter)?)
}

#[cfg(test)]
mod tests;
