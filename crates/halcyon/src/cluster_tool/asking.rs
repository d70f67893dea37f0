//! Asking nodes for something: a connection, commands, their answers.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cluster::records::NodeRecord;
use engine::config::Config;
use rustls::StreamOwned;

use crate::tls::Tls;

/// How long a node may take to be connected to, and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// What a node answers.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// A line, or a number.
    Line(String),
    /// A text.
    Text(Vec<u8>),
    /// Several.
    List(Vec<Answer>),
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Line(line) => out.write_str(line),
            Answer::Text(text) => out.write_str(&String::from_utf8_lossy(text)),
            Answer::List(all) => all.iter().try_for_each(|one| write!(out, "{one} ")),
        }
    }
}

/// A connection to a node.
pub struct Connection {
    place: String,
    stream: BufReader<Box<dyn Stream>>,
}

impl Connection {
    /// Connects, over TLS if `tls-cluster` says so, and says who it is by `masteruser` and `masterauth`.
    pub fn open(config: &Config, node: &NodeRecord) -> Result<Connection, String> {
        let is_secret = config.bool("tls-cluster");
        let port = if is_secret { node.tls_port } else { node.port };
        let place = format!("{}:{port}", node.ip);
        let failed = |error: io::Error| format!("{place}: {error}");
        let address = (node.ip.trim_matches(['[', ']']), port).to_socket_addrs().map_err(failed)?.next();
        let address = address.ok_or_else(|| format!("{place}: the name has no address"))?;
        let tcp = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        tcp.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        tcp.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        let stream: Box<dyn Stream> = match is_secret {
            false => Box::new(tcp),
            true => Box::new(StreamOwned::new(Tls::load(config)?.connect(&node.ip)?, tcp)),
        };
        let mut connection = Connection { place, stream: BufReader::new(stream) };
        let (user, password) = (config.string("masteruser"), config.string("masterauth"));
        if !password.is_empty() {
            let words = match user.is_empty() {
                true => vec!["AUTH", &password],
                false => vec!["AUTH", &user, &password],
            };
            connection.call(&words)?;
        }
        Ok(connection)
    }

    /// Has the node run a command. The error is its error reply, or why it could not be asked.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Answer, String> {
        let answer = self.send(words).and_then(|()| self.receive());
        let place = &self.place;
        answer.map_err(|error| format!("{place}: {error}"))?.map_err(|error| format!("{place}: {error}"))
    }

    fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)?;
        self.stream.get_mut().flush()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn receive(&mut self) -> io::Result<Result<Answer, String>> {
        let line = self.line()?;
        let odd = || io::Error::new(io::ErrorKind::InvalidData, format!("an odd answer: {line}"));
        Ok(match (line.chars().next(), line.get(1..).unwrap_or_default()) {
            (Some('+' | ':'), text) => Ok(Answer::Line(text.to_owned())),
            (Some('-'), text) => Err(text.to_owned()),
            (Some('*'), count) => {
                let count: usize = count.parse().map_err(|_| odd())?;
                let mut all = Vec::new();
                for _ in 0..count {
                    all.push(
                        self.receive()?.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
                    );
                }
                Ok(Answer::List(all))
            }
            (Some('$'), length) => {
                let length: usize = length.parse().map_err(|_| odd())?;
                let mut text = vec![0; length + 2];
                self.stream.read_exact(&mut text)?;
                text.truncate(length);
                Ok(Answer::Text(text))
            }
            _ => return Err(odd()),
        })
    }
}

/// A name for a move: 40 hex digits, drawn.
pub fn new_name() -> Result<String, String> {
    let mut bytes = [0; 20];
    let filled = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    filled.map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The time by this machine's clock.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Has a node run one command.
pub fn ask(config: &Config, node: &NodeRecord, words: &[&str]) -> Result<Answer, String> {
    Connection::open(config, node)?.call(words)
}
