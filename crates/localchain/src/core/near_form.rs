//! Blocks and chunks in NEAR's own form: what their hashes are taken of, and what peers that are no embedded nodes get.
//! What this chain does not have is zero or empty, never made up.

use tpsctl_near::{
    CryptoHash, PROTOCOL_VERSION, Signature,
    block::{
        BandwidthRequests, Block, BlockBody, BlockHeader, ChunkHeader, ChunkInner, CongestionInfo,
        HeaderLite, HeaderRest,
    },
};

use super::types;

const ZERO: CryptoHash = CryptoHash([0; 32]);

/// What a chunk's hash is taken of.
pub(crate) fn chunk_inner(own: &types::ChunkHeader) -> ChunkInner {
    ChunkInner {
        prev_block_hash: own.prev_block_hash,
        prev_state_root: own.prev_state_root,
        prev_outcome_root: ZERO,
        encoded_merkle_root: own.content_root(),
        encoded_length: own.encoded_length,
        height_created: own.height_created,
        shard_id: own.shard_id,
        prev_gas_used: own.prev_gas_used,
        gas_limit: own.gas_limit,
        prev_balance_burnt: own.prev_balance_burnt,
        prev_outgoing_receipts_root: own.receipts_root,
        tx_root: own.tx_root,
        prev_validator_proposals: Vec::new(),
        congestion_info: CongestionInfo::V1 {
            delayed_receipts_gas: own.delayed_gas,
            buffered_receipts_gas: 0,
            receipt_bytes: 0,
            allowed_shard: 0,
        },
        bandwidth_requests: BandwidthRequests::V1(Vec::new()),
        proposed_split: None,
    }
}

fn chunk(own: &types::BlockChunk) -> ChunkHeader {
    ChunkHeader {
        inner: chunk_inner(&own.signed.header),
        height_included: own.height_included,
        signature: own.signed.signature,
    }
}

/// Commits to the states before a block: SHA-256 over its chunks' state roots.
pub(crate) fn state_root(header: &types::BlockHeader) -> CryptoHash {
    let roots: Vec<CryptoHash> =
        header.chunks.iter().map(|chunk| chunk.signed.header.prev_state_root).collect();
    CryptoHash::of_borsh(&roots)
}

/// The whole block. Who endorsed a chunk is told by the bitmaps only.
pub(crate) fn block(own: &types::BlockHeader, signature: Signature) -> Block {
    let body = BlockBody {
        chunks: own.chunks.iter().map(chunk).collect(),
        vrf: ([0; 32], [0; 64]),
        chunk_endorsements: vec![Vec::new(); own.chunks.len()],
    };
    let inner_lite = HeaderLite {
        height: own.height,
        epoch_id: own.epoch_id,
        next_epoch_id: own.next_epoch_id,
        prev_state_root: state_root(own),
        prev_outcome_root: ZERO,
        timestamp: own.timestamp_ns,
        next_bp_hash: ZERO,
        block_merkle_root: ZERO,
    };
    let inner_rest = HeaderRest {
        block_body_hash: body.hash(),
        prev_chunk_outgoing_receipts_root: ZERO,
        chunk_headers_root: ZERO,
        chunk_tx_root: ZERO,
        random_value: ZERO,
        prev_validator_proposals: Vec::new(),
        chunk_mask: own.chunk_mask.clone(),
        next_gas_price: own.gas_price,
        total_supply: own.total_supply,
        last_final_block: own.last_final,
        last_ds_final_block: own.last_ds_final,
        block_ordinal: own.ordinal,
        prev_height: own.prev_height,
        epoch_sync_data_hash: None,
        approvals: own.approvals.clone(),
        latest_protocol_version: PROTOCOL_VERSION,
        chunk_endorsements: own.endorsements.clone(),
        shard_split: None,
    };
    Block { header: BlockHeader { prev_hash: own.prev_hash, inner_lite, inner_rest, signature }, body }
}

#[cfg(test)]
mod tests {
    use borsh::BorshDeserialize;

    use super::*;
    use crate::core::tests::fixture::{Net, genesis};

    #[test]
    fn blocks_hash_and_sign_as_neards_do() {
        let mut net = Net::new(genesis(3, 2, 4), 60);
        net.random_transfers(2, 4, 20);
        net.run(std::time::Duration::from_secs(20));
        let keys: Vec<_> = net.node(0).assignment().validators().iter().map(|own| own.public_key).collect();
        let is_signed =
            |hash: CryptoHash, signature: &Signature| keys.iter().any(|key| key.verify(&hash.0, signature));
        let blocks = net.blocks();
        assert!(blocks.len() > 10);
        for own in &blocks {
            let bytes = borsh::to_vec(&own.near()).expect("memory");
            let read = Block::try_from_slice(&bytes).expect("a block");
            assert_eq!(read.hash(), own.hash());
            assert!(is_signed(read.hash(), &read.header.signature));
            for (read, own) in read.body.chunks.iter().zip(&own.header.chunks) {
                assert_eq!(read.inner.hash(), own.signed.header.hash());
                let is_genesis = own.height_included == 0;
                assert!(is_genesis || is_signed(read.inner.hash(), &read.signature));
            }
        }
    }

    #[test]
    fn every_part_of_a_chunk_is_in_its_hash() {
        let own = genesis(1, 1, 1).block().header.chunks[0].signed.header.clone();
        let changes: [fn(&mut types::ChunkHeader); 12] = [
            |own| own.shard_id += 1,
            |own| own.height_created += 1,
            |own| own.prev_block_hash.0[0] ^= 1,
            |own| own.prev_state_root.0[0] ^= 1,
            |own| own.prev_gas_used += 1,
            |own| own.prev_balance_burnt += 1,
            |own| own.delayed_count += 1,
            |own| own.delayed_gas += 1,
            |own| own.tx_root.0[0] ^= 1,
            |own| own.receipts_root.0[0] ^= 1,
            |own| own.encoded_length += 1,
            |own| own.gas_limit += 1,
        ];
        for change in changes {
            let mut changed = own.clone();
            change(&mut changed);
            assert_ne!(changed.hash(), own.hash(), "{changed:?}");
        }
    }
}
