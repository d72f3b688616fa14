//! `validators` (chain/epoch-manager/src/lib.rs:1314-1540, chain/client/src/view_client_actor.rs:888-934).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tpsctl_near::CryptoHash;

use super::{
    Answer, Rpc,
    error::{Asker, RpcError},
    params::{EpochRef, Reference},
};
use crate::core::{BlockRef, Count, EpochTally};

impl Rpc {
    pub(super) async fn validators(&self, epoch: EpochRef) -> Answer {
        let view = self.view();
        let running = view.tallies.running();
        let ended = |id: &CryptoHash| view.tallies.ended(id).ok_or(RpcError::UnknownEpoch);
        let answer = match epoch {
            EpochRef::Running => self.epoch(running, true),
            EpochRef::Id(id) if id == running.epoch_id() => self.epoch(running, true),
            EpochRef::Id(id) => self.epoch(ended(&id)?, false),
            EpochRef::EndedWith(at) => {
                let id = self.epoch_ended_with(at).await?;
                self.epoch(ended(&id)?, false)
            }
        };
        Ok(self.with_others(answer).await)
    }

    /// The epoch whose last block is meant.
    async fn epoch_ended_with(&self, at: BlockRef) -> Result<CryptoHash, RpcError> {
        let unknown = |error| match error {
            RpcError::UnknownBlock(..) => RpcError::UnknownEpoch,
            other => other,
        };
        let block = self.known_block(Reference::At(at), Asker::Header).await.map_err(unknown)?;
        let head = self.view().head.block.height();
        // The next block is at most a few heights above.
        for height in block.height() + 1..=head {
            let next = self.known_block(Reference::At(BlockRef::Height(height)), Asker::Header).await;
            match next {
                Ok(next) if next.header.epoch_id == block.header.epoch_id => {
                    return Err(RpcError::ValidatorInfoUnavailable);
                }
                Ok(_) => return Ok(block.header.epoch_id),
                Err(RpcError::UnknownBlock(..)) => {}
                Err(other) => return Err(other),
            }
        }
        Err(RpcError::UnknownEpoch)
    }

    fn epoch(&self, tally: &EpochTally, is_running: bool) -> Value {
        let validators = 0..self.assignment.validators().len();
        let current: Vec<Value> =
            validators.clone().map(|index| self.current(tally, index, is_running)).collect();
        let next: Vec<Value> = validators
            .map(|index| {
                let own = &self.assignment.validators()[index];
                json!({
                    "account_id": own.account_id,
                    "public_key": own.public_key,
                    "shards": self.shards_of(index),
                    "stake": own.stake.to_string(),
                })
            })
            .collect();
        json!({
            "current_fishermen": [],
            "current_proposals": [],
            "current_validators": current,
            "epoch_height": tally.number(),
            "epoch_start_height": tally.start_height(),
            "next_fishermen": [],
            "next_validators": next,
            "prev_epoch_kickout": [],
        })
    }

    /// The treasury's reward is the only one that neard names where nobody earned any: there are none here.
    async fn with_others(&self, mut answer: Value) -> Value {
        let treasury = match self.files().await {
            Ok(files) => files.genesis.protocol_treasury_account.to_string(),
            Err(_) => String::new(),
        };
        let rewards: BTreeMap<String, &str> =
            [(treasury, "0")].into_iter().filter(|(name, _)| !name.is_empty()).collect();
        answer["validator_reward_paid_prev_epoch"] = json!(rewards);
        answer
    }

    /// Ids of the shards whose chunks a validator produces.
    fn shards_of(&self, validator: usize) -> Vec<u64> {
        let ids = self.home.settings.genesis.layout.shard_ids().iter().enumerate();
        let own = ids.filter(|(shard, _)| self.assignment.producers(*shard).contains(&validator));
        let mut own: Vec<u64> = own.map(|(_, id)| *id).collect();
        own.sort_unstable();
        own
    }

    fn current(&self, tally: &EpochTally, index: usize, is_running: bool) -> Value {
        let own = &self.assignment.validators()[index];
        let (blocks, chunks) = (tally.blocks(index), tally.all_chunks(index));
        let endorsements = tally.all_endorsements(index);
        let (made, endorsed) = if is_running {
            (
                self.by_shard(|shard| tally.chunks(index, shard)),
                self.by_shard(|shard| tally.endorsements(index, shard)),
            )
        } else {
            // Of an epoch that ended neard has no counts by shard.
            (self.shards_of(index).into_iter().map(|id| (id, Count::default())).collect(), Vec::new())
        };
        let ids = |shards: &[(u64, Count)]| shards.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let produced =
            |shards: &[(u64, Count)]| shards.iter().map(|(_, own)| own.produced).collect::<Vec<_>>();
        let expected =
            |shards: &[(u64, Count)]| shards.iter().map(|(_, own)| own.expected).collect::<Vec<_>>();
        json!({
            "account_id": own.account_id,
            "is_slashed": false,
            "num_expected_blocks": blocks.expected,
            "num_expected_chunks": chunks.expected,
            "num_expected_chunks_per_shard": expected(&made),
            "num_expected_endorsements": endorsements.expected,
            "num_expected_endorsements_per_shard": expected(&endorsed),
            "num_produced_blocks": blocks.produced,
            "num_produced_chunks": chunks.produced,
            "num_produced_chunks_per_shard": produced(&made),
            "num_produced_endorsements": endorsements.produced,
            "num_produced_endorsements_per_shard": produced(&endorsed),
            "public_key": own.public_key,
            "shards": ids(&made),
            "shards_endorsed": ids(&endorsed),
            "stake": own.stake.to_string(),
        })
    }

    /// The counts of the shards where something was expected, with the shards' ids.
    fn by_shard(&self, count: impl Fn(usize) -> Count) -> Vec<(u64, Count)> {
        let ids = self.home.settings.genesis.layout.shard_ids().iter().enumerate();
        let mut shards: Vec<(u64, Count)> =
            ids.map(|(shard, id)| (*id, count(shard))).filter(|(_, own)| own.expected > 0).collect();
        shards.sort_unstable_by_key(|(id, _)| *id);
        shards
    }
}
