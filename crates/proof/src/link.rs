//! A blocking connection: requests out in one write, replies back one at a time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use resp::Value;

/// A server that takes longer than this to answer counts as hung.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A connection to one server.
pub struct Link {
    stream: TcpStream,
    received: Vec<u8>,
    consumed: usize,
}

impl Link {
    /// Connects to 127.0.0.1.
    pub fn open(port: u16) -> io::Result<Link> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Link { stream, received: Vec::new(), consumed: 0 })
    }

    /// Sends several commands in one write.
    pub fn send<'a>(&mut self, commands: impl IntoIterator<Item = &'a Vec<Vec<u8>>>) -> io::Result<()> {
        let mut request = Vec::new();
        for args in commands {
            encode(args, &mut request);
        }
        self.stream.write_all(&request)
    }

    /// Sends one command and reads its reply.
    pub fn run(&mut self, args: &[Vec<u8>]) -> io::Result<Value> {
        let mut request = Vec::new();
        encode(args, &mut request);
        self.stream.write_all(&request)?;
        self.reply()
    }

    /// `run` for literal arguments.
    pub fn call(&mut self, args: &[&str]) -> io::Result<Value> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        self.run(&args)
    }

    /// Reads the next reply.
    pub fn reply(&mut self) -> io::Result<Value> {
        loop {
            match resp::parse::parse(&self.received[self.consumed..]) {
                Ok(Some((value, used))) => {
                    self.consumed += used;
                    if self.consumed == self.received.len() {
                        self.received.clear();
                        self.consumed = 0;
                    }
                    return Ok(value);
                }
                Ok(None) => {}
                Err(why) => return Err(io::Error::other(format!("not RESP: {why}"))),
            }
            let before = self.received.len();
            self.received.resize(before + READ_CHUNK_BYTES, 0);
            let count = self.stream.read(&mut self.received[before..]);
            self.received.truncate(before + count.as_ref().copied().unwrap_or(0));
            match count {
                Ok(0) => return Err(io::Error::other("the server closed the connection")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other("no reply in time"));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends raw bytes, ends the sending half, and returns all that comes back until the server closes.
    pub fn exchange_raw(mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        // A server may close in the middle of what it refuses: what it said first is what counts.
        let _ = self.stream.write_all(bytes);
        let _ = self.stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        match self.stream.read_to_end(&mut answer) {
            Ok(_) => Ok(answer),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(answer),
            Err(error) => Err(error),
        }
    }
}

fn encode(args: &[Vec<u8>], request: &mut Vec<u8>) {
    request.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
}
