//! A peer that is no node follows the chain by what it is sent, in NEAR's own encoding.

use std::collections::BTreeMap;

use borsh::BorshDeserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use tpsctl_near::{
    KeyPair,
    block::{Block, ChunkHeader, CongestionInfo},
    p2p::{FrameDecoder, read_block},
};

use super::{
    cluster::{Cluster, PATIENCE},
    handshake::offer,
    load::inject,
};

struct Guest {
    stream: TcpStream,
    decoder: FrameDecoder,
}

impl Guest {
    async fn come(cluster: &Cluster, index: usize, seed: u8) -> Self {
        let bytes = offer(cluster, index, KeyPair::from_seed([seed; 32])).await;
        let mut stream = TcpStream::connect(cluster.members[index].p2p).await.expect("connect");
        stream.write_all(&bytes).await.expect("write");
        Self { stream, decoder: FrameDecoder::default() }
    }

    /// The next block; other messages are passed over.
    async fn block(&mut self) -> Block {
        let mut buffer = [0; 4096];
        loop {
            while let Some(message) = self.decoder.next_frame().expect("frames") {
                if let Some(borsh) = read_block(message) {
                    return Block::try_from_slice(borsh).expect("a block");
                }
            }
            let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut buffer)).await;
            let len = read.expect("in time").expect("read");
            assert!(len > 0, "the node closed");
            self.decoder.push(&buffer[..len]);
        }
    }
}

fn same_chunk(by_rpc: &Value, own: &ChunkHeader) {
    let inner = &own.inner;
    let CongestionInfo::V1 { delayed_receipts_gas, .. } = inner.congestion_info;
    let expected = json!({
        "balance_burnt": inner.prev_balance_burnt.to_string(),
        "chunk_hash": inner.hash(),
        "encoded_length": inner.encoded_length,
        "encoded_merkle_root": inner.encoded_merkle_root,
        "gas_limit": inner.gas_limit,
        "gas_used": inner.prev_gas_used,
        "height_created": inner.height_created,
        "height_included": own.height_included,
        "outgoing_receipts_root": inner.prev_outgoing_receipts_root,
        "prev_block_hash": inner.prev_block_hash,
        "prev_state_root": inner.prev_state_root,
        "shard_id": inner.shard_id,
        "signature": own.signature,
        "tx_root": inner.tx_root,
    });
    for (name, value) in expected.as_object().expect("fields") {
        assert_eq!(by_rpc[name], *value, "{name}");
    }
    let delayed = by_rpc["congestion_info"]["delayed_receipts_gas"].as_str();
    assert_eq!(delayed, Some(delayed_receipts_gas.to_string().as_str()));
}

fn same_block(by_rpc: &Value, own: &Block) {
    let (lite, rest) = (&own.header.inner_lite, &own.header.inner_rest);
    let expected = json!({
        "approvals": rest.approvals,
        "block_body_hash": rest.block_body_hash,
        "block_ordinal": rest.block_ordinal,
        "chunk_mask": rest.chunk_mask,
        "epoch_id": lite.epoch_id,
        "gas_price": rest.next_gas_price.to_string(),
        "hash": own.hash(),
        "height": lite.height,
        "last_ds_final_block": rest.last_ds_final_block,
        "last_final_block": rest.last_final_block,
        "latest_protocol_version": rest.latest_protocol_version,
        "next_epoch_id": lite.next_epoch_id,
        "prev_hash": own.header.prev_hash,
        "prev_height": rest.prev_height,
        "prev_state_root": lite.prev_state_root,
        "signature": own.header.signature,
        "timestamp": lite.timestamp,
        "timestamp_nanosec": lite.timestamp.to_string(),
        "total_supply": rest.total_supply.to_string(),
    });
    for (name, value) in expected.as_object().expect("fields") {
        assert_eq!(by_rpc["header"][name], *value, "{name}");
    }
    let chunks = by_rpc["chunks"].as_array().expect("chunks");
    assert_eq!(chunks.len(), own.body.chunks.len());
    chunks.iter().zip(&own.body.chunks).for_each(|(by_rpc, own)| same_chunk(by_rpc, own));
}

#[tokio::test(flavor = "multi_thread")]
async fn network_a_guest_follows_every_block() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    let mut guest = Guest::come(&cluster, 0, 60).await;
    let latest = guest.block().await;
    assert!(latest.height() >= 3, "the latest block comes at once");
    inject(&cluster, 0, ("000_user_1", "000_user_2"), 1..21).await;
    // Heights by hash. A block beside the latest one, where the chain forked, has the same parent.
    let parent = (latest.header.prev_hash, latest.header.inner_rest.prev_height);
    let mut heights = BTreeMap::from([parent, (latest.hash(), latest.height())]);
    let (mut gas, mut seen) = (0, 0);
    let deadline = Instant::now() + 2 * PATIENCE;
    while seen < 8 || gas == 0 {
        assert!(Instant::now() < deadline, "{seen} blocks, {gas} gas");
        let block = guest.block().await;
        // The first may come twice: as the latest one, and as it was accepted.
        if heights.contains_key(&block.hash()) {
            continue;
        }
        let before = heights.get(&block.header.prev_hash).expect("none is left out");
        assert_eq!(block.header.inner_rest.prev_height, *before);
        let by_rpc = cluster.block(0, json!({"block_id": block.hash()})).await.expect("it has what it sends");
        same_block(&by_rpc, &block);
        gas += block.body.chunks.iter().map(|chunk| chunk.inner.prev_gas_used).sum::<u64>();
        heights.insert(block.hash(), block.height());
        seen += 1;
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn network_guests_that_do_not_read_harm_nobody() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    let mut deaf = Vec::new();
    for seed in 0..10 {
        deaf.push(Guest::come(&cluster, 0, 120 + seed).await);
    }
    let mut guest = Guest::come(&cluster, 0, 140).await;
    let from = guest.block().await.height();
    while guest.block().await.height() < from + 5 {}
    drop(deaf);
    cluster.stop().await;
}
