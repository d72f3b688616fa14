//! `block`, `chunk`, `gas_price` and `query`.

use std::sync::Arc;

use serde_json::{Value, json};
use tpsctl_near::CryptoHash;

use super::{
    Answer, Rpc,
    error::{Asker, Place, RpcError},
    params::{QueryParams, QueryRequest, Reference},
};
use crate::{
    core::{AccessKey, Account, Block, BlockRef, ChunkRef, NoChunk, Snapshot},
    shell::{driver::Query, json},
};

impl Rpc {
    fn block_ref(&self, reference: Reference) -> BlockRef {
        match reference {
            Reference::At(at) => at,
            Reference::Genesis => BlockRef::Hash(self.genesis.hash()),
        }
    }

    pub(super) async fn known_block(
        &self,
        reference: Reference,
        asker: Asker,
    ) -> Result<Arc<Block>, RpcError> {
        let at = self.block_ref(reference);
        let block = self.ask(|answer| Query::Block(at, answer)).await?;
        block.ok_or(RpcError::UnknownBlock(at, asker))
    }

    pub(super) async fn block(&self, reference: Reference) -> Answer {
        let block = self.known_block(reference, Asker::Block).await?;
        Ok(json::block(&block, &self.assignment, self.home.settings.genesis.gas_limit))
    }

    pub(super) async fn chunk(&self, at: ChunkRef) -> Answer {
        let chunk = self.ask(|answer| Query::Chunk(at, answer)).await?;
        let found = chunk.map_err(|fault| match fault {
            NoChunk::UnknownBlock(at) => RpcError::UnknownBlock(at, Asker::Block),
            NoChunk::InvalidShard(id) => RpcError::InvalidShard(id),
            NoChunk::Unknown(hash) => RpcError::UnknownChunk(hash),
        })?;
        // A full chunk is megabytes of JSON; the other tasks go on meanwhile.
        let gas_limit = self.home.settings.genesis.gas_limit;
        let made = tokio::task::spawn_blocking(move || json::chunk(&found, gas_limit)).await;
        made.map_err(|error| RpcError::Internal(error.to_string()))
    }

    pub(super) async fn gas_price(&self, at: BlockRef) -> Answer {
        let block = self.known_block(Reference::At(at), Asker::Header).await?;
        Ok(json!({"gas_price": block.header.gas_price.to_string()}))
    }

    async fn snapshot(&self, reference: Reference) -> Result<Snapshot, RpcError> {
        let view = self.view();
        match self.block_ref(reference) {
            BlockRef::Head => Ok(view.head.clone()),
            BlockRef::NearFinal => Ok(view.near_final.clone()),
            BlockRef::Final => Ok(view.last_final.clone()),
            at @ (BlockRef::Height(_) | BlockRef::Hash(_)) => {
                let snapshot = self.ask(|answer| Query::Snapshot(at, answer)).await?;
                snapshot.ok_or(RpcError::UnknownBlock(at, Asker::Query))
            }
        }
    }

    pub(super) async fn query(&self, query: QueryParams) -> Answer {
        let Snapshot { block, states } = self.snapshot(query.at).await?;
        let layout = &self.home.settings.genesis.layout;
        let shard = layout.index_of(&query.account_id);
        let Some(state) = &states[shard] else {
            return Err(RpcError::UnavailableShard(layout.shard_ids()[shard]));
        };
        let place = Place { block_hash: block.hash(), block_height: block.height() };
        let account = state.account(&query.account_id);
        let account = account.ok_or_else(|| RpcError::UnknownAccount(query.account_id.clone(), place))?;
        let mut answer = view(account, &query.request);
        answer["block_hash"] = json!(place.block_hash);
        answer["block_height"] = json!(place.block_height);
        Ok(answer)
    }
}

fn access_key(own: &AccessKey) -> Value {
    json!({"nonce": own.nonce, "permission": "FullAccess"})
}

fn view(account: &Account, request: &QueryRequest) -> Value {
    match request {
        QueryRequest::Account => json!({
            "amount": account.amount.to_string(),
            "code_hash": CryptoHash::default(),
            "locked": account.locked.to_string(),
            "storage_paid_at": 0,
            "storage_usage": account.storage_usage,
        }),
        QueryRequest::AccessKey(key) => match account.keys.iter().find(|own| own.public_key == *key) {
            Some(own) => access_key(own),
            // neard has this as a result for the sake of older clients (chain/jsonrpc/src/lib.rs:378-388).
            None => json!({"error": format!("access key {key} does not exist while viewing"), "logs": []}),
        },
        QueryRequest::AccessKeyList => {
            let key = |own: &AccessKey| json!({"access_key": access_key(own), "public_key": own.public_key});
            json!({"keys": account.keys.iter().map(key).collect::<Vec<_>>()})
        }
    }
}
