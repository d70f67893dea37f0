//! A row's `syntax` text, parsed into the arguments that `COMMAND DOCS` describes.
//!
//! ```text
//! syntax      = *item
//! item        = TOKEN                  a word without lower-case letters; it takes the argument after it
//!             | name [":" type]        an argument; without a type, of the one that its name tells
//!             | "<" choice ">"         one of several
//!             | "[" choice "]"         as "<>", and may be left out
//!             | "[" items "..." "]"    after the same items: they may be repeated
//! choice      = items *("|" items)
//! ```

use resp::Encoder;

use super::{Begin, Command, Find, KeyAccess};

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any bytes.
    String,
    /// A whole number.
    Integer,
    /// A float.
    Double,
    /// A key.
    Key,
    /// A glob.
    Pattern,
    /// Seconds or milliseconds since 1970.
    UnixTime,
    /// A word to be written as it is.
    PureToken,
    /// One of its arguments.
    OneOf,
    /// All of its arguments.
    Block,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Key => "key",
            Kind::Pattern => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::PureToken => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
        }
    }

    fn of_word(word: &str) -> Option<Kind> {
        [Kind::String, Kind::Integer, Kind::Double].into_iter().find(|kind| kind.as_str() == word)
    }

    /// The kind that an argument's name tells, where the syntax does not say otherwise.
    fn of_name(name: &str) -> Kind {
        match name {
            "pattern" => Kind::Pattern,
            "seconds" | "milliseconds" | "count" | "index" | "start" | "stop" | "end" | "offset"
            | "numkeys" | "numfields" | "db" | "destination-db" | "index1" | "index2" | "slot"
            | "start-slot" | "end-slot" | "port" | "rank" | "num-matches" | "len" | "limit" | "decrement"
            | "increment" | "bit" | "cursor" | "protover" | "client-id" | "min-idle-time" | "numreplicas"
            | "numlocal" => Kind::Integer,
            "score" | "weight" | "longitude" | "latitude" | "radius" | "width" | "height" | "timeout" => {
                Kind::Double
            }
            _ if name.starts_with("unix-time") => Kind::UnixTime,
            _ => Kind::String,
        }
    }
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name, in lower case.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The word before it, or the word itself.
    pub token: Option<String>,
    /// The key spec that finds it.
    pub key_spec: Option<usize>,
    /// It may be left out.
    pub optional: bool,
    /// It may be repeated.
    pub multiple: bool,
    /// Its token is repeated with it.
    pub multiple_token: bool,
    /// Parts of a block, choices of a oneof.
    pub arguments: Vec<Argument>,
}

impl Argument {
    fn new(name: String, kind: Kind) -> Argument {
        Argument {
            name,
            kind,
            token: None,
            key_spec: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            arguments: Vec::new(),
        }
    }

    fn token(word: &str) -> Argument {
        let word = if word == "\"\"" { "" } else { word };
        let name = if word.is_empty() { "empty-string".to_owned() } else { word.to_lowercase() };
        Argument { token: Some(word.to_owned()), ..Argument::new(name, Kind::PureToken) }
    }

    /// Several arguments as one. A block's token is its first argument's, if the others have none.
    fn group(kind: Kind, mut arguments: Vec<Argument>) -> Argument {
        if arguments.len() == 1 {
            return arguments.remove(0);
        }
        let names: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
        let mut group = Argument::new(names.join(if kind == Kind::OneOf { "-or-" } else { "_" }), kind);
        let is_plain = |argument: &Argument| argument.token.is_none() && !argument.optional;
        if kind == Kind::Block
            && arguments[0].kind != Kind::PureToken
            && !arguments[0].multiple
            && arguments[1..].iter().all(is_plain)
        {
            group.token = arguments[0].token.take();
        }
        group.arguments = arguments;
        group
    }

    /// Fewest and most words of a command line it stands for; `None`: any number.
    pub fn words(&self) -> (usize, Option<usize>) {
        let (min, max) = match self.kind {
            Kind::OneOf => {
                let choices = self.arguments.iter().map(Argument::words);
                let fewest = choices.clone().map(|words| words.0).min().unwrap_or(0);
                let most = choices.map(|words| words.1).collect::<Option<Vec<_>>>();
                (fewest, most.and_then(|most| most.into_iter().max()))
            }
            Kind::Block => total_words(&self.arguments),
            _ => (1, Some(1)),
        };
        let token = usize::from(self.token.is_some() && self.kind != Kind::PureToken);
        let min = if self.optional { 0 } else { min + token };
        (min, max.filter(|_| !self.multiple).map(|max| max + token))
    }

    /// Appends its description.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        let flags: Vec<&str> = [
            (self.optional, "optional"),
            (self.multiple, "multiple"),
            (self.multiple_token, "multiple_token"),
        ]
        .into_iter()
        .filter_map(|(set, word)| set.then_some(word))
        .collect();
        let fields = 2
            + usize::from(self.key_spec.is_some())
            + usize::from(self.token.is_some())
            + usize::from(!flags.is_empty())
            + usize::from(!self.arguments.is_empty());
        out.map(fields);
        out.bulk(b"name");
        out.bulk(self.name.as_bytes());
        out.bulk(b"type");
        out.bulk(self.kind.as_str().as_bytes());
        if let Some(spec) = self.key_spec {
            out.bulk(b"key_spec_index");
            out.int(spec as i64);
        }
        if let Some(token) = &self.token {
            out.bulk(b"token");
            out.bulk(token.as_bytes());
        }
        if !flags.is_empty() {
            out.bulk(b"flags");
            out.set(flags.len());
            flags.iter().for_each(|flag| out.simple(flag));
        }
        if !self.arguments.is_empty() {
            out.bulk(b"arguments");
            encode_all(&self.arguments, out);
        }
    }
}

/// Appends the descriptions of arguments, as an array.
pub fn encode_all(arguments: &[Argument], out: &mut Encoder<'_>) {
    out.array(arguments.len());
    arguments.iter().for_each(|argument| argument.encode(out));
}

/// Fewest and most words that arguments stand for, in all.
pub fn total_words(arguments: &[Argument]) -> (usize, Option<usize>) {
    arguments.iter().map(Argument::words).fold((0, Some(0)), |(min, max), (more, most)| {
        (min + more, max.zip(most).map(|(max, most)| max + most))
    })
}

/// The arguments of a row. `first` is the place of its first argument: 1, or 2 for a subcommand. The error
/// says what is wrong with the row.
pub fn arguments_of(command: &Command, first: usize) -> Result<Vec<Argument>, String> {
    let mut arguments = parse(command.syntax)?;
    mark_keys(&mut arguments, command, &mut Some(first));
    Ok(arguments)
}

/// Parses a syntax text.
pub fn parse(syntax: &str) -> Result<Vec<Argument>, String> {
    let mut parser = Parser { lexemes: lexemes(syntax), at: 0 };
    let mut choices = parser.choices()?;
    match (parser.peek(), choices.len()) {
        (None, 1) => Ok(choices.remove(0)),
        (None, _) => Err(format!("'|' outside of brackets in '{syntax}'")),
        (Some(lexeme), _) => Err(format!("unexpected '{lexeme}' in '{syntax}'")),
    }
}

fn lexemes(syntax: &str) -> Vec<&str> {
    let mut lexemes = Vec::new();
    for word in syntax.split_whitespace() {
        let mut rest = word;
        while let Some(cut) = rest.find(['[', ']', '<', '>', '|']) {
            if cut > 0 {
                lexemes.push(&rest[..cut]);
            }
            lexemes.push(&rest[cut..=cut]);
            rest = &rest[cut + 1..];
        }
        if !rest.is_empty() {
            lexemes.push(rest);
        }
    }
    lexemes
}

/// A word to be written as it is: one without lower-case letters. `...` is none of a kind.
fn is_token(lexeme: &str) -> bool {
    !lexeme.contains(|c: char| c.is_ascii_lowercase())
}

/// `count:string` as name and kind; a colon may be part of the name, as in `ip:port`.
fn typed_name(word: &str) -> (&str, Kind) {
    let typed = word.split_once(':').and_then(|(name, kind)| Some((name, Kind::of_word(kind)?)));
    typed.unwrap_or((word, Kind::of_name(word)))
}

struct Parser<'a> {
    lexemes: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lexemes.get(self.at).copied()
    }

    fn choices(&mut self) -> Result<Vec<Vec<Argument>>, String> {
        let mut choices = vec![self.items()?];
        while self.peek() == Some("|") {
            self.at += 1;
            choices.push(self.items()?);
        }
        Ok(choices)
    }

    /// What stands before the next `|`, closing bracket or end.
    fn items(&mut self) -> Result<Vec<Argument>, String> {
        let mut items: Vec<Argument> = Vec::new();
        // Where each item's text begins: a repetition is told by its text.
        let mut starts: Vec<usize> = Vec::new();
        while let Some(lexeme) = self.peek() {
            match lexeme {
                "]" | ">" | "|" => break,
                "..." => {
                    self.at += 1;
                    items.last_mut().ok_or("'...' after nothing")?.multiple = true;
                }
                "[" if self.fold_repetition(&mut items, &mut starts) => {}
                _ => {
                    starts.push(self.at);
                    items.push(self.item()?);
                }
            }
        }
        Ok(items)
    }

    fn item(&mut self) -> Result<Argument, String> {
        let lexeme = self.peek().ok_or("an argument is missing")?;
        self.at += 1;
        match lexeme {
            "[" => Ok(Argument { optional: true, ..self.bracketed("]")? }),
            "<" => self.bracketed(">"),
            word if !is_token(word) => {
                let (name, kind) = typed_name(word);
                Ok(Argument::new(name.to_owned(), kind))
            }
            word => {
                if !self.peek().is_some_and(|next| next == "<" || !is_token(next)) {
                    return Ok(Argument::token(word));
                }
                let argument = self.item()?;
                if argument.token.is_some() {
                    let name = format!("{}_{}", word.to_lowercase(), argument.name);
                    let arguments = vec![Argument::token(word), argument];
                    return Ok(Argument { arguments, ..Argument::new(name, Kind::Block) });
                }
                Ok(Argument { token: Some(word.to_owned()), ..argument })
            }
        }
    }

    fn bracketed(&mut self, close: &str) -> Result<Argument, String> {
        let choices = self.choices()?;
        if self.peek() != Some(close) {
            return Err(format!("'{close}' is missing"));
        }
        self.at += 1;
        if choices.iter().any(Vec::is_empty) {
            return Err("an empty choice".to_owned());
        }
        let choices = choices.into_iter().map(|items| Argument::group(Kind::Block, items)).collect();
        Ok(Argument::group(Kind::OneOf, choices))
    }

    /// If `[x y ...]` comes next and the items before it are `x y`, makes those one repeated item.
    fn fold_repetition(&mut self, items: &mut Vec<Argument>, starts: &mut Vec<usize>) -> bool {
        let Some(dots) = self.lexemes[self.at..].iter().position(|lexeme| *lexeme == "...") else {
            return false;
        };
        let dots = self.at + dots;
        let repeated = &self.lexemes[self.at + 1..dots];
        if self.lexemes.get(dots + 1) != Some(&"]") || !self.lexemes[..self.at].ends_with(repeated) {
            return false;
        }
        let begin = self.at - repeated.len();
        // The item may begin with a token that is not repeated.
        let after_token = |start: &usize| *start + 1 == begin && is_token(self.lexemes[*start]);
        let exact = starts.iter().position(|start| *start == begin);
        let Some(first) = exact.or_else(|| starts.iter().position(after_token)) else { return false };
        let with_token = exact.is_some();
        let repeated_item = Argument::group(Kind::Block, items.split_off(first));
        let multiple_token = with_token && repeated_item.token.is_some();
        items.push(Argument { multiple: true, multiple_token, ..repeated_item });
        starts.truncate(first + 1);
        self.at = dots + 2;
        true
    }
}

/// Marks the arguments that key specs find. `place` is the place of the next argument on the command line,
/// as long as it can be told.
fn mark_keys(arguments: &mut [Argument], command: &Command, place: &mut Option<usize>) {
    for argument in arguments {
        let spec = command.keys.iter().position(|spec| {
            let here = |begin: usize| *place == Some(begin) && argument.arguments.is_empty();
            let found = match (spec.begin, spec.find) {
                (Begin::Index(begin), Find::Range { last, step, .. }) => {
                    let begin = usize::from(begin);
                    (begin..=begin + last.max(0) as usize).step_by(step.max(1).into()).any(here)
                }
                (Begin::Index(begin), Find::KeyNum { first, .. }) => here((begin + first).into()),
                (Begin::Keyword(word, _), _) => argument.token.as_deref() == Some(word),
                // SORT: what its patterns name is read, and STORE's destination is written.
                (Begin::Unknown, _) => match argument.kind {
                    Kind::Pattern => spec.access.contains(KeyAccess::RO),
                    _ => argument.name == "destination" && spec.access.contains(KeyAccess::OW),
                },
                _ => false,
            };
            found && !spec.access.contains(KeyAccess::NOT_KEY)
        });
        if spec.is_some() && argument.kind != Kind::PureToken {
            argument.key_spec = spec;
            if argument.kind != Kind::Pattern {
                argument.kind = Kind::Key;
            }
        }
        let own_token = argument.token.is_some() && argument.kind != Kind::PureToken;
        *place = place.map(|place| place + usize::from(own_token));
        let after = match argument.kind {
            Kind::Block => {
                mark_keys(&mut argument.arguments, command, place);
                *place
            }
            Kind::OneOf => {
                let choices = argument.arguments.iter_mut();
                choices
                    .for_each(|choice| mark_keys(std::slice::from_mut(choice), command, &mut place.clone()));
                place.filter(|_| argument.words() == (1, Some(1))).map(|place| place + 1)
            }
            _ => place.map(|place| place + 1),
        };
        *place = after.filter(|_| !argument.optional && !argument.multiple);
    }
}

/// The syntax for a person to read, as HELP prints it: names in angle brackets, choices in round ones.
pub fn for_people(syntax: &str) -> String {
    let mut shown = String::new();
    for lexeme in lexemes(syntax) {
        let opens = shown.ends_with(['[', '(', '|']) || shown.is_empty();
        match lexeme {
            "]" => shown.push(']'),
            ">" => shown.push(')'),
            "|" => shown.push('|'),
            _ => {
                if !opens {
                    shown.push(' ');
                }
                match lexeme {
                    "<" => shown.push('('),
                    "[" => shown.push('['),
                    word if is_token(word) => shown.push_str(word),
                    word => {
                        shown.push('<');
                        shown.push_str(typed_name(word).0);
                        shown.push('>');
                    }
                }
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{KeySpec, ONE_RO};

    /// Arguments in a line: `name:type`, `@TOKEN` before, `?` optional, `*` multiple, `+` multiple token,
    /// `#spec`, `(..)` parts.
    fn show(arguments: &[Argument]) -> String {
        let one = |argument: &Argument| {
            let mut shown = String::new();
            if let Some(token) = &argument.token {
                shown.push_str(&format!("@{token} "));
            }
            shown.push_str(&format!("{}:{}", argument.name, argument.kind.as_str()));
            if let Some(spec) = argument.key_spec {
                shown.push_str(&format!("#{spec}"));
            }
            let marks = [(argument.optional, '?'), (argument.multiple, '*'), (argument.multiple_token, '+')];
            shown.extend(marks.iter().filter_map(|(set, mark)| set.then_some(*mark)));
            if !argument.arguments.is_empty() {
                shown.push_str(&format!("({})", show(&argument.arguments)));
            }
            shown
        };
        arguments.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_form_of_the_syntax() {
        for (syntax, expected) in [
            ("", ""),
            ("name value", "name:string, value:string"),
            ("increment start:string [by:double]", "increment:integer, start:string, by:double?"),
            ("ip:port", "ip:port:string"),
            ("member [member ...]", "member:string*"),
            ("[member ...]", "member:string?*"),
            ("[member [member ...]]", "member:string?*"),
            ("score member [score member ...]", "score_member:block*(score:double, member:string)"),
            ("[NX | XX]", "nx-or-xx:oneof?(@NX nx:pure-token, @XX xx:pure-token)"),
            ("<LEFT | RIGHT>", "left-or-right:oneof(@LEFT left:pure-token, @RIGHT right:pure-token)"),
            ("[COUNT count]", "@COUNT count:integer?"),
            ("[LIMIT offset count]", "@LIMIT offset_count:block?(offset:integer, count:integer)"),
            ("[GET pattern [GET pattern ...]]", "@GET pattern:pattern?*+"),
            ("[WEIGHTS weight [weight ...]]", "@WEIGHTS weight:double?*"),
            ("[COUNT count [ANY]]", "count_any:block?(@COUNT count:integer, @ANY any:pure-token?)"),
            (
                "[EX seconds | PXAT unix-time-milliseconds | KEEPTTL]",
                "seconds-or-unix-time-milliseconds-or-keepttl:oneof?(@EX seconds:integer, \
                 @PXAT unix-time-milliseconds:unix-time, @KEEPTTL keepttl:pure-token)",
            ),
            (
                "[<MAXLEN | MINID> [= | ~] threshold]",
                "maxlen-or-minid_=-or-~_threshold:block?(maxlen-or-minid:oneof(@MAXLEN maxlen:pure-token, \
                 @MINID minid:pure-token), =-or-~:oneof?(@= =:pure-token, @~ ~:pure-token), threshold:string)",
            ),
            ("<* | id>", "*-or-id:oneof(@* *:pure-token, id:string)"),
        ] {
            assert_eq!(show(&parse(syntax).expect(syntax)), expected, "{syntax}");
        }
        for broken in ["[NX", "NX]", "a | b", "<>", "[a | ]", "...", "[a>"] {
            assert!(parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn keys_are_told_by_the_specs() {
        const DESTINATION_AND_COUNTED: &[KeySpec] =
            &[KeySpec::one(KeyAccess::OW, 1), KeySpec::counted(KeyAccess::RO, 2)];
        const AFTER_STREAMS: &[KeySpec] =
            &[KeySpec { begin: Begin::Keyword("STREAMS", 1), ..KeySpec::range(KeyAccess::RO, 0, -1, 1) }];
        const PAIRS: &[KeySpec] = &[KeySpec::range(KeyAccess::OW, 1, -1, 2)];
        const SECOND: &[KeySpec] = &[KeySpec::one(KeyAccess::OW, 2)];
        const PAIR: &[KeySpec] = &[KeySpec::range(KeyAccess::RO, 1, 1, 1)];
        const UNKNOWN: &[KeySpec] = &[
            KeySpec { begin: Begin::Unknown, find: Find::Unknown, ..KeySpec::one(KeyAccess::RO, 0) },
            KeySpec { begin: Begin::Unknown, find: Find::Unknown, ..KeySpec::one(KeyAccess::OW, 0) },
        ];
        const CHANNEL: &[KeySpec] = &[KeySpec::one(KeyAccess::NOT_KEY, 1)];
        for (syntax, keys, expected) in [
            ("name", ONE_RO, "name:key#0"),
            (
                "destination numkeys key [key ...]",
                DESTINATION_AND_COUNTED,
                "destination:key#0, numkeys:integer, key:key#1*",
            ),
            (
                "[COUNT count] STREAMS key [key ...] id [id ...]",
                AFTER_STREAMS,
                "@COUNT count:integer?, @STREAMS key:key#0*, id:string*",
            ),
            ("key value [key value ...]", PAIRS, "key_value:block*(key:key#0, value:string)"),
            (
                "<AND | OR> destkey",
                SECOND,
                "and-or-or:oneof(@AND and:pure-token, @OR or:pure-token), destkey:key#0",
            ),
            ("key1 key2 [LEN]", PAIR, "key1:key#0, key2:key#0, @LEN len:pure-token?"),
            ("[BY pattern] [STORE destination]", UNKNOWN, {
                "@BY pattern:pattern#0?, @STORE destination:key#1?"
            }),
            ("channel message", CHANNEL, "channel:string, message:string"),
        ] {
            let command = Command { syntax, keys, ..Command::BLANK };
            assert_eq!(show(&arguments_of(&command, 1).expect(syntax)), expected, "{syntax}");
        }
    }

    #[test]
    fn words_are_counted() {
        for (syntax, expected) in [
            ("", (0, Some(0))),
            ("key value", (2, Some(2))),
            ("key [key ...]", (1, None)),
            ("key [NX | XX] [EX seconds | KEEPTTL]", (1, Some(4))),
            ("<FROMMEMBER member | FROMLONLAT longitude latitude>", (2, Some(3))),
        ] {
            assert_eq!(total_words(&parse(syntax).expect(syntax)), expected, "{syntax}");
        }
    }

    #[test]
    fn people_read_it_in_brackets() {
        assert_eq!(for_people("slot count:string"), "<slot> <count>");
        assert_eq!(for_people("<ON | OFF> [a b ...]"), "(ON|OFF) [<a> <b> ...]");
    }
}
