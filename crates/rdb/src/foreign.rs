//! What sound bytes may say that this codec has no place for, and how that is told.

use std::fmt;

use crate::{VERSION_READ_MAX, VERSION_VALKEY_READ_MAX};

/// The characters of a module type's name, each by its 6 bits.
const NAME_ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NAME_CHARS: u32 = 9;
const VERSION_BITS: u32 = 10;

/// The type of a module's value: a number, of which the upper 54 bits are a name of nine characters and the lower 10
/// the version of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleType(pub u64);

impl ModuleType {
    /// The version of the encoding, which is the module's own count.
    pub fn version(self) -> u64 {
        self.0 & ((1 << VERSION_BITS) - 1)
    }
}

/// The name.
impl fmt::Display for ModuleType {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..NAME_CHARS).rev().try_for_each(|place| {
            let index = self.0 >> (VERSION_BITS + 6 * place) & 0x3f;
            write!(to, "{}", char::from(NAME_ALPHABET[index as usize]))
        })
    }
}

/// Something that is not damaged, and cannot be read all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// A file of a version that is not known.
    Version(u16),
    /// A value that only a module can read.
    Module(ModuleType),
    /// What the text says.
    Feature(&'static str),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Version(version) => write!(
                to,
                "a file of version {version}; versions 1 to {VERSION_READ_MAX} of Redis and 80 to \
                 {VERSION_VALKEY_READ_MAX} of Valkey are read"
            ),
            Unsupported::Module(module) => write!(
                to,
                "a value of type {module} (encoding {}), which belongs to a module: only a server with that module \
                 can read it",
                module.version()
            ),
            Unsupported::Feature(what) => to.write_str(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_are_nine_characters_of_six_bits() {
        let packed = |name: &[u8; 9], version: u64| {
            let index = |byte: &u8| NAME_ALPHABET.iter().position(|at| at == byte).expect("of the alphabet");
            ModuleType(name.iter().fold(0, |packed, byte| packed << 6 | index(byte) as u64) << 10 | version)
        };
        let json = packed(b"ReJSON-RL", 3);
        assert_eq!((json.to_string().as_str(), json.version()), ("ReJSON-RL", 3));
        assert_eq!(packed(b"MBbloom--", 1023).to_string(), "MBbloom--");
        assert_eq!(ModuleType(0).to_string(), "AAAAAAAAA");
        assert_eq!(ModuleType(u64::MAX).to_string(), "_________");
    }
}
