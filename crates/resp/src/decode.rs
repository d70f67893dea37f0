//! Decoding of commands, as a client sends them: arrays of bulk strings, or inline lines. Sans-IO and zero-copy: the
//! caller owns the input buffer, a [`Batch`] notes where in it the arguments lie.
//!
//! Redis's rules hold to the letter: after the `\r` of a length and after an argument's bytes, whatever stands there is
//! skipped without a look; a NUL hides the rest of a line that is not yet complete; `*0`, `*-1` and blank lines are
//! nothing at all. What a client merely announces allocates nothing.

use std::fmt;

use base::limits::{
    INLINE_BYTES_MAX, MULTIBULK_ARGS_MAX, PROTO_MAX_BULK_BYTES_DEFAULT, QUERY_BUFFER_BYTES_DEFAULT,
    UNAUTH_ARGS_MAX, UNAUTH_BULK_BYTES_MAX,
};
use base::num::parse_i64;

use crate::args::{Args, Span};
use crate::inline;

/// A partial command of fewer bytes than this (arguments' contents not counted) is parsed again when more has come:
/// that is cheaper than an allocation to remember it by.
const REPARSED_BYTES_MAX: usize = 1024;

/// Capacities a cleared batch keeps, so that one enormous command does not hold its memory for ever.
const KEPT_SPANS_MAX: usize = 16 * 1024;
const KEPT_SIDE_BYTES_MAX: usize = INLINE_BYTES_MAX;

/// A run of commands: where each argument lies in the input buffer they were decoded from. Reused from batch to batch.
///
/// The words of an inline command with quotes are not spans of the input, since they had to be unescaped: they lie in a
/// buffer of the batch, and [`Batch::command`] picks the right one.
#[derive(Debug, Default)]
pub struct Batch {
    commands: Vec<CommandSpan>,
    args: Vec<Span>,
    /// Unescaped words of inline commands.
    side: Vec<u8>,
}

#[derive(Copy, Clone, Debug)]
struct CommandSpan {
    first_arg: u32,
    args: u32,
    /// Where the next command starts in the input, in bytes.
    end: usize,
    /// Its spans are of `Batch::side`.
    in_side: bool,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Forgets the commands; keeps the memory for the next ones, within reason.
    #[inline]
    pub fn clear(&mut self) {
        self.commands.clear();
        self.args.clear();
        self.side.clear();
        if self.args.capacity() > KEPT_SPANS_MAX {
            self.args.shrink_to(KEPT_SPANS_MAX);
        }
        if self.side.capacity() > KEPT_SIDE_BYTES_MAX {
            self.side.shrink_to(KEPT_SIDE_BYTES_MAX);
        }
    }

    /// How many commands there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The arguments of command `index` (below [`len`](Batch::len)), never empty. `input` is the very input that was
    /// decoded.
    #[inline]
    pub fn command<'a>(&'a self, index: usize, input: &'a [u8]) -> Args<'a> {
        let command = &self.commands[index];
        let first = command.first_arg as usize;
        let spans = &self.args[first..first + command.args as usize];
        Args::from_spans(if command.in_side { &self.side } else { input }, spans)
    }

    /// Where in the input command `index` ends: what may be dropped from its front once that command has run.
    #[inline]
    pub fn end_of(&self, index: usize) -> usize {
        self.commands[index].end
    }

    /// Size on the wire of command `index`, in bytes, with what was skipped before it.
    #[inline]
    pub fn wire_bytes(&self, index: usize) -> usize {
        let start = if index == 0 { 0 } else { self.commands[index - 1].end };
        self.commands[index].end - start
    }

    /// Notes the spans from `first_arg` on as one command.
    #[inline]
    fn finish_command(&mut self, first_arg: usize, end: usize, in_side: bool) {
        let args = self.args.len() - first_arg;
        debug_assert!(args > 0, "a command has a name");
        self.commands.push(CommandSpan { first_arg: first_arg as u32, args: args as u32, end, in_side });
    }
}

/// What one client may send.
#[derive(Copy, Clone, Debug)]
pub struct DecodeLimits {
    /// Longest argument: `proto-max-bulk-len`, which is never below 1 MiB. Lengths of one or two digits are not
    /// compared with it.
    pub bulk_bytes_max: u64,
    /// Longest command on the wire: `client-query-buffer-limit`.
    pub query_buffer_bytes_max: u64,
    /// False before a needed AUTH: only small commands are taken then.
    pub authenticated: bool,
}

impl Default for DecodeLimits {
    fn default() -> DecodeLimits {
        DecodeLimits {
            bulk_bytes_max: PROTO_MAX_BULK_BYTES_DEFAULT,
            query_buffer_bytes_max: QUERY_BUFFER_BYTES_DEFAULT,
            authenticated: true,
        }
    }
}

/// Why a connection has to be closed. [`write_reply`](DecodeError::write_reply) says what it is told before.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The line of an inline command is too long.
    TooBigInline,
    /// The `*<count>` line is too long.
    TooBigMultibulkCount,
    /// The `$<length>` line is too long.
    TooBigBulkCount,
    /// The count of arguments is not a number, or too large.
    InvalidMultibulkLength,
    /// The length of an argument is not a number, negative or too large.
    InvalidBulkLength,
    /// An argument starts with this byte.
    ExpectedDollar(u8),
    /// Quotes of an inline command are not closed, or are followed by more of the word.
    UnbalancedQuotes,
    /// Too many arguments for a client that has not authenticated.
    UnauthenticatedMultibulkLength,
    /// Too long an argument for a client that has not authenticated.
    UnauthenticatedBulkLength,
    /// The command exceeds `client-query-buffer-limit`. Redis closes such a connection without a word.
    QueryBufferLimit,
}

impl DecodeError {
    /// Appends the error reply, `-ERR Protocol error: ...\r\n`, byte for byte as Redis sends it; nothing for
    /// [`DecodeError::QueryBufferLimit`]. Not always UTF-8: it quotes the client's byte.
    pub fn write_reply(&self, out: &mut Vec<u8>) {
        match *self {
            DecodeError::QueryBufferLimit => {}
            DecodeError::ExpectedDollar(got) => {
                out.extend_from_slice(b"-ERR Protocol error: expected '$', got '");
                out.push(if matches!(got, b'\r' | b'\n') { b' ' } else { got });
                out.extend_from_slice(b"'\r\n");
            }
            _ => {
                out.extend_from_slice(b"-ERR Protocol error: ");
                out.extend_from_slice(self.reason().as_bytes());
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            DecodeError::TooBigInline => "too big inline request",
            DecodeError::TooBigMultibulkCount => "too big mbulk count string",
            DecodeError::TooBigBulkCount => "too big bulk count string",
            DecodeError::InvalidMultibulkLength => "invalid multibulk length",
            DecodeError::InvalidBulkLength => "invalid bulk length",
            DecodeError::ExpectedDollar(_) => "expected '$'",
            DecodeError::UnbalancedQuotes => "unbalanced quotes in request",
            DecodeError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            DecodeError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            DecodeError::QueryBufferLimit => "client-query-buffer-limit exceeded",
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERR Protocol error: {}", self.reason())?;
        match self {
            DecodeError::ExpectedDollar(b'\r' | b'\n') => f.write_str(", got ' '"),
            DecodeError::ExpectedDollar(got) => write!(f, ", got '{}'", *got as char),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decoding state of one connection. Small while no large command is half-way in: 24 bytes.
#[derive(Debug, Default)]
pub struct Decoder {
    /// How far a large partial command has been parsed. The command starts at the next input's first byte.
    partial: Option<Box<Partial>>,
    wanted_bytes: usize,
    failed: Option<DecodeError>,
}

const _: () = assert!(size_of::<Decoder>() <= 32, "every idle connection carries one");

#[derive(Debug, Default)]
struct Partial {
    progress: Progress,
    /// Arguments so far, relative to the command's start.
    args: Vec<Span>,
}

/// How far a command has been parsed; offsets are relative to its start.
#[derive(Copy, Clone, Debug, Default)]
struct Progress {
    /// Announced arguments; 0 until the array's header has been read.
    args_total: u32,
    /// What comes next: the header, or the `$` line of an argument.
    at: usize,
    /// Bytes from `at` on that are known to hold no line end.
    scanned: usize,
}

/// What one look at the front of the input came to.
enum Outcome {
    /// A whole command, or a line that is no command, ends here (relative to its start).
    Whole { end: usize },
    /// More bytes are needed: so many to finish the current argument, if that is known.
    Partial { wanted_bytes: usize },
}

impl Decoder {
    /// A decoder at the start of a connection.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Clears `batch` and decodes up to `commands_max` whole commands from the front of `input` into it. Returns the
    /// bytes consumed: those commands and any blanks between and after them.
    ///
    /// The next call's input must start right after the consumed bytes: a command that is not whole stays unconsumed,
    /// and how far it has been read is remembered, so that neither a long argument nor many short ones are gone through
    /// again with every read.
    ///
    /// # Errors
    /// The input is malformed or too large. `batch` then holds the good commands before the bad one: run them first,
    /// then send [`DecodeError::write_reply`], then close. Any further call gives the same error and an empty batch.
    pub fn decode(
        &mut self,
        input: &[u8],
        limits: &DecodeLimits,
        commands_max: usize,
        batch: &mut Batch,
    ) -> Result<usize, DecodeError> {
        batch.clear();
        if let Some(error) = self.failed {
            return Err(error);
        }
        let decoded = self.decode_commands(input, limits, commands_max, batch);
        if let Err(error) = decoded {
            self.failed = Some(error);
            self.partial = None;
            self.wanted_bytes = 0;
        }
        decoded
    }

    /// Bytes still missing from the argument that is on its way, if its length is known: what the next read should have
    /// room for. 0 otherwise. The client merely announced it: a reader must not reserve it all before bytes arrive.
    #[inline]
    pub fn wanted_bytes(&self) -> usize {
        self.wanted_bytes
    }

    /// Whether a large partial command is remembered between calls.
    pub fn is_idle(&self) -> bool {
        self.partial.is_none() && self.wanted_bytes == 0
    }

    fn decode_commands(
        &mut self,
        input: &[u8],
        limits: &DecodeLimits,
        commands_max: usize,
        batch: &mut Batch,
    ) -> Result<usize, DecodeError> {
        let mut consumed = 0;
        if commands_max == 0 {
            return Ok(0);
        }
        if let Some(mut partial) = self.partial.take() {
            match partial.resume(input, limits, batch)? {
                Outcome::Whole { end } => consumed = end,
                Outcome::Partial { wanted_bytes } => {
                    self.partial = Some(partial);
                    self.wanted_bytes = wanted_bytes;
                    return Ok(0);
                }
            }
        }
        self.wanted_bytes = 0;
        while batch.len() < commands_max && consumed < input.len() {
            let (command, clipped) = clip(&input[consumed..], limits);
            let first_arg = batch.args.len();
            let mut progress = Progress::default();
            let outcome = if command[0] == b'*' {
                decode_array(command, consumed, &mut progress, limits, &mut batch.args)
            } else {
                decode_inline(command, consumed, &mut progress, batch)
            };
            match outcome {
                Ok(Outcome::Whole { end }) => {
                    consumed += end;
                    // Inline commands have finished themselves.
                    if batch.args.len() > first_arg && command[0] == b'*' {
                        batch.finish_command(first_arg, consumed, false);
                    }
                }
                Ok(Outcome::Partial { .. }) if clipped => {
                    batch.args.truncate(first_arg);
                    return Err(DecodeError::QueryBufferLimit);
                }
                Ok(Outcome::Partial { wanted_bytes }) => {
                    self.wanted_bytes = wanted_bytes;
                    self.partial = progress.worth_keeping().then(|| {
                        let relative = |span: &Span| Span { start: span.start - consumed, len: span.len };
                        Box::new(Partial {
                            progress,
                            args: batch.args[first_arg..].iter().map(relative).collect(),
                        })
                    });
                    batch.args.truncate(first_arg);
                    break;
                }
                Err(error) => {
                    batch.args.truncate(first_arg);
                    return Err(error);
                }
            }
        }
        Ok(consumed)
    }
}

impl Progress {
    fn worth_keeping(&self) -> bool {
        self.at + self.scanned >= REPARSED_BYTES_MAX
    }
}

impl Partial {
    /// Goes on with the command at the front of `input`.
    fn resume(
        &mut self,
        input: &[u8],
        limits: &DecodeLimits,
        batch: &mut Batch,
    ) -> Result<Outcome, DecodeError> {
        let (command, clipped) = clip(input, limits);
        let outcome = match command.first() {
            None => Outcome::Partial { wanted_bytes: 0 },
            Some(b'*') => decode_array(command, 0, &mut self.progress, limits, &mut self.args)?,
            Some(_) => decode_inline(command, 0, &mut self.progress, batch)?,
        };
        match outcome {
            Outcome::Partial { .. } if clipped => return Err(DecodeError::QueryBufferLimit),
            Outcome::Whole { end } if !self.args.is_empty() => {
                batch.args.append(&mut self.args);
                batch.finish_command(0, end, false);
            }
            _ => {}
        }
        Ok(outcome)
    }
}

/// The bytes a command may take, and whether there are more than that.
#[inline]
fn clip<'a>(input: &'a [u8], limits: &DecodeLimits) -> (&'a [u8], bool) {
    match usize::try_from(limits.query_buffer_bytes_max) {
        Ok(max) if input.len() > max => (&input[..max.max(1)], true),
        _ => (input, false),
    }
}

/// Decodes the array at the front of `command`, from where `progress` stands. Its arguments go to `args`, moved by
/// `base`; none when it is empty or null.
#[inline]
fn decode_array(
    command: &[u8],
    base: usize,
    progress: &mut Progress,
    limits: &DecodeLimits,
    args: &mut Vec<Span>,
) -> Result<Outcome, DecodeError> {
    let first_arg = args.len();
    let mut missing = progress.args_total as usize;
    let mut at = progress.at;
    if missing > 0 {
        // Resumed: `args` holds those read before, and nothing else.
        missing -= args.len();
    } else {
        (missing, at) = match command {
            [_, digit @ b'1'..=b'9', b'\r', _, ..] => ((digit - b'0') as usize, 4),
            _ => match read_array_header(command, progress, limits)? {
                Some((count, end)) => (count as usize, end),
                None => return Ok(Outcome::Partial { wanted_bytes: 0 }),
            },
        };
        if missing == 0 {
            return Ok(Outcome::Whole { end: at });
        }
        progress.args_total = missing as u32;
        progress.scanned = 0;
    }
    while missing > 0 {
        let header = &command[at..];
        let (len, data) = match header {
            [b'$', digit @ b'0'..=b'9', b'\r', _, ..] => ((digit - b'0') as usize, at + 4),
            [b'$', tens @ b'1'..=b'9', digit @ b'0'..=b'9', b'\r', _, ..] => {
                ((tens - b'0') as usize * 10 + (digit - b'0') as usize, at + 5)
            }
            _ => {
                if progress.at != at {
                    (progress.at, progress.scanned) = (at, 0);
                }
                match read_bulk_header(header, progress, limits)? {
                    Some((len, header_bytes)) => (len, at + header_bytes),
                    None => return Ok(Outcome::Partial { wanted_bytes: 0 }),
                }
            }
        };
        let end = data.saturating_add(len).saturating_add(2);
        if end > command.len() {
            (progress.at, progress.scanned) = (at, 0);
            return Ok(Outcome::Partial { wanted_bytes: end - command.len() });
        }
        args.push(Span { start: base + data, len });
        at = end;
        missing -= 1;
    }
    debug_assert!(args.len() > first_arg);
    Ok(Outcome::Whole { end: at })
}

/// `*<count>`: the count of arguments, 0 for what is to be skipped, and where the line ends.
#[cold]
fn read_array_header(
    command: &[u8],
    progress: &mut Progress,
    limits: &DecodeLimits,
) -> Result<Option<(u32, usize)>, DecodeError> {
    let Some(line) = read_length_line(command, progress, DecodeError::TooBigMultibulkCount)? else {
        return Ok(None);
    };
    let count = parse_i64(&command[1..line]).ok_or(DecodeError::InvalidMultibulkLength)?.max(0);
    match u32::try_from(count) {
        Ok(count) if count <= MULTIBULK_ARGS_MAX => {
            if count > UNAUTH_ARGS_MAX && !limits.authenticated {
                return Err(DecodeError::UnauthenticatedMultibulkLength);
            }
            Ok(Some((count, line + 2)))
        }
        _ => Err(DecodeError::InvalidMultibulkLength),
    }
}

/// `$<length>` at the front of `header`: the argument's length and the line's size.
fn read_bulk_header(
    header: &[u8],
    progress: &mut Progress,
    limits: &DecodeLimits,
) -> Result<Option<(usize, usize)>, DecodeError> {
    let Some(line) = read_length_line(header, progress, DecodeError::TooBigBulkCount)? else {
        return Ok(None);
    };
    if header[0] != b'$' {
        return Err(DecodeError::ExpectedDollar(header[0]));
    }
    let len = parse_i64(&header[1..line]).and_then(|len| u64::try_from(len).ok());
    let len = len.filter(|&len| len <= limits.bulk_bytes_max).ok_or(DecodeError::InvalidBulkLength)?;
    if len > UNAUTH_BULK_BYTES_MAX && !limits.authenticated {
        return Err(DecodeError::UnauthenticatedBulkLength);
    }
    let len = usize::try_from(len).map_err(|_| DecodeError::InvalidBulkLength)?;
    Ok(Some((len, line + 2)))
}

/// Finds the `\r` of a length line at the front of `text`, once the byte after it is there too.
fn read_length_line(
    text: &[u8],
    progress: &mut Progress,
    too_big: DecodeError,
) -> Result<Option<usize>, DecodeError> {
    match find_line_end(text, b'\r', progress, too_big)? {
        Some(line) if line + 1 < text.len() => Ok(Some(line)),
        _ => Ok(None),
    }
}

/// Finds `terminator`, which must come within the longest line. A NUL before it hides it, as it ends a C string.
fn find_line_end(
    text: &[u8],
    terminator: u8,
    progress: &mut Progress,
    too_big: DecodeError,
) -> Result<Option<usize>, DecodeError> {
    let unseen = &text[progress.scanned..];
    let stop = unseen.iter().position(|&byte| byte == terminator || byte == 0);
    progress.scanned = stop.map_or(text.len(), |offset| progress.scanned + offset);
    let found = text.get(progress.scanned) == Some(&terminator);
    let line_bytes = if found { progress.scanned } else { text.len() };
    if line_bytes > INLINE_BYTES_MAX {
        return Err(too_big);
    }
    Ok(found.then_some(progress.scanned))
}

/// Decodes the line at the front of `command`, and adds it to `batch` unless it is blank.
fn decode_inline(
    command: &[u8],
    base: usize,
    progress: &mut Progress,
    batch: &mut Batch,
) -> Result<Outcome, DecodeError> {
    let Some(newline) = find_line_end(command, b'\n', progress, DecodeError::TooBigInline)? else {
        return Ok(Outcome::Partial { wanted_bytes: 0 });
    };
    let line = &command[..newline];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let end = newline + 1;
    let first_arg = batch.args.len();
    let in_side = inline::has_quotes(line);
    if !in_side {
        inline::split_plain(line, base, &mut batch.args);
    } else if !inline::split_quoted(line, &mut batch.side, &mut batch.args) {
        return Err(DecodeError::UnbalancedQuotes);
    }
    if batch.args.len() > first_arg {
        batch.finish_command(first_arg, base + end, in_side);
    }
    Ok(Outcome::Whole { end })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of `input` in one call: the commands, the bytes consumed, the error reply.
    fn decode(input: &[u8], limits: &DecodeLimits) -> (Vec<Vec<String>>, usize, String) {
        let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
        let decoded = decoder.decode(input, limits, usize::MAX, &mut batch);
        let commands = (0..batch.len()).map(|index| {
            let args = batch.command(index, input);
            args.iter().map(|arg| arg.escape_ascii().to_string()).collect()
        });
        let mut reply = Vec::new();
        if let Err(error) = decoded {
            error.write_reply(&mut reply);
        }
        (commands.collect(), decoded.unwrap_or(0), reply.escape_ascii().to_string())
    }

    const PING: &str = "*1\r\n$4\r\nPING\r\n";

    #[test]
    fn commands_and_what_is_no_command() {
        // (input, words of the commands joined by `|` and commands by `;`, bytes left unconsumed)
        let cases: &[(&str, &str, usize)] = &[
            ("", "", 0),
            (PING, "PING", 0),
            ("*2\r\n$3\r\nGET\r\n$12\r\nkey:00000001\r\n*1\r\n$4\r\nPING\r\n", "GET|key:00000001;PING", 0),
            ("*11\r\n$1\r\na\r\n$0\r\n\r\n$1\r\nc\r\n", "", 25),
            ("*2\r\n$4\r\nECHO\r\n$3\r\n\r\n\0\r\n", "ECHO|\\r\\n\\x00", 0),
            ("*1\r\n$0\r\n\r\n", "", 0),
            ("*0\r\n*-1\r\n*-5\r\n\r\n\n  \r\nPING\r\n\r\n", "PING", 0),
            ("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI", "PING", 10),
            // What stands where `\r\n` belongs is not looked at.
            ("*1\rx$4\rxPINGxxPING\n", "PING;PING", 0),
            ("*1\r\n$4\r\nPI\r\nxxNG\n", "PI\\r\\n;NG", 0),
            ("*1\r", "", 3),
            ("*1\r\n$4\r", "", 7),
            ("*1\r\nx", "", 5),
            (" *1\r\n", "*1", 0),
            ("PING\r\r\n", "PING", 0),
            ("PING \x0b\x0c\t a\x0bb\n", "PING|a\\x0bb", 0),
            (
                "GET \"a\\x41\\n\\q\" 'it\\'s\\n' \"\" a\\x41\r\nPING\n",
                "GET|aA\\nq|it\\'s\\\\n||a\\\\x41;PING",
                0,
            ),
            ("ECHO a\"b\" \"\\xZZ\\x4\"\n", "ECHO|ab|xZZx4", 0),
            // A NUL hides the end of its line.
            ("PING\0\r\nPING\r\n", "", 13),
            ("*1\0\r\n", "", 5),
        ];
        for &(input, expected, left) in cases {
            let (commands, consumed, error) = decode(input.as_bytes(), &DecodeLimits::default());
            let words = commands.iter().map(|words| words.join("|")).collect::<Vec<_>>().join(";");
            assert_eq!(
                (words.as_str(), input.len() - consumed, error.as_str()),
                (expected, left, ""),
                "{input:?}"
            );
        }
    }

    #[test]
    fn errors_are_those_of_redis() {
        let long = "1".repeat(INLINE_BYTES_MAX);
        let cases: &[(&str, &str)] = &[
            ("*1048577\r\n", "invalid multibulk length"),
            ("*2147483648\r\n", "invalid multibulk length"),
            ("*abc\r\n", "invalid multibulk length"),
            ("*\r\n", "invalid multibulk length"),
            ("*1 \r\n", "invalid multibulk length"),
            ("*+1\r\n", "invalid multibulk length"),
            ("*01\r\n", "invalid multibulk length"),
            ("*1\n$4\r\nPING\r\n", "invalid multibulk length"),
            ("*18446744073709551617\r\n", "invalid multibulk length"),
            ("*1\r\nxyz\r\n", "expected \\'$\\', got \\'x\\'"),
            ("*1\r\n\x01yz\r\n", "expected \\'$\\', got \\'\\x01\\'"),
            ("*1\r\n\r\n", "expected \\'$\\', got \\' \\'"),
            ("*1\r\n\n\r\n", "expected \\'$\\', got \\' \\'"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$\r\n", "invalid bulk length"),
            ("*1\r\n$04\r\nPING\r\n", "invalid bulk length"),
            ("*1\r\n$536870913\r\n", "invalid bulk length"),
            ("*1\r\n$4\n\nPING\r\n", "invalid bulk length"),
            ("\"abc\r\n", "unbalanced quotes in request"),
            ("'abc\r\n", "unbalanced quotes in request"),
            ("\"ab\"c\r\n", "unbalanced quotes in request"),
            ("\"ab\\\r\n", "unbalanced quotes in request"),
            (&format!("*{long}"), "too big mbulk count string"),
            (&format!("*1\r\n${long}"), "too big bulk count string"),
            (&format!("*1\r\nx{long}"), "too big bulk count string"),
            (&format!("1{long}"), "too big inline request"),
            (&format!("1{long}\n"), "too big inline request"),
        ];
        for &(input, error) in cases {
            let expected = format!("-ERR Protocol error: {error}\\r\\n");
            let with_ping_before = format!("{PING}{input}");
            let (commands, _, reply) = decode(with_ping_before.as_bytes(), &DecodeLimits::default());
            assert_eq!((commands.len(), reply), (1, expected), "{:.40?}", input);
        }
        for fits in [format!("{long}\n"), "*1048576\r\n".to_owned(), "*1\r\n$536870912\r\n".to_owned(), long]
        {
            let (_, _, reply) = decode(fits.as_bytes(), &DecodeLimits::default());
            assert_eq!(reply, "", "{:.40?}", fits);
        }
    }

    #[test]
    fn displays_what_it_replies() {
        for error in
            [DecodeError::ExpectedDollar(b'x'), DecodeError::ExpectedDollar(b'\n'), DecodeError::TooBigInline]
        {
            let mut reply = Vec::new();
            error.write_reply(&mut reply);
            assert_eq!(format!("-{error}\r\n").as_bytes(), reply);
        }
    }

    #[test]
    fn small_limits_before_authentication() {
        let unauthenticated = DecodeLimits { authenticated: false, ..DecodeLimits::default() };
        let cases = [
            ("*10\r\n", ""),
            ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\\r\\n"),
            ("*2\r\n$16384\r\n", ""),
            ("*2\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\\r\\n"),
        ];
        for (input, expected) in cases {
            assert_eq!(decode(input.as_bytes(), &unauthenticated).2, expected, "{input:?}");
        }
    }

    #[test]
    fn query_buffer_limit_closes_silently() {
        let limits = DecodeLimits { query_buffer_bytes_max: PING.len() as u64, ..DecodeLimits::default() };
        let mut batch = Batch::new();
        assert_eq!(
            Decoder::new().decode(PING.repeat(3).as_bytes(), &limits, 9, &mut batch),
            Ok(PING.len() * 3)
        );
        assert_eq!(batch.len(), 3);
        let mut decoder = Decoder::new();
        let longer = b"*1\r\n$5\r\nPINGS\r\n";
        assert_eq!(decoder.decode(&longer[..14], &limits, 9, &mut batch), Ok(0));
        for _ in 0..2 {
            assert_eq!(decoder.decode(longer, &limits, 9, &mut batch), Err(DecodeError::QueryBufferLimit));
        }
        let mut reply = Vec::new();
        DecodeError::QueryBufferLimit.write_reply(&mut reply);
        assert!(reply.is_empty());
    }

    #[test]
    fn batches_stop_where_told_and_know_their_bytes() {
        let input = format!("\r\n{PING}{PING}*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n");
        let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
        let consumed = decoder.decode(input.as_bytes(), &DecodeLimits::default(), 2, &mut batch).unwrap();
        assert_eq!((consumed, batch.len()), (2 + 2 * PING.len(), 2));
        assert_eq!((batch.wire_bytes(0), batch.wire_bytes(1)), (2 + PING.len(), PING.len()));
        assert_eq!(batch.end_of(1), consumed);
        let rest = &input.as_bytes()[consumed..];
        assert_eq!(decoder.decode(rest, &DecodeLimits::default(), 2, &mut batch), Ok(rest.len()));
        assert_eq!(&batch.command(0, rest)[1], b"hi");
    }

    #[test]
    fn announced_sizes_are_wanted_but_not_allocated() {
        let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
        let limits = DecodeLimits::default();
        assert_eq!(decoder.decode(b"*1048576\r\n", &limits, 16, &mut batch), Ok(0));
        assert_eq!(batch.args.capacity(), 0);
        assert!(decoder.is_idle());
        let mut input = b"*2\r\n$3\r\nGET\r\n$100000000\r\n".to_vec();
        let mut decoder = Decoder::new();
        assert_eq!(decoder.decode(&input, &limits, 16, &mut batch), Ok(0));
        assert_eq!(decoder.wanted_bytes(), 100_000_002);
        input.extend_from_slice(b"abc");
        assert_eq!(decoder.decode(&input, &limits, 16, &mut batch), Ok(0));
        assert_eq!(decoder.wanted_bytes(), 99_999_999);
        assert!(batch.is_empty() && batch.args.is_empty());
    }

    #[test]
    fn large_commands_are_not_parsed_again() {
        const ARGS: usize = 100_000;
        let mut input = format!("*{ARGS}\r\n").into_bytes();
        for index in 0..ARGS {
            let text = index.to_string();
            input.extend_from_slice(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
        }
        let (mut decoder, mut batch) = (Decoder::new(), Batch::new());
        for end in (0..input.len()).step_by(4096).skip(1) {
            assert_eq!(decoder.decode(&input[..end], &DecodeLimits::default(), 16, &mut batch), Ok(0));
            let progress = decoder.partial.as_ref().expect("a large partial command is remembered").progress;
            assert!(progress.at + 16 > end, "parsed to the end of what was there");
        }
        assert_eq!(decoder.decode(&input, &DecodeLimits::default(), 16, &mut batch), Ok(input.len()));
        let args = batch.command(0, &input);
        assert_eq!(args.len(), ARGS);
        assert!(args.iter().enumerate().all(|(index, arg)| arg == index.to_string().as_bytes()));
        assert!(decoder.is_idle());
        batch.clear();
        assert!(batch.args.capacity() <= 2 * KEPT_SPANS_MAX);
    }
}
