//! When a network is idle: nothing waits in a pool, and blocks burn no gas.

use std::collections::BTreeMap;

use tpsctl_model::{
    NodeName,
    observation::{BlockFact, MetricsSample},
};

use crate::{
    Producer,
    exposition::{DELAYED_RECEIPTS, POOL_ENTRIES},
    series::{labelled, sum, whole},
};

/// Consecutive final blocks that must burn no gas. A transfer's parts burn theirs in up to three successive chunks
/// (conversion, execution, refund), each reported one block later, so fewer blocks could fall between two parts.
pub const QUIET_BLOCKS_MIN: u32 = 3;

/// What is to be judged. Blocks and samples from before `after_unix_ns` prove nothing.
#[derive(Debug, Clone, Copy)]
pub struct IdleQuestion<'a> {
    /// Recent final blocks, in order of height.
    pub blocks: &'a [BlockFact],
    /// The newest sample of each node.
    pub samples: &'a BTreeMap<NodeName, MetricsSample>,
    /// All chunk producers.
    pub producers: &'a [Producer],
    /// The end of the load, nanoseconds since the Unix epoch.
    pub after_unix_ns: u64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdleProof {
    /// Nothing is pending anywhere.
    Idle,
    /// Not proven.
    Busy {
        /// Transactions in the producers' pools and receipts delayed in their shards, as far as the samples tell.
        pending: u64,
        /// The latest blocks in a row with a new chunk and no gas in every shard.
        quiet_blocks: u32,
        /// Producers without a new enough sample.
        unread: Vec<NodeName>,
    },
}

impl IdleQuestion<'_> {
    /// Idle if and only if the last [`QUIET_BLOCKS_MIN`] final blocks are new enough and have a new chunk without gas in
    /// every shard, and a new enough sample of every producer shows an empty pool and no delayed receipts.
    pub fn answer(&self) -> IdleProof {
        let quiet = self.blocks.iter().rev().take_while(|block| self.is_quiet(block)).count();
        let quiet_blocks = u32::try_from(quiet).unwrap_or(u32::MAX);
        let mut pending = 0;
        let mut unread = Vec::new();
        for producer in self.producers {
            match self.samples.get(&producer.node).filter(|sample| sample.unix_ns > self.after_unix_ns) {
                Some(sample) => match pending_of(sample, producer) {
                    Some(own) => pending += own,
                    None => unread.push(producer.node.clone()),
                },
                None => unread.push(producer.node.clone()),
            }
        }
        let proven = quiet_blocks >= QUIET_BLOCKS_MIN && pending == 0 && unread.is_empty();
        if proven { IdleProof::Idle } else { IdleProof::Busy { pending, quiet_blocks, unread } }
    }

    fn is_quiet(&self, block: &BlockFact) -> bool {
        block.timestamp_unix_ns > self.after_unix_ns
            && !block.chunks.is_empty()
            && block.chunks.iter().all(|chunk| chunk.included && chunk.gas_used == 0)
    }
}

/// Transactions in the producer's pools, and receipts delayed in its own shards: of others it knows only what it last
/// validated. None where the sample lacks one of them.
fn pending_of(sample: &MetricsSample, producer: &Producer) -> Option<u64> {
    let pooled = sum(sample, POOL_ENTRIES)?;
    let delayed = producer
        .shards
        .iter()
        .map(|shard| labelled(sample, DELAYED_RECEIPTS, &format!("shard_id=\"{shard}\"")).map(whole));
    delayed.sum::<Option<u64>>().map(|delayed| whole(pooled) + delayed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tpsctl_model::{ShardId, observation::ChunkFact};

    use super::*;

    const AFTER: u64 = 1_000;

    fn node(shard: u64) -> NodeName {
        NodeName(format!("node{shard}"))
    }

    fn producers() -> Vec<Producer> {
        (0..2).map(|shard| Producer { node: node(shard), shards: vec![ShardId(shard)] }).collect()
    }

    fn block(height: u64, timestamp_unix_ns: u64, chunks: [(bool, u64); 2]) -> BlockFact {
        let chunk = |(shard, (included, gas_used))| ChunkFact { shard: ShardId(shard), included, gas_used };
        BlockFact {
            height,
            prev_height: height - 1,
            hash: height.to_string(),
            timestamp_unix_ns,
            author: "node0".to_owned(),
            chunks: (0..).zip(chunks).map(chunk).collect(),
        }
    }

    fn sample(shard: u64, unix_ns: u64, pooled: f64, delayed: f64) -> MetricsSample {
        let values = [
            (format!("{POOL_ENTRIES}{{shard_id=\"s{shard}.v3\"}}"), pooled),
            (format!("{DELAYED_RECEIPTS}{{shard_id=\"{shard}\"}}"), delayed),
            // What the node last saw of the other shard, long ago.
            (format!("{DELAYED_RECEIPTS}{{shard_id=\"{}\"}}", 1 - shard), 77.0),
        ];
        MetricsSample { unix_ns, node: node(shard), values: values.into() }
    }

    fn answer(blocks: &[BlockFact], samples: [MetricsSample; 2]) -> IdleProof {
        let samples = samples.into_iter().map(|sample| (sample.node.clone(), sample)).collect();
        IdleQuestion { blocks, samples: &samples, producers: &producers(), after_unix_ns: AFTER }.answer()
    }

    const QUIET: [(bool, u64); 2] = [(true, 0), (true, 0)];

    fn quiet_blocks() -> Vec<BlockFact> {
        (1..=3).map(|height| block(height, AFTER + height, QUIET)).collect()
    }

    fn empty() -> [MetricsSample; 2] {
        [sample(0, AFTER + 1, 0.0, 0.0), sample(1, AFTER + 1, 0.0, 0.0)]
    }

    #[test]
    fn three_quiet_blocks_and_empty_pools_are_idle() {
        assert_eq!(answer(&quiet_blocks(), empty()), IdleProof::Idle);
    }

    #[test]
    fn anything_less_is_busy() {
        let busy = |pending, quiet_blocks| IdleProof::Busy { pending, quiet_blocks, unread: Vec::new() };
        let blocks = quiet_blocks();
        assert_eq!(answer(&blocks[1..], empty()), busy(0, 2));
        for (chunks, why) in [([(true, 1), (true, 0)], "gas"), ([(true, 0), (false, 0)], "a missed chunk")] {
            let mut blocks = blocks.clone();
            blocks.push(block(4, AFTER + 4, chunks));
            assert_eq!(answer(&blocks, empty()), busy(0, 0), "{why}");
        }
        let mut old = blocks.clone();
        old[0].timestamp_unix_ns = AFTER;
        assert_eq!(answer(&old, empty()), busy(0, 2));
        let [first, second] = empty();
        assert_eq!(answer(&blocks, [first.clone(), sample(1, AFTER + 1, 2.0, 3.0)]), busy(5, 3));
        let unread = IdleProof::Busy { pending: 0, quiet_blocks: 3, unread: vec![node(0)] };
        assert_eq!(answer(&blocks, [sample(0, AFTER, 0.0, 0.0), second.clone()]), unread);
        let silent = MetricsSample { values: BTreeMap::new(), ..first };
        assert_eq!(answer(&blocks, [silent, second]), unread);
    }

    proptest! {
        #[test]
        fn what_burned_gas_lately_is_never_idle(
            gas in proptest::collection::vec((0_u64..2, any::<bool>()), 0..8),
            pooled in 0_u32..3,
        ) {
            let blocks: Vec<_> = (1..)
                .zip(&gas)
                .map(|(height, (gas, included))| block(height, AFTER + height, [(true, 0), (*included, *gas)]))
                .collect();
            let samples = [sample(0, AFTER + 1, 0.0, 0.0), sample(1, AFTER + 1, f64::from(pooled), 0.0)];
            let quiet = blocks.len() >= 3
                && gas[gas.len() - 3..].iter().all(|(gas, included)| *gas == 0 && *included)
                && pooled == 0;
            prop_assert_eq!(answer(&blocks, samples) == IdleProof::Idle, quiet);
        }
    }
}
