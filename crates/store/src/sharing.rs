//! Copying on write, counted.
//!
//! A value is made of nodes that its clones share. Whoever writes to it copies the shared nodes on its way, or lets go of
//! them: the clones have these alone from then on. Each thread counts how many bytes it has parted with in this way, so
//! that a snapshot can tell what its clone of a value costs: the values' own sizes do not say it.

use std::cell::Cell;
use std::sync::Arc;

/// The two reference counts before what an `Arc` shares.
pub(crate) const COUNTS_BYTES: usize = 16;

thread_local! {
    static PARTED_BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that this thread has left to clones since it began.
#[inline]
pub(crate) fn parted_bytes() -> u64 {
    PARTED_BYTES.get()
}

/// This thread leaves `bytes` to clones.
#[inline]
pub(crate) fn note_parted(bytes: usize) {
    PARTED_BYTES.set(PARTED_BYTES.get() + bytes as u64);
}

/// True if somebody else has a reference, too.
#[inline]
pub(crate) fn is_shared<T: ?Sized>(shared: &Arc<T>) -> bool {
    Arc::strong_count(shared) > 1
}

/// For writing, as [`Arc::make_mut`]; `behind` says how many bytes a copy takes besides the type's own.
#[inline]
pub(crate) fn own<T: Clone>(shared: &mut Arc<T>, behind: impl FnOnce(&T) -> usize) -> &mut T {
    if is_shared(shared) {
        note_parted(COUNTS_BYTES + size_of::<T>() + behind(shared));
    }
    Arc::make_mut(shared)
}

/// As [`own`], of what is all in the type itself.
#[inline]
pub(crate) fn own_flat<T: Clone>(shared: &mut Arc<T>) -> &mut T {
    own(shared, |_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_shared_is_left_to_others() {
        let parted = |work: &mut dyn FnMut()| {
            let before = parted_bytes();
            work();
            (parted_bytes() - before) as usize
        };
        let mut alone = Arc::new([0_u8; 100]);
        assert_eq!(parted(&mut || own_flat(&mut alone)[0] = 1), 0);
        let other = alone.clone();
        assert_eq!(parted(&mut || own_flat(&mut alone)[0] = 2), 100 + COUNTS_BYTES);
        assert_eq!(parted(&mut || own_flat(&mut alone)[0] = 3), 0, "its own by now");
        assert_eq!((other[0], alone[0]), (1, 3));
    }
}
