//! The decoder under random input: valid, mutated and nonsensical, fed whole, in random pieces and byte by byte. All
//! three must come to the same commands and the same error, and nothing may panic. `HALCYON_FUZZ_INPUTS` sets how many
//! inputs are tried, `HALCYON_FUZZ_SEED` where the sequence starts.

use fastrand::Rng;
use resp::{Batch, DecodeError, DecodeLimits, Decoder, OwnedArgs, parse, write_command};

const INPUTS_DEFAULT: u64 = 200_000;

/// What a client's bytes come to.
#[derive(Debug, PartialEq, Default)]
struct Outcome {
    commands: Vec<OwnedArgs>,
    /// Bytes of whole commands and blanks; not compared after an error.
    consumed: usize,
    error: Option<DecodeError>,
}

/// Feeds `input` in pieces as a connection would: bytes arrive at the end, consumed ones go from the front.
fn feed(
    input: &[u8],
    limits: &DecodeLimits,
    commands_max: usize,
    mut next_piece: impl FnMut() -> usize,
) -> Outcome {
    let (mut decoder, mut batch, mut outcome) = (Decoder::new(), Batch::new(), Outcome::default());
    let mut arrived = 0;
    while arrived < input.len() {
        arrived = arrived.saturating_add(next_piece()).min(input.len());
        loop {
            let pending = &input[outcome.consumed..arrived];
            let decoded = decoder.decode(pending, limits, commands_max, &mut batch);
            let mut wire_bytes = 0;
            for index in 0..batch.len() {
                let args = batch.command(index, pending);
                assert!(!args.is_empty(), "a command has a name");
                outcome.commands.push(args.to_owned());
                wire_bytes += batch.wire_bytes(index);
            }
            match decoded {
                Ok(consumed) => {
                    assert!(
                        consumed <= pending.len() && wire_bytes <= consumed && batch.len() <= commands_max
                    );
                    outcome.consumed += consumed;
                }
                Err(error) => {
                    assert_eq!(decoder.decode(pending, limits, commands_max, &mut batch), Err(error));
                    assert!(batch.is_empty(), "an error is reported once with its commands, then alone");
                    return Outcome { consumed: 0, error: Some(error), ..outcome };
                }
            }
            if batch.len() < commands_max {
                break;
            }
        }
    }
    outcome
}

fn random_bytes(random: &mut Rng, len_max: usize) -> Vec<u8> {
    let len = random.usize(0..=len_max);
    (0..len).map(|_| random.u8(..)).collect()
}

fn random_input(random: &mut Rng) -> Vec<u8> {
    const FRAGMENTS: &[&[u8]] = &[
        b"*",
        b"$",
        b"\r\n",
        b"\r",
        b"\n",
        b"\0",
        b"\"",
        b"'",
        b"\\",
        b"\\x4",
        b" ",
        b"0",
        b"1",
        b"2",
        b"3",
        b"10",
        b"11",
        b"-1",
        b"*1\r\n",
        b"*2\r\n",
        b"*0\r\n",
        b"$0\r\n",
        b"$1\r\n",
        b"$3\r\nGET\r\n",
        b"a",
        b"PING\r\n",
        b"$16385\r\n",
        b"*1048577\r\n",
        b"9999999999",
        b"\x0b",
    ];
    let mut input = Vec::new();
    for _ in 0..random.usize(1..5) {
        match random.u8(0..10) {
            0..5 => {
                let args_max = if random.u8(..) == 0 { 400 } else { 5 };
                let bytes_max = if random.u8(0..32) == 0 { 1500 } else { 12 };
                let args: Vec<_> =
                    (0..random.usize(0..args_max)).map(|_| random_bytes(random, bytes_max)).collect();
                write_command(&mut input, &args);
            }
            5..8 => (0..random.usize(1..12))
                .for_each(|_| input.extend_from_slice(FRAGMENTS[random.usize(..FRAGMENTS.len())])),
            8 => input.extend(random_bytes(random, 20)),
            _ => input.extend_from_slice(b"SET \"k y\" 'v'\r\n"),
        }
    }
    if random.bool() {
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..input.len().max(1)).min(input.len());
            match random.u8(0..3) {
                0 => input.insert(at, random.u8(..)),
                1 if at < input.len() => input[at] = FRAGMENTS[random.usize(..FRAGMENTS.len())][0],
                _ => input.truncate(at),
            }
        }
    }
    input
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn pieces_make_no_difference() {
    let inputs = setting("HALCYON_FUZZ_INPUTS", INPUTS_DEFAULT);
    let mut random = Rng::with_seed(setting("HALCYON_FUZZ_SEED", 1));
    let (mut commands, mut errors) = (0u64, 0u64);
    for number in 0..inputs {
        let input = random_input(&mut random);
        let limits = DecodeLimits {
            authenticated: random.u8(0..4) > 0,
            query_buffer_bytes_max: if random.u8(0..8) == 0 { random.u64(1..200) } else { 1 << 20 },
            ..DecodeLimits::default()
        };
        let commands_max = random.usize(1..20);
        let whole = feed(&input, &limits, commands_max, || usize::MAX);
        let shown = || format!("input {number}: {} under {limits:?}", input.escape_ascii());
        let mut pieces = random.fork();
        let split = feed(&input, &limits, commands_max, || pieces.usize(1..40));
        assert_eq!(split, whole, "in pieces, {}", shown());
        if input.len() < 200 || number % 64 == 0 {
            assert_eq!(feed(&input, &limits, commands_max, || 1), whole, "byte by byte, {}", shown());
        }
        // The reply parser sees the same nonsense: it may refuse it, not break.
        if let Ok(Some((_, bytes))) = parse::parse(&input) {
            assert!(bytes <= input.len());
        }
        commands += whole.commands.len() as u64;
        errors += u64::from(whole.error.is_some());
    }
    println!("{inputs} inputs: {commands} commands, {errors} protocol errors");
    assert!(commands > inputs / 4 && errors > inputs / 16, "the generator must reach commands and errors");
}

#[test]
fn long_lines_and_arguments_in_pieces() {
    let mut random = Rng::with_seed(2);
    for lead in [&b""[..], b"*", b"*1\r\n", b"*1\r\n$", b"*2\r\n$3\r\nGET\r\n$", b"\"", b"PING\0"] {
        for len in [1, 65_534, 65_535, 65_536, 65_537, 70_000] {
            for tail in [&b""[..], b"\r\n", b"\n", b"\rx"] {
                let input = [lead, &b"1".repeat(len), tail].concat();
                let whole = feed(&input, &DecodeLimits::default(), 16, || usize::MAX);
                let split = feed(&input, &DecodeLimits::default(), 16, || random.usize(1..5000));
                assert_eq!(
                    split,
                    whole,
                    "{} then {len} digits, then {}",
                    lead.escape_ascii(),
                    tail.escape_ascii()
                );
            }
        }
    }
    let mut input = Vec::new();
    write_command(&mut input, [&b"SET"[..], b"key", &random_bytes(&mut random, 1 << 20), b"EX", b"5"]);
    write_command(&mut input, (0..5000).map(|index| index.to_string()));
    write_command(&mut input, ["PING"]);
    let whole = feed(&input, &DecodeLimits::default(), 16, || usize::MAX);
    assert_eq!((whole.commands.len(), whole.consumed, whole.error), (3, input.len(), None));
    assert_eq!(feed(&input, &DecodeLimits::default(), 16, || random.usize(1..3000)), whole);
}
