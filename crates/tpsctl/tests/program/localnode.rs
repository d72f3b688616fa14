//! `tpsctl localnode run` as a process: signals, what it reads again, how it ends.

use std::{path::PathBuf, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};
use tpsctl_testports::free_port;

use crate::support::{Bench, Running, testdata};

/// Waits for anything end here.
const PATIENCE_SECONDS: u64 = 60;

/// A node of the fixture homes as a process, with ports of its own.
pub(crate) struct LocalNode {
    pub(crate) home: PathBuf,
    pub(crate) rpc: u16,
    pub(crate) p2p: u16,
    running: Option<Running>,
}

pub(crate) fn read(path: &std::path::Path) -> Value {
    serde_json::from_slice(&fs_err::read(path).expect("file")).expect("JSON")
}

impl LocalNode {
    /// A copy of a fixture home; the node dials `boot`, written `key@address`.
    pub(crate) fn new(bench: &Bench, name: &str, boot: &str) -> Self {
        let (from, home) = (testdata("home").join(name), bench.dir.path().join(name));
        fs_err::create_dir_all(home.join("epoch_configs")).expect("home");
        for file in ["genesis.json", "node_key.json", "validator_key.json", "epoch_configs/86.json"] {
            if from.join(file).exists() {
                fs_err::copy(from.join(file), home.join(file)).expect("fixture");
            }
        }
        let node = Self { home, rpc: free_port(), p2p: free_port(), running: None };
        let mut config = read(&from.join("config.json"));
        config["rpc"]["addr"] = json!(format!("[::1]:{}", node.rpc));
        config["network"]["addr"] = json!(format!("[::1]:{}", node.p2p));
        config["network"]["boot_nodes"] = json!(boot);
        config["network"]["public_addrs"] = json!([node.contact()]);
        node.write_config(&config);
        node
    }

    /// Its key and address.
    pub(crate) fn contact(&self) -> String {
        let key = read(&self.home.join("node_key.json"));
        format!("{}@[::1]:{}", key["public_key"].as_str().expect("key"), self.p2p)
    }

    pub(crate) fn config(&self) -> Value {
        read(&self.home.join("config.json"))
    }

    pub(crate) fn write_config(&self, config: &Value) {
        fs_err::write(self.home.join("config.json"), config.to_string()).expect("config");
    }

    pub(crate) fn start(&mut self, bench: &Bench) -> &mut Running {
        let home = self.home.to_str().expect("text");
        self.running.insert(bench.start(&["localnode", "run", "--home", home]))
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("started")
    }

    /// Ends it by a signal, well.
    pub(crate) fn end(&mut self, signal: Signal) {
        let running = self.running.take().expect("started");
        running.signal(signal);
        let (code, _, stderr) = running.finish();
        assert_eq!(code, Some(0), "{stderr}");
        let ports = [self.rpc, self.p2p].map(|port| std::net::TcpListener::bind(format!("[::1]:{port}")));
        assert!(ports.iter().all(Result::is_ok), "its listeners are closed: {ports:?}");
    }

    /// Waits for its own end; exit code and stderr.
    pub(crate) fn ended(&mut self) -> (Option<i32>, String) {
        let (code, _, stderr) = self.running.take().expect("started").finish();
        (code, stderr)
    }

    /// The answer to a GET; none while it does not answer.
    pub(crate) fn get(&self, path: &str) -> Option<String> {
        self.ask(|client, url| client.get(format!("{url}{path}")))
    }

    /// The result of a JSON-RPC call; null while there is none.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self.ask(|client, url| client.post(format!("{url}/")).json(&body));
        answer
            .map_or(Value::Null, |text| serde_json::from_str::<Value>(&text).expect("JSON")["result"].clone())
    }

    fn ask(&self, request: impl Fn(&reqwest::Client, &str) -> reqwest::RequestBuilder) -> Option<String> {
        let url = format!("http://[::1]:{}", self.rpc);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let timeout = Duration::from_secs(PATIENCE_SECONDS);
            let client = reqwest::Client::builder().no_proxy().timeout(timeout).build().expect("client");
            request(&client, &url).send().await.ok()?.text().await.ok()
        })
    }

    pub(crate) fn height(&self) -> u64 {
        let status = self.get("/status").and_then(|text| serde_json::from_str::<Value>(&text).ok());
        status.unwrap_or_default()["sync_info"]["latest_block_height"].as_u64().unwrap_or(0)
    }

    /// Waits until the head is at least there.
    pub(crate) fn reach(&self, height: u64) {
        wait(&format!("height {height}"), || self.height() >= height);
    }

    /// The time of a block, none for a skipped height.
    fn time_of(&self, height: u64) -> Option<u64> {
        self.call("block", &json!({"block_id": height}))["header"]["timestamp"].as_u64()
    }

    /// The time from a block to the next, in milliseconds, where both exist.
    fn gap_ms(&self, height: u64) -> Option<u64> {
        Some((self.time_of(height + 1)? - self.time_of(height)?) / 1_000_000)
    }
}

/// Looks until it is so.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let (mut every, deadline) = runtime.block_on(async {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(PATIENCE_SECONDS);
        (tokio::time::interval(Duration::from_millis(50)), deadline)
    });
    while !is_so() {
        assert!(tokio::time::Instant::now() < deadline, "in vain: {what}");
        runtime.block_on(every.tick());
    }
}

/// The two validators of the fixture, as processes.
pub(crate) fn pair(bench: &Bench) -> [LocalNode; 2] {
    let mut first = LocalNode::new(bench, "node0", "");
    let mut second = LocalNode::new(bench, "node1", &first.contact());
    first.start(bench);
    second.start(bench);
    [first, second]
}

#[test]
fn network_sighup_takes_over_what_neard_takes_over() {
    let bench = Bench::new();
    let mut nodes = pair(&bench);
    let mut gaps = Vec::new();
    wait("two blocks in a row", || {
        gaps = (1..nodes[0].height()).filter_map(|height| nodes[0].gap_ms(height)).collect();
        !gaps.is_empty()
    });
    // Nobody approves sooner: whatever the load of the machine, blocks do not come faster.
    assert!(!gaps.is_empty() && gaps.iter().all(|gap| *gap >= 500), "{gaps:?}");

    for node in &mut nodes {
        let mut config = node.config();
        config["consensus"]["min_block_production_delay"] = json!({"secs": 0, "nanos": 50_000_000});
        config["network"]["max_num_peers"] = json!(17);
        node.write_config(&config);
        node.running().signal(Signal::HUP);
        let ignored = node.running().wait_for("waits for the next start", PATIENCE_SECONDS);
        assert!(ignored.contains("network.max_num_peers"), "{ignored}");
        let taken = node.running().wait_for("taken over", PATIENCE_SECONDS);
        assert!(taken.contains("consensus.min_block_production_delay: 600ms -> 50ms"), "{taken}");
    }
    let metrics = nodes[0].get("/metrics").expect("metrics");
    let field = |value: u32, nanos: u32| {
        let text = format!("value=\"Duration {{ seconds: 0, nanoseconds: {nanos} }}\"}} {value}");
        metrics.lines().any(|line| line.contains("min_block_production_delay") && line.ends_with(&text))
    };
    assert!(field(1, 50_000_000) && field(0, 600_000_000), "{metrics}");
    assert!(metrics.contains("\nnear_config_reloads_total 1\n"), "{metrics}");
    let mut seen = nodes[0].height();
    wait("blocks faster than the old delay allows", || {
        let head = nodes[0].height();
        let is_fast = (seen..head).any(|height| nodes[0].gap_ms(height).is_some_and(|gap| gap < 500));
        seen = head;
        is_fast
    });
    for node in &mut nodes {
        node.end(Signal::TERM);
    }
}

#[test]
fn network_sighup_with_a_faulty_file_keeps_the_old_values() {
    let bench = Bench::new();
    let mut nodes = pair(&bench);
    nodes[0].reach(1);
    let good = nodes[0].config();
    let mut contradiction = good.clone();
    contradiction["consensus"]["min_block_production_delay"] = json!({"secs": 3, "nanos": 0});
    for (text, fault) in [
        ("{ torn".to_owned(), "config.json"),
        (contradiction.to_string(), "min_block_production_delay is above"),
    ] {
        fs_err::write(nodes[0].home.join("config.json"), text).expect("config");
        nodes[0].running().signal(Signal::HUP);
        let said = nodes[0].running().wait_for("not taken over: the old values stay", PATIENCE_SECONDS);
        assert!(said.contains(fault), "{said}");
        let metrics = nodes[0].get("/metrics").expect("metrics");
        assert!(metrics.contains("\nnear_config_correct 0\n"), "{metrics}");
        assert!(metrics.contains("nanoseconds: 600000000 }\"} 1\n"), "{metrics}");
    }
    let head = nodes[0].height();
    nodes[0].reach(head + 2);
    nodes[0].write_config(&good);
    nodes[0].running().signal(Signal::HUP);
    nodes[0].running().wait_for("nothing to take over", PATIENCE_SECONDS);
    assert!(nodes[0].get("/metrics").expect("metrics").contains("\nnear_config_correct 1\n"));
    for node in &mut nodes {
        node.end(Signal::INT);
    }
}

#[test]
fn a_signal_is_heard_while_the_home_is_read() {
    let bench = Bench::new();
    let mut node = LocalNode::new(&bench, "node0", "");
    // Nobody ever writes into this genesis.
    let genesis = node.home.join("genesis.json");
    fs_err::remove_file(&genesis).expect("the copy");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &genesis,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("a pipe");
    node.start(&bench).wait_for("reading the home directory", PATIENCE_SECONDS);
    node.running().signal(Signal::HUP);
    node.end(Signal::TERM);
}

#[test]
fn network_a_node_of_another_genesis_says_which_chain_it_met() {
    let bench = Bench::new();
    let mut nodes = pair(&bench);
    nodes[0].reach(1);
    let mut stranger = LocalNode::new(&bench, "node2", &nodes[0].contact());
    let path = stranger.home.join("genesis.json");
    let mut genesis = read(&path);
    genesis["min_gas_price"] = json!("2000000000");
    fs_err::write(&path, genesis.to_string()).expect("genesis");
    stranger.start(&bench);
    let said = stranger.running().wait_for("a handshake was refused", PATIENCE_SECONDS);
    let genesis_of = |node: &LocalNode| {
        let status: Value = serde_json::from_str(&node.get("/status").expect("status")).expect("JSON");
        status["genesis_hash"].as_str().expect("a hash").to_owned()
    };
    let (met, own) = (genesis_of(&nodes[0]), genesis_of(&stranger));
    assert_ne!(met, own);
    assert!(said.contains(&format!("is on chain `benchmarknet` with genesis {met}")), "{said}");
    assert!(said.contains(&own), "{said}");
    assert_eq!(stranger.height(), 0, "it takes nothing from them");
    stranger.end(Signal::INT);
    for node in &mut nodes {
        node.end(Signal::INT);
    }
}

#[test]
fn network_a_node_whose_peers_are_dead_at_first_catches_up_when_they_come() {
    let bench = Bench::new();
    let first = LocalNode::new(&bench, "node0", "");
    let mut early = LocalNode::new(&bench, "node2", &first.contact());
    early.start(&bench);
    wait("it answers without peers", || early.get("/status").is_some());
    assert_eq!(early.height(), 0);
    let mut second = LocalNode::new(&bench, "node1", &first.contact());
    let mut first = first;
    first.start(&bench);
    second.start(&bench);
    early.reach(3);
    early.end(Signal::INT);
    first.end(Signal::INT);
    second.end(Signal::INT);
}

#[test]
fn slow_a_node_that_was_away_for_too_long_says_so_and_ends() {
    let bench = Bench::new();
    let mut nodes = [LocalNode::new(&bench, "node0", ""), LocalNode::new(&bench, "node1", "")];
    let boot = nodes[0].contact();
    for node in &mut nodes {
        let mut config = node.config();
        config["network"]["boot_nodes"] = json!(boot);
        config["consensus"]["min_block_production_delay"] = json!({"secs": 0, "nanos": 1_000_000});
        node.write_config(&config);
        node.start(&bench);
    }
    // Peers keep the last 1 000 blocks; each step has the whole patience.
    for height in (100..=1_100).step_by(100) {
        nodes[0].reach(height);
    }
    let mut late = LocalNode::new(&bench, "node2", &boot);
    late.start(&bench);
    let (code, stderr) = late.ended();
    assert_eq!(code, Some(6), "{stderr}");
    assert!(stderr.contains("block 1 is needed, but peers keep blocks only from"), "{stderr}");
    for node in &mut nodes {
        node.end(Signal::INT);
    }
}
