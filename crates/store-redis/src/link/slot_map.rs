//! Which node of a Cluster serves which slot.

use std::sync::Arc;

use tidegate_store::StoreErrorKind;

use super::failure::RedisFailure;
use super::reply::RedisReply;
use crate::url::RedisAddress;

/// How many slots a Cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// Slots that follow one another, and the primary that serves them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: RedisAddress,
}

/// Reads the reply of `server` to `CLUSTER SLOTS`.
pub(super) fn ranges(
    reply: &RedisReply,
    server: &RedisAddress,
) -> Result<Vec<SlotRange>, RedisFailure> {
    let unexpected = || {
        let message = "unexpected reply to CLUSTER SLOTS";
        RedisFailure::not_run(StoreErrorKind::Protocol, message).at(server)
    };
    let mut found = Vec::new();
    for entry in reply.items() {
        let [first, last, primary, ..] = entry.items() else { return Err(unexpected()) };
        let (first, last) = slot(first).zip(slot(last)).ok_or_else(unexpected)?;
        // The reply is of no use if the node does not know the address yet.
        if let Some(primary) = node(primary, server) {
            found.push(SlotRange { first, last, primary });
        }
    }
    match found.is_empty() {
        true => {
            let message = "it does not serve any slots or know a node that does";
            Err(RedisFailure::not_run(StoreErrorKind::Overloaded, message).at(server))
        }
        false => Ok(found),
    }
}

fn slot(reply: &RedisReply) -> Option<u16> {
    match reply {
        RedisReply::Integer(number) => u16::try_from(*number).ok().filter(|slot| *slot < SLOTS),
        _ => None,
    }
}

fn node(reply: &RedisReply, server: &RedisAddress) -> Option<RedisAddress> {
    let [host, RedisReply::Integer(port), ..] = reply.items() else { return None };
    let host = if matches!(host, RedisReply::Nil) { "" } else { host.text()? };
    endpoint(host, u16::try_from(*port).ok()?, server)
}

/// An address as `server` reports it. Without a host, it is on that server; `?` means unknown.
pub(super) fn endpoint(host: &str, port: u16, server: &RedisAddress) -> Option<RedisAddress> {
    let host = match (host, server) {
        ("", RedisAddress::Tcp { host, .. }) => host,
        ("" | "?", _) => return None,
        _ => host,
    };
    (port > 0).then(|| RedisAddress::Tcp { host: host.to_owned(), port })
}

/// Which node serves which slot.
#[derive(Debug)]
pub(super) struct SlotMap<N> {
    /// For each slot, an index into `nodes`.
    owners: Box<[u16]>,
    nodes: Vec<Arc<N>>,
}

/// The owner of a slot that no node serves.
const NOBODY: u16 = u16::MAX;

impl<N> Clone for SlotMap<N> {
    fn clone(&self) -> Self {
        Self { owners: self.owners.clone(), nodes: self.nodes.clone() }
    }
}

impl<N> SlotMap<N> {
    pub(super) fn new(ranges: impl IntoIterator<Item = (u16, u16, Arc<N>)>) -> Self {
        let owners = vec![NOBODY; usize::from(SLOTS)].into_boxed_slice();
        let mut map = Self { owners, nodes: Vec::new() };
        for (first, last, node) in ranges {
            let owner = map.index_of(node);
            for slot in first..=last {
                map.owners[usize::from(slot)] = owner;
            }
        }
        map
    }

    pub(super) fn get(&self, slot: u16) -> Option<&Arc<N>> {
        let owner = *self.owners.get(usize::from(slot))?;
        self.nodes.get(usize::from(owner))
    }

    /// Gives a slot to another node.
    pub(super) fn set(&mut self, slot: u16, node: Arc<N>) {
        let owner = self.index_of(node);
        if let Some(entry) = self.owners.get_mut(usize::from(slot)) {
            *entry = owner;
        }
    }

    /// The index of a node. The number of nodes is bounded far below `NOBODY`.
    fn index_of(&mut self, node: Arc<N>) -> u16 {
        let at = self.nodes.iter().position(|known| Arc::ptr_eq(known, &node));
        let at = at.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        });
        u16::try_from(at).unwrap_or(NOBODY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> RedisAddress {
        RedisAddress::Tcp { host: "seed".to_owned(), port: 1 }
    }

    fn read(wire: &str) -> Result<Vec<SlotRange>, RedisFailure> {
        let value = redis::parse_redis_value(wire.replace(' ', "\r\n").as_bytes()).unwrap();
        ranges(&RedisReply::of(value).unwrap(), &asked())
    }

    #[test]
    fn slots_are_read() {
        let node = |host: &str| format!("*3 {host} :7000 $2 id ");
        for (host, expected) in [
            ("$9 127.0.0.1", "127.0.0.1"),
            ("$3 ::1", "::1"),
            ("$0 ", "seed"),
            ("$-1", "seed"),
            ("_", "seed"),
        ] {
            let wire = format!("*1 *4 :0 :16383 {}{}", node(host), node("$7 replica"));
            let primary = RedisAddress::Tcp { host: expected.to_owned(), port: 7000 };
            assert_eq!(
                read(&wire).unwrap(),
                [SlotRange { first: 0, last: 16383, primary }],
                "{host}"
            );
        }
    }

    #[test]
    fn what_is_no_map_is_not_used() {
        for wire in [
            "*0 ",
            ":1 ",
            "*1 *0 ",
            "*1 *3 :0 :16384 *2 $1 h :1 ",
            "*1 *3 :-1 :1 *2 $1 h :1 ",
            "*1 *3 $1 0 :1 *2 $1 h :1 ",
            "*1 *3 :0 :1 *2 $1 ? :1 ",
            "*1 *3 :0 :1 *2 $1 h :0 ",
            "*1 *3 :0 :1 *2 $1 h :65536 ",
            "*1 *3 :0 :1 *0 ",
        ] {
            assert!(read(wire).is_err(), "{wire}");
        }
    }

    #[test]
    fn slots_have_owners_and_change_them() {
        let (a, b) = (Arc::new('a'), Arc::new('b'));
        let mut map = SlotMap::new([(0, 9, Arc::clone(&a)), (20, 16383, Arc::clone(&b))]);
        let owner = |map: &SlotMap<char>, slot| map.get(slot).map(|node| **node);
        assert_eq!(owner(&map, 9), Some('a'));
        assert_eq!(owner(&map, 10), None);
        assert_eq!(owner(&map, 16383), Some('b'));
        assert_eq!(owner(&map, 16384), None);
        map.set(9, Arc::clone(&b));
        map.set(10, Arc::new('c'));
        map.set(16384, a);
        assert_eq!(owner(&map, 8), Some('a'));
        assert_eq!(owner(&map, 9), Some('b'));
        assert_eq!(owner(&map, 10), Some('c'));
    }
}
