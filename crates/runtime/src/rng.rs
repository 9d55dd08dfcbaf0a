//! Chance, from a seed. One seed gives one sequence, so a run can be repeated.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The step of SplitMix64. It is odd, so the counter visits every number before it repeats.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Letters and digits of generated names, as Kubernetes picks them: without vowels, so that no words appear, and
/// without characters that look alike.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const NAME_LENGTH_MAX: usize = 63;

/// A seeded generator (SplitMix64). Good enough for names, jitter and simulations; never use it for secrets.
///
/// Copies draw from one sequence. Where several tasks draw, give each its own with `fork`, or the draws of one shift
/// those of the other.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    counter: Arc<AtomicU64>,
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self { seed, counter: Arc::new(AtomicU64::new(seed)) }
    }

    /// A generator that differs on every start. `seed` tells which one it was.
    pub fn from_entropy() -> Self {
        Self::new(RandomState::new().build_hasher().finish())
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A generator of its own for one purpose. It depends on the seed and the purpose only, not on what has been drawn.
    pub fn fork(&self, purpose: &str) -> Self {
        let hash = purpose.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        Self::new(mix(self.seed ^ hash))
    }

    pub fn next_u64(&self) -> u64 {
        mix(self.counter.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }

    /// At least zero, less than one.
    pub fn unit(&self) -> f64 {
        const MANTISSA_BITS: u32 = 53;
        (self.next_u64() >> (u64::BITS - MANTISSA_BITS)) as f64 / (1_u64 << MANTISSA_BITS) as f64
    }

    /// Less than `bound`; zero when there is nothing to choose from.
    pub fn below(&self, bound: u64) -> u64 {
        // The high half of the product: fair to one part in 2^64 / bound, and never out of range.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> u64::BITS) as u64
    }

    /// The prefix and five random characters, cut like Kubernetes' `generateName` so that the name stays a label.
    pub fn name(&self, prefix: &str) -> String {
        let room = NAME_LENGTH_MAX - SUFFIX_LENGTH;
        let kept =
            prefix.char_indices().map(|(start, letter)| start + letter.len_utf8()).take_while(|end| *end <= room);
        let mut name = prefix[..kept.last().unwrap_or(0)].to_owned();
        for _ in 0..SUFFIX_LENGTH {
            name.push(char::from(NAME_LETTERS[self.below(NAME_LETTERS.len() as u64) as usize]));
        }
        name
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> String {
        let high = self.next_u64() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000;
        let low = self.next_u64() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000;
        let mut text = String::with_capacity(36);
        for (place, byte) in high.to_be_bytes().into_iter().chain(low.to_be_bytes()).enumerate() {
            if [4, 6, 8, 10].contains(&place) {
                text.push('-');
            }
            text.extend([byte >> 4, byte & 0xF].map(|half| char::from(b"0123456789abcdef"[usize::from(half)])));
        }
        text
    }
}

/// The output function of SplitMix64.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn one_seed_gives_the_published_sequence() {
        let rng = Rng::new(1_234_567);
        let drawn = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_fork_does_not_depend_on_what_was_drawn_before() {
        let (fresh, used) = (Rng::new(7), Rng::new(7));
        used.next_u64();
        assert_eq!(fresh.fork("lease").next_u64(), used.fork("lease").next_u64());
        assert_ne!(fresh.fork("lease").next_u64(), fresh.fork("queue").next_u64());
    }

    #[test]
    fn copies_draw_from_one_sequence() {
        let rng = Rng::new(7);
        let first = rng.clone().next_u64();
        assert_ne!(rng.next_u64(), first);
    }

    #[test]
    fn draws_stay_in_their_range() {
        let rng = Rng::new(1);
        let small: BTreeSet<u64> = (0..200).map(|_| rng.below(3)).collect();
        assert_eq!(small, BTreeSet::from([0, 1, 2]));
        assert_eq!(rng.below(0), 0);
        assert!((0..200).map(|_| rng.unit()).all(|unit| (0.0..1.0).contains(&unit)));
    }

    #[test]
    fn names_end_in_five_letters_and_stay_labels() {
        let rng = Rng::new(1);
        let name = rng.name("default-");
        let suffix = name.strip_prefix("default-").unwrap();
        assert!(suffix.len() == 5 && suffix.bytes().all(|letter| NAME_LETTERS.contains(&letter)), "{name}");
        assert_ne!(rng.name("default-"), name);
        assert_eq!(rng.name(&"x".repeat(200)).len(), 63);
        assert!(rng.name(&"é".repeat(40)).len() <= 63);
    }

    #[test]
    fn uuids_say_version_and_variant() {
        let uuid = Rng::new(3).uuid();
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        assert!(&uuid[14..15] == "4" && "89ab".contains(&uuid[19..20]), "{uuid}");
        assert_eq!(uuid, "1d0b14e4-db01-4fed-b346-6f8a7b81a989", "seeds mean what they meant");
    }
}
