//! That nothing forks, left to the kernel to hold: a filter ends the process when any of its threads tries to make another
//! process, or to become another program. So no dependency, and nobody who breaks in, can.

use engine::config::Config;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter;

/// Hands the promise to the kernel, if `no-fork` asks for it: for every thread there is, and all that they start. True if it
/// is held from now on; a kernel that refuses is logged, since the server works all the same.
pub fn apply(config: &Config) -> bool {
    if !config.bool("no-fork") {
        return false;
    }
    match install() {
        Ok(()) => true,
        Err(reason) => {
            tracing::warn!("no-fork: nothing forks, but the kernel cannot be made to hold it: {reason}");
            false
        }
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn install() -> Result<(), String> {
    filter::install().map_err(|error| error.to_string())
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn install() -> Result<(), String> {
    Err("there is no filter for this system".to_owned())
}
