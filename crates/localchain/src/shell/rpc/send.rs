//! `send_tx` and `broadcast_tx_async`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tpsctl_near::SignedTransaction;

use super::{
    Answer, Rpc,
    error::RpcError,
    params::{self, WaitUntil},
};
use crate::{
    core::{Event, Watched},
    shell::{admission::Route, driver::Query, json},
};

/// neard's `rpc.polling_config`: how long to wait, and how often to look.
const POLLING_TIMEOUT: Duration = Duration::from_secs(10);
const POLLING_INTERVAL: Duration = Duration::from_millis(100);

impl Rpc {
    /// Answers with the hash and hides all errors but those of decoding, as neard does.
    pub(super) async fn broadcast_tx_async(&self, params: Value) -> Answer {
        let (signed, _) = params::send(params)?;
        let hash = signed.hash();
        if let Err(error) = self.admission.admit_one(signed).await {
            tracing::debug!(?error, %hash, "refused a transaction");
        }
        Ok(json!(hash))
    }

    pub(super) async fn send_tx(&self, params: Value) -> Answer {
        let (signed, wait_until) = params::send(params)?;
        let (signer, nonce) = (signed.transaction.signer_id.clone(), signed.transaction.nonce);
        if wait_until != WaitUntil::None {
            let watch = Event::Watch { signer: signer.clone(), nonce };
            self.inputs.events.send(watch).await.map_err(|_| RpcError::Ending)?;
        }
        let admitted = self.admission.admit_one(signed.clone()).await;
        if wait_until == WaitUntil::None {
            return Ok(json!({"final_execution_status": "NONE"}));
        }
        let route = admitted.map_err(RpcError::InvalidTransaction)?;
        // Whoever does not have the signer's state never sees what becomes of it.
        if route != Route::Pool && self.view().state_of(&signer).is_none() {
            return Err(RpcError::Routed(signed.hash()));
        }
        let deadline = Instant::now() + POLLING_TIMEOUT;
        while Instant::now() < deadline && !self.cancel.is_cancelled() {
            let signer = signer.clone();
            let watched = self.ask(|answer| Query::Watched { signer, nonce, answer }).await?;
            if let Some(answer) = watched.and_then(|watched| self.reached(&signed, &watched, wait_until)) {
                return Ok(answer);
            }
            tokio::time::sleep(POLLING_INTERVAL).await;
        }
        Err(RpcError::Timeout)
    }

    /// The answer, once the transaction is where it was to be.
    fn reached(&self, signed: &SignedTransaction, watched: &Watched, wait_until: WaitUntil) -> Option<Value> {
        let final_height = self.view().last_final.block.height();
        let (included_at, _) = watched.converted?;
        let is_included_final = included_at <= final_height;
        let executed = |level: &str| Some(json::executed(signed, watched, level, self.view().gas_price));
        match wait_until {
            WaitUntil::None => Some(json!({"final_execution_status": "NONE"})),
            WaitUntil::Included => Some(json!({"final_execution_status": "INCLUDED"})),
            WaitUntil::IncludedFinal => {
                is_included_final.then(|| json!({"final_execution_status": "INCLUDED_FINAL"}))
            }
            WaitUntil::ExecutedOptimistic => watched.executed.and_then(|_| executed("EXECUTED_OPTIMISTIC")),
            WaitUntil::Executed => {
                watched.executed.filter(|_| is_included_final).and_then(|_| executed("EXECUTED"))
            }
            WaitUntil::Final => {
                let is_final = watched.executed.is_some_and(|(height, _, _)| height <= final_height);
                is_final.then(|| executed("FINAL")).flatten()
            }
        }
    }
}
