//! A client's connection as bytes: what is to be sent, and what has come but is not a whole answer.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use resp::encode::write_command;
use resp::parse::{ParseError, Value, parse};

use super::client::{Line, Sent};
use super::kind::Kind;
use super::servers::key_name;

/// One connection, which may still be being made.
pub struct Wire {
    pub client: u32,
    pub line: Line,
    stream: TcpStream,
    is_open: bool,
    unsent: Vec<u8>,
    unread: Vec<u8>,
    /// Answers that nobody waits for come first: to the greeting, to ASKING.
    passed_over: usize,
}

/// What an event has led to.
pub enum Progress {
    /// Nothing to do.
    Waits,
    /// It has just been made.
    Opened,
    /// It is no more.
    Lost,
}

impl Wire {
    /// Begins to connect, and greets as this kind does.
    pub fn connect(
        registry: &Registry,
        token: Token,
        address: SocketAddr,
        client: u32,
        line: Line,
        kind: Kind,
    ) -> io::Result<Wire> {
        let mut stream = TcpStream::connect(address)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let greeting = kind.facts().greeting;
        let mut unsent = Vec::new();
        for words in greeting {
            write_command(&mut unsent, words.iter().map(|word| word.as_bytes()));
        }
        let passed_over = greeting.len();
        Ok(Wire { client, line, stream, is_open: false, unsent, unread: Vec::new(), passed_over })
    }

    /// Whether it has been made.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Closes it.
    pub fn close(mut self, registry: &Registry) {
        // Whoever is being closed needs no more events; an error changes nothing about that.
        let _ = registry.deregister(&mut self.stream);
    }

    /// Puts this behind what is to be sent.
    pub fn push(&mut self, sent: &Sent, value: &[u8]) {
        match sent {
            Sent::Slots => write_command(&mut self.unsent, [b"CLUSTER", b"SLOTS".as_slice()]),
            Sent::Request { job, is_asking } => {
                if *is_asking {
                    write_command(&mut self.unsent, [b"ASKING"]);
                    self.passed_over += 1;
                }
                let key = key_name(job.key);
                if job.is_write {
                    write_command(&mut self.unsent, [b"SET", key.as_bytes(), value]);
                } else {
                    write_command(&mut self.unsent, [b"GET", key.as_bytes()]);
                }
            }
        }
    }

    /// Sends what the socket takes, once there is a connection.
    pub fn flush(&mut self) -> Progress {
        let mut progress = Progress::Waits;
        if !self.is_open {
            match self.stream.take_error() {
                Ok(None) => {}
                _ => return Progress::Lost,
            }
            match self.stream.peer_addr() {
                Ok(_) => {
                    self.is_open = true;
                    progress = Progress::Opened;
                    // Without it small requests wait for nothing: the only failure is a connection that has ended.
                    let _ = self.stream.set_nodelay(true);
                }
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Progress::Waits,
                Err(_) => return Progress::Lost,
            }
        }
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Progress::Lost,
                Ok(size) => drop(self.unsent.drain(..size)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Progress::Lost,
            }
        }
        progress
    }

    /// Reads what has come; false where the connection has ended.
    pub fn read(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(size) => {
                    self.unread.extend_from_slice(&buffer[..size]);
                    // Less than was asked for: there is no more, and the next bytes make an event.
                    if size < buffer.len() {
                        return true;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// The next answer that somebody waits for, with its bytes.
    pub fn answer(&mut self) -> Result<Option<(Value, Vec<u8>)>, ParseError> {
        while let Some((value, size)) = parse(&self.unread)? {
            let bytes: Vec<u8> = self.unread.drain(..size).collect();
            if matches!(value, Value::Push(_)) {
                continue;
            }
            if self.passed_over == 0 {
                return Ok(Some((value, bytes)));
            }
            self.passed_over -= 1;
        }
        Ok(None)
    }
}
