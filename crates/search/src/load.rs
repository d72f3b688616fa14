//! The load of a trial: what was ordered and what the injector says of it.

use tpsctl_model::{Millis, Tps, load::InjectReport, observation::Observation};

/// The load that a trial is judged by.
#[derive(Debug, Clone, Copy)]
pub struct JudgedLoad<'a> {
    /// What was ordered, on each shard.
    pub rate_per_shard: Tps,
    /// For how long.
    pub duration_ms: Millis,
    /// Whether Ctrl-C came before the trial's end.
    pub interrupted: bool,
    /// What the injector says.
    pub report: &'a InjectReport,
}

impl JudgedLoad<'_> {
    /// Transfers of a shard that the order's schedule has: rate x duration, rounded down.
    pub(crate) fn scheduled_per_shard(&self) -> u64 {
        let thousandths = u128::from(self.rate_per_shard.0) * u128::from(self.duration_ms.0);
        u64::try_from(thousandths / 1_000).unwrap_or(u64::MAX)
    }

    /// When the load was to end, nanoseconds since the Unix epoch.
    pub(crate) fn scheduled_end_unix_ns(&self) -> u64 {
        self.report.started_unix_ns.saturating_add(self.duration_ms.0.saturating_mul(1_000_000))
    }

    /// Whether the trial was cut short: Ctrl-C and a node's end stop the load, and nobody waits for the rest to settle.
    pub(crate) fn is_cut_short(&self, observation: &Observation) -> bool {
        self.interrupted || !observation.exits.is_empty()
    }

    /// Transfers that the injector's own books leave open, by shard and summed without sign: intended is sent plus
    /// unsent, and every sent transfer has one receiver.
    pub(crate) fn books_open(&self) -> u64 {
        let open = |shard: &tpsctl_model::load::ShardInject| {
            let unsent: u64 = shard.unsent.values().sum();
            let received: u64 = shard.sent_to.values().sum();
            shard.intended.abs_diff(shard.sent + unsent) + shard.sent.abs_diff(received)
        };
        self.report.shards.iter().map(open).sum()
    }
}
