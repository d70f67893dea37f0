//! Asking a node for something: a connection, one command, its answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use cluster::records::NodeRecord;
use engine::config::Config;
use rustls::StreamOwned;

use crate::tls::Tls;

/// How long a node may take to be connected to, and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Has a node run a command that is answered in one line. The error is its error reply, or why it could not be asked.
pub fn ask(config: &Config, node: &NodeRecord, words: &[&str]) -> Result<String, String> {
    let is_secret = config.bool("tls-cluster");
    let port = if is_secret { node.tls_port } else { node.port };
    let place = format!("{}:{port}", node.ip);
    let failed = |error: io::Error| format!("{place}: {error}");
    let address = (node.ip.trim_matches(['[', ']']), port).to_socket_addrs().map_err(failed)?.next();
    let address = address.ok_or_else(|| format!("{place}: the name has no address"))?;
    let tcp = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(failed)?;
    tcp.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
    tcp.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
    let stream: Box<dyn Stream> = match is_secret {
        false => Box::new(tcp),
        true => Box::new(StreamOwned::new(Tls::load(config)?.connect(&node.ip)?, tcp)),
    };
    let mut stream = BufReader::new(stream);
    let (user, password) = (config.string("masteruser"), config.string("masterauth"));
    if !password.is_empty() {
        let words = if user.is_empty() { vec!["AUTH", &password] } else { vec!["AUTH", &user, &password] };
        call(&mut stream, &words).map_err(failed)?.map_err(|error| format!("{place}: {error}"))?;
    }
    call(&mut stream, words).map_err(failed)?.map_err(|error| format!("{place}: {error}"))
}

fn call(stream: &mut BufReader<Box<dyn Stream>>, words: &[&str]) -> io::Result<Result<String, String>> {
    let mut bytes = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    stream.get_mut().write_all(bytes.as_bytes())?;
    stream.get_mut().flush()?;
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    Ok(match line.strip_prefix('-') {
        Some(error) => Err(error.to_owned()),
        None => Ok(line.trim_start_matches(['+', ':']).to_owned()),
    })
}
