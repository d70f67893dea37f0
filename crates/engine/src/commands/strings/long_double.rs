//! The arithmetic of INCRBYFLOAT and HINCRBYFLOAT: 80-bit extended floats, in software.
//!
//! Redis computes these two commands in C's `long double`, which on its usual platforms has a 64-bit significand: 10.5 + 0.1 is
//! `10.6` there, and would be `10.59999999999999964` in 64-bit floats. Clients compare those texts, so every platform must produce
//! the same ones: parsing, addition and printing are correctly rounded (to nearest, ties to even), as the C library does them.

use std::cmp::Ordering;

/// Texts this long or longer are not numbers to Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Digits behind the point in the printed form, before trailing zeros are cut.
const PRINTED_DECIMALS: u32 = 17;
/// Exponent of the last significand bit of the smallest numbers; there the significand may lose its leading bits.
const EXPONENT_MIN: i32 = -16_445;
/// Exponent of the last significand bit of the largest numbers.
const EXPONENT_MAX: i32 = 16_320;

/// An 80-bit extended float: `significand * 2^exponent`, or infinite.
///
/// Finite and not zero: the significand's top bit is set, or the exponent is `EXPONENT_MIN`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongDouble {
    negative: bool,
    infinite: bool,
    significand: u64,
    exponent: i32,
}

impl LongDouble {
    const ZERO: Self = Self { negative: false, infinite: false, significand: 0, exponent: EXPONENT_MIN };

    /// Reads a whole text as Redis does: decimal or hexadecimal floats and `inf`; no spaces, no NaN, nothing that over- or underflows.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (negative, digits) = match text[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(Self { negative, infinite: true, ..Self::ZERO });
        }
        let hexadecimal = digits.len() > 2 && digits[0] == b'0' && digits[1] | 0x20 == b'x';
        let magnitude = if hexadecimal { parse_hexadecimal(&digits[2..])? } else { parse_decimal(digits)? };
        (!magnitude.infinite).then_some(Self { negative, ..magnitude })
    }

    /// Whether this is a number, not infinity.
    pub fn is_finite(self) -> bool {
        !self.infinite
    }

    /// The sum, rounded to nearest; `None` for infinity minus infinity, which is not a number.
    pub fn add(self, other: Self) -> Option<Self> {
        if self.infinite || other.infinite {
            return match (self.infinite, other.infinite) {
                (true, true) if self.negative != other.negative => None,
                (true, _) => Some(self),
                _ => Some(other),
            };
        }
        let (large, small) = if self.magnitude_order(other) == Ordering::Less { (other, self) } else { (self, other) };
        if small.significand == 0 {
            return Some(large);
        }
        // 63 guard bits below the larger one, and one above it for the carry.
        let large_wide = u128::from(large.significand) << 63;
        let small_wide = u128::from(small.significand) << 63;
        let distance = (large.exponent - small.exponent).unsigned_abs();
        let (aligned, lost) = match distance {
            0..=127 => (small_wide >> distance, small_wide & ((1 << distance) - 1) != 0),
            _ => (0, true),
        };
        let sum = if large.negative == small.negative {
            large_wide + aligned
        } else {
            // What was lost belongs to the number being taken away: the true difference lies just below.
            large_wide - aligned - u128::from(lost)
        };
        Some(Self { negative: large.negative && sum != 0, ..Self::rounded(sum, large.exponent - 63, lost) })
    }

    /// Compares absolute values of finite numbers.
    fn magnitude_order(self, other: Self) -> Ordering {
        // Significands are left-aligned except at the least exponent, so exponent first is right; zero has the least exponent.
        (self.exponent, self.significand).cmp(&(other.exponent, other.significand))
    }

    /// The nearest float to `wide * 2^exponent`, where `lost` says that the true value lies a little above `wide`.
    fn rounded(wide: u128, exponent: i32, lost: bool) -> Self {
        if wide == 0 {
            return Self::ZERO;
        }
        let bits = 128 - wide.leading_zeros() as i32;
        let mut cut = (bits - 64).max(EXPONENT_MIN - exponent);
        if cut <= 0 {
            // Fits without losing bits: align to the left as far as the exponent allows.
            return Self::fitted((wide << -cut) as u64, exponent + cut);
        }
        if cut > 128 {
            return Self::ZERO;
        }
        let kept = if cut == 128 { 0 } else { wide >> cut };
        let rest = wide - if cut == 128 { 0 } else { kept << cut };
        let half = 1u128 << (cut - 1);
        let up = match rest.cmp(&half) {
            Ordering::Greater => true,
            Ordering::Equal => lost || kept & 1 == 1,
            Ordering::Less => false,
        };
        let mut kept = kept + u128::from(up);
        if kept >> 64 != 0 {
            kept >>= 1;
            cut += 1;
        }
        Self::fitted(kept as u64, exponent + cut)
    }

    fn fitted(significand: u64, exponent: i32) -> Self {
        if significand == 0 {
            return Self::ZERO;
        }
        Self { infinite: exponent > EXPONENT_MAX, significand, exponent, ..Self::ZERO }
    }
}

/// Prints as C's `%.17Lf` with trailing zeros (and a bare point) cut off; no exponent form, and no negative zero.
impl std::fmt::Display for LongDouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        if self.infinite {
            return write!(f, "{sign}inf");
        }
        if self.exponent >= 0 {
            let mut whole = Big::from(self.significand);
            whole.shift_left(self.exponent as usize);
            return write!(f, "{sign}{}", whole.to_decimal());
        }
        let below = self.exponent.unsigned_abs();
        let significand = u128::from(self.significand);
        let (mut whole, fraction) =
            if below < 64 { (significand >> below, significand & ((1 << below) - 1)) } else { (0, significand) };
        // Below 2^121, so from 2^-122 on the printed decimals are all zero.
        let scaled = fraction * 10u128.pow(PRINTED_DECIMALS);
        let mut decimals = 0;
        if below < 128 {
            decimals = scaled >> below;
            let (rest, half) = (scaled & ((1 << below) - 1), 1u128 << (below - 1));
            decimals += u128::from(rest > half || (rest == half && decimals & 1 == 1));
        }
        if decimals == 10u128.pow(PRINTED_DECIMALS) {
            whole += 1;
            decimals = 0;
        }
        match (whole, decimals) {
            (0, 0) => f.write_str("0"),
            (_, 0) => write!(f, "{sign}{whole}"),
            _ => {
                let decimals = format!("{decimals:0width$}", width = PRINTED_DECIMALS as usize);
                write!(f, "{sign}{whole}.{}", decimals.trim_end_matches('0'))
            }
        }
    }
}

/// The parts of a float's text: digits without point, exponent to apply to them as an integer, in powers of the marker's base.
struct Parts {
    digits: Vec<u8>,
    digits_behind_point: i64,
    exponent: i64,
}

/// Splits `12.5e-3`; `None` unless the whole text is digits, one optional point, and one optional exponent after `marker`.
fn split(text: &[u8], marker: u8, is_digit: fn(&u8) -> bool) -> Option<Parts> {
    let mut parts = Parts { digits: Vec::with_capacity(text.len()), digits_behind_point: 0, exponent: 0 };
    let mut point = false;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'.' if !point => point = true,
            digit if is_digit(&digit) => {
                parts.digits.push(digit);
                parts.digits_behind_point += i64::from(point);
            }
            letter if letter | 0x20 == marker && !parts.digits.is_empty() => {
                parts.exponent = parse_exponent(&text[at + 1..])?;
                at = text.len() - 1;
            }
            _ => return None,
        }
        at += 1;
    }
    (!parts.digits.is_empty()).then_some(parts)
}

/// A signed decimal integer, held within bounds that no float's exponent reaches.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text.first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude =
        digits.iter().fold(0i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(1_000_000_000_000));
    Some(sign * magnitude)
}

fn parse_hexadecimal(text: &[u8]) -> Option<LongDouble> {
    let parts = split(text, b'p', u8::is_ascii_hexdigit)?;
    let mut exponent = parts.exponent - 4 * parts.digits_behind_point;
    let (mut wide, mut lost) = (0u128, false);
    for digit in parts.digits {
        let value = (digit as char).to_digit(16).unwrap_or(0);
        if wide >> 120 == 0 {
            wide = wide << 4 | u128::from(value);
        } else {
            lost |= value != 0;
            exponent += 4;
        }
    }
    if wide == 0 {
        return Some(LongDouble::ZERO);
    }
    let result = LongDouble::rounded(wide, exponent.clamp(-100_000, 100_000) as i32, lost);
    (result.significand != 0).then_some(result)
}

fn parse_decimal(text: &[u8]) -> Option<LongDouble> {
    let parts = split(text, b'e', u8::is_ascii_digit)?;
    let mut exponent = parts.exponent - parts.digits_behind_point;
    let significant = parts.digits.iter().position(|digit| *digit != b'0');
    let Some(first) = significant else { return Some(LongDouble::ZERO) };
    let mut digits = &parts.digits[first..];
    while let [rest @ .., b'0'] = digits {
        digits = rest;
        exponent += 1;
    }
    // The largest float is near 1.2e4932, the smallest near 3.6e-4951.
    let order = digits.len() as i64 + exponent;
    if !(-4960..=4940).contains(&order) {
        return None;
    }
    let result = if digits.len() <= 19 && (-19..=0).contains(&exponent) {
        let number = digits.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        quotient_of_small(number, 10u64.pow(exponent.unsigned_abs() as u32))
    } else {
        let mut numerator = Big::from_decimal(digits);
        let mut denominator = Big::from(1);
        if exponent >= 0 { &mut numerator } else { &mut denominator }.multiply_by_power_of_ten(exponent.unsigned_abs());
        quotient(numerator, denominator)
    };
    (result.significand != 0).then_some(result)
}

/// `numerator / denominator`, neither of them zero, rounded once.
fn quotient_of_small(numerator: u64, denominator: u64) -> LongDouble {
    let (up, down) = (numerator.leading_zeros(), denominator.leading_zeros());
    let dividend = u128::from(numerator << up) << 64;
    let divisor = u128::from(denominator << down);
    let (mut wide, mut rest) = (dividend / divisor, dividend % divisor);
    // The quotient has 64 or 65 bits: two more make sure that there is one to round by.
    for _ in 0..2 {
        rest <<= 1;
        wide = wide << 1 | u128::from(rest >= divisor);
        rest -= if rest >= divisor { divisor } else { 0 };
    }
    LongDouble::rounded(wide, down as i32 - up as i32 - 66, rest != 0)
}

/// As [`quotient_of_small`], for numbers of any size, by long division in binary.
fn quotient(mut numerator: Big, mut denominator: Big) -> LongDouble {
    let order = numerator.bits() as i64 - denominator.bits() as i64;
    if order > 0 { &mut denominator } else { &mut numerator }.shift_left(order.unsigned_abs() as usize);
    let mut wide = 0u128;
    const STEPS: i32 = 67;
    for _ in 0..STEPS {
        wide <<= 1;
        if numerator.order(&denominator) != Ordering::Less {
            numerator.subtract(&denominator);
            wide |= 1;
        }
        numerator.shift_left(1);
    }
    LongDouble::rounded(wide, order as i32 - (STEPS - 1), !numerator.is_zero())
}

/// An unsigned integer of any size: limbs of 32 bits, least first, the last one never zero.
struct Big(Vec<u32>);

impl Big {
    fn from(number: u64) -> Self {
        let mut big = Self(vec![number as u32, (number >> 32) as u32]);
        big.trim();
        big
    }

    fn from_decimal(digits: &[u8]) -> Self {
        let mut big = Self(Vec::with_capacity(digits.len() / 9 + 1));
        for chunk in digits.chunks(9) {
            let value = chunk.iter().fold(0u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            big.multiply_add(10u32.pow(chunk.len() as u32), value);
        }
        big
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }

    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry != 0 {
            self.0.push(carry as u32);
        }
    }

    fn multiply_by_power_of_ten(&mut self, mut power: u64) {
        while power > 0 {
            let step = power.min(9);
            self.multiply_add(10u32.pow(step as u32), 0);
            power -= step;
        }
    }

    fn shift_left(&mut self, bits: usize) {
        if self.is_zero() || bits == 0 {
            return;
        }
        let within = bits % 32;
        if within != 0 {
            let mut carry = 0u32;
            for limb in &mut self.0 {
                let shifted = *limb << within | carry;
                carry = *limb >> (32 - within);
                *limb = shifted;
            }
            if carry != 0 {
                self.0.push(carry);
            }
        }
        if bits >= 32 {
            self.0.splice(0..0, std::iter::repeat_n(0, bits / 32));
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Takes away `other`, which is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let taken = other.0.get(at).copied().unwrap_or(0);
            let (less, under) = limb.overflowing_sub(taken);
            let (less, under_by_borrow) = less.overflowing_sub(u32::from(borrow));
            *limb = less;
            borrow = under || under_by_borrow;
        }
        assert!(!borrow, "a big integer never goes below zero");
        self.trim();
    }

    fn to_decimal(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let mut limbs = self.0.clone();
        let mut groups = Vec::new();
        while !limbs.is_empty() {
            let mut rest = 0u64;
            for limb in limbs.iter_mut().rev() {
                let value = rest << 32 | u64::from(*limb);
                *limb = (value / 1_000_000_000) as u32;
                rest = value % 1_000_000_000;
            }
            groups.push(rest);
            while limbs.last() == Some(&0) {
                limbs.pop();
            }
        }
        let mut text = groups.pop().map_or(String::new(), |first| first.to_string());
        groups.iter().rev().for_each(|group| text.push_str(&format!("{group:09}")));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::LongDouble;

    fn sum(left: &str, right: &str) -> String {
        let (left, right) = (LongDouble::parse(left.as_bytes()), LongDouble::parse(right.as_bytes()));
        match (left, right) {
            (Some(left), Some(right)) => left.add(right).map_or("nan".to_owned(), |sum| sum.to_string()),
            _ => "error".to_owned(),
        }
    }

    #[test]
    fn sums_print_as_redis_prints_them() {
        let cases = [
            ("10.50", "0.1", "10.6"),
            ("3.0e3", "200", "3200"),
            ("5.6", "-5", "0.6"),
            ("0.1", "0.2", "0.3"),
            ("1", "1e-17", "1.00000000000000001"),
            ("1", "1e-18", "1"),
            ("-0", "-0", "0"),
            ("0", "-1e-30", "0"),
            ("-1.5", "1.5", "0"),
            ("+.5", "5.", "5.5"),
            ("0x10", "0x.8p1", "17"),
            ("9007199254740993", "1", "9007199254740994"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551615", "2", "18446744073709551616"),
            ("0.99999999999999999999", "0", "1"),
            ("1e20", "1", "100000000000000000000"),
            ("1e-4950", "0", "0"),
            ("0e-9999", "1", "1"),
            ("inf", "1", "inf"),
            ("-inf", "1", "-inf"),
            ("inf", "-inf", "nan"),
        ];
        for (left, right, expected) in cases {
            assert_eq!(sum(left, right), expected, "{left} + {right}");
            assert_eq!(sum(right, left), expected, "{right} + {left}");
        }
    }

    #[test]
    fn numbers_beyond_64_bit_floats_keep_every_digit() {
        let printed = sum("1e400", "0");
        assert_eq!(printed.len(), 401);
        assert!(printed.starts_with("100000000000000000002818806839475865145864534336290520386259"), "{printed}");
        assert!(printed.ends_with("309734806343732497430221946880"), "{printed}");
        assert_eq!(sum("1e4932", "1e4932"), "inf");
    }

    #[test]
    fn what_is_not_a_number_to_redis_is_refused() {
        let texts = [
            "", " 1", "1 ", "+", "-", ".", "e5", "1e", "1e+", "1e5.0", "0x", "0x.", "0xg", "1.2.3", "nan", "NaN", "1_0", "--1",
            "infin", "1e5000", "1e-5000", "-1e9999999999999999999", "0x1p99999", "0x1p-99999", "1,5",
        ];
        for text in texts {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(LongDouble::parse(&[b'1'; super::TEXT_BYTES_MAX]), None);
    }
}
