//! Choices that look random and are not: hashes, the same on every machine and in every run.

/// FNV-1a with a last stir: without it, texts that differ in their last letter stay close.
pub(super) fn hash(seed: u64, text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sum = text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let stirred = (sum ^ (sum >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    stirred ^ (stirred >> 29)
}

/// Seventeen hexadecimal digits, as EC2's ids have.
pub(super) fn id(prefix: &str, text: &str) -> String {
    format!("{prefix}-0{:016x}", hash(0, text))
}
