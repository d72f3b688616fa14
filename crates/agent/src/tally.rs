//! Counts: live ones that everyone adds to, and final ones that each part hands in once.

use std::{
    collections::BTreeMap,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use tpsctl_model::{
    ShardId,
    load::{InjectTick, QuantilesMs, ShardInject, UnsentCause},
};

use crate::lag::Lag;

/// Counts over all shards while load runs. Never read for the report.
#[derive(Debug, Default)]
pub(crate) struct Live {
    intended: AtomicU64,
    sent: AtomicU64,
    unsent: AtomicU64,
}

impl Live {
    pub(crate) fn reset(&self) {
        for count in [&self.intended, &self.sent, &self.unsent] {
            count.store(0, Relaxed);
        }
    }

    pub(crate) fn add_intended(&self, count: u64) {
        self.intended.fetch_add(count, Relaxed);
    }

    pub(crate) fn add_sent(&self, count: u64) {
        self.sent.fetch_add(count, Release);
    }

    pub(crate) fn add_unsent(&self, count: u64) {
        self.unsent.fetch_add(count, Release);
    }

    pub(crate) fn tick(&self) -> InjectTick {
        // Fates before what was intended: so no reader sees more fates than transfers.
        let (sent, unsent) = (self.sent.load(Acquire), self.unsent.load(Acquire));
        InjectTick { intended: self.intended.load(Relaxed), sent, unsent }
    }
}

/// What became of the transfers that a link was given during one load.
#[derive(Debug, Default)]
pub(crate) struct LinkTally {
    /// Sent, by index of the receiver's shard.
    pub(crate) sent_to: BTreeMap<u16, u64>,
    pub(crate) unsent: BTreeMap<UnsentCause, u64>,
    pub(crate) on_broken_connection: u64,
    pub(crate) reconnects: u32,
    /// Of all transfers whose batch began to be written.
    pub(crate) lag: Lag,
}

/// What the generator did for one shard during one load.
#[derive(Debug, Clone)]
pub(crate) struct ShardTally {
    pub(crate) intended: u64,
    pub(crate) unsent: BTreeMap<UnsentCause, u64>,
    /// SHA-256 over what was handed to each link, and over those of all links in their order.
    pub(crate) stream: [u8; 32],
}

/// One shard's part of the report; `ids` names the shards by index.
pub(crate) fn shard_inject(
    shard: ShardId,
    generated: &ShardTally,
    links: &[LinkTally],
    ids: &[ShardId],
) -> ShardInject {
    let mut lag = Lag::default();
    let mut report = ShardInject {
        shard,
        intended: generated.intended,
        sent: 0,
        unsent: generated.unsent.clone(),
        accepted: None,
        sent_to: BTreeMap::new(),
        on_broken_connection: 0,
        reconnects: 0,
        send_lag_ms: QuantilesMs::default(),
    };
    for link in links {
        lag.add(&link.lag);
        for (index, count) in &link.sent_to {
            report.sent += count;
            *report.sent_to.entry(ids[usize::from(*index)]).or_insert(0) += count;
        }
        for (cause, count) in &link.unsent {
            *report.unsent.entry(*cause).or_insert(0) += count;
        }
        report.on_broken_connection += link.on_broken_connection;
        report.reconnects += link.reconnects;
    }
    report.send_lag_ms = lag.quantiles();
    report.unsent.retain(|_, count| *count > 0);
    report
}
