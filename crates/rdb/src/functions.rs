//! What FUNCTION DUMP gives and FUNCTION RESTORE takes: each library's code after its opcode, then the footer of a
//! value's payload.

use crate::cursor::Cursor;
use crate::file::opcode;
use crate::payload::{Checksum, body};
use crate::wire::{StringWriter, string};
use crate::{VERSION_WRITTEN, crc64};

/// Why a payload is no dump of libraries; the text is what the client is told.
pub type Refusal = &'static str;

/// The payload of libraries with these sources.
pub fn encode(sources: &[&[u8]]) -> Vec<u8> {
    let (mut strings, mut payload) = (StringWriter::new(true), Vec::new());
    for source in sources {
        payload.push(opcode::FUNCTION);
        strings.put(&mut payload, source);
    }
    payload.extend_from_slice(&VERSION_WRITTEN.to_le_bytes());
    let crc = crc64::update(0, &payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    payload
}

/// The sources of the libraries in a payload.
pub fn decode(payload: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    let body = body(payload, Checksum::Checked).ok_or("ERR DUMP payload version or checksum are wrong")?;
    let mut input = Cursor::new(body.bytes());
    let mut sources = Vec::new();
    while !input.is_at_end() {
        if input.byte().ok() != Some(opcode::FUNCTION) {
            return Err("ERR given type is not a function");
        }
        let source = string(&mut input).map_err(|_| "ERR Failed loading library code")?;
        sources.push(source.into_owned());
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dumped_is_restored() {
        let long = b"#!lua name=long\n".repeat(100);
        let sources: [&[u8]; 3] = [b"#!lua name=a\nx", b"12345", &long];
        let payload = encode(&sources);
        assert_eq!(decode(&payload).as_deref(), Ok(&sources.map(<[u8]>::to_vec)[..]));
        assert_eq!(decode(&encode(&[])), Ok(Vec::new()));
        assert!(decode(&payload[1..]).is_err() && decode(b"").is_err());
    }
}
