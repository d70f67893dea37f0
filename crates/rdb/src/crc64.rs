//! The checksum at the end of files and payloads: CRC-64 with Jones's polynomial, bits reflected, from zero.

/// 0xad93d23594c935a9 with its bits in the other order.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// `TABLES[k][b]`: the checksum of byte `b` followed by `k` zero bytes. So eight bytes are looked up at once.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut distance = 1;
    while distance < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[distance - 1][byte];
            tables[distance][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        distance += 1;
    }
    tables
}

/// The checksum of what had `crc` (0: of nothing), followed by `bytes`.
pub fn update(mut crc: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        let mixed = (crc ^ u64::from_le_bytes(eight)).to_le_bytes();
        crc = mixed.iter().zip(TABLES.iter().rev()).fold(0, |crc, (byte, table)| crc ^ table[*byte as usize]);
    }
    words.remainder().iter().fold(crc, |crc, byte| TABLES[0][(crc as u8 ^ byte) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::update;

    #[test]
    fn as_redis_computes_it() {
        assert_eq!(update(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(update(0, b""), 0);
        let text: Vec<u8> = (0..1000u32).map(|n| (n * 7 % 251) as u8).collect();
        for at in [0, 1, 7, 8, 9, 500, 1000] {
            assert_eq!(update(update(0, &text[..at]), &text[at..]), update(0, &text), "in two parts");
        }
    }
}
