//! The words of GEOSEARCH and GEORADIUS.

use store::ZSet;

use super::cell::Point;
use super::shape::{Extent, Shape};
use super::{point, unit_m};
use crate::args::{self, Args, is};
use crate::fault::{CmdResult, Fault};

const NO_SUCH_MEMBER: Fault = Fault::Text("ERR could not decode requested zset member");
const BAD_RADIUS: Fault = Fault::Text("ERR need numeric radius");
const NEGATIVE_RADIUS: Fault = Fault::Text("ERR radius cannot be negative");
const BAD_WIDTH: Fault = Fault::Text("ERR need numeric width");
const BAD_HEIGHT: Fault = Fault::Text("ERR need numeric height");
const NEGATIVE_BOX: Fault = Fault::Text("ERR height or width cannot be negative");
const COUNT_TOO_SMALL: Fault = Fault::Text("ERR COUNT must be > 0");
const ANY_WITHOUT_COUNT: Fault = Fault::Text("ERR the ANY argument requires COUNT argument");

/// Which command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// GEORADIUS and, if it `may_store` not, GEORADIUS_RO.
    Radius { may_store: bool },
    /// GEORADIUSBYMEMBER and GEORADIUSBYMEMBER_RO.
    RadiusByMember { may_store: bool },
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
}

impl Form {
    fn is_search(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }

    fn takes_store(self) -> bool {
        matches!(self, Form::Radius { may_store: true } | Form::RadiusByMember { may_store: true })
    }

    /// Where the key of the places stands.
    pub(super) fn source_at(self) -> usize {
        if self == Form::SearchStore { 2 } else { 1 }
    }

    /// Where the options begin.
    fn options_at(self) -> usize {
        match self {
            Form::Radius { .. } => 6,
            Form::RadiusByMember { .. } => 5,
            Form::Search => 2,
            Form::SearchStore => 3,
        }
    }
}

/// Where the middle of the search is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Center {
    At(Point),
    Member(Box<[u8]>),
}

/// The order of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    NearestFirst,
    FarthestFirst,
}

/// Where results go, other than to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Store {
    /// The argument that is the key.
    pub(super) destination_at: usize,
    /// Scores are distances, not places.
    pub(super) distances: bool,
}

/// A search, as the client asked for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pub(super) center: Option<Center>,
    pub(super) extent: Option<Extent>,
    pub(super) unit_m: f64,
    pub(super) order: Option<Order>,
    /// Most results; 0 is no limit.
    pub(super) count: usize,
    /// Any so many results will do.
    pub(super) any: bool,
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_coordinates: bool,
    pub(super) store: Option<Store>,
}

impl Query {
    /// Reads a command line. `zset` is what the source holds: a member that is named must be there, unless nothing is.
    pub(super) fn parse(args: Args<'_>, form: Form, zset: Option<&ZSet>) -> CmdResult<Query> {
        let mut query = Query { unit_m: 1.0, ..Query::default() };
        match form {
            Form::Radius { .. } => {
                query.center = Some(Center::At(point(&args[2], &args[3])?));
                query.set_radius(&args[4], &args[5])?;
            }
            // Without places, Redis does not look at the radius.
            Form::RadiusByMember { .. } if zset.is_some() => {
                query.set_member(&args[2], zset)?;
                query.set_radius(&args[3], &args[4])?;
            }
            Form::RadiusByMember { .. } | Form::Search => {}
            Form::SearchStore => query.store = Some(Store { destination_at: 1, distances: false }),
        }
        let mut at = form.options_at();
        while at < args.len() {
            at += query.take_option(args, at, form, zset)?;
        }
        query.check(args, form)?;
        Ok(query)
    }

    /// Reads the option at `at`, and tells how many words it has.
    fn take_option(
        &mut self,
        args: Args<'_>,
        at: usize,
        form: Form,
        zset: Option<&ZSet>,
    ) -> CmdResult<usize> {
        let (word, left) = (&args[at], args.len() - at - 1);
        let words = match word {
            _ if is(word, "WITHDIST") => {
                self.with_distance = true;
                1
            }
            _ if is(word, "WITHHASH") => {
                self.with_hash = true;
                1
            }
            _ if is(word, "WITHCOORD") => {
                self.with_coordinates = true;
                1
            }
            _ if is(word, "ANY") => {
                self.any = true;
                1
            }
            _ if is(word, "ASC") => {
                self.order = Some(Order::NearestFirst);
                1
            }
            _ if is(word, "DESC") => {
                self.order = Some(Order::FarthestFirst);
                1
            }
            _ if is(word, "COUNT") && left >= 1 => {
                let count = args::int(&args[at + 1])?;
                self.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(COUNT_TOO_SMALL)?;
                2
            }
            _ if is(word, "STORE") && left >= 1 && form.takes_store() => {
                self.store = Some(Store { destination_at: at + 1, distances: false });
                2
            }
            _ if is(word, "STOREDIST") && left >= 1 && form.takes_store() => {
                self.store = Some(Store { destination_at: at + 1, distances: true });
                2
            }
            _ if is(word, "STOREDIST") && form == Form::SearchStore => {
                self.store = Some(Store { destination_at: 1, distances: true });
                1
            }
            _ if form.is_search() => return self.take_search_option(args, at, zset),
            _ => return Err(Fault::SYNTAX),
        };
        Ok(words)
    }

    /// The options that tell what GEOSEARCH searches.
    fn take_search_option(&mut self, args: Args<'_>, at: usize, zset: Option<&ZSet>) -> CmdResult<usize> {
        let (word, left) = (&args[at], args.len() - at - 1);
        if is(word, "FROMMEMBER") && left >= 1 && !matches!(self.center, Some(Center::At(_))) {
            self.set_member(&args[at + 1], zset)?;
            return Ok(2);
        }
        if is(word, "FROMLONLAT") && left >= 2 && !matches!(self.center, Some(Center::Member(_))) {
            self.center = Some(Center::At(point(&args[at + 1], &args[at + 2])?));
            return Ok(3);
        }
        if is(word, "BYRADIUS") && left >= 2 && !matches!(self.extent, Some(Extent::Rectangle { .. })) {
            self.set_radius(&args[at + 1], &args[at + 2])?;
            return Ok(3);
        }
        if is(word, "BYBOX") && left >= 3 && !matches!(self.extent, Some(Extent::Circle { .. })) {
            self.set_box(&args[at + 1], &args[at + 2], &args[at + 3])?;
            return Ok(4);
        }
        Err(Fault::SYNTAX)
    }

    fn set_member(&mut self, member: &[u8], zset: Option<&ZSet>) -> CmdResult {
        if zset.is_some_and(|zset| zset.score(member).is_none()) {
            return Err(NO_SUCH_MEMBER);
        }
        self.center = Some(Center::Member(member.into()));
        Ok(())
    }

    fn set_radius(&mut self, radius: &[u8], unit: &[u8]) -> CmdResult {
        let radius = args::float(radius).map_err(|_| BAD_RADIUS)?;
        if radius < 0.0 {
            return Err(NEGATIVE_RADIUS);
        }
        self.unit_m = unit_m(unit)?;
        self.extent = Some(Extent::Circle { radius });
        Ok(())
    }

    fn set_box(&mut self, width: &[u8], height: &[u8], unit: &[u8]) -> CmdResult {
        let width = args::float(width).map_err(|_| BAD_WIDTH)?;
        let height = args::float(height).map_err(|_| BAD_HEIGHT)?;
        if width < 0.0 || height < 0.0 {
            return Err(NEGATIVE_BOX);
        }
        self.unit_m = unit_m(unit)?;
        self.extent = Some(Extent::Rectangle { width, height });
        Ok(())
    }

    /// Whether the options go together.
    fn check(&mut self, args: Args<'_>, form: Form) -> CmdResult {
        if self.store.is_some() && (self.with_distance || self.with_hash || self.with_coordinates) {
            let what = if form.is_search() { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            let text = format!("ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options");
            return Err(Fault::owned(text));
        }
        if form.is_search() && self.center.is_none() {
            let text = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(Fault::quoting(text, &args[0], ""));
        }
        if form.is_search() && self.extent.is_none() {
            let text = "ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err(Fault::quoting(text, &args[0], ""));
        }
        if self.any && self.count == 0 {
            return Err(ANY_WITHOUT_COUNT);
        }
        // Which are the first few is a question of order, unless any will do.
        if self.count > 0 && !self.any {
            self.order.get_or_insert(Order::NearestFirst);
        }
        Ok(())
    }

    /// What is searched among these places.
    pub(super) fn shape(&self, zset: &ZSet) -> CmdResult<Shape> {
        let center = match &self.center {
            Some(Center::At(point)) => *point,
            Some(Center::Member(member)) => Point::of_score(zset.score(member).ok_or(NO_SUCH_MEMBER)?),
            None => unreachable!("geo-query: a search has a center"),
        };
        let Some(extent) = self.extent else { unreachable!("geo-query: a search has an extent") };
        Ok(Shape { center, extent, unit_m: self.unit_m })
    }
}
