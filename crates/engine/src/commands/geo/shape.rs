//! What is searched: a circle or a rectangle on the ground, the distances in it, and the cells that cover it.
//!
//! Specified by Redis's `geohash_helper.c`: every number here is computed in the same order of operations, so that
//! distances are the same to the last bit.

use std::f64::consts::PI;

use super::cell::{Area, Cell, Move, Point, STEPS_MAX};

const RADIANS_PER_DEGREE: f64 = PI / 180.0;
const EARTH_RADIUS_M: f64 = 6_372_797.560856;
/// Half the width of the map in the Mercator projection.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

/// The distance of two places along the Earth's surface, in metres.
pub(super) fn distance_m(from: Point, to: Point) -> f64 {
    let v = ((radians(to.longitude) - radians(from.longitude)) / 2.0).sin();
    if v == 0.0 {
        return latitude_distance_m(from.latitude, to.latitude);
    }
    let (from_latitude, to_latitude) = (radians(from.latitude), radians(to.latitude));
    let u = ((to_latitude - from_latitude) / 2.0).sin();
    let a = u * u + from_latitude.cos() * to_latitude.cos() * v * v;
    2.0 * EARTH_RADIUS_M * a.sqrt().asin()
}

fn latitude_distance_m(from: f64, to: f64) -> f64 {
    EARTH_RADIUS_M * (radians(to) - radians(from)).abs()
}

/// What is within reach of the centre, in the unit of the command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent {
    Circle { radius: f64 },
    Rectangle { width: f64, height: f64 },
}

/// A part of the Earth's surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) center: Point,
    pub(super) extent: Extent,
    /// Metres of the command's unit.
    pub(super) unit_m: f64,
}

impl Shape {
    /// The distance of a place from the centre in metres, if it lies within.
    pub(super) fn distance_within_m(&self, point: Point) -> Option<f64> {
        match self.extent {
            Extent::Circle { radius } => {
                let distance_m = distance_m(self.center, point);
                (distance_m <= radius * self.unit_m).then_some(distance_m)
            }
            Extent::Rectangle { width, height } => {
                if latitude_distance_m(point.latitude, self.center.latitude) > height * self.unit_m / 2.0 {
                    return None;
                }
                let below = Point { longitude: self.center.longitude, latitude: point.latitude };
                if distance_m(point, below) > width * self.unit_m / 2.0 {
                    return None;
                }
                Some(distance_m(self.center, point))
            }
        }
    }

    /// Longitudes and latitudes that it lies between.
    fn bounds(&self) -> Area {
        let (half_width, half_height) = match self.extent {
            Extent::Circle { radius } => (radius, radius),
            Extent::Rectangle { width, height } => (width / 2.0, height / 2.0),
        };
        let Point { longitude, latitude } = self.center;
        let latitude_delta = degrees(self.unit_m * half_height / EARTH_RADIUS_M);
        // The side that is nearer to a pole spans more degrees.
        let side = if latitude < 0.0 { latitude - latitude_delta } else { latitude + latitude_delta };
        let longitude_delta = degrees(self.unit_m * half_width / EARTH_RADIUS_M / radians(side).cos());
        Area {
            longitude: (longitude - longitude_delta, longitude + longitude_delta),
            latitude: (latitude - latitude_delta, latitude + latitude_delta),
        }
    }

    /// How fine a grid may be for a cell and its neighbours to cover the shape, as a first guess.
    fn steps(&self) -> u32 {
        let mut reach_m = self.unit_m
            * match self.extent {
                Extent::Circle { radius } => radius,
                Extent::Rectangle { width, height } => {
                    (width / 2.0 * (width / 2.0) + height / 2.0 * (height / 2.0)).sqrt()
                }
            };
        if reach_m == 0.0 {
            return STEPS_MAX;
        }
        let mut steps = -1;
        while reach_m < MERCATOR_MAX_M {
            reach_m *= 2.0;
            steps += 1;
        }
        // Cells are narrower towards the poles.
        let latitude = self.center.latitude.abs();
        steps -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        steps.clamp(1, STEPS_MAX as i32) as u32
    }

    /// The cells to be searched, in Redis's order, which is the order of results that are not sorted.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut steps = self.steps();
        let mut cell = self.center.cell(steps);
        if steps > 1 && !reaches(cell, &bounds) {
            steps -= 1;
            cell = self.center.cell(steps);
        }
        let area = cell.area();
        // A neighbour beyond a side of the cell that the shape does not pass is not needed.
        let is_needed = |longitude: Move, latitude: Move| {
            let spared = (latitude == Move::Down && area.latitude.0 < bounds.latitude.0)
                || (latitude == Move::Up && area.latitude.1 > bounds.latitude.1)
                || (longitude == Move::Down && area.longitude.0 < bounds.longitude.0)
                || (longitude == Move::Up && area.longitude.1 > bounds.longitude.1);
            steps < 2 || !spared
        };
        let mut cells: Vec<Cell> = vec![cell];
        // In a coarse grid neighbours may be the same. Only those are noticed that follow each other.
        let mut last = None;
        for (longitude, latitude) in NEIGHBORS {
            let neighbor = cell.neighbor(longitude, latitude);
            if is_needed(longitude, latitude) && last != Some(neighbor) {
                cells.push(neighbor);
                last = Some(neighbor);
            }
        }
        cells
    }
}

/// East or west first, then north or south.
const NEIGHBORS: [(Move, Move); 8] = [
    (Move::Stay, Move::Up),
    (Move::Stay, Move::Down),
    (Move::Up, Move::Stay),
    (Move::Down, Move::Stay),
    (Move::Up, Move::Up),
    (Move::Down, Move::Up),
    (Move::Up, Move::Down),
    (Move::Down, Move::Down),
];

/// True if a cell's neighbours cover the bounds.
fn reaches(cell: Cell, bounds: &Area) -> bool {
    let area = |longitude, latitude| cell.neighbor(longitude, latitude).area();
    area(Move::Stay, Move::Up).latitude.1 >= bounds.latitude.1
        && area(Move::Stay, Move::Down).latitude.0 <= bounds.latitude.0
        && area(Move::Up, Move::Stay).longitude.1 >= bounds.longitude.1
        && area(Move::Down, Move::Stay).longitude.0 <= bounds.longitude.0
}
