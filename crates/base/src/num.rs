//! Numbers as the protocol and the commands read and print them: Redis's strict integers, `strtod` floats, and the
//! `%.17g` text of scores and RESP3 doubles.

use std::io::Write;

/// Longest text of an `i64`: a sign and 19 digits.
pub const I64_TEXT_BYTES_MAX: usize = 20;

/// Reads a whole number strictly: an optional `-`, no `+`, no spaces, no leading zeros, no `-0`. None for anything
/// else, and for what does not fit. So that `parse_i64(t) == Some(n)` exactly when `t` is the text of `n`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let magnitude = parse_u64(digits)?;
    if negative {
        // Zero has no sign; i64::MIN has one more in magnitude than i64::MAX.
        (magnitude != 0 && magnitude <= i64::MIN.unsigned_abs()).then(|| magnitude.wrapping_neg() as i64)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Reads an unsigned whole number as strictly as [`parse_i64`], without a sign.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] if text.len() <= 19 => {
            // 19 digits always fit.
            let mut value = 0u64;
            for &byte in text {
                let digit = byte.wrapping_sub(b'0');
                if digit > 9 {
                    return None;
                }
                value = value * 10 + u64::from(digit);
            }
            Some(value)
        }
        [b'1'..=b'9', front @ .., last @ b'0'..=b'9'] if front.len() == 18 => {
            parse_u64(&text[..19])?.checked_mul(10)?.checked_add(u64::from(last - b'0'))
        }
        _ => None,
    }
}

/// Reads a float as C's `strtod` does in Redis's hands: decimal or hexadecimal digits, exponents, `inf` and
/// `infinity` in any case and with a sign. None for spaces, trailing bytes, nothing at all, NaN, and for finite text
/// whose value overflows to infinity or underflows to zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(hex) = HexFloat::parse(text) {
        return hex.to_f64();
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let unsigned = strip_sign(text);
    let lost = match value {
        v if v.is_nan() => true,
        v if v.is_infinite() => !unsigned[0].eq_ignore_ascii_case(&b'i'),
        0.0 => has_nonzero_digit(unsigned),
        _ => false,
    };
    (!lost).then_some(value)
}

/// Reads the end of a range of scores, as C's `strtod` does where nobody looks at `errno`: what is too large is
/// infinite, what is too small is zero; leading spaces are skipped, a NUL ends the text, and no text at all is zero.
/// None for other trailing bytes and for NaN.
pub fn parse_f64_saturating(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let number = &text[spaces..];
    let value = match HexFloat::parse(number) {
        Some(hex) => hex.to_f64().unwrap_or_else(|| hex.saturated()),
        None => std::str::from_utf8(number).ok()?.parse().ok()?,
    };
    (!value.is_nan()).then_some(value)
}

/// Writes `value` in decimal.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The decimal text of `value`, at the start of `buffer`.
#[inline]
pub fn format_i64(value: i64, buffer: &mut [u8; I64_TEXT_BYTES_MAX]) -> &[u8] {
    let mut digits = itoa::Buffer::new();
    let text = digits.format(value).as_bytes();
    buffer[..text.len()].copy_from_slice(text);
    &buffer[..text.len()]
}

/// As [`format_i64`], without a sign.
#[inline]
pub fn format_u64(value: u64, buffer: &mut [u8; I64_TEXT_BYTES_MAX]) -> &[u8] {
    let mut digits = itoa::Buffer::new();
    let text = digits.format(value).as_bytes();
    buffer[..text.len()].copy_from_slice(text);
    &buffer[..text.len()]
}

/// Writes `value` as Redis 7.0 prints scores and RESP3 doubles: C's `%.17g`, `inf`, `-inf`, `nan`.
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    // Whole numbers up to 2^53 have at most 16 digits: `%.17g` prints them as integers. It keeps the sign of -0.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.abs() <= WHOLE_MAX && value == value.trunc() {
        if value == 0.0 && value.is_sign_negative() {
            out.push(b'-');
        }
        return write_i64(out, value as i64);
    }
    if !value.is_finite() {
        let text: &[u8] = match value {
            v if v.is_nan() => b"nan",
            v if v > 0.0 => b"inf",
            _ => b"-inf",
        };
        return out.extend_from_slice(text);
    }
    write_17_digits(out, value);
}

/// Writes `value` with so many decimals, as C's `%.*f` does.
pub fn write_fixed(out: &mut Vec<u8>, value: f64, decimals: usize) {
    write!(out, "{value:.decimals$}").expect("writing to a Vec cannot fail");
}

/// `%.17g` of a finite number that is not zero.
fn write_17_digits(out: &mut Vec<u8>, value: f64) {
    const DIGITS: i32 = 17;
    // "d.dddddddddddddddde-308" at most.
    let mut buffer = [0u8; 32];
    let mut cursor = &mut buffer[..];
    write!(cursor, "{:.16e}", value.abs()).expect("17 digits and an exponent fit in 32 bytes");
    let unused = cursor.len();
    let written = &buffer[..buffer.len() - unused];
    let e = written.iter().position(|&byte| byte == b'e').expect("scientific notation has an exponent");
    let exponent = parse_i64(&written[e + 1..]).expect("the exponent is a number") as i32;
    let mut digits = [0u8; DIGITS as usize];
    digits[0] = written[0];
    digits[1..].copy_from_slice(&written[2..e]);
    let significant = digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1);

    if value.is_sign_negative() {
        out.push(b'-');
    }
    if !(-4..DIGITS).contains(&exponent) {
        out.push(digits[0]);
        if significant > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..significant]);
        }
        write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
            .expect("writing to a Vec cannot fail");
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(&digits[..significant]);
    } else {
        let whole = exponent as usize + 1;
        out.extend_from_slice(&digits[..whole]);
        if significant > whole {
            out.push(b'.');
            out.extend_from_slice(&digits[whole..significant]);
        }
    }
}

pub(crate) fn strip_sign(text: &[u8]) -> &[u8] {
    match text {
        [b'+' | b'-', rest @ ..] => rest,
        _ => text,
    }
}

/// Whether a decimal float's digits, before its exponent, are not all zero.
fn has_nonzero_digit(unsigned: &[u8]) -> bool {
    unsigned
        .iter()
        .take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'))
        .any(|byte| matches!(byte, b'1'..=b'9'))
}

/// A hexadecimal float such as `-0x1.8p3`: exactly `mantissa * 2^exponent`, plus something smaller than one unit of
/// the mantissa when `sticky`.
pub(crate) struct HexFloat {
    pub(crate) negative: bool,
    pub(crate) mantissa: u128,
    pub(crate) exponent: i64,
    pub(crate) sticky: bool,
}

impl HexFloat {
    /// None when `text` is not a whole hexadecimal float.
    pub(crate) fn parse(text: &[u8]) -> Option<HexFloat> {
        let [b'0', b'x' | b'X', body @ ..] = strip_sign(text) else { return None };
        let (mut mantissa, mut exponent, mut sticky) = (0u128, 0i64, false);
        let (mut digits, mut after_point, mut at) = (0usize, false, 0);
        while let Some(&byte) = body.get(at) {
            match (byte as char).to_digit(16) {
                Some(digit) => {
                    digits += 1;
                    if mantissa >> 120 == 0 {
                        mantissa = mantissa << 4 | u128::from(digit);
                        exponent -= if after_point { 4 } else { 0 };
                    } else {
                        sticky |= digit != 0;
                        exponent += if after_point { 0 } else { 4 };
                    }
                }
                None if byte == b'.' && !after_point => after_point = true,
                None => break,
            }
            at += 1;
        }
        if digits == 0 {
            return None;
        }
        match &body[at..] {
            [] => {}
            [b'p' | b'P', power @ ..] => exponent += parse_exponent(power)?,
            _ => return None,
        }
        Some(HexFloat { negative: text[0] == b'-', mantissa, exponent, sticky })
    }

    /// What is left of a value that leaves the range of a double.
    fn saturated(&self) -> f64 {
        let magnitude = if self.exponent > 0 { f64::INFINITY } else { 0.0 };
        if self.negative { -magnitude } else { magnitude }
    }

    /// None when the value leaves the range of a double.
    fn to_f64(&self) -> Option<f64> {
        const BIAS: i64 = 1075;
        if self.mantissa == 0 {
            return Some(if self.negative { -0.0 } else { 0.0 });
        }
        let (mantissa, exponent) = round_binary(self.mantissa, self.exponent, self.sticky, 53, 1 - BIAS);
        if mantissa == 0 || exponent + 53 > 1024 {
            return None;
        }
        let subnormal = mantissa >> 52 == 0;
        let biased = if subnormal { 0 } else { (exponent + BIAS) as u64 };
        let magnitude = f64::from_bits(biased << 52 | mantissa & ((1 << 52) - 1));
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

/// The exponent after `e` or `p`: an optional sign and at least one digit. Saturates far outside what any float holds.
pub(crate) fn parse_exponent(text: &[u8]) -> Option<i64> {
    const SATURATED: i64 = 1_000_000_000_000;
    let digits = strip_sign(text);
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = (value * 10 + i64::from(digit)).min(SATURATED);
    }
    Some(if text[0] == b'-' { -value } else { value })
}

/// Rounds `mantissa * 2^exponent` (and a bit more when `sticky`), half to even, to `precision` bits whose lowest is
/// worth no less than `2^exponent_min`. The result has exactly `precision` bits unless it is subnormal. `mantissa` is
/// not zero and `precision` at most 64.
pub(crate) fn round_binary(
    mantissa: u128,
    exponent: i64,
    sticky: bool,
    precision: u32,
    exponent_min: i64,
) -> (u64, i64) {
    debug_assert!(mantissa != 0 && precision <= 64);
    let bits = i64::from(128 - mantissa.leading_zeros());
    let target = (exponent + bits - i64::from(precision)).max(exponent_min);
    let shift = target - exponent;
    if shift <= 0 {
        debug_assert!(!sticky, "inexact input must come with more bits than are kept");
        return ((mantissa << -shift) as u64, target);
    }
    if shift > 128 {
        return (0, target);
    }
    let kept = if shift == 128 { 0 } else { mantissa >> shift };
    let half = 1u128 << (shift - 1);
    let dropped = mantissa & (half | (half - 1));
    let up = dropped > half || dropped == half && (sticky || kept & 1 == 1);
    let rounded = kept + u128::from(up);
    if rounded >> precision == 1 { ((rounded >> 1) as u64, target + 1) } else { (rounded as u64, target) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_strict() {
        let cases: &[(&str, Option<i64>)] = &[
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("1234567890123456789", Some(1_234_567_890_123_456_789)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("18446744073709551615", None),
            ("99999999999999999999", None),
            ("123456789012345678901", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("00", None),
            ("01", None),
            ("-01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("1\0", None),
            ("1:", None),
            ("1/", None),
            ("1e2", None),
        ];
        for &(text, expected) in cases {
            assert_eq!(parse_i64(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"1844674407370955161:"), None);
        assert_eq!(parse_u64(b"-1"), None);
        for value in [0, 7, -7, i64::MIN, i64::MAX] {
            let mut out = b"x".to_vec();
            write_i64(&mut out, value);
            assert_eq!(parse_i64(&out[1..]), Some(value));
            assert_eq!(format_i64(value, &mut [0; I64_TEXT_BYTES_MAX]), &out[1..]);
        }
    }

    /// Text sent as a score, and the text Redis 7.0.15 answers it with; None where it is "not a valid float".
    const FLOATS: &[(&str, Option<&str>)] = &[
        ("3.3", Some("3.2999999999999998")),
        ("0.1", Some("0.10000000000000001")),
        ("1", Some("1")),
        ("-1.5", Some("-1.5")),
        ("5.", Some("5")),
        (".5", Some("0.5")),
        ("+1e5", Some("100000")),
        ("-0", Some("-0")),
        ("1e15", Some("1000000000000000")),
        ("1e16", Some("10000000000000000")),
        ("1e17", Some("1e+17")),
        ("123456789012345678", Some("1.2345678901234568e+17")),
        ("9007199254740993", Some("9007199254740992")),
        ("9007199254740994", Some("9007199254740994")),
        ("1e20", Some("1e+20")),
        ("1e100", Some("1e+100")),
        ("0.0001", Some("0.0001")),
        ("0.00001", Some("1.0000000000000001e-05")),
        ("1.00000762939453125", Some("1.0000076293945312")),
        ("1e-320", Some("9.9998886718268301e-321")),
        ("4.9e-324", Some("4.9406564584124654e-324")),
        ("1.7976931348623157e308", Some("1.7976931348623157e+308")),
        ("inf", Some("inf")),
        ("-inf", Some("-inf")),
        ("+Infinity", Some("inf")),
        ("0x10", Some("16")),
        ("-0X1.8P-2", Some("-0.375")),
        ("0x.8", Some("0.5")),
        ("0x1p-1074", Some("4.9406564584124654e-324")),
        ("0x1.8p-1075", Some("4.9406564584124654e-324")),
        ("0x1p-1075", None),
        ("0x1.fffffffffffff7p1023", Some("1.7976931348623157e+308")),
        ("0x1.fffffffffffff8p1023", None),
        ("0x123456789abcdef0123456789abcdef0123456789p3", Some("1.3302912681127507e+49")),
        ("0x0p99999", Some("0")),
        ("0x", None),
        ("0x.", None),
        ("0xp1", None),
        ("0x1p", None),
        ("1e400", None),
        ("-1e400", None),
        ("1e-400", None),
        ("0e9999", Some("0")),
        ("2e-324", None),
        ("nan", None),
        ("-nan", None),
        ("", None),
        (" 1", None),
        ("1 ", None),
        ("1e", None),
        ("1e+", None),
        (".", None),
        ("+", None),
        ("--1", None),
        ("1\0", None),
        ("1_0", None),
        ("infinit", None),
        ("1.5f", None),
    ];

    #[test]
    fn floats_are_read_and_printed_as_redis_does() {
        for &(text, expected) in FLOATS {
            let printed = parse_f64(text.as_bytes()).map(|value| {
                let mut out = Vec::new();
                write_f64(&mut out, value);
                String::from_utf8(out).unwrap()
            });
            assert_eq!(printed.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ends_of_ranges_saturate() {
        let cases: &[(&[u8], Option<f64>)] = &[
            (b"", Some(0.0)),
            (b"1.5", Some(1.5)),
            (b" \t1", Some(1.0)),
            (b"1 ", None),
            (b" ", None),
            (b"1\0x", Some(1.0)),
            (b"\0x", Some(0.0)),
            (b"1e400", Some(f64::INFINITY)),
            (b"-1e400", Some(f64::NEG_INFINITY)),
            (b"1e-400", Some(0.0)),
            (b"0x1p5000", Some(f64::INFINITY)),
            (b"-0x1p5000", Some(f64::NEG_INFINITY)),
            (b"0x1p-5000", Some(0.0)),
            (b"0x1p3", Some(8.0)),
            (b"+inf", Some(f64::INFINITY)),
            (b"-Infinity", Some(f64::NEG_INFINITY)),
            (b"nan", None),
            (b"(1", None),
            (b"1e", None),
            (b"x", None),
        ];
        for &(text, expected) in cases {
            assert_eq!(parse_f64_saturating(text), expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn printed_floats_read_back_as_themselves() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut out = Vec::new();
        for _ in 0..50_000 {
            let value = f64::from_bits(random.u64(..));
            if value.is_nan() {
                continue;
            }
            out.clear();
            write_f64(&mut out, value);
            let back = parse_f64(&out).map(f64::to_bits);
            assert_eq!(back, Some(value.to_bits()), "{}", out.escape_ascii());
        }
    }

    #[test]
    fn hexadecimal_floats_round_to_nearest_even() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..20_000 {
            // The conversion of the language is the model: an integer above 2^53 rounds the same way.
            let mantissa = random.u64(..) >> random.u32(0..12) | 1 << 52;
            let power = random.i32(-900..900);
            let text = format!("0x{mantissa:x}p{power}");
            let expected = (mantissa as f64) * 2f64.powi(power);
            assert_eq!(parse_f64(text.as_bytes()), Some(expected), "{text}");
        }
    }
}
