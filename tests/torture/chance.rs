//! Chance that can be played again from a printed seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// xorshift64*
pub(crate) struct Chance(u64);

impl Chance {
    /// The chance of one of many under a seed.
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        let mut chance = Self(seed ^ (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }
}

/// `ORION_SEED`, or another one every time.
pub(crate) fn seed() -> u64 {
    std::env::var("ORION_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.subsec_nanos().into())
    })
}
