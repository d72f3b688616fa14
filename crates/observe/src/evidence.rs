//! What became of transfers that were sent and never included, as far as counters outside the blocks prove it.

use std::collections::BTreeMap;

use tpsctl_model::{
    NodeName,
    load::{InjectReport, ShardInject},
    observation::{LostCause, MetricsSample, NodeExit},
};

use crate::{
    Producer,
    exposition::{POOL_SIZE, RECEIVED, REJECTED_SUM},
    series::{series, sum, whole},
};

/// No transfer takes more room in a pool: one has about 190 bytes. So a pool that refuses one has less than this free.
pub const TRANSFER_BYTES_MAX: u64 = 200;

/// All that is known of one trial's lost transfers.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Samples in order of time, from the last before the load to the first after the network was idle. Counters lag
    /// behind their page's blocks, so the last must be taken after the idle proof.
    pub samples: &'a [MetricsSample],
    /// All chunk producers.
    pub producers: &'a [Producer],
    /// What was sent.
    pub inject: &'a InjectReport,
    /// Transfers included, counted from blocks.
    pub included: u64,
    /// Transfers that still wait in pools.
    pub pending: u64,
    /// Nodes that ended in the trial.
    pub exits: &'a [NodeExit],
    /// `transaction_pool_size_limit` of a shard's pool, bytes.
    pub pool_size_limit_bytes: u64,
}

impl Evidence<'_> {
    /// Lost transfers by cause; causes without evidence do not appear. Together never more than
    /// sent - included - pending. What is left over stays unexplained: it becomes the accounts' difference.
    ///
    /// | cause | evidence | at most |
    /// |---|---|---|
    /// | connection broken | sent - received by the producers' pools | what was sent on connections that broke |
    /// | rejected in preparation | growth of `near_prepare_tx_rejected_sum` | that |
    /// | pool full | a sample shows a pool without room for a transfer, or the growth to the next sample could fill it | received - included - pending - rejected; what such producers received |
    /// | node ended | a producer ended: its pool and counters are gone | what was sent to its shard |
    ///
    /// Counters that fall have restarted with their process and count from 0.
    pub fn dropped(&self) -> BTreeMap<LostCause, u64> {
        let sent = self.sent_where(|_| true);
        let mut unexplained = sent.saturating_sub(self.included).saturating_sub(self.pending);
        let mut dropped = BTreeMap::new();
        let mut explain = |cause, count: u64| {
            let count = count.min(unexplained);
            if count > 0 {
                unexplained -= count;
                dropped.insert(cause, count);
            }
        };
        let received: u64 = self.producers.iter().map(|producer| self.growth(&producer.node, RECEIVED)).sum();
        let rejected: u64 =
            self.producers.iter().map(|producer| self.growth(&producer.node, REJECTED_SUM)).sum();
        let on_broken: u64 = self.inject.shards.iter().map(|shard| shard.on_broken_connection).sum();
        explain(LostCause::ConnectionBroken, sent.saturating_sub(received).min(on_broken));
        explain(LostCause::RejectedInPreparation, rejected);
        let accounted = self.included + self.pending + rejected;
        explain(LostCause::PoolFull, received.saturating_sub(accounted).min(self.received_by_full_pools()));
        explain(LostCause::NodeEnded, self.sent_where(|shard| self.has_ended(shard)));
        dropped
    }

    fn sent_where(&self, wanted: impl Fn(&ShardInject) -> bool) -> u64 {
        self.inject.shards.iter().filter(|shard| wanted(shard)).map(|shard| shard.sent).sum()
    }

    fn has_ended(&self, shard: &ShardInject) -> bool {
        let mut own = self.producers.iter().filter(|producer| producer.shards.contains(&shard.shard));
        own.any(|producer| self.exits.iter().any(|exit| exit.node == producer.node))
    }

    fn received_by_full_pools(&self) -> u64 {
        let full = self.producers.iter().filter(|producer| self.was_full(&producer.node));
        full.map(|producer| self.growth(&producer.node, RECEIVED)).sum()
    }

    /// Whether a pool of `node` had no room for a transfer in a sample, or can have had none before the next: a pool
    /// empties with every chunk, so that few samples catch it full.
    fn was_full(&self, node: &NodeName) -> bool {
        let full_from = self.pool_size_limit_bytes.saturating_sub(TRANSFER_BYTES_MAX);
        let mut before: Option<&MetricsSample> = None;
        self.samples_of(node).any(|sample| {
            let received =
                before.map_or(0, |before| increase(count(before, RECEIVED), count(sample, RECEIVED)));
            let peak_max =
                largest_pool(before.unwrap_or(sample)).saturating_add(received * TRANSFER_BYTES_MAX);
            before = Some(sample);
            peak_max.max(largest_pool(sample)) >= full_from
        })
    }

    fn samples_of<'a>(&'a self, node: &'a NodeName) -> impl Iterator<Item = &'a MetricsSample> {
        self.samples.iter().filter(move |sample| sample.node == *node)
    }

    /// How much a counter of `node` grew over the samples, all its series together.
    fn growth(&self, node: &NodeName, name: &str) -> u64 {
        let counts: Vec<_> = self.samples_of(node).map(|sample| count(sample, name)).collect();
        counts.windows(2).map(|pair| increase(pair[0], pair[1])).sum()
    }
}

/// A counter's value, all its series together. In a sample without it it is 0: a counter does not exist before its
/// first use, and a page that lacks a metric that must be there makes no sample.
fn count(sample: &MetricsSample, name: &str) -> u64 {
    whole(sum(sample, name).unwrap_or(0.0))
}

/// A counter that fell has restarted from 0 with its process.
fn increase(before: u64, now: u64) -> u64 {
    if now >= before { now - before } else { now }
}

fn largest_pool(sample: &MetricsSample) -> u64 {
    series(sample, POOL_SIZE).map(|(_, size)| whole(size)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tpsctl_model::{ShardId, load::QuantilesMs, observation::ExitKind};

    use super::*;

    const LIMIT: u64 = 1_000_000;

    fn node(shard: u64) -> NodeName {
        NodeName(format!("node{shard}"))
    }

    fn producers() -> Vec<Producer> {
        (0..2).map(|shard| Producer { node: node(shard), shards: vec![ShardId(shard)] }).collect()
    }

    fn inject(sent: [u64; 2], on_broken_connection: u64) -> InjectReport {
        let shard = |(shard, sent)| ShardInject {
            shard: ShardId(shard),
            intended: sent,
            sent,
            unsent: BTreeMap::new(),
            accepted: None,
            sent_to: BTreeMap::new(),
            on_broken_connection: if shard == 0 { on_broken_connection } else { 0 },
            reconnects: 0,
            send_lag_ms: QuantilesMs::default(),
        };
        InjectReport {
            trial: 1,
            started_unix_ns: 0,
            ended_unix_ns: 0,
            shards: (0..).zip(sent).map(shard).collect(),
            send_lag_ms: QuantilesMs::default(),
            clock_stepped: false,
            stream_fingerprint: String::new(),
        }
    }

    /// A sample of node `shard`: received (none: never used), rejected, pool size.
    fn sample(shard: u64, received: Option<u64>, rejected: u64, pool_size: u64) -> MetricsSample {
        let mut values = BTreeMap::from([
            (format!("{REJECTED_SUM}{{reason=\"invalid_tx\",shard_id=\"{shard}\"}}"), rejected as f64),
            (format!("{POOL_SIZE}{{shard_id=\"s{shard}.v3\"}}"), pool_size as f64),
        ]);
        values.extend(received.map(|received| (RECEIVED.to_owned(), received as f64)));
        MetricsSample { unix_ns: 0, node: node(shard), values }
    }

    #[derive(Debug)]
    struct Case {
        samples: Vec<MetricsSample>,
        inject: InjectReport,
        included: u64,
        pending: u64,
        exits: Vec<NodeExit>,
    }

    impl Case {
        fn dropped(&self) -> BTreeMap<LostCause, u64> {
            Evidence {
                samples: &self.samples,
                producers: &producers(),
                inject: &self.inject,
                included: self.included,
                pending: self.pending,
                exits: &self.exits,
                pool_size_limit_bytes: LIMIT,
            }
            .dropped()
        }
    }

    fn case(samples: Vec<MetricsSample>, inject: InjectReport, included: u64) -> Case {
        Case { samples, inject, included, pending: 0, exits: Vec::new() }
    }

    fn before() -> Vec<MetricsSample> {
        vec![sample(0, None, 3, 0), sample(1, Some(500), 0, 0)]
    }

    fn with(after: [MetricsSample; 2]) -> Vec<MetricsSample> {
        before().into_iter().chain(after).collect()
    }

    #[test]
    fn nothing_lost_nothing_dropped() {
        let after = with([sample(0, Some(1_000), 3, 0), sample(1, Some(1_500), 0, 0)]);
        assert_eq!(case(after, inject([1_000, 1_000], 0), 2_000).dropped(), BTreeMap::new());
    }

    #[test]
    fn a_full_pool_drops_what_it_received_and_did_not_pass_on() {
        let during = [sample(0, Some(900), 3, LIMIT - 150), sample(1, Some(900), 0, 0)];
        let after =
            with(during).into_iter().chain([sample(0, Some(1_000), 10, 0), sample(1, Some(1_500), 0, 0)]);
        let mut case = case(after.collect(), inject([1_000, 1_000], 0), 1_700);
        case.pending = 50;
        let expected = [(LostCause::RejectedInPreparation, 7), (LostCause::PoolFull, 243)];
        assert_eq!(case.dropped(), expected.into());
    }

    #[test]
    fn without_a_full_pool_the_rest_stays_unexplained() {
        let after =
            with([sample(0, Some(1_000), 10, LIMIT - TRANSFER_BYTES_MAX - 1), sample(1, Some(1_500), 0, 0)]);
        let dropped = case(after, inject([1_000, 1_000], 0), 1_700).dropped();
        assert_eq!(dropped, [(LostCause::RejectedInPreparation, 7)].into());
    }

    #[test]
    fn a_pool_that_can_have_been_full_between_two_samples_counts() {
        for (size_before, lost) in
            [(LIMIT - 300 * TRANSFER_BYTES_MAX, 300), (LIMIT - 700 * TRANSFER_BYTES_MAX, 0)]
        {
            let during = [sample(0, Some(500), 3, size_before), sample(1, Some(1_500), 0, 0)];
            let after = [sample(0, Some(1_000), 3, 0), sample(1, Some(1_500), 0, 0)];
            let samples = with(during).into_iter().chain(after).collect();
            let dropped = case(samples, inject([1_000, 1_000], 0), 1_700).dropped();
            assert_eq!(dropped.get(&LostCause::PoolFull).copied().unwrap_or(0), lost);
        }
    }

    #[test]
    fn a_broken_connection_explains_what_no_pool_received_up_to_what_it_carried() {
        let after = || with([sample(0, Some(700), 3, 0), sample(1, Some(1_500), 0, 0)]);
        let dropped = case(after(), inject([1_000, 1_000], 250), 1_700).dropped();
        assert_eq!(dropped, [(LostCause::ConnectionBroken, 250)].into());
        let dropped = case(after(), inject([1_000, 1_000], 400), 1_700).dropped();
        assert_eq!(dropped, [(LostCause::ConnectionBroken, 300)].into());
        assert_eq!(case(after(), inject([1_000, 1_000], 0), 1_700).dropped(), BTreeMap::new());
    }

    #[test]
    fn a_restarted_counter_counts_from_zero() {
        let mut samples = with([sample(0, Some(600), 3, 0), sample(1, Some(1_500), 0, 0)]);
        samples.push(sample(0, None, 0, 0));
        samples.push(sample(0, Some(400), 0, 0));
        // 600 before and 400 after the restart: all 1 000 were received, so nothing was lost on the connection.
        assert_eq!(case(samples, inject([1_000, 1_000], 1_000), 1_900).dropped(), BTreeMap::new());
    }

    #[test]
    fn a_node_that_ended_explains_the_rest_of_its_shard() {
        let mut case = case(with(before().try_into().expect("two")), inject([1_000, 1_000], 30), 600);
        case.exits = vec![NodeExit { node: node(0), unix_ns: 0, exit: ExitKind::Signal(9) }];
        let expected = [(LostCause::ConnectionBroken, 30), (LostCause::NodeEnded, 1_000)];
        assert_eq!(case.dropped(), expected.into());
    }

    fn any_case() -> impl Strategy<Value = Case> {
        let count = 0_u64..3_000;
        let samples = proptest::collection::vec(
            (0_u64..2, proptest::option::of(count.clone()), 0_u64..50, prop_oneof![Just(0), Just(LIMIT)]),
            0..10,
        );
        (samples, [count.clone(), count.clone()], 0_u64..500, count, 0_u64..100, any::<bool>()).prop_map(
            |(samples, sent, broken, included, pending, ended)| Case {
                samples: samples
                    .into_iter()
                    .map(|(shard, received, rejected, size)| sample(shard, received, rejected, size))
                    .collect(),
                inject: inject(sent, broken),
                included,
                pending,
                exits: if ended {
                    vec![NodeExit { node: node(1), unix_ns: 0, exit: ExitKind::Code(1) }]
                } else {
                    Vec::new()
                },
            },
        )
    }

    proptest! {
        #[test]
        fn never_more_lost_than_missing(case in any_case()) {
            let sent: u64 = case.inject.shards.iter().map(|shard| shard.sent).sum();
            let lost: u64 = case.dropped().values().sum();
            prop_assert!(lost <= sent.saturating_sub(case.included).saturating_sub(case.pending));
        }

        #[test]
        fn no_evidence_no_loss(mut case in any_case()) {
            case.samples.clear();
            case.exits.clear();
            let broken: u64 = case.inject.shards.iter().map(|shard| shard.on_broken_connection).sum();
            let lost: u64 = case.dropped().values().sum();
            prop_assert!(lost <= broken);
            case.inject.shards[0].on_broken_connection = 0;
            prop_assert_eq!(case.dropped(), BTreeMap::new());
        }
    }
}
