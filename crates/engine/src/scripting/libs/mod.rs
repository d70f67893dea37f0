//! The C libraries that Redis gives to scripts, in Rust: same results, same error texts.

pub mod bit;
pub mod cjson;
mod cjson_parse;
pub mod cmsgpack;
mod cmsgpack_read;
pub mod pack;

use mlua::{Lua, Value};

use super::errors::wrong_type;

/// Most values that one function returns: Lua's stack has no room for more.
pub const RESULTS_MAX: usize = 7_500;

/// Argument `index` (from 0) as a number, as Lua's own functions take numbers: strings that look like one, too.
pub fn number_argument(lua: &Lua, args: &[Value], index: usize) -> mlua::Result<f64> {
    args.get(index).and_then(number_of).ok_or_else(|| wrong_type(lua, index + 1, "number", args.get(index)))
}

/// A number, or a string that is one.
pub fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => parse_number(&text.as_bytes()),
        _ => None,
    }
}

/// What Lua 5.1 makes of a text where it wants a number.
fn parse_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let number = u64::from_str_radix(hex, 16).ok()? as f64;
        return Some(if negative { -number } else { number });
    }
    digits.starts_with(|first: char| first.is_ascii_digit() || first == '.').then_some(())?;
    text.parse().ok()
}

/// Argument `index` (from 0) as bytes: a string, or a number as Lua prints it.
pub fn bytes_argument(lua: &Lua, args: &[Value], index: usize) -> mlua::Result<Vec<u8>> {
    args.get(index).and_then(bytes_of).ok_or_else(|| wrong_type(lua, index + 1, "string", args.get(index)))
}

/// A string, or a number as Lua prints it.
pub fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(format_number(*number as f64, 14).into_bytes()),
        Value::Number(number) => Some(format_number(*number, 14).into_bytes()),
        _ => None,
    }
}

/// A float as C's `%.Ng` prints it.
pub fn format_number(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan".to_owned() } else { "nan".to_owned() };
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    let digits = digits.max(1);
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("float-format: an exponent was asked for");
    let exponent: i32 = exponent.parse().expect("float-format: an exponent is a number");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    trimmed(&format!("{number:.*}", (digits as i32 - 1 - exponent).max(0) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_c_prints_them() {
        for (number, digits, expected) in [
            (0.1, 14, "0.1"),
            (0.1, 17, "0.10000000000000001"),
            (1e15, 14, "1e+15"),
            (100.0, 14, "100"),
            (-1.5, 14, "-1.5"),
            (1e-5, 14, "1e-05"),
            (123456789012345680.0, 14, "1.2345678901235e+17"),
            (f64::INFINITY, 14, "inf"),
            (0.0, 14, "0"),
            (3.4, 1, "3"),
        ] {
            assert_eq!(format_number(number, digits), expected);
        }
    }

    #[test]
    fn texts_are_numbers_where_lua_says_so() {
        for (text, expected) in [
            ("10", Some(10.0)),
            (" 10 ", Some(10.0)),
            ("0x10", Some(16.0)),
            ("1e2", Some(100.0)),
            ("", None),
            ("x", None),
            ("inf", None),
            ("-.5", Some(-0.5)),
        ] {
            assert_eq!(parse_number(text.as_bytes()), expected, "{text}");
        }
    }
}
