//! The arguments of one command, wherever they lie: in the connection's input buffer, in the batch's side buffer for
//! inline commands with quotes, or in a list of slices that a script or a test made.

use std::fmt;
use std::ops::Index;

use crate::encode::CRLF;

/// Where one argument lies in its buffer, in bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Span {
    #[inline]
    fn end(self) -> usize {
        self.start + self.len
    }
}

/// A command's arguments, the command's name first. Copying it copies two references; every slice it hands out through
/// [`get`](Args::get), [`at`](Args::at) and [`iter`](Args::iter) lives as long as the buffer behind it.
#[derive(Copy, Clone)]
pub struct Args<'a>(Source<'a>);

#[derive(Copy, Clone)]
enum Source<'a> {
    Spans { buffer: &'a [u8], spans: &'a [Span] },
    Slices(&'a [&'a [u8]]),
}

impl<'a> Args<'a> {
    /// Arguments from a plain list of slices.
    #[inline]
    pub fn from_slices(slices: &'a [&'a [u8]]) -> Args<'a> {
        Args(Source::Slices(slices))
    }

    #[inline]
    pub(crate) fn from_spans(buffer: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args(Source::Spans { buffer, spans })
    }

    /// How many arguments there are, the command's name included.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            Source::Spans { spans, .. } => spans.len(),
            Source::Slices(slices) => slices.len(),
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The argument at `index`, if there is one.
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        match self.0 {
            Source::Spans { buffer, spans } => {
                spans.get(index).map(|span| &buffer[span.start..span.start + span.len])
            }
            Source::Slices(slices) => slices.get(index).copied(),
        }
    }

    /// The argument at `index`, which must be less than [`len`](Args::len). As `args[index]`, but the slice outlives
    /// this copy of `Args`.
    #[inline]
    pub fn at(self, index: usize) -> &'a [u8] {
        match self.0 {
            Source::Spans { buffer, spans } => {
                let span = spans[index];
                &buffer[span.start..span.start + span.len]
            }
            Source::Slices(slices) => slices[index],
        }
    }

    /// The arguments from `index` on; none when there are not that many.
    #[inline]
    pub fn from(self, index: usize) -> Args<'a> {
        Args(match self.0 {
            Source::Spans { buffer, spans } => {
                Source::Spans { buffer, spans: spans.get(index..).unwrap_or_default() }
            }
            Source::Slices(slices) => Source::Slices(slices.get(index..).unwrap_or_default()),
        })
    }

    /// The first `count` arguments; all when there are not that many.
    #[inline]
    pub fn first(self, count: usize) -> Args<'a> {
        let count = count.min(self.len());
        Args(match self.0 {
            Source::Spans { buffer, spans } => Source::Spans { buffer, spans: &spans[..count] },
            Source::Slices(slices) => Source::Slices(&slices[..count]),
        })
    }

    /// All arguments in order.
    #[inline]
    pub fn iter(self) -> ArgsIter<'a> {
        ArgsIter { args: self, front: 0, back: self.len() }
    }

    /// The command as it lies in the buffer, if that is byte for byte what [`crate::write_command`] makes of it, as it is
    /// when a client has sent it with arguments: so it need not be put together again.
    #[inline]
    pub fn as_encoded(self) -> Option<&'a [u8]> {
        let Source::Spans { buffer, spans: spans @ [first, second, ..] } = self.0 else { return None };
        // Words that were put together lie side by side. What lies apart the decoder found: a line, which has no line's end
        // in it, or an array, of which it takes lengths in the shortest form only.
        if second.start == first.end() {
            return None;
        }
        let header_start = first.start.checked_sub(HEADER_MARKS + digits_of(first.len))?;
        let start = header_start.checked_sub(ARRAY_MARKS + digits_of(spans.len()))?;
        if !is_count(&buffer[start..header_start], spans.len()) {
            return None;
        }
        let mut end = start;
        for span in spans {
            end = span.end() + CRLF.len();
            // What the decoder skips without a look.
            if buffer[span.start - 1] != b'\n' || !matches!(buffer.get(span.end()..end), Some(b"\r\n")) {
                return None;
            }
        }
        Some(&buffer[start..end])
    }

    /// Copies all bytes into one buffer of its own, for a command that has to outlive its input.
    pub fn to_owned(self) -> OwnedArgs {
        OwnedArgs::new(self)
    }
}

/// `*` and the end of its line.
const ARRAY_MARKS: usize = 3;
/// `$` and the end of its line.
const HEADER_MARKS: usize = 3;

#[inline]
fn digits_of(number: usize) -> usize {
    match number {
        0..10 => 1,
        10..100 => 2,
        _ => number.ilog10() as usize + 1,
    }
}

/// Whether `line` is `*`, a number in the shortest form, and the line's end.
#[inline]
fn is_count(line: &[u8], number: usize) -> bool {
    match line {
        [b'*', digit @ b'0'..=b'9', b'\r', b'\n'] => usize::from(digit - b'0') == number,
        [b'*', digits @ .., b'\r', b'\n'] => digits == itoa::Buffer::new().format(number).as_bytes(),
        _ => false,
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    #[inline]
    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Args<'_>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Args<'_> {}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|arg| arg.escape_ascii().to_string())).finish()
    }
}

/// The arguments of a command, in order.
#[derive(Clone, Debug)]
pub struct ArgsIter<'a> {
    args: Args<'a>,
    front: usize,
    back: usize,
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.nth(0)
    }

    #[inline]
    fn nth(&mut self, skipped: usize) -> Option<&'a [u8]> {
        self.front = self.front.saturating_add(skipped).min(self.back);
        if self.front == self.back {
            return None;
        }
        self.front += 1;
        Some(self.args.at(self.front - 1))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.back - self.front, Some(self.back - self.front))
    }
}

impl<'a> DoubleEndedIterator for ArgsIter<'a> {
    #[inline]
    fn next_back(&mut self) -> Option<&'a [u8]> {
        if self.front == self.back {
            return None;
        }
        self.back -= 1;
        Some(self.args.at(self.back))
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}

/// Arguments with their own copy of the bytes, in one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedArgs {
    buffer: Box<[u8]>,
    spans: Box<[Span]>,
}

impl OwnedArgs {
    /// Copies every argument of `args`, be it [`Args`] or any other sequence of byte strings.
    pub fn new<I>(args: I) -> OwnedArgs
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        let mut buffer = Vec::new();
        let spans = args.into_iter().map(|arg| {
            let arg = arg.as_ref();
            let start = buffer.len();
            buffer.extend_from_slice(arg);
            Span { start, len: arg.len() }
        });
        let spans = spans.collect();
        OwnedArgs { buffer: buffer.into_boxed_slice(), spans }
    }

    /// The arguments, borrowed.
    #[inline]
    pub fn as_args(&self) -> Args<'_> {
        Args::from_spans(&self.buffer, &self.spans)
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.len() + std::mem::size_of_val(&*self.spans)
    }
}

/// A place to put arguments together in, one after another, again and again.
#[derive(Debug, Default)]
pub struct ArgsBuffer {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl ArgsBuffer {
    /// Forgets the arguments, and lets go of more memory than `bytes_max` for either part.
    pub fn clear(&mut self, bytes_max: usize) {
        self.bytes.clear();
        self.spans.clear();
        self.bytes.shrink_to(bytes_max);
        self.spans.shrink_to(bytes_max / size_of::<Span>());
    }

    /// Adds an argument, which `write` appends.
    #[inline]
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.spans.push(Span { start, len: self.bytes.len() - start });
    }

    /// The arguments, borrowed.
    #[inline]
    pub fn as_args(&self) -> Args<'_> {
        Args::from_spans(&self.bytes, &self.spans)
    }
}

/// The arguments of many commands, one after the other, with their own copy of the bytes.
///
/// Commands lie together in parts of bounded size, so that a long queue is never copied as a whole to grow; only a
/// command that is larger than that has a part of its own.
#[derive(Debug, Default)]
pub struct ArgsQueue {
    parts: Vec<ArgsBuffer>,
    commands: Vec<Place>,
}

/// Where one command's spans lie.
#[derive(Copy, Clone, Debug)]
struct Place {
    part: usize,
    first: usize,
    end: usize,
}

impl ArgsQueue {
    /// Bytes, and arguments, after which the next command begins a new part.
    const PART_BYTES: usize = 16 * 1024;
    const PART_ARGS: usize = 1024;

    /// Copies a command's arguments to the end; returns how many bytes they are.
    pub fn push(&mut self, args: Args<'_>) -> usize {
        let has_room = |part: &ArgsBuffer| {
            part.bytes.len() < ArgsQueue::PART_BYTES && part.spans.len() < ArgsQueue::PART_ARGS
        };
        if !self.parts.last().is_some_and(has_room) {
            self.parts.push(ArgsBuffer::default());
        }
        let number = self.parts.len() - 1;
        let part = &mut self.parts[number];
        let (first, filled) = (part.spans.len(), part.bytes.len());
        for arg in args {
            part.push_with(|bytes| bytes.extend_from_slice(arg));
        }
        self.commands.push(Place { part: number, first, end: part.spans.len() });
        part.bytes.len() - filled
    }

    /// The arguments of command `index`, counted in the order in which they came.
    #[inline]
    pub fn at(&self, index: usize) -> Args<'_> {
        let place = self.commands[index];
        self.parts[place.part].as_args().from(place.first).first(place.end - place.first)
    }

    /// Removes all commands, and keeps the memory of the first part for those that come.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.parts.truncate(1);
        if let Some(part) = self.parts.first_mut() {
            part.clear(usize::MAX);
        }
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        let of_part = |part: &ArgsBuffer| part.bytes.capacity() + part.spans.capacity() * size_of::<Span>();
        self.parts.iter().map(of_part).sum::<usize>() + self.commands.capacity() * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_already_is_found_as_it_lies() {
        let long = "x".repeat(12_345);
        let same = [
            "*3\r\n$3\r\nset\r\n$0\r\n\r\n$10\r\n0123456789\r\n".to_owned(),
            format!("*2\r\n$4\r\nECHO\r\n$12345\r\n{long}\r\n"),
            format!("*12\r\n{}", "$1\r\na\r\n".repeat(12)),
        ];
        let other = [
            "*1\r\n$4\r\nPING\r\n",
            "PING\r\n",
            "PING a b\r\n",
            "*1\r\n$04\r\nPING\r\n",
            "*01\r\n$4\r\nPING\r\n",
            "*2\r\n$4\r\nECHO\r\n$+1\r\na\r\n",
            "*2\r\n$4\r\nECHOxx$1\r\na\r\n",
            "*2\r\n$4\r\nECHO\r\n$1\r\na\rx",
            "*2\rx$4\r\nECHO\r\n$1\r\na\r\n",
            "*2\r\n$4\rxECHO\r\n$1\r\na\r\n",
            "ECHO      a\r\n",
            "ECHO      a  \n",
            "ECHO      \"a\"\r\n",
        ];
        let texts = same.iter().map(|text| (&text[..], true)).chain(other.map(|text| (text, false)));
        for before in ["", "*1\r\n$4\r\nPING\r\n", "ECHO a\r\n"] {
            for (text, is_same) in texts.clone() {
                let input = [before, text].concat();
                let (mut decoder, mut batch) = (crate::Decoder::new(), crate::Batch::new());
                let decoded =
                    decoder.decode(input.as_bytes(), &crate::DecodeLimits::default(), 2, &mut batch);
                let last = if before.is_empty() { 0 } else { 1 };
                if decoded.is_err() || batch.len() <= last {
                    assert!(!is_same, "{text}");
                    continue;
                }
                let args = batch.command(last, input.as_bytes());
                assert_eq!(args.as_encoded().is_some(), is_same, "{before}{text}");
                let mut expected = Vec::new();
                crate::write_command(&mut expected, args);
                assert!(args.as_encoded().is_none_or(|found| found == expected), "{before}{text}");
                for part in 1..args.len() {
                    assert_eq!(args.from(part).as_encoded(), None, "a part is not the whole");
                    assert_eq!(args.first(part).as_encoded(), None, "a part is not the whole");
                }
            }
        }
        assert_eq!(Args::from_slices(&[b"ECHO", b"a"]).as_encoded(), None);
        assert_eq!(OwnedArgs::new(["ECHO", "a"]).as_args().as_encoded(), None);
        // One after the other, a queue's words look like an array by chance.
        let mut queue = ArgsQueue::default();
        for words in [&[&b"x"[..], b"*2\r\n$1\r\n"][..], &[b"a", b"", b"\r\n$1\r\nb"], &[b"\r\n"]] {
            queue.push(Args::from_slices(words));
            assert_eq!(queue.at(queue.commands.len() - 1).as_encoded(), None);
        }
        assert_eq!(queue.at(1).as_encoded(), None);
    }

    #[test]
    fn a_queue_keeps_every_command() {
        let long = vec![b'x'; ArgsQueue::PART_BYTES];
        let many = vec![&b"a"[..]; ArgsQueue::PART_ARGS];
        let commands: [&[&[u8]]; 5] =
            [&[b"SET", b"key", b""], &[&long], &[b"GET", b"key"], &many, &[b"PING"]];
        let mut queue = ArgsQueue::default();
        for round in 0..2 {
            assert!(queue.commands.is_empty(), "round {round}");
            for args in commands {
                let bytes = args.iter().map(|arg| arg.len()).sum::<usize>();
                assert_eq!(queue.push(Args::from_slices(args)), bytes);
            }
            assert_eq!(queue.commands.len(), commands.len());
            for (index, args) in commands.iter().enumerate() {
                assert_eq!(queue.at(index), Args::from_slices(args));
            }
            assert_eq!(queue.parts.len(), 3, "what is over a part's size ends it");
            assert!(queue.heap_bytes() > long.len() + many.len() * size_of::<Span>());
            queue.clear();
        }
    }

    #[test]
    fn every_source_reads_the_same() {
        let slices: [&[u8]; 4] = [b"SET", b"key", b"", b"value"];
        let listed = Args::from_slices(&slices);
        let owned = listed.to_owned();
        assert_eq!(owned.as_args(), listed);
        let mut buffer = ArgsBuffer::default();
        for bytes_max in [0, 4] {
            buffer.clear(bytes_max);
            slices.iter().for_each(|arg| buffer.push_with(|bytes| bytes.extend_from_slice(arg)));
            assert_eq!(buffer.as_args(), listed);
        }
        assert_eq!(OwnedArgs::new(["SET", "key", "", "value"]), owned);
        for args in [listed, owned.as_args()] {
            assert_eq!((args.len(), args.is_empty()), (4, false));
            assert_eq!((&args[1], args.get(3), args.get(4)), (&b"key"[..], Some(&b"value"[..]), None));
            assert_eq!(args.from(2).iter().collect::<Vec<_>>(), slices[2..]);
            assert!(args.from(4).is_empty() && args.from(5).is_empty());
            assert_eq!(
                args.iter().rev().collect::<Vec<_>>(),
                slices.iter().rev().copied().collect::<Vec<_>>()
            );
            assert_eq!(args.iter().skip(1).step_by(2).collect::<Vec<_>>(), [slices[1], slices[3]]);
            assert_eq!(args.from(1).iter().len(), 3);
        }
        let last = {
            let short_lived = owned.as_args().from(3);
            short_lived.at(0)
        };
        assert_eq!(last, b"value");
    }
}
