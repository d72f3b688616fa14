use borsh::BorshDeserialize;
use near_primitives::{block::Block as Theirs, sharding::ShardChunkHeader};
use proptest::prelude::*;
use tpsctl_near::{
    CryptoHash, KeyPair, Signature,
    block::{
        BandwidthRequests, Block, BlockBody, BlockHeader, ChunkHeader, ChunkInner, CongestionInfo,
        HeaderLite, HeaderRest, TrieSplit, ValidatorStake,
    },
    p2p::{FrameDecoder, read_block},
};

use super::account_id;

const NODE: &[u8] = include_bytes!("../../../../testdata/neard/p2p/accepted/node-to-client.bin");

fn hash() -> impl Strategy<Value = CryptoHash> {
    any::<[u8; 32]>().prop_map(CryptoHash)
}

fn signature() -> impl Strategy<Value = Signature> {
    any::<[u8; 32]>().prop_map(|seed| KeyPair::from_seed(seed).sign(b"anything"))
}

fn proposals() -> impl Strategy<Value = Vec<ValidatorStake>> {
    let proposal = (account_id(), any::<[u8; 32]>(), any::<u128>()).prop_map(|(account, seed, stake)| {
        ValidatorStake::V1(account.parse().expect("id"), KeyPair::from_seed(seed).public(), stake)
    });
    proptest::collection::vec(proposal, 0..3)
}

fn chunk() -> impl Strategy<Value = ChunkHeader> {
    let hashes = [hash(), hash(), hash(), hash(), hash(), hash()];
    let numbers = any::<[u64; 6]>();
    let split = proptest::option::of((account_id(), any::<[u64; 2]>()));
    let congestion = (any::<[u128; 2]>(), any::<u64>(), any::<u16>());
    let requests = proptest::collection::vec((any::<u16>(), any::<[u8; 5]>()), 0..3);
    let rest = (proposals(), congestion, requests, split, signature());
    (hashes, numbers, any::<u128>(), rest).prop_map(|(hashes, numbers, burnt, rest)| {
        let (prev_validator_proposals, (gas, receipt_bytes, allowed_shard), requests, split, signature) =
            rest;
        let [prev_block_hash, prev_state_root, prev_outcome_root, encoded_merkle_root, receipts, tx_root] =
            hashes;
        let [encoded_length, height_created, shard_id, prev_gas_used, gas_limit, height_included] = numbers;
        let inner = ChunkInner {
            prev_block_hash,
            prev_state_root,
            prev_outcome_root,
            encoded_merkle_root,
            encoded_length,
            height_created,
            shard_id,
            prev_gas_used,
            gas_limit,
            prev_balance_burnt: burnt,
            prev_outgoing_receipts_root: receipts,
            tx_root,
            prev_validator_proposals,
            congestion_info: CongestionInfo::V1 {
                delayed_receipts_gas: gas[0],
                buffered_receipts_gas: gas[1],
                receipt_bytes,
                allowed_shard,
            },
            bandwidth_requests: BandwidthRequests::V1(requests),
            proposed_split: split.map(|(account, [left_memory, right_memory])| TrieSplit {
                boundary_account: account.parse().expect("id"),
                left_memory,
                right_memory,
            }),
        };
        ChunkHeader { inner, height_included, signature }
    })
}

fn header() -> impl Strategy<Value = BlockHeader> {
    let lite = (any::<[u64; 2]>(), [hash(), hash(), hash(), hash(), hash(), hash()]);
    let lite = lite.prop_map(|([height, timestamp], hashes)| HeaderLite {
        height,
        epoch_id: hashes[0],
        next_epoch_id: hashes[1],
        prev_state_root: hashes[2],
        prev_outcome_root: hashes[3],
        timestamp,
        next_bp_hash: hashes[4],
        block_merkle_root: hashes[5],
    });
    let hashes = [hash(), hash(), hash(), hash(), hash(), hash(), hash()];
    let lists = (
        proposals(),
        proptest::collection::vec(any::<bool>(), 0..5),
        proptest::collection::vec(proptest::option::of(signature()), 0..4),
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3), 0..5),
    );
    let options = (proptest::option::of(hash()), proptest::option::of((any::<u64>(), account_id())));
    let rest = (hashes, lists, options, any::<[u128; 2]>(), any::<([u64; 2], u32)>());
    let rest = rest.prop_map(|(hashes, lists, options, amounts, ([block_ordinal, prev_height], version))| {
        HeaderRest {
            block_body_hash: hashes[0],
            prev_chunk_outgoing_receipts_root: hashes[1],
            chunk_headers_root: hashes[2],
            chunk_tx_root: hashes[3],
            random_value: hashes[4],
            prev_validator_proposals: lists.0,
            chunk_mask: lists.1,
            next_gas_price: amounts[0],
            total_supply: amounts[1],
            last_final_block: hashes[5],
            last_ds_final_block: hashes[6],
            block_ordinal,
            prev_height,
            epoch_sync_data_hash: options.0,
            approvals: lists.2,
            latest_protocol_version: version,
            chunk_endorsements: lists.3,
            shard_split: options.1.map(|(shard, account)| (shard, account.parse().expect("id"))),
        }
    });
    (hash(), lite, rest, signature()).prop_map(|(prev_hash, inner_lite, inner_rest, signature)| BlockHeader {
        prev_hash,
        inner_lite,
        inner_rest,
        signature,
    })
}

fn block() -> impl Strategy<Value = Block> {
    let endorsements = proptest::collection::vec(proptest::option::of(signature()), 0..3);
    let body = (
        proptest::collection::vec(chunk(), 0..3),
        (any::<[u8; 32]>(), any::<[[u8; 32]; 2]>()),
        proptest::collection::vec(endorsements, 0..3),
    );
    (header(), body).prop_map(|(header, (chunks, (value, proof), chunk_endorsements))| {
        let vrf = (value, proof.concat().try_into().expect("64 bytes"));
        Block { header, body: BlockBody { chunks, vrf, chunk_endorsements } }
    })
}

fn assert_same(ours: &Block, bytes: &[u8]) {
    let theirs = Theirs::try_from_slice(bytes).expect("their block");
    assert_eq!(theirs.hash().0, ours.hash().0);
    assert_eq!(theirs.header().height(), ours.height());
    assert_eq!(theirs.header().chunk_mask(), ours.header.inner_rest.chunk_mask);
    assert_eq!(theirs.compute_block_body_hash().map(|own| own.0), Some(ours.body.hash().0));
    for (their, own) in theirs.chunks().iter_raw().zip(&ours.body.chunks) {
        let their: &ShardChunkHeader = their;
        assert_eq!(their.chunk_hash().0.0, own.inner.hash().0);
        assert_eq!(
            (their.height_included(), their.prev_gas_used().as_gas()),
            (own.height_included, own.inner.prev_gas_used)
        );
    }
    assert_eq!(borsh::to_vec(&theirs).expect("memory"), bytes);
}

#[test]
fn recorded_blocks_are_read_alike() {
    let mut decoder = FrameDecoder::default();
    decoder.push(NODE);
    let mut read = 0;
    while let Some(message) = decoder.next_frame().expect("short frames") {
        let Some(bytes) = read_block(message) else { continue };
        assert_same(&Block::try_from_slice(bytes).expect("our block"), bytes);
        read += 1;
    }
    assert_eq!(read, 10);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn whatever_we_write_they_read(block in block()) {
        let bytes = borsh::to_vec(&block).expect("memory");
        prop_assert_eq!(&Block::try_from_slice(&bytes).expect("our block"), &block);
        assert_same(&block, &bytes);
    }
}
