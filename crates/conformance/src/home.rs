//! The home directory, and that the node is the one that it describes.

use std::path::Path;

use fs_err as fs;
use serde_json::{Value, json};
use tpsctl_near::files::{EpochConfigFile, KeyFile, StateRecord, from_text};

use crate::{
    Report, Subject,
    report::{Checked, Outcome, ensure, equal, fail, skip},
};

pub(crate) async fn check(subject: &Subject, report: &mut Report) {
    report.add("home/genesis_sums", genesis_sums(subject));
    report.add("home/genesis_validators", genesis_validators(subject));
    report.add("home/epoch_configs", epoch_configs(subject));
    match subject.result("status", json!([])).await {
        Ok(status) => {
            report.add("home/chain", chain(subject, &status));
            report.add("home/node_key", node_key(subject, &status));
            report.add("home/validator_key", validator_key(subject, &status));
        }
        Err(outcome) => report.add("home/status", Err(outcome)),
    }
}

fn read_key(path: &Path) -> Result<KeyFile, Outcome> {
    let text = fs::read(path).or_else(|error| fail("a key file", error))?;
    from_text("key file", &text)
        .or_else(|error| fail("a key file", format!("{error:?} in {}", path.display())))
}

fn genesis_sums(subject: &Subject) -> Checked {
    let amounts = subject.genesis.records.iter().filter_map(|record| match record {
        StateRecord::Account { account, .. } => account.amount.checked_add(account.locked),
        StateRecord::AccessKey { .. } => None,
    });
    let sum = amounts.sum::<u128>();
    equal("total_supply, the sum of all balances,", &subject.genesis.config.total_supply, &sum)
}

fn genesis_validators(subject: &Subject) -> Checked {
    let stake = |record: &StateRecord| match record {
        StateRecord::Account { account_id, account } if account.locked > 0 => {
            Some((account_id.clone(), account.locked))
        }
        _ => None,
    };
    let mut locked: Vec<_> = subject.genesis.records.iter().filter_map(stake).collect();
    let validators = &subject.genesis.config.validators;
    let mut named: Vec<_> = validators.iter().map(|own| (own.account_id.clone(), own.amount)).collect();
    locked.sort();
    named.sort();
    equal("validators, the accounts with a stake,", &named, &locked)
}

fn epoch_configs(subject: &Subject) -> Checked {
    let folder = subject.home.join("epoch_configs");
    if !folder.is_dir() {
        return skip("the home has no epoch_configs/");
    }
    let version = subject.genesis.config.protocol_version;
    let path = folder.join(format!("{version}.json"));
    let text = fs::read(path).or_else(|error| fail("an epoch config of the genesis' version", error))?;
    let epoch: EpochConfigFile =
        from_text("epoch config", &text).or_else(|error| fail("an epoch config", format!("{error:?}")))?;
    let validity = subject.genesis.config.transaction_validity_period;
    ensure(
        validity <= 2 * epoch.epoch_length,
        "a validity period of at most two epochs",
        format!("{validity} blocks with epochs of {}", epoch.epoch_length),
    )
}

fn chain(subject: &Subject, status: &Value) -> Checked {
    equal("chain_id", &status["chain_id"], &json!(subject.genesis.config.chain_id))?;
    let first = json!(subject.genesis.config.genesis_height);
    equal("earliest_block_height", &status["sync_info"]["earliest_block_height"], &first)?;
    let named: Vec<String> =
        subject.genesis.config.validators.iter().map(|own| own.account_id.to_string()).collect();
    let shown = status["validators"].as_array().cloned().unwrap_or_default();
    let is_known = |own: &Value| named.iter().any(|name| own["account_id"] == name.as_str());
    ensure(!shown.is_empty() && shown.iter().all(is_known), "validators of genesis", json!(shown))
}

fn node_key(subject: &Subject, status: &Value) -> Checked {
    let key = read_key(&subject.home.join(&subject.config.node_key_file))?.key.public();
    equal("node_public_key", &status["node_public_key"], &json!(key))
}

fn validator_key(subject: &Subject, status: &Value) -> Checked {
    let path = subject.home.join(&subject.config.validator_key_file);
    if !path.is_file() {
        equal("validator_account_id", &status["validator_account_id"], &Value::Null)?;
        return skip("the home has no validator key, and the node claims none");
    }
    let file = read_key(&path)?;
    equal("validator_account_id", &status["validator_account_id"], &json!(file.account_id))?;
    equal("validator_public_key", &status["validator_public_key"], &json!(file.key.public()))
}
