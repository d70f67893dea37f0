//! The dense representation: 16,384 registers of six bits, lowest bits first.

use super::estimate::{Histogram, REGISTERS};

const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u16 = (1 << REGISTER_BITS) - 1;
/// Bytes of all registers.
pub(super) const REGISTERS_BYTES: usize = REGISTERS * REGISTER_BITS / 8;

/// The byte that a register begins in, and the bit there.
fn place(index: usize) -> (usize, usize) {
    let bit = index * REGISTER_BITS;
    (bit / 8, bit % 8)
}

/// The value of a register. `registers` has [`REGISTERS_BYTES`].
pub(super) fn get(registers: &[u8], index: usize) -> u8 {
    let (at, shift) = place(index);
    let high = registers.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([registers[at], high]) >> shift & REGISTER_MAX) as u8
}

/// Gives a register a value below 64.
pub(super) fn set(registers: &mut [u8], index: usize, value: u8) {
    let (at, shift) = place(index);
    let high = registers.get(at + 1).copied().unwrap_or(0);
    let others = u16::from_le_bytes([registers[at], high]) & !(REGISTER_MAX << shift);
    let [low, high] = (others | u16::from(value) << shift).to_le_bytes();
    registers[at] = low;
    if let Some(byte) = registers.get_mut(at + 1) {
        *byte = high;
    }
}

/// The values of all registers, in order.
pub(super) fn values(registers: &[u8]) -> impl Iterator<Item = u8> {
    let (groups, _) = registers.as_chunks::<3>();
    groups.iter().flat_map(|[a, b, c]| {
        let four = u32::from_le_bytes([*a, *b, *c, 0]);
        [four, four >> 6, four >> 12, four >> 18].map(|value| value as u8 & REGISTER_MAX as u8)
    })
}

pub(super) fn histogram(registers: &[u8]) -> Histogram {
    let mut histogram = [0; 64];
    values(registers).for_each(|value| histogram[usize::from(value)] += 1);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_keep_what_they_are_given() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut model, mut registers) = (vec![0; REGISTERS], vec![0; REGISTERS_BYTES]);
        for _ in 0..100_000 {
            let (index, value) = (random.usize(..REGISTERS), random.u8(..64));
            model[index] = value;
            set(&mut registers, index, value);
            assert_eq!(get(&registers, index), value);
        }
        assert!((0..REGISTERS).all(|index| get(&registers, index) == model[index]));
        assert!(values(&registers).eq(model.iter().copied()));
        assert_eq!(histogram(&registers).iter().sum::<u32>() as usize, REGISTERS);
    }
}
