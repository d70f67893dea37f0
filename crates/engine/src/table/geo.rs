//! Rows of the commands that find members by their place on Earth.

use super::{
    Begin, Categories, Command, Deprecated, Find, Flags, Group, InvalidKeys, KeyAccess, KeySpec,
    ONE_RO_ACCESS, ONE_RW_UPDATE,
};
use crate::args::{Args, is};
use crate::commands::geo;

const RO_ACCESS: KeyAccess = KeyAccess::RO.union(KeyAccess::ACCESS);
const OW_UPDATE: KeyAccess = KeyAccess::OW.union(KeyAccess::UPDATE);
const SEARCHSTORE_KEYS: &[KeySpec] = &[KeySpec::one(OW_UPDATE, 1), KeySpec::one(RO_ACCESS, 2)];
const RADIUS_KEYS: &[KeySpec] = &[KeySpec::one(RO_ACCESS, 1), stored("STORE", 6), stored("STOREDIST", 6)];
const RADIUSBYMEMBER_KEYS: &[KeySpec] =
    &[KeySpec::one(RO_ACCESS, 1), stored("STORE", 5), stored("STOREDIST", 5)];

/// The key after a word.
const fn stored(word: &'static str, from: i8) -> KeySpec {
    KeySpec {
        access: OW_UPDATE,
        begin: Begin::Keyword(word, from),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: "",
    }
}

/// Where the words of GEORADIUSBYMEMBER begin. Those of GEORADIUS begin one further on.
const OPTIONS_AT: usize = 5;

/// The keys of GEORADIUS. Its specs find one key after each word; where a word is repeated, the command uses the last.
fn find_radius_keys(args: Args<'_>, each: &mut dyn FnMut(usize, KeyAccess)) -> Result<(), InvalidKeys> {
    find_stored_keys(args, OPTIONS_AT + 1, each)
}

/// Those of GEORADIUSBYMEMBER, which has a member in the place of two numbers.
fn find_member_keys(args: Args<'_>, each: &mut dyn FnMut(usize, KeyAccess)) -> Result<(), InvalidKeys> {
    find_stored_keys(args, OPTIONS_AT, each)
}

fn find_stored_keys(
    args: Args<'_>,
    options_at: usize,
    each: &mut dyn FnMut(usize, KeyAccess),
) -> Result<(), InvalidKeys> {
    each(1, RO_ACCESS);
    for at in options_at..args.len().saturating_sub(1) {
        if is(&args[at], "STORE") || is(&args[at], "STOREDIST") {
            each(at + 1, OW_UPDATE);
        }
    }
    Ok(())
}

const BY_GEOSEARCH: Option<Deprecated> =
    Some(Deprecated { since: "6.2.0", replaced_by: "`GEOSEARCH` with the `BYRADIUS` argument" });
const BY_GEOSEARCH_MEMBER: Option<Deprecated> = Some(Deprecated {
    since: "6.2.0",
    replaced_by: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
});
const STORING: Option<Deprecated> = Some(Deprecated {
    since: "6.2.0",
    replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
});
const STORING_MEMBER: Option<Deprecated> = Some(Deprecated {
    since: "6.2.0",
    replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
});

const SEARCH_COST: &str =
    "O(N+log(M)) in the members of the cells that the shape touches and in those within the shape";

const GEO: Command = Command {
    categories: Categories::GEO,
    group: Group::Geo,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    since: "3.2.0",
    ..Command::BLANK
};
const READ: Command =
    Command { flags: Flags::READONLY, keys: ONE_RO_ACCESS, complexity: "O(1) for each member", ..GEO };
const SEARCH: Command = Command { complexity: SEARCH_COST, ..READ };
const SEARCH_AND_STORE: Command = Command { complexity: SEARCH_COST, ..GEO };

/// The geo commands.
pub const ROWS: &[Command] = &[
    Command {
        name: "geoadd",
        arity: -5,
        keys: ONE_RW_UPDATE,
        complexity: "O(log(N)) for each member",
        summary: "Adds members with their places, or moves them.",
        syntax: "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
        run: geo::geoadd,
        ..GEO
    },
    Command {
        name: "geodist",
        arity: -4,
        complexity: "O(1)",
        summary: "Tells the distance of two members.",
        syntax: "key member1 member2 [M | KM | FT | MI]",
        run: geo::geodist,
        ..READ
    },
    Command {
        name: "geohash",
        arity: -2,
        summary: "Tells the places of members as geohashes.",
        syntax: "key [member [member ...]]",
        run: geo::geohash,
        ..READ
    },
    Command {
        name: "geopos",
        arity: -2,
        summary: "Tells the longitudes and latitudes of members.",
        syntax: "key [member [member ...]]",
        run: geo::geopos,
        ..READ
    },
    Command {
        name: "georadius",
        arity: -6,
        keys: RADIUS_KEYS,
        find_keys: Some(find_radius_keys),
        summary: "Finds the members around a place, and stores them if asked to.",
        syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
        deprecated: STORING,
        run: geo::georadius,
        ..SEARCH_AND_STORE
    },
    Command {
        name: "georadius_ro",
        arity: -6,
        since: "3.2.10",
        summary: "Finds the members around a place.",
        syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        deprecated: BY_GEOSEARCH,
        run: geo::georadius_ro,
        ..SEARCH
    },
    Command {
        name: "georadiusbymember",
        arity: -5,
        keys: RADIUSBYMEMBER_KEYS,
        find_keys: Some(find_member_keys),
        summary: "Finds the members around another one, and stores them if asked to.",
        syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key | STOREDIST key]",
        deprecated: STORING_MEMBER,
        run: geo::georadiusbymember,
        ..SEARCH_AND_STORE
    },
    Command {
        name: "georadiusbymember_ro",
        arity: -5,
        since: "3.2.10",
        summary: "Finds the members around another one.",
        syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        deprecated: BY_GEOSEARCH_MEMBER,
        run: geo::georadiusbymember_ro,
        ..SEARCH
    },
    Command {
        name: "geosearch",
        arity: -7,
        since: "6.2.0",
        summary: "Finds the members within a circle or a rectangle.",
        syntax: "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        run: geo::geosearch,
        ..SEARCH
    },
    Command {
        name: "geosearchstore",
        arity: -8,
        keys: SEARCHSTORE_KEYS,
        since: "6.2.0",
        summary: "Finds the members within a circle or a rectangle, and stores them.",
        syntax: "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]",
        run: geo::geosearchstore,
        ..SEARCH_AND_STORE
    },
];
