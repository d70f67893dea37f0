//! What a key can hold.

use crate::encoding::Encoding;
use crate::{Hash, List, LongString, Set, Stream, ZSet};

/// The type of a value, as `TYPE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A byte string, short (inline in its entry) or long.
    String,
    /// A sequence with two ends.
    List,
    /// Distinct members.
    Set,
    /// Members ordered by score.
    ZSet,
    /// Fields and their values.
    Hash,
    /// Entries in the order of their ids.
    Stream,
}

impl Kind {
    /// The word that `TYPE` answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::ZSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }
}

/// A value that does not lie inline in its entry. Cloning any of them is O(1); a writer copies only
/// what it touches while a clone lives.
#[derive(Clone)]
pub enum Value {
    /// A string above [`crate::entry::INLINE_BYTES_MAX`].
    Str(LongString),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A sorted set.
    ZSet(ZSet),
    /// A hash.
    Hash(Hash),
    /// A stream.
    Stream(Stream),
}

impl Value {
    /// The type of the value.
    #[inline]
    pub fn kind(&self) -> Kind {
        match self {
            Value::Str(_) => Kind::String,
            Value::List(_) => Kind::List,
            Value::Set(_) => Kind::Set,
            Value::ZSet(_) => Kind::ZSet,
            Value::Hash(_) => Kind::Hash,
            Value::Stream(_) => Kind::Stream,
        }
    }

    /// The encoding `OBJECT ENCODING` reports.
    pub fn encoding(&self) -> Encoding {
        match self {
            Value::Str(_) => Encoding::Raw,
            Value::List(list) => list.encoding(),
            Value::Set(set) => set.encoding(),
            Value::ZSet(zset) => zset.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::Stream(_) => Encoding::Stream,
        }
    }

    /// Elements (bytes, for a string) of the value.
    pub fn len(&self) -> usize {
        match self {
            Value::Str(string) => string.len(),
            Value::List(list) => list.len(),
            Value::Set(set) => set.len(),
            Value::ZSet(zset) => zset.len(),
            Value::Hash(hash) => hash.len(),
            Value::Stream(stream) => stream.len(),
        }
    }

    /// True for a collection without elements. A stream may be one and live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The soonest end of an element, in unix milliseconds.
    #[inline]
    pub fn soonest_end_ms(&self) -> Option<i64> {
        match self {
            Value::Hash(hash) => hash.soonest_end_ms(),
            _ => None,
        }
    }

    /// True only if both are clones between which nothing was written; O(1).
    pub fn is_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Str(a), Value::Str(b)) => a.is_same(b),
            (Value::List(a), Value::List(b)) => a.is_same(b),
            (Value::Set(a), Value::Set(b)) => a.is_same(b),
            (Value::ZSet(a), Value::ZSet(b)) => a.is_same(b),
            (Value::Hash(a), Value::Hash(b)) => a.is_same(b),
            (Value::Stream(a), Value::Stream(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// Heap bytes of the value, estimated in O(1).
    pub fn memory_bytes(&self) -> usize {
        match self {
            Value::Str(string) => string.memory_bytes(),
            Value::List(list) => list.memory_bytes(),
            Value::Set(set) => set.memory_bytes(),
            Value::ZSet(zset) => zset.memory_bytes(),
            Value::Hash(hash) => hash.memory_bytes(),
            Value::Stream(stream) => stream.memory_bytes(),
        }
    }

    /// Allocations that dropping the value may free: what a reaper weighs it by.
    pub fn weight(&self) -> usize {
        match self {
            Value::Str(string) => string.weight(),
            Value::List(list) => list.weight(),
            Value::Set(set) => set.weight(),
            Value::ZSet(zset) => zset.weight(),
            Value::Hash(hash) => hash.weight(),
            Value::Stream(stream) => stream.weight(),
        }
    }
}

/// A collection type that a command can ask a key for.
pub trait Typed: Clone + Default {
    /// The type the value must have.
    const KIND: Kind;
    /// The value as this type, if it is one.
    fn of(value: &Value) -> Option<&Self>;
    /// The value as this type, for writing.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// Into the general form.
    fn into_value(self) -> Value;
    /// Elements in it.
    fn elements(&self) -> usize;
    /// False for a value that no key can hold, so that the key goes with its last element.
    fn is_kept(&self) -> bool {
        self.elements() > 0
    }
    /// The soonest end of an element, in unix milliseconds: only a hash's elements have any.
    #[inline]
    fn soonest_end_ms(&self) -> Option<i64> {
        None
    }
}

macro_rules! typed {
    ($type:ident $($more:item)?) => {
        impl Typed for $type {
            const KIND: Kind = Kind::$type;
            #[inline]
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$type(inner) = value { Some(inner) } else { None }
            }
            #[inline]
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$type(inner) = value { Some(inner) } else { None }
            }
            fn into_value(self) -> Value {
                Value::$type(self)
            }
            #[inline]
            fn elements(&self) -> usize {
                self.len()
            }
            $($more)?
        }
    };
}
typed!(List);
typed!(Set);
typed!(ZSet);
typed!(Hash
    #[inline]
    fn soonest_end_ms(&self) -> Option<i64> {
        Hash::soonest_end_ms(self)
    }
);
typed!(Stream
    fn is_kept(&self) -> bool {
        true
    }
);
