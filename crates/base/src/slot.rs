//! Which of the 16,384 hash slots a key belongs to: CRC16 of the key or of its `{tag}`, modulo the slot count.
//! Specified by the Redis Cluster specification, "Key distribution model" and "Hash tags".

/// How many hash slots there are. A power of two.
pub const SLOT_COUNT: u16 = 16384;

const _: () = assert!(SLOT_COUNT.is_power_of_two());

/// `TABLES[k][b]` is the CRC of the byte `b` followed by `k` zero bytes, so that eight input bytes can be looked
/// up independently of each other instead of one after the other.
static TABLES: [[u16; 256]; 8] = build_tables();

const fn build_tables() -> [[u16; 256]; 8] {
    const POLYNOMIAL: u16 = 0x1021;
    let mut tables = [[0u16; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let shorter = tables[zeros - 1][byte];
            tables[zeros][byte] = (shorter << 8) ^ tables[0][(shorter >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// CRC16/XMODEM: polynomial 0x1021, initial value 0, not reflected.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    let t = &TABLES;
    let mut crc = 0u16;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for c in chunks {
        let [high, low] = crc.to_be_bytes();
        crc = t[7][(c[0] ^ high) as usize]
            ^ t[6][(c[1] ^ low) as usize]
            ^ t[5][c[2] as usize]
            ^ t[4][c[3] as usize]
            ^ t[3][c[4] as usize]
            ^ t[2][c[5] as usize]
            ^ t[1][c[6] as usize]
            ^ t[0][c[7] as usize];
    }
    for &byte in rest {
        crc = (crc << 8) ^ t[0][((crc >> 8) as u8 ^ byte) as usize];
    }
    crc
}

/// The part of `key` that decides its slot: what stands between the first `{` and the first `}` after it, when that
/// is not empty; otherwise the whole key.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let open = if has_brace(key) { key.iter().position(|&byte| byte == b'{') } else { None };
    let Some(open) = open else { return key };
    let inner = &key[open + 1..];
    match inner.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inner[..close],
    }
}

/// Whether `{` is in `key`. Most keys have none, and each is looked through at each command: eight bytes at a time.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const BRACES: u64 = u64::from_ne_bytes([b'{'; 8]);
    // The upper bit of a byte stays set where the byte was zero, and perhaps in one above such a byte.
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0;
    let holds = |chunk: &[u8; 8]| has_zero(u64::from_ne_bytes(*chunk) ^ BRACES);
    match key.last_chunk() {
        // The last chunk may have bytes of the one before, which does no harm.
        Some(last) => holds(last) || key.as_chunks().0.iter().any(holds),
        None => key.contains(&b'{'),
    }
}

/// The slot of `key`, in `0..SLOT_COUNT`.
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (SLOT_COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_agrees_with_the_bitwise_definition() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let mut random = fastrand::Rng::with_seed(1);
        for len in 0..100 {
            let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            let mut expected = 0u16;
            for &byte in &bytes {
                expected ^= u16::from(byte) << 8;
                for _ in 0..8 {
                    expected = if expected & 0x8000 != 0 { (expected << 1) ^ 0x1021 } else { expected << 1 };
                }
            }
            assert_eq!(crc16(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_brace_is_found_wherever_it_is() {
        for len in 0..40 {
            let plain: Vec<u8> = (0..len).map(|at| [b'z', b'|', 0xfb, 0x00, 0x7a][at % 5]).collect();
            assert!(!has_brace(&plain), "{plain:?}");
            for at in 0..len {
                let mut key = plain.clone();
                key[at] = b'{';
                assert!(has_brace(&key), "{key:?}");
            }
        }
    }

    #[test]
    fn tags_and_slots() {
        // (key, what is hashed, CLUSTER KEYSLOT of a real server)
        let cases: [(&str, &str, u16); 10] = [
            ("", "", 0),
            ("foo", "foo", 12182),
            ("user:1000", "user:1000", 1649),
            ("{user1000}.following", "user1000", 3443),
            ("foo{}{bar}", "foo{}{bar}", 8363),
            ("foo{{bar}}zap", "{bar", 4015),
            ("foo{bar}{zap}", "bar", 5061),
            ("{", "{", 4092),
            ("}{", "}{", 12793),
            ("a{b", "a{b", 13340),
        ];
        for (key, tag, slot) in cases {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }
}
