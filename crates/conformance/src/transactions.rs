//! JSON-RPC: transactions and what becomes of them.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tpsctl_near::{AccountId, Action, CryptoHash, KeyPair, SignedTransaction, Transaction};

use crate::{
    Report, Subject,
    report::{Checked, Outcome, ensure, equal, fail},
    rpc::{error_like, recorded},
    shape::like,
    subject::Answer,
};

/// Statuses of a transaction, each after those before it.
const STATUSES: [&str; 6] =
    ["NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"];

/// Who sends. The next nonce is asked for each time.
pub(crate) struct Sender<'a> {
    subject: &'a Subject,
    account: AccountId,
    key: KeyPair,
}

pub(crate) async fn check(subject: &Subject, report: &mut Report) {
    report.add("tx/garbage", garbage(subject).await);
    let Some((account, key)) = subject.signer().await else {
        let why =
            "no account whose key is known is of a shard that the node tracks; name a key file with --key";
        report.add("tx/all_others", Err(Outcome::Skip { why: why.to_owned() }));
        return;
    };
    let sender = Sender { subject, account, key };
    for status in STATUSES {
        report.add(format!("tx/wait_until_{}", status.to_lowercase()), sender.wait_until(status).await);
    }
    report.add("tx/broadcast_tx_async", sender.broadcast_async().await);
    report.add("tx/broadcast_tx_commit", sender.broadcast_commit().await);
    report.add("tx/tx_and_tx_status", sender.status_afterwards().await);
    report.add("tx/sent_twice", sender.sent_twice().await);
    report.add("tx/invalid_nonce", sender.invalid_nonce().await);
    report.add("tx/invalid_signature", sender.invalid_signature().await);
    report.add("tx/expired", sender.expired().await);
    report.add("tx/not_enough_balance", sender.not_enough_balance().await);
}

async fn garbage(subject: &Subject) -> Checked {
    let answer = subject.call("broadcast_tx_async", json!([BASE64_STANDARD.encode(b"garbage")])).await?;
    error_like(&answer, &recorded!("broadcast_tx_async-garbage"), 400)?;
    let params = json!({"signed_tx_base64": "%", "wait_until": "NONE"});
    let answer = subject.call("send_tx", params).await?;
    equal("HTTP code", &answer.code, &400)?;
    equal("cause", &answer.body["error"]["cause"]["name"], &json!("PARSE_ERROR"))
}

fn encoded(signed: &SignedTransaction) -> String {
    BASE64_STANDARD.encode(borsh::to_vec(signed).expect("memory takes every byte"))
}

/// Place of a status in [`STATUSES`].
fn rank(status: &Value) -> Option<usize> {
    STATUSES.iter().position(|own| *own == status)
}

impl<'a> Sender<'a> {
    /// One that the node can be asked about, if there is any.
    pub(crate) async fn of(subject: &'a Subject) -> Option<Self> {
        let (account, key) = subject.signer().await?;
        Some(Self { subject, account, key })
    }

    pub(crate) async fn nonce(&self) -> Option<u64> {
        self.subject.nonce(&self.account, &self.key.public()).await
    }

    /// A transfer of one yocto to the sender itself, with the next nonce unless `change` says otherwise.
    pub(crate) async fn transfer(
        &self,
        change: impl FnOnce(&mut Transaction),
    ) -> Result<SignedTransaction, Outcome> {
        let nonce = match self.nonce().await {
            Some(nonce) => nonce + 1,
            None => return fail("a nonce", "none"),
        };
        let block = self.subject.result("block", json!({"finality": "final"})).await?;
        let hash = block["header"]["hash"].as_str().unwrap_or_default().parse();
        let mut transaction = Transaction {
            signer_id: self.account.clone(),
            public_key: self.key.public(),
            nonce,
            receiver_id: self.account.clone(),
            block_hash: hash.or_else(|error| fail("a block hash", error))?,
            actions: vec![Action::Transfer { deposit: 1 }],
        };
        change(&mut transaction);
        Ok(transaction.sign(&self.key))
    }

    async fn send(&self, signed: &SignedTransaction, wait_until: &str) -> Result<Answer, Outcome> {
        let params = json!({"signed_tx_base64": encoded(signed), "wait_until": wait_until});
        self.subject.call("send_tx", params).await
    }

    /// Waits until the nonce is used.
    pub(crate) async fn used(&self, nonce: u64) -> Checked {
        for _ in 0..200 {
            if self.nonce().await >= Some(nonce) {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        fail(format!("nonce {nonce} used within 20 s"), format!("{:?}", self.nonce().await))
    }

    async fn wait_until(&self, status: &str) -> Checked {
        let signed = self.transfer(|_| {}).await?;
        let answer = self.send(&signed, status).await?;
        equal("HTTP code", &answer.code, &200)?;
        let result = &answer.body["result"];
        let reached = &result["final_execution_status"];
        ensure(rank(reached) >= rank(&json!(status)), format!("{status} or later"), &answer.body)?;
        match status {
            "NONE" => equal("the recorded answer", result, &recorded!("send_tx-none")["result"])?,
            "INCLUDED" | "INCLUDED_FINAL" => like(result, &recorded!("send_tx-nonce-far-ahead")["result"])?,
            _ => {
                like(result, &recorded!("send_tx-executed")["result"])?;
                executed(result, &signed)?;
            }
        }
        self.used(signed.transaction.nonce).await
    }

    async fn broadcast_async(&self) -> Checked {
        let signed = self.transfer(|_| {}).await?;
        let result = self.subject.result("broadcast_tx_async", json!([encoded(&signed)])).await?;
        equal("the transaction's hash", &result, &json!(signed.hash()))?;
        self.used(signed.transaction.nonce).await
    }

    async fn broadcast_commit(&self) -> Checked {
        let signed = self.transfer(|_| {}).await?;
        let result = self.subject.result("broadcast_tx_commit", json!([encoded(&signed)])).await?;
        like(&result, &recorded!("send_tx-executed")["result"])?;
        executed(&result, &signed)
    }

    /// `tx` and `EXPERIMENTAL_tx_status` of one that was executed, by position and by name.
    async fn status_afterwards(&self) -> Checked {
        let signed = self.transfer(|_| {}).await?;
        let sent = self.send(&signed, "EXECUTED").await?.body;
        let by_name =
            json!({"tx_hash": signed.hash(), "sender_account_id": self.account, "wait_until": "EXECUTED"});
        let by_position = json!([signed.hash(), self.account]);
        for method in ["tx", "EXPERIMENTAL_tx_status"] {
            for params in [&by_name, &by_position] {
                let result = self.subject.result(method, params.clone()).await?;
                like(&result, &recorded!("send_tx-executed")["result"])?;
                executed(&result, &signed)?;
                for key in ["transaction", "transaction_outcome", "status"] {
                    equal(
                        &format!("`{key}` of `{method}`, as of `send_tx`,"),
                        &result[key],
                        &sent["result"][key],
                    )?;
                }
                let has_receipts = result.get("receipts").is_some_and(Value::is_array);
                ensure(
                    has_receipts == (method != "tx"),
                    format!("receipts of `{method}` only if asked for"),
                    &result,
                )?;
            }
        }
        Ok(())
    }

    /// An executed transaction sent again is answered like the first time.
    async fn sent_twice(&self) -> Checked {
        let signed = self.transfer(|_| {}).await?;
        self.send(&signed, "EXECUTED_OPTIMISTIC").await?;
        let again = self.send(&signed, "EXECUTED_OPTIMISTIC").await?;
        equal("HTTP code", &again.code, &200)?;
        executed(&again.body["result"], &signed)
    }

    async fn invalid_nonce(&self) -> Checked {
        let signed = self.transfer(|transaction| transaction.nonce -= 1).await?;
        let answer = self.send(&signed, "EXECUTED_OPTIMISTIC").await?;
        // Nonce 0, where the key was never used, is refused in the same way.
        error_like(&answer, &recorded!("send_tx-invalid-nonce"), 200)
    }

    async fn invalid_signature(&self) -> Checked {
        let mut signed = self.transfer(|_| {}).await?;
        signed.signature.0[5] ^= 1;
        let answer = self.send(&signed, "INCLUDED").await?;
        error_like(&answer, &recorded!("send_tx-invalid-signature"), 200)?;
        equal("error", &answer.body["error"], &recorded!("send_tx-invalid-signature")["error"])
    }

    async fn expired(&self) -> Checked {
        let signed = self.transfer(|transaction| transaction.block_hash = CryptoHash([7; 32])).await?;
        let answer = self.send(&signed, "FINAL").await?;
        error_like(&answer, &recorded!("send_tx-expired"), 200)?;
        equal("error", &answer.body["error"], &recorded!("send_tx-expired")["error"])
    }

    async fn not_enough_balance(&self) -> Checked {
        let all = vec![Action::Transfer { deposit: 10_u128.pow(37) }];
        let signed = self.transfer(|transaction| transaction.actions = all).await?;
        let answer = self.send(&signed, "FINAL").await?;
        error_like(&answer, &recorded!("send_tx-not-enough-balance"), 200)
    }
}

/// The result is that of this transfer, executed with success and at its price.
fn executed(result: &Value, signed: &SignedTransaction) -> Checked {
    equal("hash", &result["transaction"]["hash"], &json!(signed.hash()))?;
    equal("nonce", &result["transaction"]["nonce"], &json!(signed.transaction.nonce))?;
    equal("status", &result["status"], &json!({"SuccessValue": ""}))?;
    let place = "/transaction_outcome/outcome/gas_burnt";
    equal(place, &result.pointer(place), &Some(&json!(tpsctl_near::TRANSFER_GAS_UNIT)))
}
