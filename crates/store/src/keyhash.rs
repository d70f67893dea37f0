//! Keyed hashes: nobody outside the process can predict which keys or members collide.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use ahash::RandomState;

static STATE: OnceLock<RandomState> = OnceLock::new();

/// Fixes the hash keys of this process. Has an effect only before the first hash is taken:
/// a server seeds it from the system's randomness, a replayed test from its seed.
pub fn init_seeds(a: u64, b: u64, c: u64, d: u64) {
    let _ = STATE.set(RandomState::with_seeds(a, b, c, d));
}

#[inline]
fn state() -> &'static RandomState {
    STATE.get_or_init(|| {
        // `RandomState` of std draws its keys from the operating system.
        let draw = |n: u64| std::collections::hash_map::RandomState::new().hash_one(n);
        RandomState::with_seeds(draw(1), draw(2), draw(3), draw(4))
    })
}

/// Keyed 64-bit hash of a key.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    state().hash_one(key)
}

/// Keyed 64-bit hash of a set member, hash field or sorted-set member.
#[inline]
pub fn member_hash(member: &[u8]) -> u64 {
    state().hash_one(member)
}
