//! Asking and telling the kernel where a thread may run.

use super::facts::Cpus;

#[cfg(target_os = "linux")]
mod calls {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    use super::Cpus;

    const THIS_THREAD: Pid = Pid::from_raw(0);

    /// CPUs that this thread may run on; none if that cannot be found out.
    pub fn own() -> Cpus {
        let Ok(set) = sched_getaffinity(THIS_THREAD) else { return Cpus::new() };
        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
    }

    /// Binds this thread to those of these that there are. The error is the kernel's.
    pub fn bind(cpus: &Cpus) -> Result<(), String> {
        let mut set = CpuSet::new();
        for cpu in cpus {
            // Beyond what a set can hold there are none.
            let _ = set.set(*cpu);
        }
        sched_setaffinity(THIS_THREAD, &set).map_err(|error| error.to_string())
    }
}

#[cfg(not(target_os = "linux"))]
mod calls {
    use super::Cpus;

    /// CPUs that this process may run on.
    pub fn own() -> Cpus {
        (0..crate::machine::usable_cpus()).collect()
    }

    /// Says that threads cannot be bound here.
    pub fn bind(_: &Cpus) -> Result<(), String> {
        Err("this system has no call for it".to_owned())
    }
}

pub use calls::{bind, own};

/// Those of `cpus` that a thread can be bound to.
pub fn usable_of(cpus: &Cpus) -> Cpus {
    let try_out = || bind(cpus).map(|()| own()).unwrap_or_default();
    // On a thread that ends: this one stays as it is.
    std::thread::scope(|scope| scope.spawn(try_out).join().unwrap_or_default())
}
