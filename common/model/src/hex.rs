//! Bytes in hexadecimal digits.

/// The first bytes, of a hash for example, in hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8], count: usize) -> String {
    bytes.iter().take(count).map(|byte| format!("{byte:02x}")).collect()
}
