use std::{
    net::TcpListener,
    os::unix::fs::{MetadataExt, PermissionsExt},
    sync::Mutex,
};

use tokio_util::sync::CancellationToken;
use tpsctl_model::{NodeName, observation::ExitKind, plan::RunPlan};
use tpsctl_near::files::{KeyFile, NodeConfigFile, from_text};

use super::*;
use crate::{
    Bundle, DeployedNode, Ledger,
    test_support::{POLITE, STUBBORN, TestRun, plan},
};

/// Ready once every node has said so in its log.
struct LogProbe;

impl ReadyProbe for LogProbe {
    fn look<'a>(&'a self, deployment: &'a Deployment) -> Task<'a, Result<(), String>> {
        Box::pin(async move {
            let is_silent = |node: &&DeployedNode| {
                fs::read_to_string(&node.log).is_ok_and(|text| !text.lines().any(|line| line == "ready"))
            };
            match deployment.nodes.iter().find(is_silent) {
                Some(node) => Err(format!("{} is not ready", node.name)),
                None => Ok(()),
            }
        })
    }
}

/// Never answers.
struct HangingProbe;

impl ReadyProbe for HangingProbe {
    fn look<'a>(&'a self, _: &'a Deployment) -> Task<'a, Result<(), String>> {
        Box::pin(std::future::pending())
    }
}

struct Stage {
    run: TestRun,
    plan: RunPlan,
    cancel: CancellationToken,
    events: Mutex<Vec<RunEvent>>,
}

impl Stage {
    /// A run whose embedded node is this script.
    fn new(body: &str) -> Self {
        let run = TestRun::new();
        run.script("node.sh", body);
        fs::create_dir_all(run.path().join("genesis")).expect("directory");
        fs::write(run.path().join("genesis/genesis.json"), "{\"genesis\": true}").expect("genesis");
        Self {
            run,
            plan: plan(NodeBinary::Embedded),
            cancel: CancellationToken::new(),
            events: Mutex::default(),
        }
    }

    async fn provision(&self, ledger: &mut Ledger, probe: &dyn ReadyProbe) -> Result<Network, ProviderError> {
        let path = self.run.path();
        let provider = LocalProvider { own_program: path.join("node.sh"), run_directory: path.clone() };
        let request = Provision {
            plan: &self.plan,
            bundle: &Bundle { genesis_json: path.join("genesis/genesis.json") },
            ledger,
            probe,
            cancel: &self.cancel,
            on_event: &|event| self.events.lock().expect("one at a time").push(event),
        };
        provider.provision(request).await
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.run.alive(), []);
        let ledger = Ledger::open(&self.run.path()).expect("whole");
        assert_eq!(ledger.open_entries().count(), 0, "{ledger:?}");
    }
}

#[tokio::test]
async fn a_network_is_made_as_planned() {
    let stage = Stage::new(&format!("echo $*\necho ready\n{POLITE}"));
    let mut ledger = stage.run.ledger();
    let mut network = stage.provision(&mut ledger, &LogProbe).await.expect("made");
    let deployment = network.deployment().clone();
    let names: Vec<_> = deployment.nodes.iter().map(|node| &*node.name.0).collect();
    assert_eq!(names, ["node0", "node1", "rpc0"]);
    assert_eq!(stage.run.alive().len(), 3);
    let genesis = fs::metadata(stage.run.path().join("genesis/genesis.json")).expect("there").ino();
    for node in &deployment.nodes {
        let log = fs::read_to_string(&node.log).expect("log");
        assert_eq!(log, format!("localnode run --home {}\nready\n", node.home.display()));
        let config: NodeConfigFile =
            from_text("config", &fs::read(node.home.join("config.json")).expect("config")).expect("neard's");
        assert_eq!(config.network.addr, node.p2p);
        assert_eq!(config.rpc.expect("rpc").addr, node.rpc);
        let mut peers: Vec<_> = config.network.boot_nodes.iter().map(|peer| (peer.id, peer.addr)).collect();
        peers.push((node.public_key, node.p2p));
        let all = |deployed: &DeployedNode| peers.contains(&(deployed.public_key, deployed.p2p));
        assert!(deployment.nodes.iter().all(all) && peers.len() == 3, "{peers:?}");

        let key_path = node.home.join("node_key.json");
        let key: KeyFile = from_text("key", &fs::read(&key_path).expect("key")).expect("a key");
        assert_eq!(key.key.public(), node.public_key);
        assert_eq!(fs::metadata(&key_path).expect("key").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(node.home.join("genesis.json")).expect("genesis").ino(), genesis, "a link");
        assert!(node.home.join("epoch_configs/86.json").exists());
        assert_eq!(node.home.join("validator_key.json").exists(), node.name.0 != "rpc0");
    }
    let text = serde_json::to_string(&deployment).expect("JSON");
    assert_eq!(serde_json::from_str::<Deployment>(&text).expect("reads back"), deployment);
    let started = stage.events.lock().expect("events").len();
    assert_eq!(started, 3);
    network.stop(&mut ledger, Duration::from_millis(200)).await.expect("stopped");
    stage.assert_nothing_left();
}

#[tokio::test]
async fn a_node_that_dies_at_start_is_quoted_and_the_others_end() {
    let stage = Stage::new(&format!(
        "case $TPSCTL_NODE in node1) echo 'genesis does not match' >&2; exit 3;; esac\n{POLITE}"
    ));
    let mut ledger = stage.run.ledger();
    let error = stage.provision(&mut ledger, &HangingProbe).await.expect_err("node1 died");
    let ProviderError::NodeDied { node, exit, log_tail, .. } = &error else { panic!("{error:?}") };
    assert_eq!((node, *exit), (&NodeName("node1".to_owned()), ExitKind::Code(3)));
    assert_eq!(log_tail, "genesis does not match");
    assert!(error.to_string().ends_with("its last lines:\n  | genesis does not match"), "{error}");
    assert_eq!(error.exit_code(), 6);
    stage.assert_nothing_left();
    let ended = RunEvent::NodeEnded { node: node.clone(), exit: *exit };
    assert!(stage.events.lock().expect("events").contains(&ended));
}

#[tokio::test]
async fn taken_ports_are_exchanged_for_the_whole_network() {
    // The first two networks find a port taken; each attempt has other ports.
    let stage = Stage::new(&format!(
        "dir=$(dirname $0)\ncase $TPSCTL_NODE in rpc0)\n grep -h -o '\"addr\": *\"[^\"]*\"' $4/config.json >> $dir/ports\n \
         echo x >> $dir/attempts\n if [ $(wc -l < $dir/attempts) -lt 3 ]; then echo 'Address already in use (os error \
         98)'; exit 1; fi;;\nesac\necho ready\n{POLITE}"
    ));
    let mut ledger = stage.run.ledger();
    let mut network = stage.provision(&mut ledger, &LogProbe).await.expect("the third time");
    assert_eq!(stage.run.alive().len(), 3, "only the third network runs");
    let ports = fs::read_to_string(stage.run.path().join("ports")).expect("ports");
    let mut lines: Vec<_> = ports.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 6, "{ports}");
    let is_warning = |event: &&RunEvent| matches!(event, RunEvent::Warning { .. });
    assert_eq!(stage.events.lock().expect("events").iter().filter(is_warning).count(), 2);
    network.stop(&mut ledger, Duration::from_millis(200)).await.expect("stopped");
    stage.assert_nothing_left();
}

#[tokio::test]
async fn after_three_networks_taken_ports_are_an_error() {
    let stage =
        Stage::new("echo x >> $(dirname $0)/attempts.$TPSCTL_NODE\necho Address already in use; exit 1");
    let mut ledger = stage.run.ledger();
    let error = stage.provision(&mut ledger, &HangingProbe).await.expect_err("never free");
    assert!(error.is_port_taken(), "{error:?}");
    assert_eq!(ledger.entries().len(), 9);
    stage.assert_nothing_left();
}

#[tokio::test]
async fn the_deadline_says_what_is_missing_and_leaves_nothing() {
    let mut stage = Stage::new(&format!("case $TPSCTL_NODE in rpc0) ;; *) echo ready;; esac\n{STUBBORN}"));
    stage.plan.node.ready_timeout_ms = tpsctl_model::Millis(500);
    stage.plan.node.stop_timeout_ms = tpsctl_model::Millis(100);
    let mut ledger = stage.run.ledger();
    let error = stage.provision(&mut ledger, &LogProbe).await.expect_err("too late");
    assert_eq!(error.to_string(), "see the network ready within 0.5 s: rpc0 is not ready");
    stage.assert_nothing_left();

    let again = stage.provision(&mut ledger, &HangingProbe).await.expect_err("the probe hangs");
    assert!(matches!(again, ProviderError::NotReady { .. }), "{again:?}");
    stage.assert_nothing_left();
}

#[tokio::test]
async fn cancelling_ends_what_was_started() {
    let stage = Stage::new(POLITE);
    let mut ledger = stage.run.ledger();
    let cancel_once_started = async {
        while stage.run.alive().len() < 3 {
            sleep(Duration::from_millis(5)).await;
        }
        stage.cancel.cancel();
    };
    let (made, ()) = tokio::join!(stage.provision(&mut ledger, &HangingProbe), cancel_once_started);
    let error = made.expect_err("cancelled");
    assert_eq!(error.exit_code(), 130, "{error:?}");
    stage.assert_nothing_left();
    let cancelled_before = stage.provision(&mut ledger, &HangingProbe).await.expect_err("cancelled");
    assert!(matches!(cancelled_before, ProviderError::Cancelled));
    assert_eq!(ledger.entries().len(), 3, "nothing was started");
}

#[tokio::test]
async fn a_program_that_is_none_is_found_out_before_anything_is_made() {
    let mut stage = Stage::new(POLITE);
    for path in ["missing", "plain"] {
        fs::write(stage.run.path().join("plain"), "no program").expect("file");
        let path = stage.run.path().join(path);
        stage.plan.node.binary = NodeBinary::Neard(path.to_string_lossy().into_owned());
        let mut ledger = match Ledger::open(&stage.run.path()) {
            Ok(ledger) => ledger,
            Err(_) => stage.run.ledger(),
        };
        let error = stage.provision(&mut ledger, &HangingProbe).await.expect_err("no program");
        assert!(matches!(error, ProviderError::Program { .. }), "{error:?}");
        assert!(!stage.run.path().join("nodes").exists());
    }
}

#[test]
fn neard_has_its_own_arguments() {
    let provider = LocalProvider { own_program: "/bin/tpsctl".into(), run_directory: "/runs/a".into() };
    let text = |binary: &NodeBinary| {
        let (program, arguments) = provider.command(binary, Path::new("/h"));
        let words = arguments.iter().map(|word| word.to_string_lossy());
        format!("{} {}", program.display(), words.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(text(&NodeBinary::Embedded), "/bin/tpsctl localnode run --home /h");
    assert_eq!(text(&NodeBinary::Neard("/opt/neard".to_owned())), "/opt/neard --home /h run");
}

#[test]
fn the_host_is_described() {
    assert_eq!(memory_bytes("MemFree: 1 kB\nMemTotal:       16384 kB\n"), Some(16_777_216));
    assert_eq!(memory_bytes("MemTotal: lots"), None);
    let provider = LocalProvider { own_program: PathBuf::new(), run_directory: PathBuf::new() };
    let host = provider.capabilities().expect("proc");
    assert!(host.cores > 0 && host.memory_bytes > 1 << 20, "{host:?}");
}

#[test]
fn ports_are_free_for_the_node_that_is_about_to_start() {
    let pair = ports::reserve(1).expect("ports").remove(0);
    let (p2p, rpc) = (pair.p2p, pair.rpc);
    assert!(TcpListener::bind(p2p).is_err());
    drop(pair);
    let _both = (TcpListener::bind(p2p).expect("free"), TcpListener::bind(rpc).expect("free"));
}
