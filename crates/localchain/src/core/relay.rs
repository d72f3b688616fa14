//! Ways around missing connections: where validators' nodes cannot all connect to each other, others pass messages on.
//!
//! A node that lacks a connection to some validator tells its neighbours how far it is from each, and so do, in answer,
//! those whom it told; the nearest neighbour is the way (a distance-vector protocol with poisoned reverse). A message to a
//! validator takes that way, with a bound on its steps. Blocks and chunks are handed on by whoever gets them first, to those
//! neighbours that say to be farther from their origin. In a network whose validators are all connected nobody says
//! anything, and nothing is passed on.
//!
//! Only nodes that proved to be a validator's, or that stand in the configuration, are told and heard.

use std::{collections::BTreeMap, time::Duration};

use tpsctl_near::PublicKey;

/// No way is longer; a validator farther away is out of reach.
pub(crate) const STEPS_MAX: u8 = 12;
/// The distance of a validator that cannot be reached.
const UNREACHED: u8 = u8::MAX;
/// Connections that come and go are waited for this long before the neighbours are told: a network that starts is not one
/// that is capped.
const SETTLE: Duration = Duration::from_secs(1);
/// At most so often the neighbours are told of changes.
const TELL_MIN: Duration = Duration::from_millis(250);
/// And so long after that of what did not change, in case that it was lost; each time after twice as long.
const TELL_AGAIN: Duration = Duration::from_secs(2);
/// How often that doubles: a validator that is down is lacking everywhere, and costs little so.
const DOUBLINGS_MAX: u32 = 5;

#[derive(Debug)]
struct Neighbour {
    connection: u64,
    /// Its index, where it proved to be a validator's.
    validator: Option<usize>,
    /// How far it says to be from each validator; none where it said nothing.
    distances: Option<Vec<u8>>,
}

impl Neighbour {
    /// Whether it says that it lacks a connection.
    fn is_lacking(&self) -> bool {
        self.distances.as_ref().is_some_and(|all| all.iter().any(|distance| *distance > 1))
    }

    fn distance(&self, validator: usize) -> u8 {
        if self.validator == Some(validator) {
            return 0;
        }
        self.distances.as_ref().and_then(|all| all.get(validator).copied()).unwrap_or(UNREACHED)
    }
}

/// What a node knows of the ways to validators.
#[derive(Debug)]
pub(crate) struct Relay {
    me: Option<usize>,
    validators: usize,
    neighbours: BTreeMap<PublicKey, Neighbour>,
    /// The nearest neighbour to each validator, and the distance by it.
    ways: Vec<Option<(u8, PublicKey)>>,
    changed_at: Duration,
    /// When the neighbours were last told, and whether anything changed since.
    told_at: Option<Duration>,
    is_news: bool,
    /// How often they were told the same.
    repeats: u32,
}

/// Distances for a neighbour.
pub(crate) type Told = (PublicKey, Vec<u8>);

impl Relay {
    pub(crate) fn new(validators: usize, me: Option<usize>) -> Self {
        Self {
            me,
            validators,
            neighbours: BTreeMap::new(),
            ways: vec![None; validators],
            changed_at: Duration::ZERO,
            told_at: None,
            is_news: false,
            repeats: 0,
        }
    }

    /// A connection to a node that may be told and heard.
    pub(crate) fn up(&mut self, peer: PublicKey, connection: u64, validator: Option<usize>, now: Duration) {
        self.neighbours.insert(peer, Neighbour { connection, validator, distances: None });
        self.changed_at = now;
        self.find_ways();
    }

    /// The connection, or one before it, ended.
    pub(crate) fn down(&mut self, peer: &PublicKey, connection: u64, now: Duration) {
        if self.neighbours.get(peer).is_some_and(|own| own.connection <= connection) {
            self.neighbours.remove(peer);
            self.changed_at = now;
            self.find_ways();
        }
    }

    /// A neighbour says how far it is from each validator.
    pub(crate) fn heard(&mut self, peer: &PublicKey, mut distances: Vec<u8>) {
        if distances.len() != self.validators {
            return;
        }
        // Only a proof makes a node a validator's.
        for distance in &mut distances {
            *distance = (*distance).max(1);
        }
        if let Some(own) = self.neighbours.get_mut(peer) {
            own.distances = Some(distances);
            self.find_ways();
        }
    }

    /// Whether there is a connection to the validator's node.
    fn is_connected(&self, validator: usize) -> bool {
        self.ways[validator].is_some_and(|(distance, _)| distance == 1)
    }

    /// Whether some validator has no connection to this node.
    fn is_lacking(&self) -> bool {
        (0..self.validators).any(|validator| self.me != Some(validator) && !self.is_connected(validator))
    }

    fn find_ways(&mut self) {
        let way = |validator: usize| {
            let nearest = self.neighbours.iter().map(|(peer, own)| (own.distance(validator), *peer)).min();
            nearest.filter(|(distance, _)| *distance < STEPS_MAX).map(|(distance, peer)| (distance + 1, peer))
        };
        let ways: Vec<_> = (0..self.validators).map(way).collect();
        if ways != self.ways {
            self.is_news = true;
            self.ways = ways;
        }
    }

    /// Whom to give a message for the validator; none where it cannot be reached, or is this node.
    pub(crate) fn way(&self, validator: usize) -> Option<PublicKey> {
        let (_, peer) = self.ways.get(validator).copied().flatten()?;
        (self.me != Some(validator)).then_some(peer)
    }

    /// Whether messages to the validator need nobody to pass them on.
    pub(crate) fn is_direct(&self, validator: usize) -> bool {
        // Without any way it is the shell that knows best.
        self.ways.get(validator).is_none_or(|way| way.is_none_or(|(distance, _)| distance == 1))
    }

    /// Whether the neighbour may have messages passed on.
    pub(crate) fn is_neighbour(&self, peer: &PublicKey) -> bool {
        self.neighbours.contains_key(peer)
    }

    fn own_distance(&self, validator: usize) -> u8 {
        if self.me == Some(validator) {
            return 0;
        }
        self.ways[validator].map_or(UNREACHED, |(distance, _)| distance)
    }

    /// The neighbours that get what `origin` made from this node, if not from others: those that are farther from it.
    pub(crate) fn onward(&self, origin: usize) -> impl Iterator<Item = PublicKey> + '_ {
        let own = self.own_distance(origin);
        let farther =
            move |neighbour: &Neighbour| neighbour.is_lacking() && neighbour.distance(origin) > own.max(1);
        self.neighbours.iter().filter(move |(_, own)| farther(own)).map(|(peer, _)| *peer)
    }

    /// Who is to be told what now.
    pub(crate) fn poll(&mut self, now: Duration) -> Vec<Told> {
        if self.next_deadline().is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.told_at = Some(now);
        self.repeats = if self.is_news { 0 } else { self.repeats.saturating_add(1).min(DOUBLINGS_MAX) };
        self.is_news = false;
        let is_lacking = self.is_lacking();
        let listeners = self.neighbours.iter().filter(|(_, own)| is_lacking || own.is_lacking());
        listeners.map(|(peer, _)| (*peer, self.distances_for(peer))).collect()
    }

    /// When somebody is to be told something; none in a network whose validators are all connected.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        if self.neighbours.is_empty()
            || !(self.is_lacking() || self.neighbours.values().any(Neighbour::is_lacking))
        {
            return None;
        }
        let pause = if self.is_news { TELL_MIN } else { TELL_AGAIN * 2_u32.pow(self.repeats) };
        let next = self.told_at.map_or(Duration::ZERO, |at| at + pause);
        Some(next.max(self.changed_at + SETTLE))
    }

    /// A way that leads by the neighbour itself is none for it.
    fn distances_for(&self, peer: &PublicKey) -> Vec<u8> {
        let distance = |validator: usize| match self.ways[validator] {
            _ if self.me == Some(validator) => 0,
            Some((distance, by)) if by != *peer || distance == 1 => distance,
            Some(_) | None => UNREACHED,
        };
        (0..self.validators).map(distance).collect()
    }
}

#[cfg(test)]
impl Relay {
    pub(crate) fn kept(&self) -> usize {
        self.neighbours.len()
    }
}

#[cfg(test)]
mod tests {
    use tpsctl_near::KeyPair;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn peer(index: usize) -> PublicKey {
        KeyPair::from_seed([index as u8 + 1; 32]).public()
    }

    /// Validators with these connections, after `rounds` of telling.
    fn network(
        validators: usize,
        is_edge: impl Fn(usize, usize) -> bool,
        rounds: u32,
    ) -> (Vec<Relay>, usize) {
        let mut relays: Vec<_> = (0..validators).map(|me| Relay::new(validators, Some(me))).collect();
        for (me, relay) in relays.iter_mut().enumerate() {
            for other in
                (0..validators).filter(|other| *other != me && is_edge(me.min(*other), me.max(*other)))
            {
                relay.up(peer(other), 1, Some(other), Duration::ZERO);
            }
        }
        let mut messages = 0;
        for round in 1..=rounds {
            for me in 0..validators {
                for (to, distances) in relays[me].poll(SECOND * round) {
                    messages += 1;
                    let to = (0..validators).find(|index| peer(*index) == to).expect("a neighbour");
                    relays[to].heard(&peer(me), distances);
                }
            }
        }
        (relays, messages)
    }

    fn steps(relays: &[Relay], from: usize, to: usize) -> Option<usize> {
        let (mut at, mut steps) = (from, 0);
        while at != to {
            let next = relays[at].way(to)?;
            at = (0..relays.len()).find(|index| peer(*index) == next).expect("a neighbour");
            steps += 1;
            assert!(steps <= relays.len(), "round and round");
        }
        Some(steps)
    }

    #[test]
    fn where_all_are_connected_nobody_says_anything() {
        let (relays, messages) = network(12, |_, _| true, 20);
        assert_eq!(messages, 0);
        assert!(
            relays.iter().all(|relay| relay.next_deadline().is_none() && relay.onward(3).next().is_none())
        );
        assert!((1..12).all(|other| relays[0].is_direct(other)));
    }

    #[test]
    fn shortest_ways_are_found_on_a_ring() {
        let (relays, _) = network(10, |a, b| b - a == 1 || (a, b) == (0, 9), 40);
        for from in 0..10 {
            for to in (0..10_usize).filter(|to| *to != from) {
                let around = from.abs_diff(to);
                assert_eq!(steps(&relays, from, to), Some(around.min(10 - around)), "{from} to {to}");
            }
        }
        // What node 0 makes goes both ways round and meets once, at node 5.
        let onward = |at: usize| relays[at].onward(0).collect::<Vec<_>>();
        assert_eq!((onward(1), onward(9)), (vec![peer(2)], vec![peer(8)]));
        assert_eq!((onward(4), onward(6), onward(5)), (vec![peer(5)], vec![peer(5)], vec![]));
    }

    #[test]
    fn one_missing_connection_is_bridged() {
        let (relays, _) = network(5, |a, b| (a, b) != (0, 1), 10);
        assert_eq!(steps(&relays, 0, 1), Some(2));
        assert_eq!(steps(&relays, 0, 2), Some(1));
        assert_eq!(relays[3].onward(0).collect::<Vec<_>>(), [peer(1)]);
        assert!(relays[3].onward(2).next().is_none());
    }

    #[test]
    fn a_way_that_breaks_is_replaced_or_given_up() {
        let (mut relays, _) = network(4, |a, b| b - a == 1 || (a, b) == (0, 3), 20);
        assert_eq!(steps(&relays, 0, 2), Some(2));
        let by = relays[0].way(2).expect("a way");
        relays[0].down(&by, 1, 30 * SECOND);
        assert_ne!(relays[0].way(2), Some(by));
        for other in 0..4 {
            relays[0].down(&peer(other), 1, 30 * SECOND);
        }
        assert_eq!(relays[0].way(2), None);
        assert!(relays[0].is_direct(2), "the shell drops what it cannot send");
    }

    #[test]
    fn garbage_is_not_heard() {
        let (mut relays, _) = network(3, |a, b| b - a == 1, 10);
        relays[0].heard(&peer(1), vec![0; 7]);
        relays[0].heard(&KeyPair::from_seed([99; 32]).public(), vec![0; 3]);
        assert_eq!(steps(&relays, 0, 2), Some(2));
        relays[0].heard(&peer(1), vec![UNREACHED; 3]);
        assert_eq!(relays[0].way(2), None);
    }
}
