//! Tests of the decoder: every malformed input with its error, and every way of cutting input in pieces.

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
    for fits in [format!("{long}\n"), "*1048576\r\n".to_owned(), "*1\r\n$536870912\r\n".to_owned(), long] {
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
    assert_eq!(Decoder::new().decode(PING.repeat(3).as_bytes(), &limits, 9, &mut batch), Ok(PING.len() * 3));
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
