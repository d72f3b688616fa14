//! What the embedded node answers, read by NEAR's own types of the answers.

#[path = "../../../localchain/tests/shell/cluster.rs"]
#[expect(dead_code, reason = "the node's own tests use the rest")]
mod cluster;

use near_primitives::{
    types::AccountId,
    utils::create_receipt_id_from_transaction,
    views::{
        AccessKeyList, AccessKeyView, AccountView, BlockView, ChunkView, EpochValidatorInfo,
        ExecutionStatusView, FinalExecutionOutcomeView, FinalExecutionOutcomeWithReceiptView,
        FinalExecutionStatus, GasPriceView, StatusResponse,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tpsctl_near::{Action, CryptoHash, SignedTransaction, Transaction};

use self::cluster::{Cluster, fixture, user_key};

fn read<T: DeserializeOwned>(answer: &Value) -> T {
    let read = T::deserialize(&answer["result"]);
    assert!(read.is_ok(), "{:?}: {answer}", read.err());
    read.expect("it was read")
}

/// The node that tracks all shards.
const RPC: usize = 2;

async fn ask<T: DeserializeOwned>(cluster: &Cluster, method: &str, params: Value) -> T {
    read(&cluster.call(RPC, method, params).await.1)
}

/// The types read what neard wrote; else they could not judge this node.
fn assert_types_are_neards() {
    read::<BlockView>(&fixture("block-by-height.json"));
    read::<ChunkView>(&fixture("chunk.json"));
    read::<EpochValidatorInfo>(&fixture("validators.json"));
    read::<FinalExecutionOutcomeView>(&fixture("send_tx-executed.json"));
    read::<StatusResponse>(&fixture("status.json"));
}

fn transfer(block_hash: CryptoHash) -> SignedTransaction {
    let key = user_key("000_user_0");
    Transaction {
        signer_id: "000_user_0".parse().expect("id"),
        public_key: key.public(),
        nonce: 1,
        receiver_id: "a01_user_1".parse().expect("id"),
        block_hash,
        actions: vec![Action::Transfer { deposit: 1 }],
    }
    .sign(&key)
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_read_by_nears_own_types() {
    assert_types_are_neards();
    let cluster = Cluster::start(&["node0", "node1", "node2"]);
    cluster.reach(RPC, 3).await;
    let status: StatusResponse = ask(&cluster, "status", json!([])).await;
    let base = status.sync_info.latest_block_hash.to_string().parse().expect("hash");
    let sent = transfer(base);
    let bytes = borsh::to_vec(&sent).expect("memory");
    let text = near_primitives::serialize::to_base64(&bytes);
    let params = json!({"signed_tx_base64": text, "wait_until": "FINAL"});
    let outcome: FinalExecutionOutcomeView = ask(&cluster, "send_tx", params).await;
    assert_eq!(outcome.status, FinalExecutionStatus::SuccessValue(Vec::new()));
    assert_eq!(outcome.transaction.hash.to_string(), sent.hash().to_string());
    let block: BlockView = ask(&cluster, "block", json!([outcome.transaction_outcome.block_hash])).await;
    let receipt = create_receipt_id_from_transaction(&outcome.transaction.hash, block.header.height);
    assert_eq!(outcome.transaction_outcome.outcome.status, ExecutionStatusView::SuccessReceiptId(receipt));
    let params = json!([outcome.transaction.hash, "000_user_0"]);
    let whole: FinalExecutionOutcomeWithReceiptView = ask(&cluster, "EXPERIMENTAL_tx_status", params).await;
    assert_eq!(whole.final_outcome, outcome);
    assert_eq!(whole.receipts[0].receipt_id, receipt);
    let chunk: ChunkView = ask(&cluster, "chunk", json!([[block.header.height, 0]])).await;
    assert_eq!(chunk.transactions, [outcome.transaction]);
    let next: ChunkView = ask(&cluster, "chunk", json!([[block.header.height + 1, 0]])).await;
    assert_eq!(next.receipts, whole.receipts);
    let validators: EpochValidatorInfo = ask(&cluster, "validators", json!([null])).await;
    let names: Vec<AccountId> = validators.current_validators.into_iter().map(|own| own.account_id).collect();
    assert_eq!(names, ["node0", "node1"]);
    let _: GasPriceView = ask(&cluster, "gas_price", json!([null])).await;
    let query = |kind: &str| {
        json!({
            "request_type": kind, "finality": "final", "account_id": "000_user_0",
            "public_key": user_key("000_user_0").public(),
        })
    };
    let _: AccountView = ask(&cluster, "query", query("view_account")).await;
    let _: AccessKeyView = ask(&cluster, "query", query("view_access_key")).await;
    let keys: AccessKeyList = ask(&cluster, "query", query("view_access_key_list")).await;
    assert_eq!(keys.keys[0].access_key.nonce, 1);
    cluster.stop().await;
}
