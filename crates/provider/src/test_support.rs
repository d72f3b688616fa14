//! Runs, plans and node programs of the tests. Every process that a test starts ends with its [`TestRun`].

use std::{os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use fs_err as fs;
use rustix::process::Signal;
use tempfile::TempDir;
use tpsctl_model::{
    Bytes, Gas, Millis, NodeName, Seed, ShardId, Share, Tps, Yocto,
    plan::{
        AccountsPlan, ChainPlan, Goal, KeyKind, LoadPlan, NetworkPlan, NodeBinary, NodePlan, NodeRole,
        NodeSoftware, PLAN_SCHEMA, ProviderKind, RunPlan, SearchPlan, Signing, TrialPlan,
    },
};

use crate::{
    Ledger, LedgerHeader, ProcessIdentity, identity::markers, ledger::NodeIntent, process::NodeCommand,
};

/// A run directory with a ledger.
#[derive(Debug)]
pub(crate) struct TestRun {
    directory: TempDir,
}

impl TestRun {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("directory") }
    }

    /// Canonical.
    pub(crate) fn path(&self) -> PathBuf {
        fs::canonicalize(self.directory.path()).expect("there")
    }

    pub(crate) fn header(&self) -> LedgerHeader {
        LedgerHeader::of_this_process(&self.path(), "run", "quickstart", 1_700_000_000_000).expect("header")
    }

    /// The header of a controller that is gone.
    pub(crate) fn orphan_header(&self) -> LedgerHeader {
        let mut header = self.header();
        header.controller.start_time_ticks += 1;
        header
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::create(&self.path(), self.header()).expect("ledger")
    }

    /// An executable shell script in the run directory.
    pub(crate) fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("script");
        fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
        path
    }

    /// Starts a script as the node `name`.
    pub(crate) fn command(&self, name: &str, body: &str) -> NodeCommand {
        let node_directory = self.path().join("nodes").join(name);
        fs::create_dir_all(node_directory.join("home")).expect("home");
        NodeCommand {
            node: NodeName(name.to_owned()),
            program: self.script(&format!("{name}.sh"), body),
            arguments: Vec::new(),
            nice: 0,
            run_directory: self.path(),
            log: node_directory.join("log"),
        }
    }

    /// Marked processes of this run, and of runs in directories below its own.
    pub(crate) fn alive(&self) -> Vec<ProcessIdentity> {
        let path = self.path();
        // While a program becomes another its marker cannot be seen; that is over in no time.
        let looks = std::iter::repeat_with(|| markers().expect("proc")).take(100_000);
        let markers =
            looks.into_iter().find(|markers| markers.is_settled).expect("an exec takes microseconds");
        let ours = markers.marked.into_iter().filter(|marked| marked.run_directory.starts_with(&path));
        ours.map(|marked| marked.process).collect()
    }
}

impl Drop for TestRun {
    fn drop(&mut self) {
        for process in self.alive() {
            process.signal(Signal::KILL).expect("our own process");
        }
    }
}

/// A process of the test that is no node of any run.
#[derive(Debug)]
pub(crate) struct Stranger(std::process::Child);

impl Stranger {
    pub(crate) fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().expect("sleep"))
    }

    pub(crate) fn process(&self) -> ProcessIdentity {
        ProcessIdentity::of(self.0.id()).expect("it runs")
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().expect("our own child");
        self.0.wait().expect("our own child");
    }
}

pub(crate) fn intent(name: &str) -> NodeIntent {
    NodeIntent {
        node: NodeName(name.to_owned()),
        home: PathBuf::from("/runs/run/nodes").join(name).join("home"),
        p2p: ([127, 0, 0, 1], 24567).into(),
        rpc: ([127, 0, 0, 1], 3030).into(),
    }
}

/// A node program that ends at SIGINT, unless the tests themselves were started with SIGINT ignored: a shell cannot undo
/// that.
pub(crate) const POLITE: &str = "exec sleep 600";
/// A node program that ignores SIGINT, as do the programs that it starts.
pub(crate) const STUBBORN: &str = "trap '' INT\necho deaf\nexec sleep 600";

/// Whether what these tests start ignores SIGINT from the outset (they run in the background of a script).
pub(crate) fn is_interrupt_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("proc");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("proc(5)");
    u64::from_str_radix(ignored.trim(), 16).expect("hex") & 0b10 != 0
}

/// A plan of two producers and one RPC node.
pub(crate) fn plan(binary: NodeBinary) -> RunPlan {
    let producer = |name: &str, shard| NodePlan {
        name: NodeName(name.to_owned()),
        role: NodeRole::Producer { shards: vec![ShardId(shard)], stake: Yocto(50_000_000) },
    };
    RunPlan {
        schema: PLAN_SCHEMA.to_owned(),
        scenario: "quickstart".to_owned(),
        seed: Seed(7),
        provider: ProviderKind::Local,
        node: NodeSoftware {
            binary,
            nice: 10,
            ready_timeout_ms: Millis(20_000),
            stop_timeout_ms: Millis(2_000),
        },
        chain: chain(),
        nodes: vec![
            producer("node0", 0),
            producer("node1", 1),
            NodePlan { name: NodeName("rpc0".to_owned()), role: NodeRole::Rpc },
        ],
        network: NetworkPlan::default(),
        accounts: AccountsPlan {
            per_shard: 2,
            prefixes: vec!["000".to_owned(), "a01".to_owned()],
            balance: Yocto(1_000_000_000),
            keys: KeyKind::Seed,
        },
        load: LoadPlan {
            signing: Signing::FixedNonce,
            cross_shard: Share(0.5),
            amount: Yocto(1),
            catch_up_ms: Millis(100),
        },
        trial: TrialPlan {
            warmup_ms: Millis(1_000),
            window_ms: Millis(5_000),
            drain_timeout_ms: Millis(5_000),
            idle_timeout_ms: Millis(5_000),
            invalid_retries: 1,
            send_lag_p99_max_ms: Millis(50),
            unsent_max: Share(0.001),
            gap_max_ms: Millis(3_000),
        },
        goal: Goal {
            missed_slots_max: Share(0.02),
            block_time_quantile: Share(0.9),
            block_time_ratio_max: 1.5,
            settled_min: Share(0.98),
        },
        search: SearchPlan {
            start: Tps(100),
            growth: 2.0,
            max: Tps(1_000),
            resolution: Share(0.1),
            confirmations: 2,
            time_budget_ms: Millis(60_000),
        },
    }
}

fn chain() -> ChainPlan {
    ChainPlan {
        chain_id: "benchmarknet".to_owned(),
        protocol_version: 86,
        boundary_accounts: vec!["a01".to_owned()],
        shard_ids: vec![ShardId(0), ShardId(1)],
        gas_limit: Gas(20_000_000_000_000_000),
        min_gas_price: Yocto(1_000_000_000),
        epoch_length_blocks: 10_000,
        transaction_validity_blocks: 10_000,
        mandates_per_shard: 1,
        block_time_min_ms: Millis(600),
        block_time_max_ms: Millis(2_000),
        block_wait_max_ms: Millis(6_000),
        chunk_wait_mult: (1, 3),
        pool_size_limit_bytes: Bytes(100_000_000),
        prepare_time_limit_ms: Millis(200),
    }
}
