//! The times in identifiers that begin with one: ULID, KSUID and UUID version 7.

use super::time::Timestamp;

/// The seconds from 1970 to the time that KSUIDs count from, 2014-05-13T16:53:20Z.
const KSUID_EPOCH: i64 = 1_400_000_000;

/// The digits of ULIDs: Crockford's Base32.
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl Timestamp {
    /// The time of a ULID, in upper or lower case: its first ten digits are 48 bits of milliseconds.
    #[must_use]
    pub fn of_ulid(text: &str) -> Option<Self> {
        const TIME_DIGITS: usize = 10;
        let digits: &[u8; 26] = text.as_bytes().try_into().ok()?;
        let mut epoch_ms: i64 = 0;
        for (index, digit) in digits.iter().enumerate() {
            let digit = digit.to_ascii_uppercase();
            let value = CROCKFORD.iter().position(|known| *known == digit)?;
            if index < TIME_DIGITS {
                epoch_ms = (epoch_ms << 5) | i64::try_from(value).ok()?;
            }
        }
        // The first digit has 3 bits: ten digits would hold 50.
        (epoch_ms < 1 << 48).then(|| Self::from_epoch_ms(epoch_ms))
    }

    /// The time of a KSUID: 27 digits in Base62 are 160 bits, of which the first 32 are seconds.
    #[must_use]
    pub fn of_ksuid(text: &str) -> Option<Self> {
        let digits: &[u8; 27] = text.as_bytes().try_into().ok()?;
        // The most significant 32 bits first.
        let mut words = [0_u32; 5];
        for digit in digits {
            let mut carry = match digit {
                b'0'..=b'9' => u64::from(digit - b'0'),
                b'A'..=b'Z' => u64::from(digit - b'A') + 10,
                b'a'..=b'z' => u64::from(digit - b'a') + 36,
                _ => return None,
            };
            for word in words.iter_mut().rev() {
                let product = u64::from(*word) * 62 + carry;
                carry = product >> 32;
                *word = u32::try_from(product & u64::from(u32::MAX)).ok()?;
            }
            // More than 160 bits.
            if carry != 0 {
                return None;
            }
        }
        let [seconds, ..] = words;
        Some(Self::from_epoch_seconds(KSUID_EPOCH + i64::from(seconds)))
    }

    /// The time of a UUID version 7, with hyphens or without: its first 48 bits are milliseconds.
    #[must_use]
    pub fn of_uuid_v7(text: &str) -> Option<Self> {
        const HYPHENS: [usize; 4] = [8, 13, 18, 23];
        let bytes = text.as_bytes();
        let is_hyphen = |index: usize| bytes.len() == 36 && HYPHENS.contains(&index);
        if bytes.len() != 36 && bytes.len() != 32 {
            return None;
        }
        let mut bits: u128 = 0;
        for (index, byte) in bytes.iter().enumerate() {
            if is_hyphen(index) {
                if *byte != b'-' {
                    return None;
                }
                continue;
            }
            bits = (bits << 4) | u128::from(char::from(*byte).to_digit(16)?);
        }
        let (version, variant) = ((bits >> 76) & 0xf, (bits >> 62) & 0b11);
        let epoch_ms = i64::try_from(bits >> 80).ok()?;
        (version == 7 && variant == 0b10).then(|| Self::from_epoch_ms(epoch_ms))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(time: Option<Timestamp>) -> Option<i64> {
        time.map(Timestamp::epoch_ms)
    }

    #[test]
    fn ulids_of_their_specification() {
        // github.com/ulid/javascript: `ulid(1469918176385)`.
        assert_eq!(ms(Timestamp::of_ulid("01ARYZ6S41TSV4RRFFQ69G5FAV")), Some(1_469_918_176_385));
        assert_eq!(ms(Timestamp::of_ulid("01aryz6s41tsv4rrffq69g5fav")), Some(1_469_918_176_385));
        // github.com/ulid/spec: the largest ULID.
        assert_eq!(ms(Timestamp::of_ulid("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")), Some(281_474_976_710_655));
        assert_eq!(ms(Timestamp::of_ulid("00000000000000000000000000")), Some(0));
        for text in [
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "01ARYZ6S41TSV4RRFFQ69G5FA",
            "01ARYZ6S41TSV4RRFFQ69G5FAVX",
            "01ARYZ6S41TSV4RRFFQ69G5FAU",
            "01ARYZ6S41TSV4RRFFQ69G5FAé",
            "2026-02-06T14:30:00.00000Z",
            "",
        ] {
            assert_eq!(Timestamp::of_ulid(text), None, "{text}");
        }
    }

    #[test]
    fn ksuids_of_their_reference_implementation() {
        // github.com/segmentio/ksuid: `ksuid -f inspect`, timestamps 107608047 and 4294967295.
        for (text, seconds) in [
            ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", 107_608_047),
            ("0ujzPyRiIAffKhBux4PvQdDqMHY", 107_610_780),
            ("000000000000000000000000000", 0),
            ("aWgEPTl1tmebfsQzFP4bxwgy80V", 4_294_967_295),
        ] {
            let expected = (KSUID_EPOCH + seconds) * 1000;
            assert_eq!(ms(Timestamp::of_ksuid(text)), Some(expected), "{text}");
        }
        assert_eq!(
            Timestamp::of_ksuid("0ujtsYcgvSTl8PAuAdqWYSMnLOv").unwrap().to_string(),
            "2017-10-10T04:00:47Z"
        );
        for text in
            ["aWgEPTl1tmebfsQzFP4bxwgy80W", "0ujtsYcgvSTl8PAuAdqWYSMnLO", "0ujtsYcgvSTl8PAuAdqWYSMnLO-", ""]
        {
            assert_eq!(Timestamp::of_ksuid(text), None, "{text}");
        }
    }

    #[test]
    fn the_uuid_of_rfc_9562() {
        // Appendix A.6: 2022-02-22T14:22:22-05:00.
        for text in ["017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "017f22e279b07cc398c4dc0c0c07398f"] {
            assert_eq!(ms(Timestamp::of_uuid_v7(text)), Some(1_645_557_742_000), "{text}");
        }
        for text in [
            // Version 4, and version 6 of the same RFC.
            "919108f7-52d1-4320-9bac-f847db4148a8",
            "1EC9414C-232A-6B00-B3C8-9F6BDECED846",
            // Another variant.
            "017F22E2-79B0-7CC3-18C4-DC0C0C07398F",
            "017F22E2079B0-7CC3-98C4-DC0C0C07398F",
            "017F22E2-79B0-7CC3-98C4-DC0C0C07398",
            "017F22E2-79B0-7CC3-98C4-DC0C0C07398G",
            "",
        ] {
            assert_eq!(Timestamp::of_uuid_v7(text), None, "{text}");
        }
    }

    /// Base62 or Base32 of a number by repeated division.
    fn written(mut number: Vec<u8>, digits: &[u8], length: usize) -> String {
        let base = u32::try_from(digits.len()).unwrap();
        let mut text = Vec::new();
        for _ in 0..length {
            let mut remainder = 0;
            for byte in &mut number {
                let value = (remainder << 8) | u32::from(*byte);
                *byte = u8::try_from(value / base).unwrap();
                remainder = value % base;
            }
            text.insert(0, digits[remainder as usize]);
        }
        String::from_utf8(text).unwrap()
    }

    proptest! {
        #[test]
        fn identifiers_have_the_time_they_were_made_with(
            ms_of_id in 0_u64..1 << 48, seconds: u32, random: [u8; 16],
        ) {
            let expected = Some(i64::try_from(ms_of_id).unwrap());
            let time_bytes = &ms_of_id.to_be_bytes()[2..];
            let ulid = written([time_bytes, &random[..10]].concat(), CROCKFORD, 26);
            prop_assert_eq!(ms(Timestamp::of_ulid(&ulid)), expected, "{}", ulid);

            let mut uuid = [time_bytes, &random[..10]].concat();
            uuid[6] = (uuid[6] & 0x0f) | 0x70;
            uuid[8] = (uuid[8] & 0x3f) | 0x80;
            let hex = crate::hex(&uuid, 16);
            prop_assert_eq!(ms(Timestamp::of_uuid_v7(&hex)), expected, "{}", hex);

            let base62: Vec<u8> = (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z').collect();
            let ksuid = written([&seconds.to_be_bytes()[..], &random].concat(), &base62, 27);
            let expected = Some((KSUID_EPOCH + i64::from(seconds)) * 1000);
            prop_assert_eq!(ms(Timestamp::of_ksuid(&ksuid)), expected, "{}", ksuid);
        }
    }
}
