//! Writes a genesis of 4 shards with 50 000 accounts each to nowhere and says how large it is. Time and memory are
//! measured from outside:
//!
//! `/usr/bin/time -v target/release/examples/genesis_size row` (or `seed`)

use std::{env, error::Error, io};

use tpsctl_genesis::genesis;
use tpsctl_model::{
    ShardId,
    plan::{KeyKind, RunPlan},
};
use tpsctl_workload::Keyring;

fn main() -> Result<(), Box<dyn Error>> {
    let mut plan: RunPlan = serde_json::from_str(include_str!("../../../testdata/plans/tiny.json"))?;
    plan.chain.shard_ids = (0..4).map(ShardId).collect();
    plan.chain.boundary_accounts = ["a01", "a02", "a03"].map(String::from).to_vec();
    plan.accounts.prefixes = ["000", "a01", "a02", "a03"].map(String::from).to_vec();
    plan.accounts.per_shard = 50_000;
    plan.accounts.keys = match env::args().nth(1).as_deref() {
        Some("seed") => KeyKind::Seed,
        _ => KeyKind::Row,
    };
    let keyring = Keyring::build(&plan)?;
    let digest = genesis(&plan, &keyring, io::sink())?;
    io::Write::write_all(&mut io::stdout(), format!("{digest:?}\n").as_bytes())?;
    Ok(())
}
