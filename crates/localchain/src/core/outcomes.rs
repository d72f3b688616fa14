//! What became of transactions: of all of them on a node that keeps outcomes, else of those that somebody watches.
//!
//! Kept in memory by signer and nonce, which is how receipts name their transaction; of two keys of one account that
//! sign with the same nonce only the last transaction is known. The oldest go first.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tpsctl_near::{AccountId, CryptoHash, SignedTransaction};

/// Signer and nonce of a transaction.
pub(crate) type TxName = (AccountId, u64);

/// Transactions watched at once.
const WATCHED_MAX: usize = 10_000;
/// A watch ends after this.
const WATCH_TIME: Duration = Duration::from_mins(1);
/// Places remembered of each step: forks are short.
const PLACES_MAX: usize = 4;

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its height.
    pub height: u64,
    /// Its hash.
    pub hash: CryptoHash,
}

/// What executing a transaction's receipt came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execution {
    /// Whether the receiver exists.
    pub is_success: bool,
    /// Gas burnt.
    pub gas_burnt: u64,
    /// Yocto burnt.
    pub tokens_burnt: u128,
    /// Yocto that go back to the signer by another receipt.
    pub refund: u128,
}

/// A step in the life of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A chunk has it and it made its receipt.
    Converted {
        hash: CryptoHash,
        signed: Arc<SignedTransaction>,
    },
    /// A chunk has it in vain.
    Failed {
        hash: CryptoHash,
        signed: Arc<SignedTransaction>,
    },
    Executed(Execution),
    Refunded,
}

/// Transactions whose steps are wanted.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    is_all: bool,
    names: BTreeSet<TxName>,
}

impl Watch {
    pub(crate) fn covers(&self, signer: &AccountId, nonce: u64) -> bool {
        self.is_all || (!self.names.is_empty() && self.names.contains(&(signer.clone(), nonce)))
    }
}

/// What the chain has of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The transaction.
    pub signed: Arc<SignedTransaction>,
    /// Where a chunk has it.
    pub included: Place,
    /// Whether it made its receipt there.
    pub is_converted: bool,
    /// Where the receipt was executed.
    pub executed: Option<(Place, Execution)>,
    /// Where the refund was.
    pub refunded: Option<Place>,
}

#[derive(Debug, Default)]
struct Record {
    signed: Option<(CryptoHash, Arc<SignedTransaction>)>,
    included: VecDeque<(Place, bool)>,
    executed: VecDeque<(Place, Execution)>,
    refunded: VecDeque<Place>,
}

fn push<T>(places: &mut VecDeque<T>, place: T) {
    if places.len() >= PLACES_MAX {
        places.pop_front();
    }
    places.push_back(place);
}

#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    records: BTreeMap<TxName, Record>,
    names: BTreeMap<CryptoHash, TxName>,
    order: VecDeque<TxName>,
    watched: BTreeMap<TxName, Duration>,
    watch: Arc<Watch>,
    is_all: bool,
    kept_max: usize,
}

impl Outcomes {
    /// Keeps the outcomes of all transactions, or of those that are watched, but of the last `kept_max` only.
    pub(crate) fn new(is_all: bool, kept_max: usize) -> Self {
        let watch = Arc::new(Watch { is_all, names: BTreeSet::new() });
        Self { watch, is_all, kept_max, ..Self::default() }
    }

    /// What is wanted now.
    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Somebody wants to know what becomes of a transaction from now on.
    pub(crate) fn add_watch(&mut self, name: TxName, now: Duration) {
        if self.is_all {
            return;
        }
        self.watched.retain(|_, since| now < *since + WATCH_TIME);
        if self.watched.len() < WATCHED_MAX {
            self.watched.entry(name).or_insert(now);
        }
        self.watch = Arc::new(Watch { is_all: false, names: self.watched.keys().cloned().collect() });
    }

    pub(crate) fn note(&mut self, place: Place, steps: Vec<(TxName, Step)>) {
        for (name, step) in steps {
            match step {
                Step::Converted { hash, signed } => self.include(name, (hash, signed), (place, true)),
                Step::Failed { hash, signed } => self.include(name, (hash, signed), (place, false)),
                Step::Executed(execution) => push(&mut self.record(&name).executed, (place, execution)),
                Step::Refunded => push(&mut self.record(&name).refunded, place),
            }
        }
    }

    fn include(&mut self, name: TxName, signed: (CryptoHash, Arc<SignedTransaction>), place: (Place, bool)) {
        let record = self.record(&name);
        let other = record.signed.as_ref().map(|(hash, _)| *hash).filter(|hash| *hash != signed.0);
        if other.is_some() {
            *record = Record::default();
        }
        let hash = signed.0;
        record.signed = Some(signed);
        push(&mut record.included, place);
        if let Some(other) = other {
            self.names.remove(&other);
        }
        self.names.insert(hash, name);
    }

    fn record(&mut self, name: &TxName) -> &mut Record {
        if !self.records.contains_key(name) {
            self.order.push_back(name.clone());
            if self.order.len() > self.kept_max
                && let Some(oldest) = self.order.pop_front()
                && let Some((hash, _)) = self.records.remove(&oldest).and_then(|own| own.signed)
            {
                self.names.remove(&hash);
            }
        }
        self.records.entry(name.clone()).or_default()
    }

    /// What is known of a transaction in blocks of which `is_ours` says that they are the chain's.
    pub(crate) fn find(&self, hash: &CryptoHash, is_ours: impl Fn(&Place) -> bool) -> Option<Found> {
        let record = self.records.get(self.names.get(hash)?)?;
        let (_, signed) = record.signed.as_ref().filter(|(own, _)| own == hash)?;
        let (included, is_converted) = *record.included.iter().rev().find(|(place, _)| is_ours(place))?;
        let executed = record.executed.iter().rev().find(|(place, _)| is_ours(place)).copied();
        let refunded = record.refunded.iter().rev().find(|place| is_ours(place)).copied();
        Some(Found { signed: Arc::clone(signed), included, is_converted, executed, refunded })
    }
}

#[cfg(test)]
impl Outcomes {
    /// What is kept, for the test of bounds.
    pub(crate) fn kept(&self) -> [(&'static str, usize); 3] {
        let names = self.names.len().max(self.order.len());
        [("outcomes", self.records.len()), ("outcomes' names", names), ("watches", self.watched.len())]
    }
}

#[cfg(test)]
mod tests {
    use tpsctl_near::{Action, KeyPair, Transaction};

    use super::*;

    const KEPT_MAX: usize = 1_000;

    fn converted(nonce: u64) -> (TxName, Step) {
        converted_with(nonce, 1)
    }

    fn converted_with(nonce: u64, deposit: u128) -> (TxName, Step) {
        let key = KeyPair::from_seed([4; 32]);
        let signed = Transaction {
            signer_id: "signer".parse().expect("id"),
            public_key: key.public(),
            nonce,
            receiver_id: "receiver".parse().expect("id"),
            block_hash: CryptoHash::default(),
            actions: vec![Action::Transfer { deposit }],
        }
        .sign(&key);
        let name = (signed.transaction.signer_id.clone(), nonce);
        (name, Step::Converted { hash: signed.hash(), signed: Arc::new(signed) })
    }

    fn hash_of(step: &(TxName, Step)) -> CryptoHash {
        let Step::Converted { hash, .. } = step.1 else { panic!("a conversion") };
        hash
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_go() {
        let mut outcomes = Outcomes::new(true, KEPT_MAX);
        let steps: Vec<_> = (0..KEPT_MAX as u64 + 10).map(converted).collect();
        let hashes: Vec<CryptoHash> = steps.iter().map(hash_of).collect();
        let place = Place { height: 7, hash: CryptoHash([7; 32]) };
        outcomes.note(place, steps);
        assert_eq!(outcomes.records.len(), KEPT_MAX);
        assert_eq!(outcomes.names.len(), KEPT_MAX);
        assert!(outcomes.find(&hashes[9], |_| true).is_none());
        assert!(outcomes.find(&hashes[10], |_| true).is_some());
        // Others with the same signer and nonce take the place of those before, with all that belongs to it.
        let nonce = KEPT_MAX as u64;
        let others: Vec<_> = (2..50).map(|deposit| converted_with(nonce, deposit)).collect();
        let last = hash_of(others.last().expect("some"));
        outcomes.note(place, others);
        assert_eq!((outcomes.records.len(), outcomes.names.len()), (KEPT_MAX, KEPT_MAX));
        assert!(outcomes.find(&hashes[nonce as usize], |_| true).is_none());
        assert!(outcomes.find(&last, |_| true).is_some());
    }

    #[test]
    fn only_blocks_of_the_chain_count() {
        let mut outcomes = Outcomes::new(true, KEPT_MAX);
        let (step, lost) = (converted(1), Place { height: 7, hash: CryptoHash([7; 32]) });
        let (name, hash) = (step.0.clone(), hash_of(&step));
        outcomes.note(lost, vec![step.clone()]);
        let execution = Execution { is_success: true, gas_burnt: 1, tokens_burnt: 2, refund: 0 };
        outcomes.note(lost, vec![(name.clone(), Step::Executed(execution))]);
        let ours = Place { height: 8, hash: CryptoHash([8; 32]) };
        outcomes.note(ours, vec![step]);
        let found = outcomes.find(&hash, |place| *place == ours).expect("included again");
        assert_eq!((found.included, found.executed), (ours, None));
        assert!(outcomes.find(&hash, |_| false).is_none());
        for height in 9..20 {
            outcomes.note(Place { height, ..ours }, vec![(name.clone(), Step::Refunded)]);
        }
        assert_eq!(outcomes.records[&name].refunded.len(), PLACES_MAX);
    }

    #[test]
    fn watches_are_bounded_and_end() {
        let mut outcomes = Outcomes::new(false, KEPT_MAX);
        let signer: AccountId = "signer".parse().expect("id");
        assert!(!outcomes.watch().covers(&signer, 1));
        for nonce in 0..WATCHED_MAX as u64 + 5 {
            outcomes.watched.insert((signer.clone(), nonce), Duration::ZERO);
        }
        outcomes.add_watch((signer.clone(), u64::MAX), Duration::from_secs(1));
        assert!(!outcomes.watch().covers(&signer, u64::MAX), "there are enough");
        outcomes.add_watch((signer.clone(), u64::MAX), WATCH_TIME);
        assert!(outcomes.watch().covers(&signer, u64::MAX) && !outcomes.watch().covers(&signer, 0));
    }
}
