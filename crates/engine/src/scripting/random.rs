//! `math.random` as Redis has it: the generator of `lrand48`, so that scripts draw the same numbers everywhere.

use mlua::{Lua, Value};

use super::errors::{bad_argument, raise};
use super::libs::number_argument;

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
/// What the low 16 bits of a seeded state are.
const SEED_LOW: u64 = 0x330E;
const STATE_MASK: u64 = (1 << 48) - 1;
/// The largest number drawn.
const DRAW_MAX: f64 = 0x7fff_ffff_u32 as f64;

/// The generator: 48 bits of state.
pub struct Lrand48(u64);

impl Default for Lrand48 {
    fn default() -> Lrand48 {
        Lrand48(0x1234_ABCD_330E)
    }
}

impl Lrand48 {
    /// Starts again from 32 bits.
    pub fn seed(&mut self, seed: i32) {
        self.0 = u64::from(seed as u32) << 16 | SEED_LOW;
    }

    /// 31 bits.
    pub fn draw(&mut self) -> u32 {
        self.0 = (self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT)) & STATE_MASK;
        (self.0 >> 17) as u32
    }

    /// `math.random([m [, n]])`.
    pub fn random(&mut self, lua: &Lua, args: &[Value]) -> mlua::Result<f64> {
        let fraction = f64::from(self.draw() & 0x7fff_ffff) % DRAW_MAX / DRAW_MAX;
        match args.len() {
            0 => Ok(fraction),
            1 => {
                let upper = number_argument(lua, args, 0)?.trunc();
                if upper < 1.0 {
                    return Err(bad_argument(lua, 1, "interval is empty"));
                }
                Ok((fraction * upper).floor() + 1.0)
            }
            2 => {
                let (lower, upper) =
                    (number_argument(lua, args, 0)?.trunc(), number_argument(lua, args, 1)?.trunc());
                if lower > upper {
                    return Err(bad_argument(lua, 2, "interval is empty"));
                }
                Ok((fraction * (upper - lower + 1.0)).floor() + lower)
            }
            _ => Err(raise(lua, "wrong number of arguments")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_what_redis_draws() {
        let mut generator = Lrand48::default();
        generator.seed(0);
        let first = f64::from(generator.draw()) / DRAW_MAX;
        assert_eq!(format!("{first:.14}"), "0.17082803611217");
    }
}
