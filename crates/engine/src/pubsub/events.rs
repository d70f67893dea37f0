//! Keyspace notifications: which events `notify-keyspace-events` asks for.

use bitflags::bitflags;

use crate::ctx::Event;

bitflags! {
    /// Classes of events, and where they are published.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EventMask: u64 {
        /// `K`: to `__keyspace@<db>__:<key>`.
        const KEYSPACE = 1;
        /// `E`: to `__keyevent@<db>__:<event>`.
        const KEYEVENT = 1 << 1;
        /// `g`
        const GENERIC = 1 << 2;
        /// `$`
        const STRING = 1 << 3;
        /// `l`
        const LIST = 1 << 4;
        /// `s`
        const SET = 1 << 5;
        /// `h`
        const HASH = 1 << 6;
        /// `z`
        const ZSET = 1 << 7;
        /// `x`
        const EXPIRED = 1 << 8;
        /// `e`
        const EVICTED = 1 << 9;
        /// `t`
        const STREAM = 1 << 10;
        /// `m`, which `A` does not include.
        const KEY_MISS = 1 << 11;
        /// `d`: no module ever sends one.
        const MODULE = 1 << 12;
        /// `n`, which `A` does not include.
        const NEW = 1 << 13;
        /// `A`
        const ALL = Self::GENERIC.bits() | Self::STRING.bits() | Self::LIST.bits() | Self::SET.bits()
            | Self::HASH.bits() | Self::ZSET.bits() | Self::EXPIRED.bits() | Self::EVICTED.bits()
            | Self::STREAM.bits() | Self::MODULE.bits();
    }
}

impl EventMask {
    /// Reads the letters of the directive; those that mean nothing are left out.
    pub fn of_letters(letters: &[u8]) -> EventMask {
        let mask = letters.iter().fold(EventMask::empty(), |mask, letter| {
            mask | match letter {
                b'K' => EventMask::KEYSPACE,
                b'E' => EventMask::KEYEVENT,
                b'A' => EventMask::ALL,
                b'g' => EventMask::GENERIC,
                b'$' => EventMask::STRING,
                b'l' => EventMask::LIST,
                b's' => EventMask::SET,
                b'h' => EventMask::HASH,
                b'z' => EventMask::ZSET,
                b'x' => EventMask::EXPIRED,
                b'e' => EventMask::EVICTED,
                b't' => EventMask::STREAM,
                b'm' => EventMask::KEY_MISS,
                b'd' => EventMask::MODULE,
                b'n' => EventMask::NEW,
                _ => EventMask::empty(),
            }
        });
        // Without a place to publish them, no event is wanted.
        if mask.intersects(EventMask::KEYSPACE | EventMask::KEYEVENT) { mask } else { EventMask::empty() }
    }

    /// The class of an event.
    pub fn of(event: Event) -> EventMask {
        match event {
            Event::Generic => EventMask::GENERIC,
            Event::String => EventMask::STRING,
            Event::List => EventMask::LIST,
            Event::Set => EventMask::SET,
            Event::Hash => EventMask::HASH,
            Event::ZSet => EventMask::ZSET,
            Event::Stream => EventMask::STREAM,
            Event::Expired => EventMask::EXPIRED,
            Event::Evicted => EventMask::EVICTED,
            Event::KeyMiss => EventMask::KEY_MISS,
            Event::New => EventMask::NEW,
        }
    }
}
