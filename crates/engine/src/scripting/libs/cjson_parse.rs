//! The tokens of JSON as lua-cjson reads them, with its error texts.

use mlua::{Lua, Value};

/// A token and where it starts.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    /// What an error text calls it.
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(text) => text,
        }
    }
}

/// A value without parts.
pub enum Scalar {
    /// A string.
    String(Vec<u8>),
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Null.
    Null,
}

impl Scalar {
    /// The value as Lua knows it; null is `cjson.null`.
    pub fn into_lua_value(self, lua: &Lua) -> mlua::Result<Value> {
        Ok(match self {
            Scalar::String(text) => Value::String(lua.create_string(text)?),
            Scalar::Number(number) => Value::Number(number),
            Scalar::Boolean(value) => Value::Boolean(value),
            Scalar::Null => Value::NULL,
        })
    }
}

/// How a value begins.
pub enum Step {
    /// It is whole.
    Scalar(Scalar),
    /// Elements follow.
    ArrayBegin,
    /// Pairs follow.
    ObjectBegin,
}

/// A text that is read from its start. Errors are the texts that scripts see.
pub struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the last token began, or an error in it was found.
    index: usize,
    invalid_numbers: bool,
    /// A token that was looked at and is still to be used.
    pending: Option<Token>,
}

impl<'a> Parser<'a> {
    /// Reads `text`; `invalid_numbers` allows hexadecimal, infinite and such numbers.
    pub fn new(text: &'a [u8], invalid_numbers: bool) -> Parser<'a> {
        Parser { text, at: 0, index: 0, invalid_numbers, pending: None }
    }

    /// How many bytes were read.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next value's beginning.
    pub fn value(&mut self) -> Result<Step, String> {
        let token = self.pending.take().unwrap_or_else(|| self.token());
        Ok(Step::Scalar(match token {
            Token::String(text) => Scalar::String(text),
            Token::Number(number) => Scalar::Number(number),
            Token::Boolean(value) => Scalar::Boolean(value),
            Token::Null => Scalar::Null,
            Token::ArrayBegin => return Ok(Step::ArrayBegin),
            Token::ObjectBegin => return Ok(Step::ObjectBegin),
            other => return Err(self.expected("value", &other)),
        }))
    }

    /// After an array's beginning: true if it ends at once.
    pub fn is_array_end(&mut self) -> Result<bool, String> {
        match self.token() {
            Token::ArrayEnd => Ok(true),
            other => {
                self.pending = Some(other);
                Ok(false)
            }
        }
    }

    /// After an object's beginning: its first key, with its colon; `None` if it ends at once.
    pub fn first_key(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self.token() {
            Token::ObjectEnd => Ok(None),
            other => self.key(other).map(Some),
        }
    }

    /// After an element: true if another follows, false if the array ended.
    pub fn next_element(&mut self) -> Result<bool, String> {
        match self.token() {
            Token::ArrayEnd => Ok(false),
            Token::Comma => Ok(true),
            other => Err(self.expected("comma or array end", &other)),
        }
    }

    /// After a pair: the next key, with its colon; `None` if the object ended.
    pub fn next_key(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self.token() {
            Token::ObjectEnd => Ok(None),
            Token::Comma => {
                let token = self.token();
                self.key(token).map(Some)
            }
            other => Err(self.expected("comma or object end", &other)),
        }
    }

    /// After the value: nothing may follow.
    pub fn end(&mut self) -> Result<(), String> {
        match self.token() {
            Token::End => Ok(()),
            other => Err(self.expected("the end", &other)),
        }
    }

    fn key(&mut self, token: Token) -> Result<Vec<u8>, String> {
        let Token::String(key) = token else { return Err(self.expected("object key string", &token)) };
        match self.token() {
            Token::Colon => Ok(key),
            other => Err(self.expected("colon", &other)),
        }
    }

    fn expected(&self, what: &str, found: &Token) -> String {
        format!("Expected {what} but found {} at character {}", found.name(), self.index + 1)
    }

    /// The byte `ahead` of the next; beyond the end, as C strings have it, zero.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn token(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.index = self.at;
        let token = match self.peek(0) {
            0 => return Token::End,
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' if !self.invalid_numbers && self.is_invalid_number() => {
                return self.error("invalid number");
            }
            b'-' | b'0'..=b'9' => return self.number(),
            b'+' | b'i' | b'I' | b'n' | b'N' | b't' | b'f' => return self.word(),
            _ => return self.error("invalid token"),
        };
        self.at += 1;
        token
    }

    fn word(&mut self) -> Token {
        let words: [(&[u8], Token); 3] =
            [(b"true", Token::Boolean(true)), (b"false", Token::Boolean(false)), (b"null", Token::Null)];
        for (word, token) in words {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.invalid_numbers && self.is_invalid_number() {
            return self.number();
        }
        self.error("invalid token")
    }

    /// True for what only `decode_invalid_numbers` lets through.
    fn is_invalid_number(&self) -> bool {
        let sign = usize::from(self.peek(0) == b'-');
        match self.peek(sign) {
            b'+' => sign == 0,
            b'0' => matches!(self.peek(sign + 1), b'x' | b'X' | b'0'..=b'9'),
            0..=b'9' => false,
            _ => {
                let word = &self.text[self.at + sign..];
                let word = &word[..word.len().min(3)];
                word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
            }
        }
    }

    fn number(&mut self) -> Token {
        match strtod(&self.text[self.at..]) {
            Some((number, len)) => {
                self.at += len;
                Token::Number(number)
            }
            None => self.error("invalid number"),
        }
    }

    fn error(&mut self, text: &'static str) -> Token {
        self.index = self.at;
        Token::Error(text)
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let byte = self.peek(0);
            let plain = match byte {
                b'"' => {
                    self.at += 1;
                    return Token::String(text);
                }
                0 => return self.error("unexpected end of string"),
                b'\\' => match self.peek(1) {
                    b'u' => {
                        if !self.unicode_escape(&mut text) {
                            return self.error("invalid unicode escape code");
                        }
                        continue;
                    }
                    escape => {
                        let Some(plain) = unescape(escape) else { return self.error("invalid escape code") };
                        self.at += 1;
                        plain
                    }
                },
                _ => byte,
            };
            text.push(plain);
            self.at += 1;
        }
    }

    /// Four hexadecimal digits, so many bytes ahead.
    fn hex4(&self, ahead: usize) -> Option<u32> {
        let digits = self.text.get(self.at + ahead..self.at + ahead + 4)?;
        digits.iter().try_fold(0, |value, digit| Some(value << 4 | (*digit as char).to_digit(16)?))
    }

    fn unicode_escape(&mut self, text: &mut Vec<u8>) -> bool {
        const LEN: usize = 6;
        let Some(mut code) = self.hex4(2) else { return false };
        let mut len = LEN;
        if code & 0xf800 == 0xd800 {
            if code & 0x400 != 0 || self.peek(LEN) != b'\\' || self.peek(LEN + 1) != b'u' {
                return false;
            }
            match self.hex4(2 + LEN) {
                Some(low) if low & 0xfc00 == 0xdc00 => {
                    code = ((code & 0x3ff) << 10 | low & 0x3ff) + 0x10000;
                    len = 2 * LEN;
                }
                _ => return false,
            }
        }
        let Some(character) = char::from_u32(code) else { return false };
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        true
    }
}

fn unescape(escape: u8) -> Option<u8> {
    Some(match escape {
        b'"' | b'\\' | b'/' => escape,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// What C's `strtod` reads at the start of a text, and how many bytes of it.
fn strtod(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let signed = |number: f64| if text[0] == b'-' { -number } else { number };
    let body = &text[sign..];
    let starts = |word: &[u8]| body.len() >= word.len() && body[..word.len()].eq_ignore_ascii_case(word);
    for (word, number) in [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)] {
        if starts(word) {
            return Some((signed(number), sign + word.len()));
        }
    }
    if starts(b"0x")
        && let Some((number, len)) = hex_float(&body[2..])
    {
        return Some((signed(number), sign + 2 + len));
    }
    let digits = |from: usize| body[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    if body.get(len) == Some(&b'.') {
        let fraction = digits(len + 1);
        if whole + fraction == 0 {
            return None;
        }
        len += 1 + fraction;
    }
    if len == 0 {
        return None;
    }
    if matches!(body.get(len), Some(b'e' | b'E')) {
        let exponent_sign = usize::from(matches!(body.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits((len + 1 + exponent_sign).min(body.len()));
        if exponent > 0 {
            len += 1 + exponent_sign + exponent;
        }
    }
    let number = std::str::from_utf8(&body[..len]).ok()?.parse().ok()?;
    Some((signed(number), sign + len))
}

/// `1.8p3`, after the `0x`.
fn hex_float(text: &[u8]) -> Option<(f64, usize)> {
    let (mut number, mut len, mut digits, mut scale) = (0.0_f64, 0, 0, 0_i32);
    let mut after_point = false;
    while let Some(byte) = text.get(len) {
        if *byte == b'.' && !after_point {
            after_point = true;
        } else if let Some(digit) = (*byte as char).to_digit(16) {
            number = number * 16.0 + f64::from(digit);
            digits += 1;
            scale -= if after_point { 4 } else { 0 };
        } else {
            break;
        }
        len += 1;
    }
    if digits == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'p' | b'P')) {
        let negative = text.get(len + 1) == Some(&b'-');
        let start = len + 1 + usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let count =
            text.get(start..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count > 0 {
            let exponent = std::str::from_utf8(&text[start..start + count]).ok()?;
            let exponent: i32 = exponent.parse().unwrap_or(100_000).min(100_000);
            scale += if negative { -exponent } else { exponent };
            len = start + count;
        }
    }
    Some((number * 2.0_f64.powi(scale), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("1.5x", Some((1.5, 3))),
            ("1e", Some((1.0, 1))),
            ("1e+5,", Some((1e5, 4))),
            ("-0x10", Some((-16.0, 5))),
            ("0x1p3", Some((8.0, 5))),
            ("0x", Some((0.0, 1))),
            (".", None),
            ("-", None),
            ("Infinityx", Some((f64::INFINITY, 8))),
            ("1.", Some((1.0, 2))),
        ] {
            assert_eq!(strtod(text.as_bytes()), expected, "{text}");
        }
    }
}
