//! The arithmetic of INCRBYFLOAT and HINCRBYFLOAT. Redis computes them in C's `long double`, which on x86-64 is the
//! 80-bit extended format (64-bit mantissa, 15-bit exponent) and prints them with `%.17Lf`. That format is kept here in
//! software, so that every machine gives the answers an x86-64 Redis gives, digit for digit.

use crate::num::{HexFloat, parse_exponent, round_binary, strip_sign};

/// Bits of the mantissa; the highest one is stored, not implied.
const PRECISION: u32 = 64;
/// Exponent of the lowest bit of the smallest subnormal number.
const EXPONENT_MIN: i64 = -16445;
/// Finite numbers are below two to this.
const MAGNITUDE_BITS_MAX: i64 = 16384;
/// Texts of this length or longer are refused, as Redis's conversion buffer does.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Digits printed after the point, before trailing zeros go.
const FRACTION_DIGITS: usize = 17;

/// Why a sum has no text.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FloatError {
    /// One of the two texts is not a float.
    NotAFloat,
    /// The sum is not a number, or infinite.
    NanOrInfinity,
}

/// A number in x86's 80-bit extended format.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Magnitude {
    /// `mantissa * 2^exponent`. Zero has mantissa 0; else the mantissa's top bit is set, or the exponent is the least.
    Finite {
        mantissa: u64,
        exponent: i64,
    },
    Infinite,
    NotANumber,
}

/// Adds two floats given as text, and prints the sum.
pub fn add_text(current: &[u8], increment: &[u8]) -> Result<Vec<u8>, FloatError> {
    let current = LongDouble::parse(current).ok_or(FloatError::NotAFloat)?;
    let increment = LongDouble::parse(increment).ok_or(FloatError::NotAFloat)?;
    let sum = current.add(increment);
    if sum.is_finite() { Ok(sum.format()) } else { Err(FloatError::NanOrInfinity) }
}

impl LongDouble {
    /// Positive zero: what a missing key counts as.
    pub const ZERO: LongDouble =
        LongDouble { negative: false, magnitude: Magnitude::Finite { mantissa: 0, exponent: 0 } };

    /// Reads what C's `strtold` reads, rounded to nearest, half to even: decimal and hexadecimal floats, `inf`,
    /// `infinity`. None for anything else or anything more, for NaN, for 5,120 bytes or more, and for finite text
    /// whose value overflows to infinity or underflows to zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let negative = text.first() == Some(&b'-');
        let unsigned = strip_sign(text);
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(LongDouble { negative, magnitude: Magnitude::Infinite });
        }
        let parsed = match HexFloat::parse(text) {
            Some(hex) if hex.mantissa == 0 => LongDouble { negative, ..LongDouble::ZERO },
            Some(hex) => LongDouble::rounded(negative, hex.mantissa, hex.exponent, hex.sticky),
            None => return parse_decimal(negative, unsigned),
        };
        parsed.unless_out_of_range()
    }

    /// The sum, rounded to nearest, half to even.
    // A named method and not `Add`: the rounding is part of what callers ask for.
    #[allow(clippy::should_implement_trait)]
    pub fn add(self, other: LongDouble) -> LongDouble {
        use Magnitude::{Finite, Infinite, NotANumber};
        match (self.magnitude, other.magnitude) {
            (NotANumber, _) | (_, NotANumber) => LongDouble { negative: false, magnitude: NotANumber },
            (Infinite, Infinite) if self.negative != other.negative => {
                LongDouble { negative: false, magnitude: NotANumber }
            }
            (Infinite, _) => self,
            (_, Infinite) => other,
            (Finite { mantissa: a, .. }, Finite { mantissa: b, .. }) if a == 0 || b == 0 => match (a, b) {
                (0, 0) => LongDouble { negative: self.negative && other.negative, ..LongDouble::ZERO },
                (0, _) => other,
                _ => self,
            },
            (Finite { mantissa: a, exponent: a_exponent }, Finite { mantissa: b, exponent: b_exponent }) => {
                // Order by size, so that the difference below is not negative.
                if (a_exponent, a) >= (b_exponent, b) {
                    add_finite((self.negative, a, a_exponent), (other.negative, b, b_exponent))
                } else {
                    add_finite((other.negative, b, b_exponent), (self.negative, a, a_exponent))
                }
            }
        }
    }

    /// Neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        matches!(self.magnitude, Magnitude::Finite { .. })
    }

    /// Not a number: the sum of opposite infinities.
    pub fn is_nan(self) -> bool {
        self.magnitude == Magnitude::NotANumber
    }

    /// `%.17Lf` without trailing zeros, without the point when nothing follows it, and without the sign of zero.
    pub fn format(self) -> Vec<u8> {
        let (mantissa, exponent) = match self.magnitude {
            Magnitude::Finite { mantissa, exponent } => (mantissa, exponent),
            Magnitude::Infinite => return if self.negative { b"-inf".to_vec() } else { b"inf".to_vec() },
            Magnitude::NotANumber => return b"nan".to_vec(),
        };
        let mut out = Vec::with_capacity(32);
        if self.negative {
            out.push(b'-');
        }
        if exponent >= 0 {
            let mut whole = Natural::from(u128::from(mantissa));
            whole.shift_left(exponent as usize);
            out.extend_from_slice(whole.into_decimal().as_bytes());
        } else {
            const SCALE: u128 = 10u128.pow(FRACTION_DIGITS as u32);
            // Below 2^64 * 10^17, hence below 2^121.
            let scaled = divide_by_power_of_two(u128::from(mantissa) * SCALE, (-exponent) as u64);
            out.extend_from_slice(format!("{}.{:017}", scaled / SCALE, scaled % SCALE).as_bytes());
            while out.last() == Some(&b'0') {
                out.pop();
            }
            if out.last() == Some(&b'.') {
                out.pop();
            }
        }
        if out == b"-0" {
            out.remove(0);
        }
        out
    }

    /// `mantissa * 2^exponent`, and a bit more when `sticky`, in this format. `mantissa` is not zero.
    fn rounded(negative: bool, mantissa: u128, exponent: i64, sticky: bool) -> LongDouble {
        let (mantissa, exponent) = round_binary(mantissa, exponent, sticky, PRECISION, EXPONENT_MIN);
        let magnitude = if exponent + i64::from(PRECISION) > MAGNITUDE_BITS_MAX {
            Magnitude::Infinite
        } else {
            Magnitude::Finite { mantissa, exponent }
        };
        LongDouble { negative, magnitude }
    }

    /// None for what rounding made infinite, or zero with an exponent: C reports both as a range error.
    fn unless_out_of_range(self) -> Option<LongDouble> {
        match self.magnitude {
            Magnitude::Finite { mantissa, exponent } => (mantissa != 0 || exponent == 0).then_some(self),
            _ => None,
        }
    }
}

/// `larger` and `smaller` are (negative, mantissa, exponent), neither zero, `larger` at least as large in magnitude.
fn add_finite(larger: (bool, u64, i64), smaller: (bool, u64, i64)) -> LongDouble {
    // Room below the larger mantissa for what the smaller one has there; one bit stays free above for the carry.
    const ROOM: u32 = 63;
    let distance = larger.2 - smaller.2;
    let high = u128::from(larger.1) << ROOM;
    let low = u128::from(smaller.1) << ROOM;
    let (low, sticky) = match distance {
        0..128 => (low >> distance, low & ((1u128 << distance) - 1) != 0),
        _ => (0, true),
    };
    let sum = if larger.0 == smaller.0 { high + low } else { high - low - u128::from(sticky) };
    if sum == 0 {
        return LongDouble::ZERO;
    }
    LongDouble::rounded(larger.0, sum, larger.2 - i64::from(ROOM), sticky)
}

/// `value / 2^shift`, half to even.
fn divide_by_power_of_two(value: u128, shift: u64) -> u128 {
    // Callers stay below 2^121, so 122 bits are already less than half.
    if shift >= 122 {
        return 0;
    }
    let kept = value >> shift;
    let half = 1u128 << (shift - 1);
    let dropped = value & (half | (half - 1));
    kept + u128::from(dropped > half || dropped == half && kept & 1 == 1)
}

/// Digits, perhaps a point, perhaps an exponent.
fn parse_decimal(negative: bool, unsigned: &[u8]) -> Option<LongDouble> {
    let digits_end = unsigned.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e'));
    let (number, mut power) = match digits_end {
        Some(e) => (&unsigned[..e], parse_exponent(&unsigned[e + 1..])?),
        None => (unsigned, 0),
    };
    let mut digits = Vec::with_capacity(number.len());
    let mut after_point = false;
    for &byte in number {
        match byte {
            b'0'..=b'9' => {
                digits.push(byte - b'0');
                power -= i64::from(after_point);
            }
            b'.' if !after_point => after_point = true,
            _ => return None,
        }
    }
    if digits.is_empty() {
        return None;
    }
    while digits.last() == Some(&0) {
        digits.pop();
        power += 1;
    }
    let leading = digits.iter().take_while(|&&digit| digit == 0).count();
    let digits = &digits[leading..];
    if digits.is_empty() {
        return Some(LongDouble { negative, ..LongDouble::ZERO });
    }
    // Decide what is far out of range here, so that no huge power of ten is ever computed.
    let tens = power + digits.len() as i64;
    if !(-4960..=4940).contains(&tens) {
        return None;
    }
    let mut numerator = Natural::from_digits(digits);
    let mut denominator = Natural::from(1);
    if power >= 0 { &mut numerator } else { &mut denominator }.multiply_by_power_of_ten(power.unsigned_abs());
    let (quotient, exponent, sticky) = divide(numerator, denominator);
    LongDouble::rounded(negative, quotient, exponent, sticky).unless_out_of_range()
}

/// `numerator / denominator` as `quotient * 2^exponent`, with at least 66 bits of quotient; `sticky` says that a
/// remainder is left. Neither is zero.
fn divide(mut numerator: Natural, mut denominator: Natural) -> (u128, i64, bool) {
    const QUOTIENT_BITS: i64 = 66;
    // Chosen so that 2^65 < quotient < 2^67.
    let shift = QUOTIENT_BITS - (numerator.bits() as i64 - denominator.bits() as i64);
    if shift >= 0 { &mut numerator } else { &mut denominator }.shift_left(shift.unsigned_abs() as usize);
    denominator.shift_left(QUOTIENT_BITS as usize);
    let mut quotient = 0u128;
    for _ in 0..=QUOTIENT_BITS {
        quotient <<= 1;
        if numerator.is_at_least(&denominator) {
            numerator.subtract(&denominator);
            quotient |= 1;
        }
        denominator.halve();
    }
    (quotient, -shift, !numerator.is_zero())
}

/// A natural number of any size: 64-bit limbs, lowest first, the last one not zero.
struct Natural {
    limbs: Vec<u64>,
}

impl From<u128> for Natural {
    fn from(value: u128) -> Natural {
        let mut natural = Natural { limbs: vec![value as u64, (value >> 64) as u64] };
        natural.trim();
        natural
    }
}

impl Natural {
    fn from_digits(digits: &[u8]) -> Natural {
        let mut natural = Natural { limbs: Vec::with_capacity(digits.len() / 19 + 2) };
        for chunk in digits.chunks(19) {
            let value = chunk.iter().fold(0u64, |value, &digit| value * 10 + u64::from(digit));
            natural.multiply_and_add(10u64.pow(chunk.len() as u32), value);
        }
        natural
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    fn bits(&self) -> usize {
        self.limbs.last().map_or(0, |top| self.limbs.len() * 64 - top.leading_zeros() as usize)
    }

    fn multiply_and_add(&mut self, factor: u64, addend: u64) {
        let mut carry = addend;
        for limb in &mut self.limbs {
            let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = product as u64;
            carry = (product >> 64) as u64;
        }
        if carry != 0 {
            self.limbs.push(carry);
        }
    }

    fn multiply_by_power_of_ten(&mut self, mut power: u64) {
        while power > 0 {
            let step = power.min(19);
            self.multiply_and_add(10u64.pow(step as u32), 0);
            power -= step;
        }
    }

    fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        let within = bits % 64;
        if within > 0 {
            self.multiply_and_add(1 << within, 0);
        }
        self.limbs.splice(0..0, std::iter::repeat_n(0, bits / 64));
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for limb in self.limbs.iter_mut().rev() {
            let low_bit = *limb & 1;
            *limb = *limb >> 1 | carry << 63;
            carry = low_bit;
        }
        self.trim();
    }

    fn is_at_least(&self, other: &Natural) -> bool {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev())).is_ge()
    }

    /// `other` is not larger than `self`.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let subtrahend = other.limbs.get(index).copied().unwrap_or(0);
            let (difference, under) = limb.overflowing_sub(subtrahend);
            let (difference, under_again) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = under || under_again;
        }
        debug_assert!(!borrow);
        self.trim();
    }

    fn into_decimal(mut self) -> String {
        const CHUNK: u64 = 10u64.pow(19);
        let mut chunks = Vec::new();
        while !self.is_zero() {
            let mut remainder = 0u64;
            for limb in self.limbs.iter_mut().rev() {
                let dividend = u128::from(remainder) << 64 | u128::from(*limb);
                *limb = (dividend / u128::from(CHUNK)) as u64;
                remainder = (dividend % u128::from(CHUNK)) as u64;
            }
            self.trim();
            chunks.push(remainder);
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:019}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::FloatError::{NanOrInfinity, NotAFloat};
    use super::*;

    /// What INCRBYFLOAT of Redis 7.0.15 on x86-64 makes of a value and an increment.
    const SUMS: &[(&str, &str, Result<&str, FloatError>)] = &[
        ("10.5", "0.1", Ok("10.6")),
        ("10.6", "5e3", Ok("5010.60000000000000009")),
        ("3.0e3", "200", Ok("3200")),
        ("0", "-0", Ok("0")),
        ("-0", "-0", Ok("0")),
        ("1", "-1", Ok("0")),
        ("0.1", "0.2", Ok("0.3")),
        ("3", "1.000000000000000005", Ok("4.00000000000000001")),
        ("1e17", "1", Ok("100000000000000001")),
        ("18446744073709551615", "1", Ok("18446744073709551616")),
        ("18446744073709551616", "1", Ok("18446744073709551616")),
        ("1e20", "-1", Ok("100000000000000000000")),
        ("12345678901234567890", "0.5", Ok("12345678901234567890")),
        ("5", "-5.00000000000000000001", Ok("0")),
        ("0.000000000000000005", "0", Ok("0")),
        ("0.000000000000000015", "0", Ok("0.00000000000000002")),
        ("1e-18", "0", Ok("0")),
        ("-1e-20", "0", Ok("0")),
        ("0x1.8p3", "0x.1", Ok("12.0625")),
        ("0x123456789abcdef0123456789abcdef01p-70", "0", Ok("327942116865947580.03125")),
        ("1.5", "1e-30", Ok("1.5")),
        ("9223372036854775807", "0.5", Ok("9223372036854775807.5")),
        ("-9223372036854775808", "-0.75", Ok("-9223372036854775809")),
        ("1.23456789012345678901234567890", "9.87654321098765432109876543210e-10", Ok("1.23456789111111111")),
        ("1e25", "3", Ok("10000000000000000000000000")),
        ("123.456", "-123.456", Ok("0")),
        ("1e4933", "0", Err(NotAFloat)),
        ("1e4932", "-1e4932", Ok("0")),
        ("1.18973149535723176502e+4932", "1.18973149535723176502e+4932", Err(NanOrInfinity)),
        ("1.18973149535723176509e+4932", "0", Err(NotAFloat)),
        ("inf", "1", Err(NanOrInfinity)),
        ("1", "-inf", Err(NanOrInfinity)),
        ("inf", "-inf", Err(NanOrInfinity)),
        ("nan", "0", Err(NotAFloat)),
        ("1e-4950", "0", Ok("0")),
        ("1e-4952", "0", Err(NotAFloat)),
        ("", "1", Err(NotAFloat)),
        ("1", "", Err(NotAFloat)),
        (" 1", "1", Err(NotAFloat)),
        ("1", "1 ", Err(NotAFloat)),
        ("abc", "1", Err(NotAFloat)),
        ("1", "0x", Err(NotAFloat)),
        ("1e", "1", Err(NotAFloat)),
        (".", "1", Err(NotAFloat)),
        ("+.5", "-5.", Ok("-4.5")),
        ("1e99999999999999999999", "1", Err(NotAFloat)),
        ("0e99999999999999999999", "1", Ok("1")),
    ];

    #[test]
    fn sums_are_those_of_redis() {
        for &(current, increment, expected) in SUMS {
            let sum = add_text(current.as_bytes(), increment.as_bytes());
            let sum = sum.map(|text| String::from_utf8(text).unwrap());
            assert_eq!(sum.as_deref().map_err(|&error| error), expected, "{current} + {increment}");
        }
    }

    #[test]
    fn long_texts_are_read_up_to_the_limit() {
        let longest = "0".repeat(TEXT_BYTES_MAX - 2) + "7";
        assert_eq!(LongDouble::parse(longest.as_bytes()), LongDouble::parse(b"7"));
        assert_eq!(LongDouble::parse(("0".to_owned() + &longest).as_bytes()), None);
        // 4,932 digits: the largest power of ten of the format.
        let huge = add_text(b"1e4932", b"1").unwrap();
        assert_eq!(huge.len(), 4933 - usize::from(huge[0] == b'9'));
    }

    #[test]
    fn sums_of_whole_numbers_are_exact_within_64_bits() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..10_000 {
            let (a, b) =
                (i64::from(random.i32(..)) << random.u32(0..31), random.i64(..) >> random.u32(0..63));
            let expected = (i128::from(a) + i128::from(b)).to_string();
            let sum = add_text(a.to_string().as_bytes(), b.to_string().as_bytes());
            assert_eq!(sum, Ok(expected.into_bytes()), "{a} + {b}");
        }
    }

    #[test]
    fn special_sums() {
        let parse = |text: &str| LongDouble::parse(text.as_bytes()).unwrap();
        let nan = parse("inf").add(parse("-inf"));
        assert!(nan.is_nan() && !nan.is_finite());
        assert!(nan.add(LongDouble::ZERO).is_nan());
        assert_eq!(parse("-inf").add(parse("5")).format(), b"-inf");
        assert_eq!(LongDouble::ZERO.add(parse("5")).format(), b"5");
    }
}
