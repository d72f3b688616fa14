//! The node that is looked at.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use fs_err as fs;
use serde_json::{Value, json};
use tpsctl_near::{
    AccountId, CryptoHash, KeyPair, PublicKey,
    files::{FileError, GenesisFile, KeyFile, NodeConfigFile, Permission, StateRecord, from_text},
};

use crate::report::{Outcome, fail};

/// Time for one answer; `send_tx` alone may take ten seconds.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// Where the node answers, as far as that is not what its config says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Addresses {
    /// JSON-RPC.
    pub rpc: Option<SocketAddr>,
    /// Peers.
    pub p2p: Option<SocketAddr>,
    /// `/metrics`.
    pub metrics: Option<SocketAddr>,
}

/// A running node and its home directory.
#[derive(Debug)]
pub struct Subject {
    pub(crate) home: PathBuf,
    pub(crate) rpc: SocketAddr,
    pub(crate) p2p: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) config: NodeConfigFile,
    pub(crate) genesis: GenesisFile,
    /// Accounts that can send transactions.
    pub(crate) signers: Vec<(AccountId, KeyPair)>,
    http: reqwest::Client,
}

/// Nothing can be checked.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// A file of the home directory cannot be opened; the source names it.
    #[error("open a file of the home directory")]
    Open(#[from] std::io::Error),
    /// A file of the home directory is not what it should be.
    #[error("read the home directory")]
    Parse(#[from] FileError),
    /// It has no RPC server.
    #[error("config.json names no `rpc`, and no address was given")]
    NoRpc,
    /// Our own client.
    #[error("set up an HTTP client")]
    Client(#[from] reqwest::Error),
}

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// An unspecified address is reached over loopback.
fn reachable(mut addr: SocketAddr) -> SocketAddr {
    if addr.ip().is_unspecified() {
        addr.set_ip(match addr.ip() {
            IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        });
    }
    addr
}

impl Subject {
    /// The node of a home directory. `keys` are key files of accounts with a balance; beside them serve the validator's
    /// own key, and accounts of genesis whose key has SHA-256 of their name for its seed, as benchmarks make them.
    pub fn of_home(home: &Path, addresses: Addresses, keys: &[PathBuf]) -> Result<Self, SubjectError> {
        let config: NodeConfigFile = from_text("config.json", &fs::read(home.join("config.json"))?)?;
        let genesis = GenesisFile::read(fs::File::open(home.join(&config.genesis_file))?)?;
        let own = config.rpc.as_ref().map(|rpc| reachable(rpc.addr));
        let rpc = addresses.rpc.or(own).ok_or(SubjectError::NoRpc)?;
        let mut signers = Vec::new();
        let validator = home.join(&config.validator_key_file);
        for path in keys.iter().chain(validator.is_file().then_some(&validator)) {
            let file: KeyFile = from_text("key file", &fs::read(path)?)?;
            signers.extend(file.account_id.map(|account| (account, file.key)));
        }
        signers.extend(genesis.records.iter().filter_map(derived));
        Ok(Self {
            home: home.to_owned(),
            rpc,
            p2p: addresses.p2p.unwrap_or_else(|| reachable(config.network.addr)),
            metrics: addresses.metrics.unwrap_or(rpc),
            config,
            genesis,
            signers,
            http: reqwest::Client::builder().no_proxy().timeout(ANSWER_TIME).build()?,
        })
    }

    pub(crate) async fn post(&self, body: Vec<u8>) -> Result<Answer, Outcome> {
        let request = self.http.post(format!("http://{}/", self.rpc));
        self.send(request.header("content-type", "application/json").body(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Outcome> {
        self.send(self.http.get(format!("http://{}{path}", self.rpc))).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, Outcome> {
        match request.send().await {
            Ok(answer) => {
                let code = answer.status().as_u16();
                let text = answer.text().await.unwrap_or_default();
                let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text));
                Ok(Answer { code, body })
            }
            Err(error) => fail("an answer over HTTP", format!("{error:?}")),
        }
    }

    pub(crate) async fn page(&self) -> Result<String, Outcome> {
        let url = format!("http://{}/metrics", self.metrics);
        match self.http.get(url).send().await {
            Ok(answer) if answer.status() == 200 => Ok(answer.text().await.unwrap_or_default()),
            Ok(answer) => fail("a metrics page with HTTP 200", answer.status()),
            Err(error) => fail("a metrics page", format!("{error:?}")),
        }
    }

    /// A JSON-RPC call.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Result<Answer, Outcome> {
        let body = json!({"jsonrpc": "2.0", "id": "conformance", "method": method, "params": params});
        let answer = self.post(body.to_string().into_bytes()).await?;
        if answer.body["id"] == "conformance" && answer.body["jsonrpc"] == "2.0" {
            Ok(answer)
        } else {
            fail("an answer with the request's id", answer.body)
        }
    }

    /// The result of a call that must have one.
    pub(crate) async fn result(&self, method: &str, params: Value) -> Result<Value, Outcome> {
        let Answer { code, mut body } = self.call(method, params).await?;
        match body.get_mut("result") {
            Some(result) if code == 200 => Ok(result.take()),
            _ => fail(format!("a result of `{method}`, HTTP 200"), format!("HTTP {code}: {body}")),
        }
    }

    /// The last nonce of a key, where the node can tell.
    pub(crate) async fn nonce(&self, account: &AccountId, key: &PublicKey) -> Option<u64> {
        let params = json!({"request_type": "view_access_key", "finality": "optimistic",
            "account_id": account, "public_key": key});
        self.call("query", params).await.ok()?.body["result"]["nonce"].as_u64()
    }

    /// An account whose nonce the node can tell, so one of a shard that it tracks.
    pub(crate) async fn signer(&self) -> Option<(AccountId, KeyPair)> {
        // Derived accounts come by the hundred, each shard's together: some of each end are enough.
        let (len, some) = (self.signers.len(), 6);
        let middle = self.signers.iter().skip(some).step_by(1 + len / 40);
        for (account, key) in self.signers.iter().take(some).chain(middle) {
            if self.nonce(account, &key.public()).await.is_some() {
                return Some((account.clone(), key.clone()));
            }
        }
        None
    }

    /// Height of the head.
    pub(crate) async fn height(&self) -> Result<u64, Outcome> {
        let status = self.result("status", json!([])).await?;
        match status["sync_info"]["latest_block_height"].as_u64() {
            Some(height) => Ok(height),
            None => fail("a height", status),
        }
    }
}

fn derived(record: &StateRecord) -> Option<(AccountId, KeyPair)> {
    let StateRecord::AccessKey { account_id, public_key, access_key } = record else { return None };
    let key = KeyPair::from_seed(CryptoHash::of(account_id.as_str().as_bytes()).0);
    let is_it = key.public() == *public_key && access_key.permission == Permission::FullAccess;
    is_it.then(|| (account_id.clone(), key))
}
