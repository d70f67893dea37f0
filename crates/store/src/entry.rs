//! An entry: a key, its time to live and its value, in one allocation.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 1 | flags: [`HAS_EXPIRY`], [`OBJECT`], [`WIDE`], [`FORM`], [`MARK`] |
//! | 1 | 3 | access clock, 24 bits |
//! | 4 | 2 | key length (low 16 bits when `WIDE`) |
//! | 6 | 2 | inline value length (0 when `OBJECT`) |
//! | 8 | 8 | rest of the key length, when `WIDE` |
//! | | 8 | expiry, unix milliseconds, when `HAS_EXPIRY` |
//! | | 16.. | [`Value`], when `OBJECT` |
//! | | | key bytes, then inline value bytes |
//!
//! Invariant *entry-owner*: an entry is reachable from exactly one table word, and is read or written
//! only under the lock of its key's stripe, or after that word was cleared under the lock. Code without
//! the lock may hold its address, as a hint to the CPU, and never reads through it.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::slab;
use crate::value::{Kind, Value};
use crate::{LongString, encoding::Encoding};

/// Strings up to this lie inline in their entry; longer ones are a [`LongString`].
pub const INLINE_BYTES_MAX: usize = 4 * 1024;
const _: () = assert!(INLINE_BYTES_MAX <= u16::MAX as usize);

const HEADER_BYTES: usize = 8;
const WORD_BYTES: usize = 8;
const VALUE_BYTES: usize = size_of::<Value>();
const _: () =
    assert!(VALUE_BYTES == 24, "a small collection's entry is a third of what it costs beyond its elements");
const _: () = assert!(VALUE_BYTES.is_multiple_of(8) && align_of::<Value>() <= 8);
// The flags are the low byte of the first word, and a table word keeps 16 bits above an address.
const _: () = assert!(cfg!(target_endian = "little") && usize::BITS == 64);

// The table hides values behind raw words, so the compiler does not ask this where it matters: a value
// is dropped by another thread than made it, and its nodes are shared with clones on other threads.
const fn crosses_threads<T: Send + Sync>() {}
const _: () = crosses_threads::<Value>();

const HAS_EXPIRY: u8 = 1;
const OBJECT: u8 = 2;
const WIDE: u8 = 8;
/// Whether the running snapshot has the entry: see `snapshot`.
pub(crate) const MARK: u8 = 32;
/// The bits of a [`Form`].
const FORM: u8 = Form::Raw as u8 | Form::Text as u8;

/// How an inline string came to be, as far as `OBJECT ENCODING` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Stored as given: `int` if it is one.
    Plain = 0,
    /// Edited in place (APPEND, SETRANGE): `raw` whatever its length.
    Raw = 4,
    /// Printed from a float (INCRBYFLOAT): never `int`.
    Text = 16,
}

/// Longest string that `OBJECT ENCODING` calls `embstr` (Redis: OBJ_ENCODING_EMBSTR_SIZE_LIMIT).
const EMBSTR_BYTES_MAX: usize = 44;

/// What an entry is made from.
pub enum Payload<'a> {
    /// A string of at most [`INLINE_BYTES_MAX`] bytes.
    Inline {
        /// The string.
        bytes: &'a [u8],
        /// How it came to be.
        form: Form,
    },
    /// Any other value.
    Object(Value),
}

/// An owned pointer to an entry. `Copy`, because the table's words are; see *entry-owner*.
///
/// Its accessors are safe to call, on the strength of two contracts that their callers cannot break: an
/// `Entry` is made by [`Entry::new`] or from a table word under the lock, and [`Entry::dispose`] (or
/// [`Entry::release`]) demands that no copy is used again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry(NonNull<u8>);

#[derive(Clone, Copy)]
struct Layout {
    expiry_at: usize,
    value_at: usize,
    key_at: usize,
    bytes: usize,
}

#[inline]
fn layout(flags: u8, key_len: usize, inline_len: usize) -> Layout {
    let expiry_at = HEADER_BYTES + if flags & WIDE != 0 { WORD_BYTES } else { 0 };
    let value_at = expiry_at + if flags & HAS_EXPIRY != 0 { WORD_BYTES } else { 0 };
    let key_at = value_at + if flags & OBJECT != 0 { VALUE_BYTES } else { 0 };
    Layout { expiry_at, value_at, key_at, bytes: key_at + key_len + inline_len }
}

impl Entry {
    /// Makes an entry. `clock` is the 24-bit access clock.
    pub fn new(key: &[u8], payload: Payload<'_>, expire_at_ms: Option<i64>, clock: u32) -> Entry {
        let mut flags = 0;
        if expire_at_ms.is_some() {
            flags |= HAS_EXPIRY;
        }
        if key.len() > u16::MAX as usize {
            flags |= WIDE;
        }
        let inline: &[u8] = match &payload {
            Payload::Inline { bytes, form } => {
                assert!(bytes.len() <= INLINE_BYTES_MAX, "inline-max: a long string is an object");
                flags |= *form as u8;
                bytes
            }
            Payload::Object(_) => {
                flags |= OBJECT;
                &[]
            }
        };
        let place = layout(flags, key.len(), inline.len());
        let base = slab::alloc(place.bytes);
        let entry = Entry(base);
        // SAFETY: `base` is fresh memory of `place.bytes`, 8-aligned; every offset below lies inside
        // it by `layout`, and the fields do not overlap.
        unsafe {
            let base = base.as_ptr();
            base.cast::<u32>().write(u32::from(flags) | (clock & 0xff_ffff) << 8);
            base.add(4).cast::<u16>().write(key.len() as u16);
            base.add(6).cast::<u16>().write(inline.len() as u16);
            if flags & WIDE != 0 {
                base.add(HEADER_BYTES).cast::<u64>().write(key.len() as u64 >> 16);
            }
            if let Some(expire_at_ms) = expire_at_ms {
                base.add(place.expiry_at).cast::<i64>().write(expire_at_ms);
            }
            std::ptr::copy_nonoverlapping(key.as_ptr(), base.add(place.key_at), key.len());
            std::ptr::copy_nonoverlapping(inline.as_ptr(), base.add(place.key_at + key.len()), inline.len());
            if let Payload::Object(value) = payload {
                base.add(place.value_at).cast::<Value>().write(value);
            }
        }
        entry
    }

    /// The address, as the table stores it.
    #[inline]
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// # Safety
    /// `pointer` came from [`Entry::as_ptr`] of an entry that is still live.
    #[inline]
    pub(crate) unsafe fn from_ptr(pointer: *mut u8) -> Entry {
        // SAFETY: the caller's contract: an entry's address is never null.
        Entry(unsafe { NonNull::new_unchecked(pointer) })
    }

    #[inline]
    fn flags(self) -> u8 {
        // SAFETY: live entry, exclusive by *entry-owner*; the header is initialised by `new`.
        unsafe { self.0.as_ptr().read() }
    }

    #[inline]
    fn key_len(self) -> usize {
        // SAFETY: as in `flags`; the wide word exists when the flag says so.
        unsafe {
            let low = self.0.as_ptr().add(4).cast::<u16>().read() as usize;
            if self.flags() & WIDE == 0 {
                return low;
            }
            low | (self.0.as_ptr().add(HEADER_BYTES).cast::<u64>().read() as usize) << 16
        }
    }

    #[inline]
    fn inline_len(self) -> usize {
        // SAFETY: as in `flags`.
        unsafe { self.0.as_ptr().add(6).cast::<u16>().read() as usize }
    }

    #[inline]
    fn layout(self) -> Layout {
        layout(self.flags(), self.key_len(), self.inline_len())
    }

    /// The key. The lifetime is the caller's claim that the stripe stays locked.
    ///
    /// # Safety
    /// The entry stays live and unmodified for `'a` (*entry-owner*).
    #[inline]
    pub(crate) unsafe fn key<'a>(self) -> &'a [u8] {
        let place = self.layout();
        // SAFETY: the key's bytes lie at `key_at`, written by `new`; the caller keeps them live.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(place.key_at), self.key_len()) }
    }

    /// Unix milliseconds after which the entry is gone, if it has a time to live.
    #[inline]
    pub(crate) fn expire_at_ms(self) -> Option<i64> {
        let flags = self.flags();
        if flags & HAS_EXPIRY == 0 {
            return None;
        }
        // SAFETY: the flag says the field is there; live entry by *entry-owner*.
        Some(unsafe { self.0.as_ptr().add(layout(flags, 0, 0).expiry_at).cast::<i64>().read() })
    }

    /// Replaces the time in an entry that has one already.
    #[inline]
    pub(crate) fn set_expire_at_ms(self, expire_at_ms: i64) {
        let flags = self.flags();
        assert!(flags & HAS_EXPIRY != 0, "entry-expiry: the field must exist to be replaced");
        // SAFETY: the flag says the field is there; exclusive by *entry-owner*.
        unsafe { self.0.as_ptr().add(layout(flags, 0, 0).expiry_at).cast::<i64>().write(expire_at_ms) }
    }

    /// The inline string, or `None` for an object.
    ///
    /// # Safety
    /// The entry stays live and unmodified for `'a`.
    #[inline]
    pub(crate) unsafe fn inline<'a>(self) -> Option<&'a [u8]> {
        if self.flags() & OBJECT != 0 {
            return None;
        }
        let place = self.layout();
        let len = self.inline_len();
        // SAFETY: the inline bytes are the last `len` of the allocation.
        Some(unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(place.bytes - len), len) })
    }

    /// The soonest end of an element of the value, in unix milliseconds.
    #[inline]
    pub(crate) fn soonest_end_ms(self) -> Option<i64> {
        // SAFETY: a shared reference, which does not leave this function.
        unsafe { self.object() }.and_then(Value::soonest_end_ms)
    }

    /// Where the object lies, or `None` for an inline string.
    #[inline]
    fn object_place(self) -> Option<*mut Value> {
        let flags = self.flags();
        // SAFETY: the flag says that a Value lies at that offset, inside the allocation.
        (flags & OBJECT != 0).then(|| unsafe { self.0.as_ptr().add(layout(flags, 0, 0).value_at).cast() })
    }

    /// The object, or `None` for an inline string. Several of these may live at once.
    ///
    /// # Safety
    /// The entry stays live for `'a`, and no mutable reference to its value is made meanwhile.
    #[inline]
    pub(crate) unsafe fn object<'a>(self) -> Option<&'a Value> {
        // SAFETY: an initialised Value; shared by the caller's contract.
        self.object_place().map(|place| unsafe { &*place })
    }

    /// The object, for writing, or `None` for an inline string.
    ///
    /// # Safety
    /// The entry stays live for `'a`, and no other reference to its value is used meanwhile.
    #[inline]
    pub(crate) unsafe fn object_mut<'a>(self) -> Option<&'a mut Value> {
        // SAFETY: an initialised Value; exclusive by the caller's contract.
        self.object_place().map(|place| unsafe { &mut *place })
    }

    /// Overwrites the inline string in place, if the new one has the same footprint and expiry field.
    #[inline]
    pub(crate) fn overwrite(self, bytes: &[u8], form: Form, expire_at_ms: Option<i64>) -> bool {
        let flags = self.flags();
        if flags & OBJECT != 0 || (flags & HAS_EXPIRY != 0) != expire_at_ms.is_some() {
            return false;
        }
        let place = self.layout();
        let head = place.bytes - self.inline_len();
        if bytes.len() > INLINE_BYTES_MAX
            || slab::footprint(head + bytes.len()) != slab::footprint(place.bytes)
        {
            return false;
        }
        // SAFETY: the allocation's footprint holds `head + bytes.len()`; exclusive by *entry-owner*.
        // `bytes` lies outside the entry: whoever got a slice of it from a View has the Locked
        // borrowed, and can call nothing that comes here; copies of values never lie in entries.
        unsafe {
            let base = self.0.as_ptr();
            base.write((flags & !FORM) | form as u8);
            base.add(6).cast::<u16>().write(bytes.len() as u16);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), base.add(head), bytes.len());
        }
        if let Some(expire_at_ms) = expire_at_ms {
            self.set_expire_at_ms(expire_at_ms);
        }
        true
    }

    /// The 24-bit access clock.
    #[inline]
    pub(crate) fn clock(self) -> u32 {
        // SAFETY: the first four bytes are the flags and the clock; exclusive by *entry-owner*.
        unsafe { self.0.as_ptr().cast::<u32>().read() >> 8 }
    }

    /// Sets the access clock.
    #[inline]
    pub(crate) fn set_clock(self, clock: u32) {
        // SAFETY: as in `clock`.
        unsafe {
            let word = self.0.as_ptr().cast::<u32>();
            word.write(word.read() & 0xff | clock << 8);
        }
    }

    /// The entry's mark: [`MARK`] or 0.
    #[inline]
    pub(crate) fn mark(self) -> u8 {
        self.flags() & MARK
    }

    /// Sets the mark.
    #[inline]
    pub(crate) fn set_mark(self, mark: u8) {
        // SAFETY: live entry, exclusive by *entry-owner*; the first byte holds the flags.
        unsafe { self.0.as_ptr().write(self.flags() & !MARK | mark) }
    }

    /// The type of the value.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        // SAFETY: a shared reference, which does not leave this function.
        unsafe { self.object() }.map_or(Kind::String, |value| value.kind())
    }

    /// What `OBJECT ENCODING` reports.
    pub(crate) fn encoding(self) -> Encoding {
        // SAFETY: shared references, which do not leave this function.
        let (inline, object) = unsafe { (self.inline(), self.object()) };
        match (inline, object) {
            (_, Some(value)) => value.encoding(),
            (Some(bytes), _) => match (self.form(), string_encoding(bytes)) {
                (Form::Raw, _) => Encoding::Raw,
                (Form::Text, Encoding::Int) => Encoding::Embstr,
                (_, encoding) => encoding,
            },
            _ => Encoding::Raw,
        }
    }

    /// How an inline string came to be.
    pub(crate) fn form(self) -> Form {
        match self.flags() & FORM {
            0 => Form::Plain,
            flag if flag == Form::Raw as u8 => Form::Raw,
            _ => Form::Text,
        }
    }

    /// Bytes of the entry's own allocation.
    pub(crate) fn footprint_bytes(self) -> usize {
        slab::footprint(self.layout().bytes)
    }

    /// A new entry with the key, value, clock and mark of this one and another time to live. The value is
    /// moved, not cloned, whatever it is.
    ///
    /// # Safety
    /// Exclusive as by *entry-owner*. Afterwards the new entry owns the value: it stands in for the
    /// old one in the table, and the old one is only fit for [`Entry::release`].
    pub(crate) unsafe fn moved(self, expire_at_ms: Option<i64>) -> Entry {
        // SAFETY: live entry; the references end with this function, and the value is moved once: by the
        // caller's contract the old entry is only released, which does not drop it.
        unsafe {
            let payload = match self.object_place() {
                Some(place) => Payload::Object(place.read()),
                None => Payload::Inline { bytes: self.inline().unwrap_or_default(), form: self.form() },
            };
            let new = Entry::new(self.key(), payload, expire_at_ms, self.clock());
            new.set_mark(self.mark());
            new
        }
    }

    /// Frees the entry's memory and leaves its object alone.
    ///
    /// # Safety
    /// No table word points to the entry any more, no copy of it is used again, and its object, if
    /// any, was moved out.
    pub(crate) unsafe fn release(self) {
        // SAFETY: the last use of the entry, allocated in `new` with the same footprint.
        unsafe { slab::free(self.0, self.layout().bytes) }
    }

    /// Frees the entry and hands its object out, for the reaper to drop.
    ///
    /// # Safety
    /// No table word points to the entry any more, and no copy of it is used again.
    pub(crate) unsafe fn dispose(self) -> Option<Value> {
        // SAFETY: the last use of the entry: its value is moved out once.
        unsafe {
            let value = self.object_place().map(|place| place.read());
            self.release();
            value
        }
    }
}

/// The encoding Redis gives to a fresh string of these bytes.
pub fn string_encoding(bytes: &[u8]) -> Encoding {
    if bytes.len() <= 20 && base::num::parse_i64(bytes).is_some() {
        Encoding::Int
    } else if bytes.len() <= EMBSTR_BYTES_MAX {
        Encoding::Embstr
    } else {
        Encoding::Raw
    }
}

/// A value on its own, outside any table: what RENAME, MOVE and COPY carry. Cloning is O(1) but for
/// an inline string, which is copied.
#[derive(Clone)]
pub enum OwnedValue {
    /// A string of at most [`INLINE_BYTES_MAX`] bytes, and how it came to be.
    Inline(Box<[u8]>, Form),
    /// Any other value.
    Object(Value),
}

impl OwnedValue {
    /// True only if nothing was written between the two copies, or the same short string was.
    pub fn is_same(&self, other: &OwnedValue) -> bool {
        match (self, other) {
            (OwnedValue::Inline(a, _), OwnedValue::Inline(b, _)) => a == b,
            (OwnedValue::Object(a), OwnedValue::Object(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// A string of any length.
    pub fn string(bytes: &[u8]) -> OwnedValue {
        if bytes.len() <= INLINE_BYTES_MAX {
            OwnedValue::Inline(bytes.into(), Form::Plain)
        } else {
            OwnedValue::Object(Value::Str(LongString::from_slice(bytes)))
        }
    }

    pub(crate) fn payload(&self) -> Payload<'_> {
        match self {
            OwnedValue::Inline(bytes, form) => Payload::Inline { bytes, form: *form },
            OwnedValue::Object(value) => Payload::Object(value.clone()),
        }
    }
}

/// A value and its time to live, outside any table.
#[derive(Clone)]
pub struct OwnedEntry {
    /// The value.
    pub value: OwnedValue,
    /// Unix milliseconds of its end, if any.
    pub expire_at_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_for_every_shape() {
        let keys: [&[u8]; 3] = [b"", b"key:1", &[7u8; 70_000]];
        for key in keys {
            for expire_at_ms in [None, Some(1_700_000_000_123)] {
                for value in [&b""[..], b"12", &[9u8; INLINE_BYTES_MAX]] {
                    let payload = Payload::Inline { bytes: value, form: Form::Plain };
                    let entry = Entry::new(key, payload, expire_at_ms, 0xabcdef);
                    // SAFETY: sole owner in this test.
                    unsafe {
                        assert!(entry.key() == key);
                        assert_eq!(entry.inline(), Some(value));
                        assert!(entry.object().is_none());
                    }
                    assert_eq!(entry.expire_at_ms(), expire_at_ms);
                    assert_eq!(entry.clock(), 0xabcdef);
                    entry.set_clock(0x123456);
                    assert_eq!(entry.clock(), 0x123456);
                    // SAFETY: last use.
                    assert!(unsafe { entry.dispose() }.is_none());
                }
                let long = LongString::from_slice(&[1u8; 10_000]);
                let entry = Entry::new(key, Payload::Object(Value::Str(long)), expire_at_ms, 1);
                // SAFETY: sole owner in this test; no reference to the value is mutable.
                unsafe {
                    assert!(entry.key() == key);
                    assert!(entry.inline().is_none());
                    let (first, second) = (entry.object(), entry.object());
                    assert_eq!(entry.kind(), Kind::String);
                    assert_eq!(first.map(|value| value.len()), Some(10_000));
                    assert_eq!(second.map(|value| value.len()), Some(10_000));
                }
                assert_eq!(entry.expire_at_ms(), expire_at_ms);
                // SAFETY: last use.
                assert_eq!(unsafe { entry.dispose() }.map(|value| value.len()), Some(10_000));
            }
        }
    }

    #[test]
    fn a_moved_entry_is_the_same_but_for_its_time_to_live() {
        let long = || Payload::Object(Value::Str(LongString::from_slice(&[1u8; 10_000])));
        let short = || Payload::Inline { bytes: b"12.5", form: Form::Text };
        for (payload, len) in [(long(), Some(10_000)), (short(), None)] {
            let old = Entry::new(b"key", payload, None, 7);
            // SAFETY: sole owner in this test; the old entry is only released.
            let new = unsafe { old.moved(Some(5)) };
            // SAFETY: last use.
            unsafe { old.release() };
            assert_eq!((new.expire_at_ms(), new.clock()), (Some(5), 7));
            // SAFETY: sole owner in this test.
            unsafe {
                assert_eq!(new.key(), b"key");
                assert_eq!(new.inline(), len.is_none().then_some(&b"12.5"[..]));
            }
            assert_eq!(new.form(), if len.is_none() { Form::Text } else { Form::Plain });
            // SAFETY: last use.
            assert_eq!(unsafe { new.dispose() }.map(|value| value.len()), len);
        }
    }

    #[test]
    fn overwrites_in_place_only_within_the_footprint() {
        let entry = Entry::new(b"k", Payload::Inline { bytes: b"1234567890", form: Form::Plain }, None, 1);
        assert!(entry.overwrite(b"123456789", Form::Raw, None));
        // SAFETY: sole owner in this test.
        assert_eq!(unsafe { entry.inline() }, Some(&b"123456789"[..]));
        assert_eq!(entry.encoding(), Encoding::Raw);
        assert!(!entry.overwrite(&[0; 100], Form::Plain, None));
        assert!(!entry.overwrite(b"123456789", Form::Plain, Some(1)));
        // SAFETY: last use.
        unsafe { entry.dispose() };
    }
}
