//! The nodes of a cluster's slots, and the slots of keys.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use redis::{ConnectionAddr, ErrorKind, RedisError, RedisResult, Value};

/// The number of slots of a cluster.
const SLOT_COUNT: u16 = 16_384;

/// The address of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeAddress {
    pub(super) host: String,
    pub(super) port: u16,
}

impl NodeAddress {
    pub(super) fn of(address: &ConnectionAddr) -> Self {
        if let ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } = address {
            Self { host: host.clone(), port: *port }
        } else {
            // The settings allow no other kind of address.
            Self { host: String::new(), port: 0 }
        }
    }

    /// As an address to connect to, with the TLS settings of `template`.
    pub(super) fn with_tls_of(&self, template: &ConnectionAddr) -> ConnectionAddr {
        let mut address = template.clone();
        if let ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } = &mut address {
            (*host, *port) = (self.host.clone(), self.port);
        }
        address
    }
}

/// The master of each slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotMap(Vec<(RangeInclusive<u16>, NodeAddress)>);

impl SlotMap {
    /// Parses the response of `responder` to `CLUSTER SLOTS`. Ranges without a known master are left out.
    pub(super) fn parse(response: &Value, responder: &str) -> RedisResult<Self> {
        let Value::Array(ranges) = response else {
            return Err(RedisError::from((ErrorKind::UnexpectedReturnType, "the slots cannot be read")));
        };
        Ok(Self(ranges.iter().filter_map(|range| parse_range(range, responder)).collect()))
    }

    /// The node that has the slot of a key.
    pub(super) fn node_of(&self, key: &str) -> Option<&NodeAddress> {
        let slot = slot(key);
        self.0.iter().find(|(slots, _)| slots.contains(&slot)).map(|(_, node)| node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeAddress> {
        self.0.iter().map(|(_, node)| node).collect::<BTreeSet<_>>().into_iter()
    }
}

/// Parses one range: first slot, last slot, master, replicas. A master that does not know its own host has the host of `responder`.
fn parse_range(range: &Value, responder: &str) -> Option<(RangeInclusive<u16>, NodeAddress)> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = if let Value::BulkString(host) = host { &**host } else { b"" };
    let host = match str::from_utf8(host).ok()? {
        // The node knows that there is a master, but not its address.
        "?" => return None,
        "" => responder,
        host => host,
    };
    let address = NodeAddress { host: host.to_owned(), port: u16::try_from(*port).ok()? };
    Some((u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?, address))
}

/// A key's slot: the slot of its hash tag (the text between the first `{` and the next `}`) if this is not empty, otherwise of the whole key.
fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOT_COUNT
}

/// The checksum of slots: CRC-16 with polynomial 0x1021, initial value 0, not reflected (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("{foo}bar"), 12_182);
        assert_eq!(slot("a{foo}{bar}"), 12_182);
        for (key, like) in [("{}foo", "{}foo"), ("{foo", "{foo"), ("}{foo}", "foo"), ("{{x}}", "{x")] {
            assert_eq!(slot(key), crc16(like.as_bytes()) % SLOT_COUNT, "{key}");
        }
    }

    #[test]
    fn a_master_without_a_host_is_on_the_host_of_the_responder() {
        let text = |text: &str| Value::BulkString(text.into());
        let range = |first, last, host, port| {
            let master = Value::Array(vec![host, Value::Int(port), text("id")]);
            Value::Array(vec![Value::Int(first), Value::Int(last), master])
        };
        let response = Value::Array(vec![
            range(0, 5_460, text(""), 1),
            range(5_461, 10_922, Value::Nil, 2),
            range(10_923, 12_000, text("?"), 3),
            range(12_001, 16_383, text("b"), 4),
        ]);
        let slots = SlotMap::parse(&response, "responder").unwrap();
        let named: Vec<(&str, u16)> = slots.nodes().map(|node| (node.host.as_str(), node.port)).collect();
        assert_eq!(named, [("b", 4), ("responder", 1), ("responder", 2)]);
        assert_eq!(slots.node_of("foo").map(|node| node.port), Some(4));
        assert_eq!(SlotMap(Vec::new()).node_of("foo"), None);
        assert!(SlotMap::parse(&Value::Nil, "responder").is_err());
    }
}
