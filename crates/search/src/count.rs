//! What was sent and what the blocks say, as numbers.

use std::collections::BTreeMap;

use tpsctl_model::{
    load::{QuantilesMs, ShardInject, UnsentCause},
    observation::Observation,
    plan::RunPlan,
    result::{ShardRecord, TrialCounts},
};

use crate::{
    JudgedLoad,
    accounts::{Claims, gas_by_shard, gas_per_transfer, settled_transfers, whole_transfers},
    quantile::quantiles_ms,
    window::Window,
};

/// A trial in numbers: everything that the record in `run.json` holds and that the verdict needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// Over all shards.
    pub counts: TrialCounts,
    /// By shard, in the injector's order.
    pub shards: Vec<ShardRecord>,
    /// Block times in the window.
    pub block_time_ms: QuantilesMs,
    /// Heights without a block in the window.
    pub skipped_heights: u64,
    /// How long the load ran, seconds.
    pub load_seconds: f64,
    /// From the end of the load to the proof of idleness (or the last that was seen), seconds.
    pub drain_seconds: f64,
    /// The window, interval by interval.
    pub(crate) window: Window,
}

/// Counts a trial from its final blocks; metrics do not count. The first block of `observation` is the last one
/// before the load and gives only the start of the first block time.
pub fn count(load: &JudgedLoad<'_>, observation: &Observation, plan: &RunPlan) -> Counted {
    let report = load.report;
    let shards = &plan.chain.shard_ids;
    let window = Window::of(load, observation, shards);
    let loaded = || observation.blocks.iter().skip(1);
    let in_window = observation.window_from_unix_ns..observation.window_to_unix_ns;
    let gas = gas_by_shard(loaded());
    let loaded_in_window = || loaded().filter(|block| in_window.contains(&block.timestamp_unix_ns));
    let gas_in_window = gas_by_shard(loaded_in_window());
    let units = observation.units_per_transfer;
    let by_drain_end = loaded().filter(|block| block.timestamp_unix_ns <= observation.drained_unix_ns);
    let per_transfer = gas_per_transfer(observation);

    let sent = report.shards.iter().map(|shard| shard.sent).sum();
    let lost = observation.dropped.values().sum();
    let claims = Claims { load, observation, sent, lost };
    let counts = TrialCounts {
        intended: report.shards.iter().map(|shard| shard.intended).sum(),
        sent,
        unsent: unsent(&report.shards),
        accepted: report.shards.iter().map(|shard| shard.accepted).sum(),
        included: settled_transfers(loaded(), units),
        settled: settled_transfers(loaded_in_window(), units),
        settled_by_drain_end: settled_transfers(by_drain_end, units),
        pending: observation.pending,
        lost: observation.dropped.clone(),
        difference: claims.difference(&gas),
        missed_chunk_slots: window.missed(),
        chunk_slots: window.slots(),
    };
    let by_shard = |shard: &ShardInject| ShardRecord {
        shard: shard.shard,
        intended: shard.intended,
        sent: shard.sent,
        unsent: shard.unsent.clone(),
        included: claims.included_of(shard, &gas),
        settled: whole_transfers(gas_in_window.get(&shard.shard).copied().unwrap_or(0), per_transfer),
        missed_chunk_slots: window.missed_by(shard.shard),
        chunk_slots: window.heights(shards.len()),
    };
    let last_seen = observation.blocks.last().map_or(0, |block| block.timestamp_unix_ns);
    Counted {
        counts,
        shards: report.shards.iter().map(by_shard).collect(),
        block_time_ms: quantiles_ms(&window.block_times_ms()),
        skipped_heights: window.skipped_heights(),
        load_seconds: seconds(report.started_unix_ns, report.ended_unix_ns),
        drain_seconds: seconds(report.ended_unix_ns, observation.drained_unix_ns.max(last_seen)),
        window,
    }
}

fn unsent(shards: &[ShardInject]) -> BTreeMap<UnsentCause, u64> {
    let mut sum = BTreeMap::new();
    for (cause, number) in shards.iter().flat_map(|shard| &shard.unsent) {
        *sum.entry(*cause).or_insert(0) += number;
    }
    sum
}

fn seconds(from_unix_ns: u64, to_unix_ns: u64) -> f64 {
    to_unix_ns.saturating_sub(from_unix_ns) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tpsctl_model::{ShardId, load::InjectReport, observation::LostCause};

    use tpsctl_near::TRANSFER_GAS_UNIT;

    use crate::testkit::{SECOND_NS, chain, inject, ordered, plan};

    use super::*;

    const SHARDS: [ShardId; 2] = [ShardId(0), ShardId(1)];

    fn counted(report: &InjectReport, observation: &Observation) -> Counted {
        count(&ordered(report), observation, &plan(&SHARDS))
    }

    #[test]
    fn transfers_are_counted_from_the_gas_of_included_chunks() {
        let mut seen =
            chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, 20).units(5, 1, 10).units(9, 1, 10).done();
        // A header that block 6 only repeats, with the gas it had before, must not count again.
        seen.blocks[6].chunks[0].included = false;
        seen.blocks[6].chunks[0].gas_used = 20 * TRANSFER_GAS_UNIT;
        // The block before the load holds another trial's gas.
        seen.blocks[0].chunks[0].gas_used = 8 * TRANSFER_GAS_UNIT;
        let found = counted(&inject(&[(10, [10, 0]), (10, [0, 10])]), &seen);
        assert_eq!((found.counts.included, found.counts.settled, found.counts.difference), (20, 15, 0));
        assert_eq!(found.shards[0].included, Some(10));
        assert_eq!((found.shards[1].included, found.shards[1].settled), (Some(10), 5));
        assert_eq!((found.counts.missed_chunk_slots, found.counts.chunk_slots), (1, 10));
        assert_eq!((found.shards[0].missed_chunk_slots, found.shards[0].chunk_slots), (1, 5));
        assert_eq!(found.counts.accepted, None);
    }

    #[test]
    fn what_settles_after_the_drains_deadline_is_included_but_not_judged() {
        let mut seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, 14).units(11, 0, 6).done();
        seen.drained_unix_ns = seen.blocks[10].timestamp_unix_ns;
        let found = counted(&inject(&[(10, [10, 0]), (0, [0, 0])]), &seen);
        assert_eq!((found.counts.settled_by_drain_end, found.counts.included), (7, 10));
        assert_eq!(found.counts.difference, 0);
        assert!((found.drain_seconds - 3.0).abs() < 1e-9, "{}", found.drain_seconds);
    }

    #[test]
    fn a_half_settled_transfer_on_an_idle_chain_is_a_difference() {
        for (units, difference) in [(20, 0), (19, 1), (21, -1), (22, -1), (18, 1)] {
            let seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, units).done();
            let found = counted(&inject(&[(10, [10, 0]), (0, [0, 0])]), &seen);
            assert_eq!(found.counts.difference, difference, "{units} units");
        }
        let mut seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, 20).done();
        seen.blocks[5].chunks[1].gas_used = 1;
        assert_eq!(counted(&inject(&[(10, [10, 0]), (0, [0, 0])]), &seen).counts.difference, -1, "stray gas");
    }

    #[test]
    fn errors_of_two_shards_do_not_cancel() {
        let seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, 22).units(4, 1, 18).done();
        let found = counted(&inject(&[(10, [10, 0]), (10, [0, 10])]), &seen);
        assert_eq!(found.counts.included, 20);
        assert_eq!(found.counts.difference, 2);
    }

    #[test]
    fn the_injectors_own_books_must_balance_on_every_shard() {
        let seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, 20).units(4, 1, 20).done();
        let report = inject(&[(10, [10, 0]), (10, [0, 10])]);
        assert_eq!(counted(&report, &seen).counts.difference, 0);
        let mut unbalanced = report.clone();
        (unbalanced.shards[0].intended, unbalanced.shards[1].intended) = (11, 9);
        assert_eq!(counted(&unbalanced, &seen).counts.difference, 2, "errors of two shards do not cancel");
        let mut lost_receivers = report;
        lost_receivers.shards[1].sent_to.clear();
        assert_ne!(counted(&lost_receivers, &seen).counts.difference, 0);
    }

    #[test]
    fn losses_with_evidence_close_the_accounts_and_leave_cross_shard_inclusion_open() {
        let mut seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, 8).units(5, 1, 10).done();
        seen.dropped.insert(LostCause::PoolFull, 1);
        let found = counted(&inject(&[(5, [3, 2]), (5, [1, 4])]), &seen);
        assert_eq!((found.counts.included, found.counts.difference), (9, 0));
        assert_eq!(found.shards[0].included, None);
        let found = counted(&inject(&[(5, [5, 0]), (5, [0, 5])]), &seen);
        assert_eq!((found.shards[0].included, found.shards[1].included), (Some(4), Some(5)));
    }

    #[test]
    fn pending_transfers_of_a_chain_that_is_not_idle_are_not_lost() {
        let mut seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, 16).done();
        (seen.idle, seen.pending) = (false, 2);
        let found = counted(&inject(&[(10, [10, 0]), (0, [0, 0])]), &seen);
        assert_eq!((found.counts.included, found.counts.pending, found.counts.difference), (8, 2, 0));
    }

    #[test]
    fn a_chain_with_refunds_burns_three_units() {
        let mut seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, 20).units(5, 1, 10).done();
        seen.units_per_transfer = 3;
        let found = counted(&inject(&[(10, [0, 10]), (0, [0, 0])]), &seen);
        assert_eq!((found.counts.included, found.counts.difference), (10, 0));
        assert_eq!(found.shards[0].included, Some(10));
    }

    #[test]
    fn durations() {
        let seen = chain(&SHARDS, 12).window(3.0, 8.0).done();
        let mut report = inject(&[(0, [0, 0])]);
        report.started_unix_ns = seen.blocks[1].timestamp_unix_ns;
        report.ended_unix_ns = report.started_unix_ns + 7 * SECOND_NS;
        let found = counted(&report, &seen);
        assert!((found.load_seconds - 7.0).abs() < 1e-9);
    }

    proptest! {
        /// Whatever is sent where, a chain that settles it all closes the accounts; one unit more or less opens them.
        #[test]
        fn accounts_close_exactly_when_every_unit_is_there(
            a in 0_u64..500, b in 0_u64..500, c in 0_u64..500, d in 0_u64..500, units in 2_u64..=3,
            wrong in 0_usize..4, amount in 1_u64..5,
        ) {
            let report = inject(&[(a + b, [a, b]), (c + d, [c, d])]);
            let (at_0, at_1) = ((a + b) * (units - 1) + a + c, (c + d) * (units - 1) + b + d);
            let make = |first: u64, second: u64| {
                let mut seen = chain(&SHARDS, 12).window(3.0, 8.0).units(4, 0, first).units(6, 1, second).done();
                seen.units_per_transfer = units;
                counted(&report, &seen)
            };
            let good = make(at_0, at_1);
            prop_assert_eq!((good.counts.included, good.counts.difference), (a + b + c + d, 0));
            prop_assert_eq!(good.shards[0].included, Some(a + b));
            let bad = match wrong {
                0 => make(at_0 + amount, at_1),
                1 => make(at_0, at_1 + amount),
                2 => make(at_0.saturating_sub(amount), at_1 + amount),
                _ => make(at_0 + amount, at_1.saturating_sub(amount)),
            };
            prop_assert_ne!(bad.counts.difference, 0);
        }
    }
}
