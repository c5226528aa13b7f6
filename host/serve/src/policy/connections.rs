//! Decides which connections stay open when there are too many.
//!
//! Invariants:
//! 1. There are at most [`MAX_CONNECTIONS`], and at most [`MAX_OF_PEER`] of one client: an IPv4 address, or the /64 of
//!    an IPv6 address, because one machine may choose any address in it.
//! 2. A new connection replaces one that waits for its client: the one that has waited longest, of the same client if
//!    that has too many. So clients that send nothing, or one byte at a time, do not lock out other clients.
//! 3. A connection with a request in progress is never closed for another one.
//!
//! Not here: sockets, and timeouts of connections.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Most concurrent connections.
pub const MAX_CONNECTIONS: usize = 256;
/// Most concurrent connections of one client.
pub const MAX_OF_PEER: usize = 64;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// The decision on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is accepted.
    Open(ConnectionId),
    /// It is accepted, and another one is closed.
    InPlaceOf(ConnectionId, ConnectionId),
    /// It is closed: all others have requests in progress.
    Refused,
}

#[derive(Debug)]
struct Entry {
    peer: IpAddr,
    /// Requests in progress.
    n_busy: usize,
    /// Start of the wait for its client, as an increasing number.
    waits_since: u64,
}

/// The open connections.
#[derive(Debug, Default)]
pub struct Connections {
    entries: BTreeMap<ConnectionId, Entry>,
    next: u64,
}

impl Connections {
    /// Decides on a new connection.
    pub fn admit(&mut self, peer: IpAddr) -> Admission {
        let peer = client_of(peer);
        let n_of_peer = self.entries.values().filter(|entry| entry.peer == peer).count();
        let victim = if n_of_peer >= MAX_OF_PEER {
            self.waits_longest(Some(peer))
        } else if self.entries.len() >= MAX_CONNECTIONS {
            self.waits_longest(None)
        } else {
            return Admission::Open(self.insert(peer));
        };
        match victim {
            Some(victim) => {
                self.entries.remove(&victim);
                Admission::InPlaceOf(self.insert(peer), victim)
            }
            None => Admission::Refused,
        }
    }

    fn insert(&mut self, peer: IpAddr) -> ConnectionId {
        self.next += 1;
        let id = ConnectionId(self.next);
        self.entries.insert(id, Entry { peer, n_busy: 0, waits_since: self.next });
        id
    }

    fn waits_longest(&self, peer: Option<IpAddr>) -> Option<ConnectionId> {
        let candidates = self.entries.iter().filter(|(_, entry)| entry.n_busy == 0);
        let candidates = candidates.filter(|(_, entry)| peer.is_none_or(|peer| entry.peer == peer));
        candidates.min_by_key(|(_, entry)| entry.waits_since).map(|(id, _)| *id)
    }

    /// Records that the headers of a request have arrived.
    pub fn begin(&mut self, id: ConnectionId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.n_busy += 1;
        }
    }

    /// Records that a response is complete.
    pub fn end(&mut self, id: ConnectionId) {
        self.next += 1;
        let next = self.next;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.n_busy = entry.n_busy.saturating_sub(1);
            entry.waits_since = next;
        }
    }

    /// Records that it is closed.
    pub fn remove(&mut self, id: ConnectionId) {
        self.entries.remove(&id);
    }

    /// Number of open connections.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// The first of the addresses that one client may have.
fn client_of(peer: IpAddr) -> IpAddr {
    const NETWORK: u128 = !0 << 64;
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: usize) -> IpAddr {
        IpAddr::from([10, 0, u8::try_from(n / 250).unwrap(), u8::try_from(n % 250).unwrap()])
    }

    fn open(connections: &mut Connections, peer: IpAddr) -> ConnectionId {
        match connections.admit(peer) {
            Admission::Open(id) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_addresses_of_one_network_are_one_client() {
        let of = |network: u16, host: u16| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host]);
        let mut connections = Connections::default();
        let probe = open(&mut connections, of(1, 1));
        let first = open(&mut connections, of(2, 1));
        for host in 2..=u16::try_from(MAX_OF_PEER).unwrap() {
            open(&mut connections, of(2, host));
        }
        let Admission::InPlaceOf(_, closed) = connections.admit(of(2, 999)) else { panic!("no limit") };
        assert_eq!(closed, first);
        assert!(connections.entries.contains_key(&probe));
        // An IPv4 address mapped to IPv6 counts as IPv4.
        let mapped = |last: u8| IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, u16::from(last)]);
        assert_ne!(client_of(mapped(1)), client_of(mapped(2)));
    }

    #[test]
    fn one_address_takes_its_own_places_only() {
        let mut connections = Connections::default();
        let first = open(&mut connections, peer(1));
        let others: Vec<_> = (1..MAX_OF_PEER).map(|_| open(&mut connections, peer(1))).collect();
        let neighbour = open(&mut connections, peer(2));
        let Admission::InPlaceOf(_, closed) = connections.admit(peer(1)) else { panic!("no limit") };
        assert_eq!(closed, first);
        // The same address in another form.
        let mapped = IpAddr::V6(std::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
        let Admission::InPlaceOf(_, closed) = connections.admit(mapped) else { panic!("no limit") };
        assert_eq!(closed, others[0]);
        assert_eq!(connections.len(), MAX_OF_PEER + 1);
        connections.remove(neighbour);
        assert_eq!(connections.len(), MAX_OF_PEER);
    }

    #[test]
    fn whoever_waits_longest_makes_room_and_answers_are_finished() {
        let mut connections = Connections::default();
        let all: Vec<_> = (0..MAX_CONNECTIONS).map(|n| open(&mut connections, peer(n))).collect();
        connections.begin(all[0]);
        connections.begin(all[1]);
        // It waits again, for the shortest time.
        connections.end(all[1]);
        let Admission::InPlaceOf(new, closed) = connections.admit(peer(999)) else { panic!("no limit") };
        assert_eq!(closed, all[2]);
        for id in &all[1..] {
            connections.begin(*id);
        }
        connections.begin(new);
        assert_eq!(connections.admit(peer(998)), Admission::Refused);
        connections.end(all[5]);
        assert!(matches!(connections.admit(peer(998)), Admission::InPlaceOf(_, closed) if closed == all[5]));
        assert_eq!(connections.len(), MAX_CONNECTIONS);
    }

    #[test]
    fn a_connection_with_several_requests_is_busy_until_the_last_is_answered() {
        let mut connections = Connections::default();
        let one = open(&mut connections, peer(1));
        connections.begin(one);
        connections.begin(one);
        connections.end(one);
        assert_eq!(connections.waits_longest(None), None);
        connections.end(one);
        assert_eq!(connections.waits_longest(None), Some(one));
        connections.remove(one);
        assert!(connections.is_empty());
    }
}
