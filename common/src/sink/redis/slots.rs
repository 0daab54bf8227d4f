//! Which node of a cluster has which key.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use redis::{ConnectionAddr, ErrorKind, RedisError, RedisResult, Value};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// Where a node listens.
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
            // The settings allow no other.
            Self { host: String::new(), port: 0 }
        }
    }

    /// As an address to connect to, with TLS if `other` has it.
    pub(super) fn like(&self, other: &ConnectionAddr) -> ConnectionAddr {
        let mut address = other.clone();
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
    /// Reads the answer to `CLUSTER SLOTS`: first slot, last slot, master, replicas. A master that does not know its own host is on
    /// `asked`, that of the node that answered.
    pub(super) fn read(answer: &Value, asked: &str) -> RedisResult<Self> {
        let Value::Array(ranges) = answer else {
            return Err(RedisError::from((ErrorKind::UnexpectedReturnType, "the slots cannot be read")));
        };
        let range = |range: &Value| {
            let Value::Array(parts) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
                return None;
            };
            let [host, Value::Int(port), ..] = master.as_slice() else { return None };
            let host = if let Value::BulkString(host) = host { &**host } else { b"" };
            let host = match str::from_utf8(host).ok()? {
                // It knows of a master, but not where.
                "?" => return None,
                "" => asked,
                host => host,
            };
            let address = NodeAddress { host: host.to_owned(), port: u16::try_from(*port).ok()? };
            Some((u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?, address))
        };
        Ok(Self(ranges.iter().filter_map(range).collect()))
    }

    /// The node that has a key, if one has it.
    pub(super) fn home(&self, key: &str) -> Option<&NodeAddress> {
        let slot = slot(key);
        self.0.iter().find(|(slots, _)| slots.contains(&slot)).map(|(_, node)| node)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeAddress> {
        self.0.iter().map(|(_, node)| node).collect::<BTreeSet<_>>().into_iter()
    }
}

/// A key's slot: that of what stands between its first `{` and the next `}`, if anything does; else that of the whole key.
fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// The checksum that clusters go by: polynomial 0x1021, beginning at 0, nothing reflected.
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
    fn a_key_has_the_slot_that_the_cluster_gives_it() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("{foo}bar"), 12_182);
        assert_eq!(slot("a{foo}{bar}"), 12_182);
        for (key, like) in [("{}foo", "{}foo"), ("{foo", "{foo"), ("}{foo}", "foo"), ("{{x}}", "{x")] {
            assert_eq!(slot(key), crc16(like.as_bytes()) % SLOTS, "{key}");
        }
    }

    #[test]
    fn a_master_without_a_host_is_where_the_answer_came_from() {
        let text = |text: &str| Value::BulkString(text.into());
        let range = |first, last, host, port| {
            let master = Value::Array(vec![host, Value::Int(port), text("id")]);
            Value::Array(vec![Value::Int(first), Value::Int(last), master])
        };
        let answer = Value::Array(vec![
            range(0, 5_460, text(""), 1),
            range(5_461, 10_922, Value::Nil, 2),
            range(10_923, 12_000, text("?"), 3),
            range(12_001, 16_383, text("b"), 4),
        ]);
        let slots = SlotMap::read(&answer, "asked").unwrap();
        let named: Vec<(&str, u16)> = slots.nodes().map(|node| (node.host.as_str(), node.port)).collect();
        assert_eq!(named, [("asked", 1), ("asked", 2), ("b", 4)]);
        assert_eq!(slots.home("foo").map(|node| node.port), Some(4));
        assert_eq!(SlotMap(Vec::new()).home("foo"), None);
        assert!(SlotMap::read(&Value::Nil, "asked").is_err());
    }
}
