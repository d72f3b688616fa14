//! Who the node is and what validators did in this epoch: brought up to date once in a while, as in neard.

use prometheus::{IntGauge, IntGaugeVec};
use tpsctl_near::PROTOCOL_VERSION;

use super::{maker::Maker, shards::Shard};
use crate::core::Node;

#[derive(Debug)]
pub(super) struct RoleMetrics {
    is_validator: IntGauge,
    is_block_producer: IntGauge,
    is_chunk_producer: IntGaugeVec,
    tracked_shards: IntGaugeVec,
    blocks_produced: IntGaugeVec,
    blocks_expected: IntGaugeVec,
    chunks_produced: IntGaugeVec,
    chunks_expected: IntGaugeVec,
}

impl RoleMetrics {
    pub(super) fn new(make: &Maker) -> Self {
        let node_version =
            make.gauge(("near_node_protocol_version", "Max protocol version supported by the node"));
        let version = make.gauge(("near_current_protocol_version", "Protocol version of the current epoch"));
        node_version.set(i64::from(PROTOCOL_VERSION));
        version.set(i64::from(PROTOCOL_VERSION));
        Self {
            is_validator: make
                .gauge(("near_is_validator", "Bool to denote if it is validating in the current epoch")),
            is_block_producer: make.gauge((
                "near_is_block_producer",
                "Bool to denote if the node is a block producer in the current epoch",
            )),
            is_chunk_producer: make.gauges(
                (
                    "near_is_chunk_producer_for_shard",
                    "Bool to denote if the node is a chunk producer for a shard in the current epoch",
                ),
                "shard_id",
            ),
            tracked_shards: make.gauges(("near_client_tracked_shards", "Tracked shards"), "shard_id"),
            blocks_produced: make.gauges(
                ("near_validators_blocks_produced", "Number of blocks produced by a validator"),
                "account_id",
            ),
            blocks_expected: make.gauges(
                (
                    "near_validators_blocks_expected",
                    "Number of blocks expected to be produced by a validator",
                ),
                "account_id",
            ),
            chunks_produced: make.gauges(
                ("near_validators_chunks_produced", "Number of chunks produced by a validator"),
                "account_id",
            ),
            chunks_expected: make.gauges(
                (
                    "near_validators_chunks_expected",
                    "Number of chunks expected to be produced by a validator",
                ),
                "account_id",
            ),
        }
    }

    pub(super) fn refresh(&self, node: &Node, shards: &[Shard]) {
        let assignment = node.assignment();
        let me = node.account().and_then(|account| assignment.index_of(account));
        self.is_validator.set(i64::from(me.is_some()));
        // All validators make blocks here.
        self.is_block_producer.set(i64::from(me.is_some()));
        for (index, shard) in shards.iter().enumerate() {
            let produces = me.is_some_and(|me| assignment.producers(index).contains(&me));
            self.is_chunk_producer.with_label_values(&[&shard.id]).set(i64::from(produces));
            self.tracked_shards.with_label_values(&[&shard.id]).set(i64::from(node.tracked()[index]));
        }
        for (index, validator) in assignment.validators().iter().enumerate() {
            let account = [validator.account_id.as_str()];
            let (blocks, chunks) = (node.tally().blocks(index), node.tally().all_chunks(index));
            let counts = [
                (&self.blocks_produced, blocks.produced),
                (&self.blocks_expected, blocks.expected),
                (&self.chunks_produced, chunks.produced),
                (&self.chunks_expected, chunks.expected),
            ];
            for (metric, count) in counts {
                metric.with_label_values(&account).set(count.cast_signed());
            }
        }
    }
}
