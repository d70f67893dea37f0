//! AES decryption in CBC mode (FIPS 197, SP 800-38A), for the one thing that the TLS library has no use for: key files
//! under a password. Neither fast nor safe from timing: nobody can measure how a server reads its own file at start.

/// Decrypts and takes off the padding of PKCS#7. `key` has 16, 24 or 32 bytes; `None` if `data` is not whole blocks or
/// the padding is none.
pub(super) fn decrypt_cbc(key: &[u8], start: &[u8; 16], data: &[u8]) -> Option<Vec<u8>> {
    let (blocks, rest) = data.as_chunks::<16>();
    if blocks.is_empty() || !rest.is_empty() {
        return None;
    }
    let sbox = sbox();
    let round_keys = round_keys(key, &sbox);
    let mut inverse = [0; 256];
    (0..=255u8).for_each(|byte| inverse[usize::from(sbox[usize::from(byte)])] = byte);
    let (mut plain, mut before) = (Vec::with_capacity(data.len()), start);
    for block in blocks {
        let mut state = *block;
        decrypt_block(&mut state, &round_keys, &inverse);
        plain.extend(state.iter().zip(before).map(|(byte, previous)| byte ^ previous));
        before = block;
    }
    let padding = *plain.last()?;
    let len = plain.len().checked_sub(usize::from(padding))?;
    let is_padded = (1..=16).contains(&padding) && plain[len..].iter().all(|byte| *byte == padding);
    plain.truncate(len);
    is_padded.then_some(plain)
}

/// The inverse cipher: FIPS 197, figure 12.
fn decrypt_block(state: &mut [u8; 16], round_keys: &[[u8; 16]], inverse: &[u8; 256]) {
    let (last, others) = round_keys.split_last().expect("there are at least ten rounds");
    add(state, last);
    for (round, key) in others.iter().enumerate().rev() {
        // Row r of the column-wise state moves right by r.
        let shifted: [u8; 16] = std::array::from_fn(|at| state[(at + 16 - 4 * (at % 4)) % 16]);
        *state = shifted.map(|byte| inverse[usize::from(byte)]);
        add(state, key);
        if round > 0 {
            unmix(state);
        }
    }
}

fn add(state: &mut [u8; 16], key: &[u8; 16]) {
    state.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
}

/// The inverse of MixColumns.
fn unmix(state: &mut [u8; 16]) {
    for column in state.as_chunks_mut::<4>().0 {
        let old = *column;
        *column = std::array::from_fn(|row| {
            [14, 11, 13, 9]
                .iter()
                .enumerate()
                .fold(0, |sum, (at, factor)| sum ^ multiply(old[(row + at) % 4], *factor))
        });
    }
}

/// One more round key than there are rounds: FIPS 197, figure 11.
fn round_keys(key: &[u8], sbox: &[u8; 256]) -> Vec<[u8; 16]> {
    let words_of_key = key.len() / 4;
    let mut words: Vec<[u8; 4]> = key.as_chunks::<4>().0.to_vec();
    let mut constant = 1;
    for at in words_of_key..4 * (words_of_key + 7) {
        let mut word = words[at - 1];
        if at % words_of_key == 0 {
            word.rotate_left(1);
            word = word.map(|byte| sbox[usize::from(byte)]);
            word[0] ^= constant;
            constant = multiply(constant, 2);
        } else if words_of_key > 6 && at % words_of_key == 4 {
            word = word.map(|byte| sbox[usize::from(byte)]);
        }
        let before = words[at - words_of_key];
        words.push(std::array::from_fn(|byte| word[byte] ^ before[byte]));
    }
    words.as_chunks::<4>().0.iter().map(|four| std::array::from_fn(|at| four[at / 4][at % 4])).collect()
}

/// The substitution of a byte: its inverse in the field, then an affine map.
fn sbox() -> [u8; 256] {
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        let inverse = (0..=255).find(|other| multiply(byte, *other) == 1).unwrap_or(0);
        (0..5).fold(0x63, |sum, turns| sum ^ inverse.rotate_left(turns))
    })
}

/// Multiplication in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1.
fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b > 0 {
        product ^= if b & 1 == 1 { a } else { 0 };
        a = a << 1 ^ if a & 0x80 == 0 { 0 } else { 0x1b };
        b >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex digits"))
    }

    /// The example vectors of FIPS 197, appendix C.
    #[test]
    fn blocks_decrypt_as_in_the_standard() {
        let plain: [u8; 16] = bytes("00112233445566778899aabbccddeeff");
        let key: [u8; 32] = std::array::from_fn(|at| at as u8);
        let sbox = sbox();
        let mut inverse = [0; 256];
        (0..=255u8).for_each(|byte| inverse[usize::from(sbox[usize::from(byte)])] = byte);
        for (key_bytes, cipher) in [
            (16, "69c4e0d86a7b0430d8cdb78070b4c55a"),
            (24, "dda97ca4864cdfe06eaf70a0ec0d7191"),
            (32, "8ea2b7ca516745bfeafc49904b496089"),
        ] {
            let mut state = bytes(cipher);
            decrypt_block(&mut state, &round_keys(&key[..key_bytes], &sbox), &inverse);
            assert_eq!(state, plain, "{key_bytes} bytes of key");
        }
    }

    #[test]
    fn what_is_not_whole_or_not_padded_is_refused() {
        let (key, start) = ([7; 32], [0; 16]);
        assert_eq!(decrypt_cbc(&key, &start, b""), None);
        assert_eq!(decrypt_cbc(&key, &start, &[1; 17]), None);
        // The block whose decryption is `plain`, found by letting the start stand for the difference.
        let raw = {
            let (sbox, mut state) = (sbox(), [9; 16]);
            let mut inverse = [0; 256];
            (0..=255u8).for_each(|byte| inverse[usize::from(sbox[usize::from(byte)])] = byte);
            decrypt_block(&mut state, &round_keys(&key, &sbox), &inverse);
            state
        };
        for (plain, expected) in [
            (*b"0123456789abc\x03\x03\x03", Some(b"0123456789abc".to_vec())),
            ([16; 16], Some(Vec::new())),
            (*b"0123456789abc\x03\x02\x03", None),
            ([0; 16], None),
            ([17; 16], None),
        ] {
            let start = std::array::from_fn(|at| raw[at] ^ plain[at]);
            assert_eq!(decrypt_cbc(&key, &start, &[9; 16]), expected, "{plain:?}");
        }
    }
}
