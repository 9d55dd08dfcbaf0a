//! A hash that is the same on every machine and in every run.

use std::hash::Hasher;

/// In the manner of FNV-1a, eight bytes at a time. Used to find equals quickly; whoever uses it compares for real as well.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn mix(&mut self, word: u64) {
        // The turn brings the upper bits, which a product mixes best, down to where the next word meets them.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x0100_0000_01b3);
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
