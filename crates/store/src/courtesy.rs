//! How threads that work in the background let whoever serves clients have the CPU first.
//!
//! A thread that computes without a pause is interrupted at the scheduler's ticks only, up to 4 ms apart, however urgent
//! what waits behind it is (seen with Linux 6.18; niceness does not change that). So a thread that
//! may take long gives way after each 100 us of work or so: that costs a system call where nobody waits.

use std::cell::Cell;
use std::thread;

/// Work between two times, in units of about 100 ns.
const WORK_UNITS: u32 = 1_000;

/// What walking from one leaf of a tree to the next, with what is done about its entries, amounts to.
pub(crate) const LEAF_UNITS: u32 = 50;
/// What freeing a table of keys amounts to.
pub(crate) const TABLE_UNITS: u32 = 1_000;

thread_local! {
    /// Units that are left. None: this thread gives way to nobody.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// From now on, this thread gives way.
pub fn begin() {
    LEFT.set(Some(WORK_UNITS));
}

/// Notes that so much was done; the thread gives way if it is time to.
#[inline]
pub fn note_work(units: u32) {
    let Some(left) = LEFT.get() else { return };
    match left.checked_sub(units) {
        Some(left) => LEFT.set(Some(left)),
        None => {
            thread::yield_now();
            LEFT.set(Some(WORK_UNITS));
        }
    }
}
