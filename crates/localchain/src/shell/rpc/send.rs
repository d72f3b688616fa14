//! `send_tx` and its older names, `tx` and `EXPERIMENTAL_tx_status` (chain/jsonrpc/src/lib.rs:862-1072).

use serde_json::json;
use tokio::time::Instant;
use tpsctl_near::{CryptoHash, MIN_GAS_PURCHASE_PRICE, SignedTransaction};

use super::{Answer, Rpc, error::RpcError, params::TransactionRef};
use crate::{
    core::{Event, Found, InvalidTx},
    shell::{
        admission::Route,
        driver::Query,
        json::{Level, Prices, level, reached},
    },
};

/// Whether `EXPERIMENTAL_tx_status` asks.
type WithReceipts = bool;

impl Rpc {
    /// Hands a transaction over and says its hash; all else is hidden, as neard does.
    pub(super) async fn send_tx_async(&self, signed: SignedTransaction) -> CryptoHash {
        let hash = signed.hash();
        if let Err(error) = self.admission.admit_one(signed).await {
            tracing::debug!(?error, %hash, "refused a transaction");
        }
        hash
    }

    pub(super) async fn send_tx(&self, signed: SignedTransaction, wait_until: Level) -> Answer {
        if wait_until == Level::None {
            self.send_tx_async(signed).await;
            return Ok(json!({"final_execution_status": Level::None}));
        }
        self.watch(&signed).await?;
        let hash = signed.hash();
        match self.admission.admit_one(signed.clone()).await {
            // Who has the signer's state sees what becomes of the transaction, wherever it goes.
            Ok(route) if route != Route::Pool && !self.tracks(&signed) => Err(RpcError::DoesNotTrackShard),
            Ok(_) => self.wait(hash, Some(&signed), wait_until, false).await,
            // It may have been sent before.
            Err(InvalidTx::InvalidNonce { .. }) if self.find(hash).await?.is_some() => {
                self.wait(hash, Some(&signed), wait_until, false).await
            }
            Err(error) => Err(RpcError::InvalidTransaction(error)),
        }
    }

    /// What became of a transaction. neard asks a producer of the signer's shard where it does not track that itself;
    /// this node says that it does not.
    pub(super) async fn transaction(
        &self,
        (transaction, wait_until): (TransactionRef, Level),
        with_receipts: WithReceipts,
    ) -> Answer {
        let (hash, sender) = match &transaction {
            TransactionRef::Signed(signed) => (signed.hash(), &signed.transaction.signer_id),
            TransactionRef::Id { hash, sender } => (*hash, sender),
        };
        if self.view().state_of(sender).is_none() {
            return match wait_until {
                Level::None => Ok(json!({"final_execution_status": Level::None})),
                _ => Err(RpcError::DoesNotTrackShard),
            };
        }
        let signed = match &transaction {
            TransactionRef::Signed(signed) => Some(&**signed),
            TransactionRef::Id { .. } => None,
        };
        if let Some(signed) = signed {
            self.watch(signed).await?;
        }
        self.wait(hash, signed, wait_until, with_receipts).await
    }

    fn tracks(&self, signed: &SignedTransaction) -> bool {
        self.view().state_of(&signed.transaction.signer_id).is_some()
    }

    async fn watch(&self, signed: &SignedTransaction) -> Result<(), RpcError> {
        let (signer, nonce) = (signed.transaction.signer_id.clone(), signed.transaction.nonce);
        let watch = Event::Watch { signer, nonce };
        self.inputs.events.send(watch).await.map_err(|_| RpcError::ending())
    }

    async fn find(&self, hash: CryptoHash) -> Result<Option<Found>, RpcError> {
        self.ask(|answer| Query::Transaction(hash, answer)).await
    }

    /// Waits until the chain has brought the transaction so far. One that is not known is waited for, unless it can be
    /// seen that it will never be valid, or nobody wants to wait.
    async fn wait(
        &self,
        hash: CryptoHash,
        signed: Option<&SignedTransaction>,
        wait_until: Level,
        with_receipts: WithReceipts,
    ) -> Answer {
        let polling = self.home.rpc.polling_config;
        let deadline = Instant::now() + polling.polling_timeout;
        let mut view = self.view.clone();
        loop {
            view.mark_unchanged();
            match self.find(hash).await? {
                Some(found) => {
                    let level = level(&found, self.view().last_final.block.height());
                    if level.meets(wait_until) {
                        return Ok(reached(&found, level, self.prices(), with_receipts));
                    }
                }
                None => self.check_unknown(hash, signed, wait_until).await?,
            }
            if Instant::now() >= deadline {
                return Err(RpcError::Timeout);
            }
            let until = deadline.min(Instant::now() + polling.polling_interval);
            tokio::select! {
                () = self.cancel.cancelled() => return Err(RpcError::ending()),
                () = tokio::time::sleep_until(until) => {}
                // The node may end; then the cancelled token ends the wait.
                changed = view.changed() => if changed.is_err() { return Err(RpcError::ending()) },
            }
        }
    }

    /// Whether to go on waiting for a transaction that the chain does not have.
    async fn check_unknown(
        &self,
        hash: CryptoHash,
        signed: Option<&SignedTransaction>,
        wait_until: Level,
    ) -> Result<(), RpcError> {
        if let Some(signed) = signed
            && let Err(error) = self.admission.check_one(signed.clone())
            // It may have been included just now.
            && self.find(hash).await?.is_none()
        {
            return Err(RpcError::InvalidTransaction(error));
        }
        if wait_until == Level::None { Err(RpcError::UnknownTransaction(hash)) } else { Ok(()) }
    }

    fn prices(&self) -> Prices {
        let burnt = self.view().gas_price;
        Prices { burnt, purchase: burnt.max(MIN_GAS_PURCHASE_PRICE) }
    }
}
