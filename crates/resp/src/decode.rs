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
mod tests;
