//! A blocking connection: requests out in one write, replies back one at a time.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use resp::Value;

/// A server that takes longer than this to answer counts as hung.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const READ_CHUNK_BYTES: usize = 64 * 1024;
const NO_REPLY: &str = "no reply in time";

/// What a command is sent in, so that the same scripts prove the same commands there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wrap {
    /// Nothing.
    #[default]
    Plain,
    /// A transaction of its own.
    Transaction,
    /// A Lua script, which speaks this protocol version.
    Script(u8),
}

/// Commands about the connection or the transaction itself, which mean something else inside one.
const NEVER_WRAPPED: &[&str] = &[
    "acl",
    "auth",
    "client",
    "debug",
    "discard",
    "exec",
    "hello",
    "monitor",
    "multi",
    "psubscribe",
    "punsubscribe",
    "quit",
    "reset",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "unsubscribe",
    "unwatch",
    "watch",
    "select",
    "shutdown",
];

impl Wrap {
    /// How the replies are put together that `args` brings in this wrap.
    fn of(self, args: &[Vec<u8>]) -> Wrap {
        let is_plain =
            |name: &&str| args.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        if NEVER_WRAPPED.iter().any(is_plain) { Wrap::Plain } else { self }
    }
}

/// A connection to one server.
pub struct Link {
    stream: TcpStream,
    received: Vec<u8>,
    consumed: usize,
    wrap: Wrap,
    /// How the commands were sent that are not answered yet.
    unanswered: VecDeque<Wrap>,
}

impl Link {
    /// Connects to 127.0.0.1.
    pub fn open(port: u16) -> io::Result<Link> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let (received, unanswered) = (Vec::new(), VecDeque::new());
        Ok(Link { stream, received, consumed: 0, wrap: Wrap::Plain, unanswered })
    }

    /// From now on commands are sent in this.
    pub fn wrap(&mut self, wrap: Wrap) {
        self.wrap = wrap;
    }

    /// Sends several commands in one write.
    pub fn send<'a>(&mut self, commands: impl IntoIterator<Item = &'a Vec<Vec<u8>>>) -> io::Result<()> {
        let mut request = Vec::new();
        for args in commands {
            self.encode(args, &mut request);
        }
        self.stream.write_all(&request)
    }

    /// Sends one command and reads its reply.
    pub fn run(&mut self, args: &[Vec<u8>]) -> io::Result<Value> {
        let mut request = Vec::new();
        self.encode(args, &mut request);
        self.stream.write_all(&request)?;
        self.reply()
    }

    fn encode(&mut self, args: &[Vec<u8>], request: &mut Vec<u8>) {
        let wrap = self.wrap.of(args);
        self.unanswered.push_back(wrap);
        match wrap {
            Wrap::Plain => encode(args, request),
            Wrap::Transaction => {
                encode(&[b"MULTI".to_vec()], request);
                encode(args, request);
                encode(&[b"EXEC".to_vec()], request);
            }
            Wrap::Script(protocol) => {
                let source = format!("redis.setresp({protocol}); return redis.call(unpack(ARGV))");
                let head = [b"EVAL".to_vec(), source.into_bytes(), b"0".to_vec()];
                encode(&[&head[..], args].concat(), request);
            }
        }
    }

    /// The reply to the oldest command that has none.
    pub fn reply(&mut self) -> io::Result<Value> {
        if self.unanswered.pop_front() != Some(Wrap::Transaction) {
            return self.next();
        }
        let (begun, queued, ran) = (self.next()?, self.next()?, self.next()?);
        Ok(match ran {
            Value::Array(mut replies) if replies.len() == 1 && begun == Value::Simple(b"OK".to_vec()) => {
                replies.pop().unwrap_or(Value::Null)
            }
            _ => queued,
        })
    }

    /// `run` for literal arguments.
    pub fn call(&mut self, args: &[&str]) -> io::Result<Value> {
        let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        self.run(&args)
    }

    /// Reads whatever comes next.
    pub fn next(&mut self) -> io::Result<Value> {
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
                    return Err(io::Error::other(NO_REPLY));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What comes within a time, if anything does.
    pub fn next_within(&mut self, patience: Duration) -> io::Result<Option<Value>> {
        self.stream.set_read_timeout(Some(patience))?;
        let next = self.next();
        self.stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        match next {
            Err(error) if error.to_string() == NO_REPLY => Ok(None),
            other => other.map(Some),
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
