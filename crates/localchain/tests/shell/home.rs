//! Homes that no chain can come of are refused in words.

use fs_err as fs;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tpsctl_localchain::{RunOptions, run};

use super::cluster::{copy, testdata};

/// What a node says to the fixture home with its genesis changed.
async fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let folder = tempfile::tempdir().expect("folder");
    let home = folder.path().join("home");
    copy(&testdata().join("home/node0"), &home);
    let path = home.join("genesis.json");
    let mut genesis: Value = serde_json::from_slice(&fs::read(&path).expect("genesis")).expect("JSON");
    change(&mut genesis);
    fs::write(&path, genesis.to_string()).expect("genesis");
    let error = run(RunOptions { home }, CancellationToken::new()).await.expect_err("refused");
    error.to_string().replace(&path.display().to_string(), "GENESIS")
}

#[tokio::test]
async fn a_chain_that_cannot_be_is_refused() {
    let stake = |validator: usize, amount: &str| {
        let amount = json!(amount);
        move |genesis: &mut Value| genesis["validators"][validator]["amount"] = amount
    };
    let says = |fault: &str| format!("start a chain from `GENESIS`: {fault}");
    let height = refusal(|genesis| genesis["genesis_height"] = json!(u64::MAX - 1)).await;
    assert_eq!(height, says("its height is above 2^63"));
    let nobody = refusal(|genesis| genesis["validators"] = json!([])).await;
    assert_eq!(nobody, says("it names no validator"));
    let twice = refusal(|genesis| genesis["validators"][1] = genesis["validators"][0].clone()).await;
    assert_eq!(twice, says("it names a validator twice"));
    let poor = refusal(|genesis| {
        stake(0, "0")(genesis);
        stake(1, "0")(genesis);
    });
    assert_eq!(poor.await, says("no validator has a stake"));
    let rich = refusal(|genesis| {
        stake(0, &u128::MAX.to_string())(genesis);
        stake(1, "1")(genesis);
    });
    assert_eq!(rich.await, says("the stakes together do not fit 128 bits"));
    let empty = refusal(|genesis| genesis["records"] = json!([])).await;
    assert_eq!(empty, says("it has no accounts"));
    let dear = refusal(|genesis| genesis["min_gas_price"] = json!(u128::MAX.to_string())).await;
    assert_eq!(dear, says("its gas price is above 10^18 yocto"));
}
