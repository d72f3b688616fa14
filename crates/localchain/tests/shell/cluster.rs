//! Nodes in this process, from copies of the fixture homes with ports of their own.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use fs_err as fs;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tpsctl_localchain::{NodeError, RunOptions, run};
use tpsctl_near::{
    CryptoHash, KeyPair, PublicKey,
    files::{KeyFile, to_text},
};
use tpsctl_testports::free_addr;

/// Waits for anything end here.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/neard")
}

/// A recorded answer of neard.
pub(crate) fn fixture(name: &str) -> Value {
    let text = fs::read(testdata().join("rpc").join(name)).expect("fixture");
    serde_json::from_slice(&text).expect("JSON")
}

pub(crate) struct Member {
    pub(crate) rpc: SocketAddr,
    pub(crate) p2p: SocketAddr,
    pub(crate) home: PathBuf,
    cancel: CancellationToken,
}

pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
    tasks: JoinSet<(usize, Result<(), NodeError>)>,
    folder: TempDir,
    client: reqwest::Client,
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("folder") {
        let path = entry.expect("entry").path();
        let target = to.join(path.file_name().expect("name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copy");
        }
    }
}

/// Gives the copied home its own ports, and `boot` to dial.
fn patch(
    home: &Path,
    (rpc, p2p): (SocketAddr, SocketAddr),
    boot: Option<&str>,
    edit: impl Fn(&mut Value),
) -> String {
    let path = home.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("config")).expect("JSON");
    let key: Value =
        serde_json::from_slice(&fs::read(home.join("node_key.json")).expect("key")).expect("JSON");
    let own = format!("{}@{p2p}", key["public_key"].as_str().expect("key"));
    config["rpc"]["addr"] = json!(rpc.to_string());
    config["network"]["addr"] = json!(p2p.to_string());
    config["network"]["boot_nodes"] = json!(boot.unwrap_or(""));
    config["network"]["public_addrs"] = json!([own]);
    // Who waits for a transaction has all the time that a busy host takes.
    config["rpc"]["polling_config"]["polling_timeout"] = json!({"secs": PATIENCE.as_secs(), "nanos": 0});
    edit(&mut config);
    fs::write(&path, config.to_string()).expect("config");
    own
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).expect("file")).expect("JSON");
    change(&mut value);
    fs::write(path, value.to_string()).expect("file");
}

/// The home of validator `own` of `names`, made from a fixture's.
fn make_home(names: &[&str], own: &str, (home, peers_max): (&Path, usize)) {
    copy(&testdata().join("home/node0"), home);
    edit(&home.join("genesis.json"), |genesis| {
        let amount = genesis["validators"][0]["amount"].clone();
        let validator = |name: &&str| json!({"account_id": name, "public_key": user_key(name).public(), "amount": amount.clone()});
        genesis["validators"] = names.iter().map(validator).collect();
        genesis["num_block_producer_seats"] = json!(names.len());
        let record = genesis["records"][0].clone();
        let stake: u128 = amount.as_str().and_then(|text| text.parse().ok()).expect("a stake");
        let supply: u128 =
            genesis["total_supply"].as_str().and_then(|text| text.parse().ok()).expect("a supply");
        genesis["total_supply"] = json!((supply + stake * names.len() as u128).to_string());
        for name in names {
            let mut record = record.clone();
            record["Account"]["account_id"] = json!(name);
            record["Account"]["account"]["amount"] = json!("0");
            genesis["records"].as_array_mut().expect("records").push(record);
        }
    });
    edit(&home.join("epoch_configs/86.json"), |epoch| {
        epoch["num_block_producer_seats"] = json!(names.len());
        epoch["target_validator_mandates_per_shard"] = json!(5);
    });
    edit(&home.join("config.json"), |config| config["network"]["max_num_peers"] = json!(peers_max));
    let key = |account: &str, key: KeyPair| {
        let file = KeyFile { account_id: Some(account.parse().expect("id")), key };
        to_text("key", &file).expect("text")
    };
    fs::write(home.join("validator_key.json"), key(own, user_key(own))).expect("key");
    fs::write(home.join("node_key.json"), key("node", user_key(&format!("{own}.network")))).expect("key");
}

impl Cluster {
    /// Starts the nodes of these fixture homes; the others dial the first.
    pub(crate) fn start(names: &[&str]) -> Self {
        Self::start_with(names, |_| {})
    }

    /// As [`Self::start`], with an edit of each config.json.
    pub(crate) fn start_with(names: &[&str], edit: impl Fn(&mut Value)) -> Self {
        Self::start_homes(names, |name, home| copy(&testdata().join("home").join(name), home), edit)
    }

    /// Starts so many validators, each with at most so many peers; all know the first one only.
    pub(crate) fn start_capped(validators: usize, peers_max: usize) -> Self {
        let names: Vec<String> = (0..validators).map(|index| format!("val{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Self::start_homes(&names, |name, home| make_home(&names, name, (home, peers_max)), |_| {})
    }

    fn start_homes(names: &[&str], make: impl Fn(&str, &Path), edit: impl Fn(&mut Value)) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let mut cluster = Self {
            members: Vec::new(),
            tasks: JoinSet::new(),
            client: reqwest::Client::builder().timeout(2 * PATIENCE).build().expect("client"),
            folder,
        };
        let mut boot: Option<String> = None;
        for name in names {
            let home = cluster.folder.path().join(name);
            make(name, &home);
            let (rpc, p2p) = (free_addr(), free_addr());
            let own = patch(&home, (rpc, p2p), boot.as_deref(), &edit);
            boot.get_or_insert(own);
            cluster.members.push(Member { rpc, p2p, home, cancel: CancellationToken::new() });
        }
        for index in 0..names.len() {
            cluster.start_member(index);
        }
        cluster
    }

    pub(crate) fn start_member(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.cancel = CancellationToken::new();
        let (options, cancel) = (RunOptions { home: member.home.clone() }, member.cancel.clone());
        self.tasks.spawn(async move { (index, run(options, cancel).await) });
    }

    /// Edits the genesis of a node that does not run.
    pub(crate) fn edit_genesis(&self, index: usize, edit: impl Fn(&mut Value)) {
        let path = self.members[index].home.join("genesis.json");
        let mut genesis: Value = serde_json::from_slice(&fs::read(&path).expect("genesis")).expect("JSON");
        edit(&mut genesis);
        fs::write(&path, genesis.to_string()).expect("genesis");
    }

    /// Ends one node and waits for it.
    pub(crate) async fn stop_member(&mut self, index: usize) {
        self.members[index].cancel.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.tasks.join_next()).await.expect("it ends in time");
        let (ended, outcome) = ended.expect("a task").expect("no panic");
        assert_eq!(ended, index);
        outcome.expect("an ordinary end");
    }

    pub(crate) async fn stop(mut self) {
        for index in 0..self.members.len() {
            self.stop_member(index).await;
        }
    }

    /// HTTP code and body of a JSON-RPC call.
    pub(crate) async fn call(&self, index: usize, method: &str, params: Value) -> (u16, Value) {
        self.post(index, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
    }

    pub(crate) async fn post(&self, index: usize, body: &Value) -> (u16, Value) {
        let url = format!("http://{}/", self.members[index].rpc);
        let answer = self.client.post(url).json(body).send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    pub(crate) async fn get(&self, index: usize, path: &str) -> Option<String> {
        let url = format!("http://{}{path}", self.members[index].rpc);
        self.client.get(url).send().await.ok()?.text().await.ok()
    }

    pub(crate) async fn status(&self, index: usize) -> Option<Value> {
        serde_json::from_str(&self.get(index, "/status").await?).ok()
    }

    pub(crate) async fn height(&self, index: usize) -> u64 {
        let status = self.status(index).await.unwrap_or_default();
        status["sync_info"]["latest_block_height"].as_u64().unwrap_or(0)
    }

    /// Waits until a node answers.
    pub(crate) async fn up(&self, index: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.status(index).await.is_none() {
            assert!(Instant::now() < deadline, "node {index} does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a node's head is at least at `height`.
    pub(crate) async fn reach(&self, index: usize, height: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.height(index).await < height {
            assert!(Instant::now() < deadline, "node {index} is at {}", self.height(index).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The result of `block`; none where there is no such block.
    pub(crate) async fn block(&self, index: usize, params: Value) -> Option<Value> {
        let (_, mut answer) = self.call(index, "block", params).await;
        answer.get_mut("result").map(Value::take)
    }

    /// A block that is final at a node and that all others have, too: any of them takes a transaction on it.
    pub(crate) async fn base(&self, index: usize) -> CryptoHash {
        let block = self.block(index, json!({"finality": "final"})).await.expect("a final block");
        let hash = block["header"]["hash"].clone();
        let deadline = Instant::now() + PATIENCE;
        for other in 0..self.members.len() {
            while self.block(other, json!({"block_id": hash})).await.is_none() {
                assert!(Instant::now() < deadline, "node {other} does not have {hash}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        serde_json::from_value(hash).expect("a hash")
    }

    /// Waits until every node is connected to every other.
    pub(crate) async fn meet(&self) {
        let deadline = Instant::now() + PATIENCE;
        for index in 0..self.members.len() {
            loop {
                let (_, answer) = self.call(index, "network_info", json!([])).await;
                let peers = answer["result"]["num_active_peers"].as_u64().unwrap_or(0);
                if peers + 1 >= self.members.len() as u64 {
                    break;
                }
                assert!(Instant::now() < deadline, "node {index} has {peers} peers");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Key of the node, genesis hash.
    pub(crate) async fn identity(&self, index: usize) -> (PublicKey, CryptoHash) {
        let status = self.status(index).await.expect("status");
        let text = |name: &str| status[name].as_str().expect("text").to_owned();
        (text("node_public_key").parse().expect("key"), text("genesis_hash").parse().expect("hash"))
    }

    /// The last nonce of a user's key.
    pub(crate) async fn nonce(&self, index: usize, account: &str) -> u64 {
        let public_key = user_key(account).public();
        let params = json!({
            "request_type": "view_access_key",
            "finality": "optimistic",
            "account_id": account,
            "public_key": public_key,
        });
        self.call(index, "query", params).await.1["result"]["nonce"].as_u64().expect("a nonce")
    }
}

/// The fixture users' keys: the seed is SHA-256 of the account id.
pub(crate) fn user_key(account: &str) -> KeyPair {
    KeyPair::from_seed(CryptoHash::of(account.as_bytes()).0)
}
