//! What must hold for every row.

use resp::Args;

use super::*;
use crate::config::Config;
use crate::table::syntax::{arguments_of, total_words};
use crate::testing::Harness;

/// PFCOUNT keeps the cardinality that it finds with the value.
const READS_THOUGH_KEYS_CHANGE: &[&str] = &["pfcount"];

#[test]
fn every_row_is_complete() {
    let registry = registry();
    for info in registry.all() {
        let (name, spec) = (&info.full_name, info.spec);
        assert!(!spec.name.is_empty() && spec.name == spec.name.to_lowercase(), "{name}: lower case");
        assert_ne!(spec.arity, 0, "{name}: arity");
        assert!(spec.summary.len() > 5 && spec.summary.ends_with('.'), "{name}: summary");
        assert!(!spec.complexity.is_empty(), "{name}: complexity");
        let since: Vec<u32> = spec.since.split('.').map_while(|part| part.parse().ok()).collect();
        assert_eq!(since.len(), 3, "{name}: since {}", spec.since);
        if let Some(container) = info.container {
            assert_eq!(spec.subcommands.len(), 0, "{name}: one level of subcommands");
            assert_eq!(spec.group, registry.get(container).spec.group, "{name}: its container's group");
        }
        let is_write = spec.flags.contains(Flags::WRITE);
        assert!(!(is_write && spec.flags.contains(Flags::READONLY)), "{name}: writes or reads");
        let changes = KeyAccess::RW | KeyAccess::OW | KeyAccess::RM;
        let specs_write = spec.keys.iter().any(|key| key.access.intersects(changes));
        assert!(
            // What a script does to its keys, nobody knows.
            spec.keys.is_empty()
                || !specs_write
                || is_write
                || spec.categories.contains(Categories::SCRIPTING)
                || READS_THOUGH_KEYS_CHANGE.contains(&name.as_str()),
            "{name}: its keys are written, it is no write"
        );
    }
}

#[test]
fn no_name_stands_twice() {
    let registry = registry();
    let mut names: Vec<&str> = registry.all().map(|info| info.full_name.as_str()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    for info in registry.listed() {
        let upper = info.full_name.to_uppercase();
        let found = registry.find_full(upper.as_bytes()).map(|found| found.id);
        assert_eq!(found, Some(info.id), "{upper} is found");
    }
}

#[test]
fn arity_agrees_with_the_syntax() {
    for info in registry().all().filter(|info| info.runs_alone()) {
        let (name, arity) = (&info.full_name, i64::from(info.spec.arity));
        let first = if info.container.is_some() { 2 } else { 1 };
        let arguments = arguments_of(info.spec, first).unwrap_or_else(|why| panic!("{name}: {why}"));
        let (min, max) = total_words(&arguments);
        if !info.subcommands.is_empty() {
            continue;
        }
        let least = (first + min) as i64;
        // Valkey's looks itself for what is missing, and says which words.
        let says_more = name == "cluster|migrateslots" && arity.abs() < least;
        assert!(least == arity.abs() || says_more, "{name}: {least} words: {}", info.spec.syntax);
        // QUIT takes whatever follows it, and ignores it.
        let is_fixed = max == Some(min) && name != "quit";
        assert_eq!(arity > 0, is_fixed, "{name}: {} is of fixed length", info.spec.syntax);
    }
}

/// A command line of `len` words in which every number is 1, so that counted keys are there.
fn words(info: &CommandInfo, len: usize) -> Vec<&[u8]> {
    let mut words: Vec<&[u8]> = vec![b"1"; len];
    words[0] = info.full_name.split('|').next().expect("a name").as_bytes();
    if info.container.is_some() {
        words[1] = info.spec.name.as_bytes();
    }
    words
}

#[test]
fn the_quick_rule_finds_the_keys_of_the_specs() {
    for info in registry().all() {
        let least = usize::from(info.spec.arity.unsigned_abs());
        let most = if info.spec.arity > 0 { least } else { least + 5 };
        for len in least..=most {
            let words = words(info, len);
            let args = Args::from_slices(&words);
            let mut by_spec = Vec::new();
            let found = info.each_key(args, &mut |at, access| {
                if !access.contains(KeyAccess::NOT_KEY) {
                    by_spec.push(at);
                }
            });
            let by_rule: Vec<usize> = match info.keys {
                KeyRule::Specs => continue,
                KeyRule::None => Vec::new(),
                KeyRule::One(at) => vec![at],
                KeyRule::Many { first, last, step } => {
                    let last = if last < 0 { len as isize + last } else { last };
                    (first..=last.max(0) as usize).step_by(step).collect()
                }
            };
            assert_eq!(found, Ok(()), "{} with {len} words", info.full_name);
            assert_eq!(by_rule, by_spec, "{} with {len} words", info.full_name);
            assert!(by_rule.iter().all(|at| *at < len), "{}: keys within {len} words", info.full_name);
        }
    }
}

#[test]
fn specs_that_find_several_groups_agree_with_the_three_numbers() {
    for info in registry().all() {
        let keys = info.legacy_keys;
        if keys.movable || keys.first == 0 || info.spec.keys.len() < 2 {
            continue;
        }
        let len = usize::from(info.spec.arity.unsigned_abs()) + if info.spec.arity < 0 { 2 } else { 0 };
        let words = words(info, len);
        let mut by_spec = Vec::new();
        info.each_key(Args::from_slices(&words), &mut |at, _| by_spec.push(at as i64))
            .expect("keys are there");
        let last = if keys.last < 0 { len as i64 + keys.last } else { keys.last };
        let by_numbers: Vec<i64> = (keys.first..=last).step_by(keys.step as usize).collect();
        assert_eq!(by_spec, by_numbers, "{}", info.full_name);
    }
}

/// The facts of a row, in the form of `redis-7.0.15-commands.txt`.
fn facts(info: &CommandInfo) -> String {
    fn join<T: AsRef<str>>(mut words: Vec<T>, sorted: bool, between: &str) -> String {
        if sorted {
            words.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
        }
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        if words.is_empty() { "-".to_owned() } else { words.join(between) }
    }
    let spec = info.spec;
    let flags = FLAG_WORDS.iter().filter(|(flag, _)| spec.flags.contains(*flag)).map(|(_, word)| *word);
    let flags = flags.chain(info.legacy_keys.movable.then_some("movablekeys")).collect();
    let categories = CATEGORY_WORDS.iter().filter(|(category, _)| spec.all_categories().contains(*category));
    let specs = spec.keys.iter().map(|key| {
        let access =
            ACCESS_WORDS.iter().filter(|(flag, _)| key.access.contains(*flag)).map(|(_, word)| *word);
        let begin = match key.begin {
            Begin::Index(index) => index.to_string(),
            Begin::Keyword(word, from) => format!("{word}@{from}"),
            Begin::Unknown => "?".to_owned(),
        };
        let find = match key.find {
            Find::Range { last, step, limit } => format!("range:{last}:{step}:{limit}"),
            Find::KeyNum { num_at, first, step } => format!("counted:{num_at}:{first}:{step}"),
            Find::Unknown => "?".to_owned(),
        };
        format!("{}/{begin}/{find}", join(access.collect(), false, ","))
    });
    let keys = info.legacy_keys;
    [
        info.full_name.clone(),
        spec.arity.to_string(),
        join(flags, true, ","),
        format!("{}:{}:{}", keys.first, keys.last, keys.step),
        join(categories.map(|(_, word)| format!("@{word}")).collect(), false, ","),
        join(spec.tips.to_vec(), true, ","),
        join(specs.collect(), false, ";"),
        spec.group.as_str().to_owned(),
        spec.since.to_owned(),
        spec.deprecated.map_or("-", |deprecated| deprecated.since).to_owned(),
    ]
    .join(" ")
}

/// Rows that say something else than Redis 7.0.15 on purpose.
const OTHERWISE: &[&str] = &[
    // They take WITHSCORE, as Redis 7.2.
    "zrank",
    "zrevrank",
    // Tools tell replicas of others while these load what they have been sent already.
    "cluster|meet",
];

#[test]
fn rows_say_what_redis_says() {
    let redis = include_str!("../../tests/data/redis-7.0.15-commands.txt");
    let mut wrong = String::new();
    let mut compared = 0;
    for line in redis.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(' ').next().unwrap_or_default();
        let Some(info) = registry().find_full(name.as_bytes()) else { continue };
        compared += 1;
        let ours = facts(info);
        if ours != line && !OTHERWISE.contains(&name) {
            wrong.push_str(&format!("redis: {line}\nours:  {ours}\n"));
        }
    }
    assert!(compared > 80, "{compared} rows compared");
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn commands_answer_to_the_names_they_were_given() {
    let long = "b840fc02d524045429941cc15f59e41cb7be6c52";
    let options = format!(
        "--rename-command CONFIG {long} --rename-command FlushAll \"\" --rename-command get fetch --rename-command set GET"
    );
    let options: Vec<&str> = options.split(' ').map(|word| word.trim_matches('"')).collect();
    let mut harness = Harness::with_options(&options);
    for (line, expected) in [
        (
            "CONFIG GET port",
            "-ERR unknown command 'CONFIG', with args beginning with: 'GET' 'port' ".to_owned(),
        ),
        (&format!("{long} GET databases"), "[databases 16]".to_owned()),
        (
            &format!("{} FOO", long.to_uppercase()),
            format!("-ERR unknown subcommand 'FOO'. Try {} HELP.", long.to_uppercase()),
        ),
        (long, "-ERR wrong number of arguments for 'config' command".to_owned()),
        ("FLUSHALL", "-ERR unknown command 'FLUSHALL', with args beginning with: ".to_owned()),
        ("get k v", "+OK".to_owned()),
        ("SET k v", "-ERR unknown command 'SET', with args beginning with: 'k' 'v' ".to_owned()),
        ("FETCH k", "v".to_owned()),
    ] {
        harness.check(line, &expected);
    }
    for (from, to, why) in [
        ("nosuch", "x", "rename-command nosuch 'x': No such command in rename-command"),
        ("get", "set", "rename-command get 'set': Target command name already exists"),
    ] {
        let options = ["--rename-command", from, to].map(|word| word.as_bytes().to_vec());
        let config = Config::load(&options).expect("a valid command line").0;
        assert_eq!(registry_for(&config).err().as_deref(), Some(why));
    }
}

#[test]
fn errors_quote_what_was_sent() {
    let mut harness = Harness::new();
    let long = "x".repeat(200);
    let clipped = "x".repeat(128);
    for (args, expected) in [
        (vec![&b"NOSUCH"[..], b"a\xff", b"b\0c"], {
            b"-ERR unknown command 'NOSUCH', with args beginning with: 'a\xff' 'b' \r\n".to_vec()
        }),
        (vec![long.as_bytes()], {
            format!("-ERR unknown command '{clipped}', with args beginning with: \r\n").into_bytes()
        }),
        (vec![b"NOSUCH", long.as_bytes(), b"b"], {
            format!("-ERR unknown command 'NOSUCH', with args beginning with: '{clipped}' \r\n").into_bytes()
        }),
        (vec![b"COMMAND", b"a\nb"], b"-ERR unknown subcommand 'a b'. Try COMMAND HELP.\r\n".to_vec()),
    ] {
        assert_eq!(harness.run_args(&args).escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}
