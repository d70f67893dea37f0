//! The scripts that the server knows, by the SHA-1 of their source.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use base::limits::EVAL_SCRIPTS_MAX;
use parking_lot::RwLock;
use sha1::{Digest, Sha1};

use super::shebang::ScriptFlags;

/// 40 hex digits, lower case.
pub type Sha = [u8; 40];

/// The SHA-1 of `bytes` in hex.
pub fn sha_hex(bytes: &[u8]) -> Sha {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 40];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(bytes)) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    hex
}

/// A script.
pub struct Script {
    /// What clients know it by.
    pub sha: Sha,
    /// All of it.
    pub source: Box<[u8]>,
    /// Where its code begins in `source`.
    pub code_at: usize,
    /// What its first line says.
    pub flags: ScriptFlags,
    /// What its runs have shown.
    pub habits: Habits,
    /// It may be forgotten: only EVAL brought it.
    evictable: AtomicBool,
    /// It was forgotten.
    forgotten: AtomicBool,
    /// When it was last used, in uses of all scripts.
    used_at: AtomicU64,
}

/// What earlier runs of a script or function have shown: where the next one starts.
#[derive(Default)]
pub struct Habits {
    /// A run took long.
    pub is_long: AtomicBool,
    /// A run needed keys that it had not declared, and could not have them.
    pub conflicts: AtomicBool,
}

impl Script {
    /// True until SCRIPT FLUSH, or until newer scripts take its place.
    pub fn is_known(&self) -> bool {
        !self.forgotten.load(Relaxed)
    }
}

#[derive(Default)]
struct Known {
    by_sha: HashMap<Sha, Arc<Script>>,
    /// Those of them that may be forgotten: at most [`EVAL_SCRIPTS_MAX`].
    evictable: HashMap<Sha, Arc<Script>>,
}

/// The scripts that the server knows.
#[derive(Default)]
pub struct Scripts {
    known: RwLock<Known>,
    uses: AtomicU64,
    evicted: AtomicU64,
    bytes: AtomicU64,
}

/// Bytes that a script costs beside its source.
const OVERHEAD_BYTES: u64 = (size_of::<Script>() + size_of::<Sha>() + 16) as u64;

impl Scripts {
    /// The script of a digest.
    pub fn get(&self, sha: &Sha) -> Option<Arc<Script>> {
        self.known.read().by_sha.get(sha).cloned()
    }

    /// Marks a script as used; one that SCRIPT LOAD brings is kept for good.
    pub fn touch(&self, script: &Script) {
        // Of one script that is used again and again, the threads write nothing that others read.
        if script.evictable.load(Relaxed) && script.used_at.load(Relaxed) != self.uses.load(Relaxed) {
            script.used_at.store(self.uses.fetch_add(1, Relaxed) + 1, Relaxed);
        }
    }

    /// Keeps a script for good.
    pub fn keep(&self, script: &Script) {
        if script.evictable.swap(false, Relaxed) {
            self.known.write().evictable.remove(&script.sha);
        }
    }

    /// Adds a script, unless somebody else has; returns the one that is known.
    pub fn add(
        &self,
        sha: Sha,
        source: &[u8],
        flags: ScriptFlags,
        code_at: usize,
        is_kept: bool,
    ) -> Arc<Script> {
        let mut known = self.known.write();
        if let Some(script) = known.by_sha.get(&sha).cloned() {
            if is_kept && script.evictable.swap(false, Relaxed) {
                known.evictable.remove(&sha);
            }
            return script;
        }
        if !is_kept {
            self.make_room(&mut known);
        }
        let script = Arc::new(Script {
            sha,
            source: source.into(),
            code_at,
            flags,
            habits: Habits::default(),
            evictable: AtomicBool::new(!is_kept),
            forgotten: AtomicBool::new(false),
            used_at: AtomicU64::new(self.uses.fetch_add(1, Relaxed) + 1),
        });
        self.bytes.fetch_add(source.len() as u64 + OVERHEAD_BYTES, Relaxed);
        known.by_sha.insert(sha, script.clone());
        if !is_kept {
            known.evictable.insert(sha, script.clone());
        }
        script
    }

    /// Forgets the script of EVAL that was not used for longest, if there are as many as may be.
    fn make_room(&self, known: &mut Known) {
        if known.evictable.len() < EVAL_SCRIPTS_MAX {
            return;
        }
        let oldest = known.evictable.values().min_by_key(|script| script.used_at.load(Relaxed)).cloned();
        let Some(oldest) = oldest else { return };
        known.by_sha.remove(&oldest.sha);
        known.evictable.remove(&oldest.sha);
        oldest.forgotten.store(true, Relaxed);
        self.bytes.fetch_sub(oldest.source.len() as u64 + OVERHEAD_BYTES, Relaxed);
        self.evicted.fetch_add(1, Relaxed);
    }

    /// Forgets all.
    pub fn flush(&self) {
        let forgotten = std::mem::take(&mut *self.known.write());
        forgotten.by_sha.values().for_each(|script| script.forgotten.store(true, Relaxed));
        self.bytes.store(0, Relaxed);
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.read().by_sha.len()
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How many were forgotten for newer ones.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }
}
