//! SHA-1 (FIPS 180-4): what DEBUG DIGEST and EVALSHA are made of. Nothing here relies on it against attackers.

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 20;
const BLOCK_BYTES: usize = 64;

/// The digest of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    blocks.iter().for_each(|block| add_block(&mut state, block));
    // The rest, a one bit, zeros, and the length in bits at the very end.
    let mut last = [0; 2 * BLOCK_BYTES];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let padded = if rest.len() < BLOCK_BYTES - 8 { BLOCK_BYTES } else { 2 * BLOCK_BYTES };
    last[padded - 8..padded].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    last[..padded].as_chunks::<BLOCK_BYTES>().0.iter().for_each(|block| add_block(&mut state, block));
    let mut digest = [0; DIGEST_BYTES];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// `digest` in 40 lower-case hexadecimal digits.
pub fn hex(digest: &[u8; DIGEST_BYTES]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn add_block(state: &mut [u32; 5], block: &[u8; BLOCK_BYTES]) {
    let mut schedule = [0u32; 80];
    for (word, bytes) in schedule.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..80 {
        let mixed = schedule[at - 3] ^ schedule[at - 8] ^ schedule[at - 14] ^ schedule[at - 16];
        schedule[at] = mixed.rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (round, word) in schedule.iter().enumerate() {
        let (choice, constant) = match round {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6u32),
        };
        let next =
            a.rotate_left(5).wrapping_add(choice).wrapping_add(e).wrapping_add(constant).wrapping_add(*word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(added);
    }
}

#[cfg(test)]
mod tests {
    use super::{digest, hex};

    #[test]
    fn the_standard_s_examples() {
        for (text, expected) in [
            (vec![], "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (b"abc".to_vec(), "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".to_vec(),
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
            (vec![b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
        ] {
            assert_eq!(hex(&digest(&text)), expected);
        }
    }

    #[test]
    fn every_length_is_padded() {
        let all: std::collections::BTreeSet<_> = (0..200).map(|len| digest(&vec![0; len])).collect();
        assert_eq!(all.len(), 200);
    }
}
