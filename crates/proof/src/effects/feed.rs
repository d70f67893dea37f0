//! A server's replication stream, read as a replica would, and the marks by which it is known what a command left in it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use resp::Value;

use crate::duo::Args;
use crate::link::Link;
use crate::server::Server;

/// A server that sends nothing for this long counts as hung: it was asked for a mark.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two words from a replica that is there.
const ACK_INTERVAL: Duration = Duration::from_secs(1);
const READ_CHUNK_BYTES: usize = 64 * 1024;
/// The database that nothing but marks is in.
const MARK_DATABASE: &str = "15";
const MARK_KEY: &[u8] = b"proof:mark";

/// A command of the stream, and the database it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub database: u32,
    pub words: Args,
}

/// One server's stream.
pub struct Feed {
    stream: TcpStream,
    received: Vec<u8>,
    consumed: usize,
    acknowledged: Instant,
    /// Where the next mark is set.
    marker: Link,
    marks: u64,
    database: u32,
    /// Whatever came since the last [`Feed::take`], SELECTs included.
    since: Vec<Args>,
}

impl Feed {
    /// Becomes a replica of a server whose data are of no interest.
    pub fn open(server: &Server) -> io::Result<Feed> {
        let mut marker = server.connect()?;
        marker.call(&["SELECT", MARK_DATABASE])?;
        let stream = TcpStream::connect(("127.0.0.1", server.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut feed = Feed {
            stream,
            received: Vec::new(),
            consumed: 0,
            acknowledged: Instant::now(),
            marker,
            marks: 0,
            database: 0,
            since: Vec::new(),
        };
        feed.send(&["REPLCONF", "listening-port", "1"])?;
        feed.line()?;
        feed.send(&["REPLCONF", "capa", "psync2"])?;
        feed.line()?;
        feed.send(&["PSYNC", "?", "-1"])?;
        let answer = feed.line()?;
        if !answer.starts_with(b"+FULLRESYNC ") {
            return Err(io::Error::other(format!("PSYNC: {}", answer.escape_ascii())));
        }
        feed.skip_data()?;
        Ok(feed)
    }

    fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut request = Vec::new();
        resp::write_command(&mut request, words);
        self.stream.write_all(&request)
    }

    fn fill(&mut self) -> io::Result<()> {
        let before = self.received.len();
        self.received.resize(before + READ_CHUNK_BYTES, 0);
        let count = self.stream.read(&mut self.received[before..]);
        self.received.truncate(before + count.as_ref().copied().unwrap_or(0));
        match count {
            Ok(0) => Err(io::Error::other("the server has closed the stream")),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next line that is not empty.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let rest = &self.received[self.consumed..];
            match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]).to_vec();
                    self.consumed += end + 1;
                    if !line.is_empty() {
                        return Ok(line);
                    }
                }
                None => self.fill()?,
            }
        }
    }

    /// Passes over what a full synchronization begins with.
    fn skip_data(&mut self) -> io::Result<()> {
        let head = self.line()?;
        let text = String::from_utf8_lossy(&head).into_owned();
        let len: usize = text
            .strip_prefix('$')
            .and_then(|len| len.parse().ok())
            .ok_or_else(|| io::Error::other(format!("the data begin with {text}")))?;
        while self.received.len() - self.consumed < len {
            self.fill()?;
        }
        self.consumed += len;
        Ok(())
    }

    fn next(&mut self) -> io::Result<Args> {
        loop {
            match resp::parse::parse(&self.received[self.consumed..]) {
                Ok(Some((value, used))) => {
                    self.consumed += used;
                    if self.consumed > READ_CHUNK_BYTES {
                        self.received.drain(..self.consumed);
                        self.consumed = 0;
                    }
                    let Value::Array(words) = value else {
                        return Err(io::Error::other("what is no command is in the stream"));
                    };
                    let word = |word| if let Value::Bulk(word) = word { Some(word) } else { None };
                    let words: Option<Args> = words.into_iter().map(word).collect();
                    return words.ok_or_else(|| io::Error::other("what is no command is in the stream"));
                }
                Ok(None) => self.fill()?,
                Err(why) => return Err(io::Error::other(format!("the stream is not RESP: {why}"))),
            }
        }
    }

    /// Sets a mark, which comes after the effects of all that was answered before.
    pub fn mark(&mut self) -> io::Result<()> {
        self.marks += 1;
        let mark = self.marks.to_string().into_bytes();
        self.marker.run(&[b"SET".to_vec(), MARK_KEY.to_vec(), mark]).map(drop)
    }

    /// What the stream holds up to the last mark.
    pub fn until_mark(&mut self) -> io::Result<Vec<Effect>> {
        if self.acknowledged.elapsed() > ACK_INTERVAL {
            self.acknowledged = Instant::now();
            self.send(&["REPLCONF", "ACK", "0"])?;
        }
        let mark = self.marks.to_string().into_bytes();
        let mut effects = Vec::new();
        loop {
            let words = self.next()?;
            let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
            if is("PING") || is("REPLCONF") {
                continue;
            }
            if is("SELECT") {
                let number = words.get(1).and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
                self.database = number.ok_or_else(|| io::Error::other("a SELECT of nothing"))?;
                self.since.push(words);
                continue;
            }
            let is_mark = words.get(1).is_some_and(|key| key == MARK_KEY);
            self.since.push(words.clone());
            if is_mark && words.get(2) == Some(&mark) {
                return Ok(effects);
            }
            if !is_mark {
                effects.push(Effect { database: self.database, words });
            }
        }
    }

    /// The commands that came since the last call, with the databases that they are for.
    pub fn take(&mut self) -> Vec<Args> {
        let select = vec![b"SELECT".to_vec(), self.database.to_string().into_bytes()];
        std::mem::replace(&mut self.since, vec![select])
    }
}
