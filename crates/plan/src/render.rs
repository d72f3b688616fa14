//! A plan as text, for `tpsctl scenario plan`.

use std::fmt::{self, Write as _};

use tpsctl_model::{
    Millis,
    plan::{KeyKind, NodeBinary, NodeRole, ProviderKind, RunPlan, Signing},
};

use crate::{
    Checked, Planned,
    check::{amount, last_account, near, supply_or_max},
};

/// Longest time from the start to the end of teardown, were every deadline used up: nodes get ready, the time budget, the
/// trial that began at its very end, and the stop. Making the files is not in it.
fn worst_case(plan: &RunPlan) -> Millis {
    let trial = &plan.trial;
    let parts = [
        plan.node.ready_timeout_ms,
        plan.search.time_budget_ms,
        trial.warmup_ms,
        trial.window_ms,
        // The drain's deadline lies within that of idleness.
        trial.idle_timeout_ms.max(trial.drain_timeout_ms),
        plan.node.stop_timeout_ms,
    ];
    Millis(parts.iter().fold(0, |sum, part| sum.saturating_add(part.0)))
}

/// The plan in lines that a person reads: nodes, shards, accounts, limits, deadlines and checks.
pub fn render(planned: &Planned) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let written = write(&mut text, planned);
    debug_assert!(written.is_ok());
    text
}

fn write(text: &mut String, Planned { plan, checks, .. }: &Planned) -> fmt::Result {
    let provider = match plan.provider {
        ProviderKind::Local => "local processes",
    };
    let binary = match &plan.node.binary {
        NodeBinary::Embedded => "embedded node: not a measurement of neard",
        NodeBinary::Neard(path) => path,
    };
    writeln!(text, "{}, seed {}, {provider} ({binary})\n", plan.scenario, plan.seed)?;
    nodes(text, plan)?;
    chain(text, plan)?;
    run(text, plan)?;
    write_checks(text, checks)
}

/// The checks that speak, each with its weight, name, sentence and figures; of the others the names.
fn write_checks(text: &mut String, checks: &[Checked]) -> fmt::Result {
    let (held, spoken): (Vec<_>, Vec<_>) = checks.iter().partition(|own| own.holds);
    writeln!(text, "\nchecks     {}, of which {} speak", checks.len(), spoken.len())?;
    for Checked { check, severity, sentence, figure, .. } in spoken {
        writeln!(text, "  {severity:<8} {check}: {sentence} ({figure})")?;
    }
    let names: Vec<_> = held.iter().map(|own| own.check).collect();
    writeln!(text, "  ok       {} others hold: {}", names.len(), names.join(", "))
}

fn nodes(text: &mut String, plan: &RunPlan) -> fmt::Result {
    let producers = plan.producers().count();
    let followers: Vec<_> = plan
        .nodes
        .iter()
        .filter(|node| node.role == NodeRole::Rpc)
        .map(|node| node.name.0.as_str())
        .collect();
    let names = if followers.is_empty() { String::new() } else { format!(" ({})", followers.join(", ")) };
    let validators = match plan.nodes.len() - producers - followers.len() {
        0 => String::new(),
        count => format!("{count} chunk validators, "),
    };
    let peers =
        plan.network.max_peers.map_or_else(String::new, |most| format!(", at most {most} peers each"));
    writeln!(
        text,
        "nodes      {producers} producers, {validators}{} rpc{names}, nice {}{peers}",
        followers.len(),
        plan.node.nice
    )?;
    for (shard, prefix) in plan.chain.shard_ids.iter().zip(&plan.accounts.prefixes) {
        let producers: Vec<_> = plan.producers_of(*shard).map(|name| name.0.as_str()).collect();
        let last = last_account(plan, prefix);
        writeln!(text, "shard {shard:<4} {}: accounts {prefix}_user_0 to {last}", producers.join(", "))?;
    }
    let keys = match plan.accounts.keys {
        KeyKind::Row => "in a row",
        KeyKind::Seed => "from seeds",
    };
    let total = u64::from(plan.accounts.per_shard) * plan.chain.shard_ids.len() as u64;
    let (balance, supply) = (near(plan.accounts.balance.0), near(supply_or_max(plan).0));
    writeln!(text, "accounts   {total} with {balance} each, keys {keys}; with all stakes {supply}")
}

fn chain(text: &mut String, plan: &RunPlan) -> fmt::Result {
    let chain = &plan.chain;
    let (above, below) = chain.chunk_wait_mult;
    writeln!(text, "\nchain      {}, protocol {}", chain.chain_id, chain.protocol_version)?;
    writeln!(
        text,
        "blocks     every {}, skipped after {} (at most {}), late chunks waited for {above}/{below} of that",
        chain.block_time_min_ms, chain.block_time_max_ms, chain.block_wait_max_ms
    )?;
    writeln!(
        text,
        "limits     chunk {}, preparation {}, pool {} a shard",
        chain.gas_limit, chain.prepare_time_limit_ms, chain.pool_size_limit_bytes
    )?;
    writeln!(
        text,
        "epochs     {} blocks, transactions valid for {}, {} mandates a shard, gas price {}",
        chain.epoch_length_blocks,
        chain.transaction_validity_blocks,
        chain.mandates_per_shard,
        chain.min_gas_price
    )
}

fn run(text: &mut String, plan: &RunPlan) -> fmt::Result {
    let (load, trial, goal, search) = (&plan.load, &plan.trial, &plan.goal, &plan.search);
    let signing = match load.signing {
        Signing::FixedNonce => "fixed nonce",
        Signing::Rfc8032 => "RFC 8032",
    };
    writeln!(
        text,
        "\nload       transfers of {}, {} across shards, signed with {signing}, catch-up {}",
        amount(load.amount.0),
        load.cross_shard,
        load.catch_up_ms
    )?;
    writeln!(
        text,
        "trial      {} warm-up, {} window, settled judged within {}, idle within {}",
        trial.warmup_ms, trial.window_ms, trial.drain_timeout_ms, trial.idle_timeout_ms
    )?;
    writeln!(
        text,
        "invalid    send lag p99 {} or more, over {} unsent, gap over {}; repeated {} times",
        trial.send_lag_p99_max_ms, trial.unsent_max, trial.gap_max_ms, trial.invalid_retries
    )?;
    writeln!(
        text,
        "goal       at most {} of chunk slots missed, block time {} quantile at most {} x {}, {} settled",
        goal.missed_slots_max,
        goal.block_time_quantile,
        goal.block_time_ratio_max,
        plan.chain.block_time_min_ms,
        goal.settled_min
    )?;
    writeln!(
        text,
        "search     per shard from {} x {} up to {}, to {} of the rate, {} verdicts an end",
        search.start, search.growth, search.max, search.resolution, search.confirmations
    )?;
    writeln!(
        text,
        "deadlines  ready {}, no new trial after {}, stop {}; all together at most {:.1}s",
        plan.node.ready_timeout_ms,
        search.time_budget_ms,
        plan.node.stop_timeout_ms,
        worst_case(plan).as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::quickstart;

    #[test]
    fn the_worst_case_uses_up_every_deadline() {
        // 30 s ready, 145 s budget, 1 s + 6 s load, 60 s idle, 5 s stop.
        assert_eq!(worst_case(&quickstart()), Millis(247_000));
    }
}
