//! Values that are right each by itself and wrong together.

use tpsctl_model::plan::{KeyKind, Signing};

use crate::{Scenario, value::Value};

/// Two keys that contradict each other.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The key that most likely has to change, first.
    pub(crate) keys: [&'static str; 2],
    /// What is wrong, whichever of the two it stands at.
    pub(crate) message: String,
    /// What would be right.
    pub(crate) help: String,
}

/// Every conflict in `scenario`. What needs NEAR's rules or the provider's figures is the plan stage's to check.
pub(crate) fn conflicts(scenario: &Scenario) -> Vec<Conflict> {
    let mut found = ordered(scenario);
    let (chain, load) = (scenario.chain(), scenario.load());
    if load.signing == Signing::Rfc8032 && chain.keys == KeyKind::Row {
        found.push(Conflict {
            keys: ["load.signing", "chain.keys"],
            message: "`rfc8032` signs with keys that have a seed, and `chain.keys: row` makes keys without"
                .to_owned(),
            help: "set `chain.keys: seed`, or `load.signing: fixed_nonce`".to_owned(),
        });
    }
    if load.cross_shard.0 > 0.0 && chain.shards == 1 {
        found.push(Conflict {
            keys: ["load.cross_shard", "chain.shards"],
            message: "with one shard there is no other shard to send to".to_owned(),
            help: "set `load.cross_shard: 0%`, or `chain.shards` to 2 or more".to_owned(),
        });
    }
    if chain.shards_per_producer > 1 && chain.producers_per_shard > 1 {
        found.push(Conflict {
            keys: ["chain.shards_per_producer", "chain.producers_per_shard"],
            message: "a shard has several producers or a producer several shards, not both".to_owned(),
            help: "set one of `chain.shards_per_producer` and `chain.producers_per_shard` to 1".to_owned(),
        });
    }
    found
}

/// The pairs of which the first must not be below the second.
fn ordered(scenario: &Scenario) -> Vec<Conflict> {
    let (chain, trial, search) = (scenario.chain(), scenario.trial(), scenario.search());
    let mut found = Vec::new();
    not_below(
        &mut found,
        ("chain.block_time_max", chain.block_time_max),
        ("chain.block_time_min", chain.block_time_min),
    );
    not_below(
        &mut found,
        ("chain.block_wait_max", chain.block_wait_max),
        ("chain.block_time_max", chain.block_time_max),
    );
    not_below(
        &mut found,
        ("trial.idle_timeout", trial.idle_timeout),
        ("trial.drain_timeout", trial.drain_timeout),
    );
    not_below(&mut found, ("search.max", search.max), ("search.start", search.start));
    found
}

fn not_below<T: Value + PartialOrd>(
    found: &mut Vec<Conflict>,
    (high_key, high): (&'static str, T),
    (low_key, low): (&'static str, T),
) {
    if high < low {
        let (high, low) = (high.show(), low.show());
        found.push(Conflict {
            keys: [high_key, low_key],
            message: format!("`{high_key}` ({}) is below `{low_key}` ({})", high.text(), low.text()),
            help: format!("set `{high_key}` to `{}` or more", low.text()),
        });
    }
}
