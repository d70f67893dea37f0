//! The Redis serialization protocol, versions 2 and 3, without any I/O: bytes in, commands out ([`decode`]); replies
//! in, bytes out ([`encode`]); a reader of replies for tests and tools ([`parse`]), and one of their ends alone ([`scan`]).

pub mod args;
pub mod decode;
pub mod encode;
mod inline;
pub mod parse;
pub mod scan;

pub use args::{Args, ArgsBuffer, ArgsQueue, OwnedArgs};
pub use decode::{Batch, DecodeError, DecodeLimits, Decoder};
pub use encode::{Encoder, Proto, write_command};
pub use parse::Value;
pub use scan::ReplyScanner;
