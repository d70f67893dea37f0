//! PFSELFTEST: whether registers and estimates are what they should be, on random elements.

use super::dense;
use super::estimate::REGISTERS;
use super::sketch::Sketch;
use crate::args::Args;
use crate::ctx::Ctx;
use crate::fault::{CmdResult, Fault};
use crate::reply::Reply;

/// Rounds of filling all registers.
const REGISTER_ROUNDS: usize = 20;
/// Elements that are added.
const ELEMENTS_MAX: u64 = 1_000_000;
/// How many standard errors an estimate may be off.
const ERRORS_MAX: f64 = 6.0;
/// Up to so many bytes there are fewer sparse runs than elements.
const SPARSE_BYTES_MAX: usize = 3000;

/// PFSELFTEST
pub(crate) fn pfselftest(ctx: &mut Ctx<'_>, _: Args<'_>, _: &mut Reply<'_>) -> CmdResult {
    ctx.defer(|lane| {
        let seed = lane.rng().u64(..);
        test(seed)?;
        lane.reply().ok();
        Ok(())
    });
    Ok(())
}

fn failed(what: String) -> Fault {
    Fault::Owned(format!("ERR TESTFAILED {what}"))
}

fn test(seed: u64) -> CmdResult {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut registers, mut model) = (vec![0; dense::REGISTERS_BYTES], vec![0; REGISTERS]);
    for _ in 0..REGISTER_ROUNDS {
        for (index, value) in model.iter_mut().enumerate() {
            *value = random.u8(..64);
            dense::set(&mut registers, index, *value);
        }
        for (index, expected) in model.iter().enumerate() {
            let value = dense::get(&registers, index);
            if value != *expected {
                return Err(failed(format!("Register {index} should be {expected} but is {value}")));
            }
        }
    }
    let (mut dense, mut sparse) = (Sketch::new(0), Sketch::new(SPARSE_BYTES_MAX));
    dense.make_dense()?;
    let mut checkpoint = 1;
    for count in 1..=ELEMENTS_MAX {
        let element = (count ^ seed).to_le_bytes();
        dense.add(&element)?;
        sparse.add(&element)?;
        if count == checkpoint {
            check(count, &dense, &sparse)?;
            checkpoint *= 10;
        }
    }
    Ok(())
}

fn check(count: u64, dense: &Sketch, sparse: &Sketch) -> CmdResult {
    if count < SPARSE_BYTES_MAX as u64 / 2 && sparse.is_dense() {
        return Err(failed("sparse encoding not used".to_owned()));
    }
    let estimate = dense.cardinality()?;
    if estimate != sparse.cardinality()? {
        return Err(failed("dense/sparse disagree".to_owned()));
    }
    let standard_error = 1.04 / (REGISTERS as f64).sqrt();
    // A single collision weighs more than that among few elements.
    let error_max = if count == 10 { 1 } else { (standard_error * ERRORS_MAX * count as f64).ceil() as u64 };
    let error = estimate.abs_diff(count);
    if error > error_max {
        return Err(failed(format!("Too big error. card:{count} abserr:{error}")));
    }
    Ok(())
}
