//! The handshake with a primary: lines in, commands out. It owns no socket and knows no time.
//!
//! ```text
//!   PING -> [AUTH] REPLCONF listening-port .. [ip-address ..] capa .. [halcyon-member ..] -> PSYNC id offset -> FULLRESYNC | CONTINUE
//!                                                                            \-> the end of what this server has is void
//! ```

use resp::write_command;

/// What a replica says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// `masteruser`; empty: none.
    pub user: Vec<u8>,
    /// `masterauth`; empty: no AUTH is sent.
    pub password: Vec<u8>,
    /// The port that others reach it at.
    pub port: u16,
    /// `replica-announce-ip`; empty: the primary is to look at the connection.
    pub address: Vec<u8>,
    /// The stream it has, and the offset after what it has of it; none: it asks for everything.
    pub position: Option<(String, u64)>,
    /// The primary is to become a replica of this server: how FAILOVER hands over.
    pub takes_over: bool,
    /// What this server is in the primary's shard, in words.
    pub membership: Option<String>,
}

/// What the primary has agreed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// All data comes, then the stream of this id from the offset on.
    Full {
        /// 40 hex digits.
        id: String,
        /// The offset that the data is of.
        offset: u64,
    },
    /// The stream goes on from where it was; it may be called by another id from here on.
    Partial {
        /// That id.
        id: Option<String>,
    },
    /// What this server has of its stream beyond this offset is void: the primary has gone on from there with another. Nothing
    /// comes: it is to be asked again by who has no more.
    Rewind {
        /// The stream is the primary's up to here.
        to: u64,
    },
}

/// Why there is no agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// For the log.
    Failed(String),
    /// The primary cannot serve now, but will.
    Later(String),
}

impl Refusal {
    /// The words for the log.
    pub fn text(&self) -> &str {
        match self {
            Refusal::Failed(text) | Refusal::Later(text) => text,
        }
    }
}

/// The answers that may still come, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Pong,
    Auth,
    Port,
    Address,
    Capabilities,
    Membership,
    Sync,
}

/// A handshake on its way.
#[derive(Debug)]
pub struct Handshake {
    introduction: Introduction,
    awaited: Awaited,
}

impl Handshake {
    /// At its start; `out` gets what to send first.
    pub fn begin(introduction: Introduction, out: &mut Vec<u8>) -> Handshake {
        write_command(out, [b"PING".as_slice()]);
        Handshake { introduction, awaited: Awaited::Pong }
    }

    /// What the link is doing, in ROLE's words.
    pub fn is_syncing(&self) -> bool {
        self.awaited == Awaited::Sync
    }

    /// Takes a line of the primary, without its end; `out` gets what to send next. An empty line only says that the primary
    /// is there.
    pub fn take(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<Option<Agreement>, Refusal> {
        if line.is_empty() {
            return Ok(None);
        }
        let is_error = line[0] == b'-';
        match self.awaited {
            Awaited::Pong => {
                if is_error && !is_about_permission(line) {
                    return Err(Refusal::Failed(format!(
                        "Error reply to PING from master: '{}'",
                        shown(line)
                    )));
                }
                self.introduce(out);
            }
            Awaited::Auth if is_error => {
                return Err(Refusal::Failed(format!("Unable to AUTH to MASTER: {}", shown(line))));
            }
            Awaited::Auth => self.awaited = Awaited::Port,
            // Whether it understands what it is told is the primary's affair.
            Awaited::Port if self.introduction.address.is_empty() => self.awaited = Awaited::Capabilities,
            Awaited::Port => self.awaited = Awaited::Address,
            Awaited::Address => self.awaited = Awaited::Capabilities,
            Awaited::Capabilities if self.introduction.membership.is_some() => {
                self.awaited = Awaited::Membership;
            }
            // Its records may be older than this server's, or newer: that passes.
            Awaited::Membership if is_error => {
                return Err(Refusal::Later(format!(
                    "MASTER is not the primary of this shard: {}",
                    shown(line)
                )));
            }
            Awaited::Membership if self.void_from(line).is_some() => {
                return Ok(self.void_from(line).map(|to| Agreement::Rewind { to }));
            }
            Awaited::Capabilities | Awaited::Membership => {
                self.ask(out);
                self.awaited = Awaited::Sync;
            }
            Awaited::Sync => return agreement(line).map(Some),
        }
        Ok(None)
    }

    fn introduce(&mut self, out: &mut Vec<u8>) {
        let Introduction { user, password, port, address, membership, .. } = &self.introduction;
        self.awaited = Awaited::Port;
        if !password.is_empty() {
            self.awaited = Awaited::Auth;
            match user.is_empty() {
                true => write_command(out, [b"AUTH".as_slice(), password]),
                false => write_command(out, [b"AUTH".as_slice(), user, password]),
            }
        }
        write_command(out, [b"REPLCONF".as_slice(), b"listening-port", port.to_string().as_bytes()]);
        if !address.is_empty() {
            write_command(out, [b"REPLCONF".as_slice(), b"ip-address", address]);
        }
        write_command(out, [b"REPLCONF".as_slice(), b"capa", b"eof", b"capa", b"psync2"]);
        if let Some(membership) = membership {
            write_command(out, [b"REPLCONF".as_slice(), b"halcyon-member", membership.as_bytes()]);
        }
    }

    /// From where on what this server has of its stream is void, by `+OK ID NEXT`: the primary has this stream up to the byte before
    /// that, and then another.
    fn void_from(&self, line: &[u8]) -> Option<u64> {
        let (own, end) = self.introduction.position.as_ref()?;
        let mut words = std::str::from_utf8(line).ok()?.strip_prefix("+OK ")?.split(' ');
        let (id, next) = (words.next()?, words.next()?.parse::<u64>().ok()?);
        let to = next.checked_sub(1)?;
        (id.eq_ignore_ascii_case(own) && *end > to).then_some(to)
    }

    fn ask(&self, out: &mut Vec<u8>) {
        let Some((id, offset)) = &self.introduction.position else {
            return write_command(out, [b"PSYNC".as_slice(), b"?", b"-1"]);
        };
        // The protocol names the first byte that is wanted, and counts from 1.
        let wanted = (offset + 1).to_string();
        match self.introduction.takes_over {
            true => write_command(out, [b"PSYNC".as_slice(), id.as_bytes(), wanted.as_bytes(), b"FAILOVER"]),
            false => write_command(out, [b"PSYNC".as_slice(), id.as_bytes(), wanted.as_bytes()]),
        }
    }
}

/// A primary that wants a password, or a user, before it answers PING.
fn is_about_permission(line: &[u8]) -> bool {
    [b"-NOAUTH".as_slice(), b"-NOPERM", b"-ERR operation not permitted"]
        .iter()
        .any(|start| line.starts_with(start))
}

fn agreement(line: &[u8]) -> Result<Agreement, Refusal> {
    let text = shown(line);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let id = |word: &str| (word.len() == 40).then(|| word.to_owned());
    match words[..] {
        ["+FULLRESYNC", name, offset] => {
            let full = id(name).zip(offset.parse().ok()).map(|(id, offset)| Agreement::Full { id, offset });
            full.ok_or_else(|| {
                Refusal::Failed(format!("The primary's answer to PSYNC is not understood: {text}"))
            })
        }
        ["+CONTINUE"] => Ok(Agreement::Partial { id: None }),
        ["+CONTINUE", name] => Ok(Agreement::Partial { id: id(name) }),
        ["-NOMASTERLINK", ..] | ["-LOADING", ..] => Err(Refusal::Later(format!(
            "MASTER is currently unable to PSYNC but should be in the future: {text}"
        ))),
        _ => Err(Refusal::Failed(format!("Unexpected reply to PSYNC from master: {text}"))),
    }
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn words(mut sent: &[u8]) -> String {
        let (mut batch, mut all) = (resp::Batch::new(), Vec::new());
        while !sent.is_empty() {
            let used = resp::Decoder::new().decode(sent, &resp::DecodeLimits::default(), 1, &mut batch);
            let used = used.expect("commands");
            let args = batch.command(0, sent);
            all.push(args.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" "));
            sent = &sent[used..];
        }
        all.join("|")
    }

    /// What is sent in answer to each line, and how it ends.
    fn play(introduction: Introduction, lines: &[&str]) -> (String, Result<Option<Agreement>, Refusal>) {
        let mut out = Vec::new();
        let mut handshake = Handshake::begin(introduction, &mut out);
        let mut end = Ok(None);
        for line in lines {
            assert_eq!(end, Ok(None), "nothing follows the end");
            end = handshake.take(line.as_bytes(), &mut out);
        }
        (words(&out), end)
    }

    #[test]
    fn a_replica_without_data_asks_for_everything() {
        let lines = ["+PONG", "+OK", "+OK", "", &format!("+FULLRESYNC {ID} 17")];
        let (sent, end) = play(Introduction { port: 7000, ..Introduction::default() }, &lines);
        assert_eq!(sent, "PING|REPLCONF listening-port 7000|REPLCONF capa eof capa psync2|PSYNC ? -1");
        assert_eq!(end, Ok(Some(Agreement::Full { id: ID.to_owned(), offset: 17 })));
    }

    #[test]
    fn a_replica_with_data_asks_for_the_next_byte() {
        let introduction = Introduction {
            user: b"u".to_vec(),
            password: b"p".to_vec(),
            port: 1,
            address: b"10.0.0.9".to_vec(),
            position: Some((ID.to_owned(), 99)),
            takes_over: true,
            membership: None,
        };
        // What a primary says to REPLCONF does not matter.
        let lines = ["-NOAUTH Authentication required.", "+OK", "-ERR what?", "+OK", "+OK", "+CONTINUE"];
        let (sent, end) = play(introduction, &lines);
        let expected = format!(
            "PING|AUTH u p|REPLCONF listening-port 1|REPLCONF ip-address 10.0.0.9|REPLCONF capa eof capa psync2|PSYNC {ID} 100 FAILOVER"
        );
        assert_eq!(sent, expected);
        assert_eq!(end, Ok(Some(Agreement::Partial { id: None })));
    }

    #[test]
    fn a_member_learns_what_of_its_stream_is_void() {
        let introduction = |has| Introduction {
            position: Some((ID.to_owned(), has)),
            membership: Some("words".to_owned()),
            ..Introduction::default()
        };
        let other = "f".repeat(40);
        for (said, has, void_from) in [
            ("+OK".to_owned(), 100, None),
            (format!("+OK {ID} 100"), 100, Some(99)),
            (format!("+OK {ID} 101"), 100, None),
            (format!("+OK {ID} 2"), 1, None),
            (format!("+OK {other} 2"), 100, None),
            (format!("+OK {ID} x"), 100, None),
            (format!("+OK {ID} 0"), 100, None),
        ] {
            let (sent, end) = play(introduction(has), &["+PONG", "+OK", "+OK", &said]);
            assert_eq!(end, Ok(void_from.map(|to| Agreement::Rewind { to })), "{said}");
            assert_eq!(sent.contains("PSYNC"), void_from.is_none(), "{said}");
        }
        let nothing = Introduction { position: None, ..introduction(1) };
        assert_eq!(play(nothing, &["+PONG", "+OK", "+OK", &format!("+OK {ID} 2")]).1, Ok(None));
    }

    #[test]
    fn refusals() {
        let plain = Introduction::default();
        let with_password = Introduction { password: b"p".to_vec(), ..plain.clone() };
        for (introduction, lines, text) in [
            (&plain, &["-ERR no"][..], "Error reply to PING from master: '-ERR no'"),
            (&with_password, &["+PONG", "-WRONGPASS x"], "Unable to AUTH to MASTER: -WRONGPASS x"),
            (&plain, &["+PONG", "+OK", "+OK", "-ERR x"], "Unexpected reply to PSYNC from master: -ERR x"),
            (&plain, &["+PONG", "+OK", "+OK", "+FULLRESYNC x 1"], "not understood"),
        ] {
            let end = play(introduction.clone(), lines).1;
            assert!(matches!(&end, Err(Refusal::Failed(said)) if said.contains(text)), "{end:?}");
        }
        let later = play(plain, &["+PONG", "+OK", "+OK", "-NOMASTERLINK Can't SYNC"]).1;
        assert!(matches!(later, Err(Refusal::Later(_))), "{later:?}");
    }
}
