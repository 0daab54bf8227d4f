//! Samples of keys.

/// Whether a key is in a sample of this share (FNV-1a). The same key is always in it or never.
pub(super) fn is_sampled(texts: &[&str], share: f64) -> bool {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain(std::iter::once(0)));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The highest bits are the best mixed ones.
    crate::jobs::approximate(hash >> 32) < share * 4_294_967_296.0
}
