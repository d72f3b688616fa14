//! Which symptom a network shows first under rising load: slow blocks, a backlog, missing endorsements, missed chunks,
//! skipped heights.

use serde_json::Value;

use super::{
    network::{Network, Tpsctl, sum},
    settle,
    table::Table,
};

const SHARDS: u64 = 4;
/// As in the scenario.
const BLOCK_TIME_MIN_MS: f64 = 600.0;
/// A block time is slow from this multiple of the shortest on.
const SLOW: f64 = 1.5;
/// Transfers that wait are a backlog from so many blocks' worth of load on.
const BACKLOG_BLOCKS: f64 = 4.0;

/// What a network showed at one rate.
#[derive(Debug, Clone, Default, PartialEq)]
struct Step {
    rate: u64,
    verdict: String,
    settled: u64,
    block_p50_ms: f64,
    block_p90_ms: f64,
    block_max_ms: f64,
    /// Most transactions in pools, and receipts put off, at any look.
    backlog: f64,
    /// Endorsements that did not come in time, of chunks that were included all the same.
    unheard: f64,
    /// Chunks that block producers left out, by reason.
    unendorsed: f64,
    unavailable: f64,
    missed: u64,
    skipped: u64,
}

/// Its name, and whether a step shows it.
type Symptom = (&'static str, fn(&Step) -> bool);

/// Counters and gauges at one moment, summed over the nodes.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    waiting: f64,
    unheard: f64,
    unendorsed: f64,
    unavailable: f64,
}

impl Look {
    fn at(network: &Network<'_>) -> Self {
        let texts = network.metrics();
        let excluded = "near_block_producer_excluded_chunks_count";
        Self {
            waiting: sum(&texts, "near_transaction_pool_entries", "")
                + sum(&texts, "near_delayed_receipts_count", ""),
            unheard: sum(&texts, "near_block_producer_missing_endorsement_count_sum", ""),
            unendorsed: sum(&texts, excluded, "insufficient_endorsement"),
            unavailable: sum(&texts, excluded, "chunk_unavailable"),
        }
    }
}

/// Rates from the first to the last.
pub(super) fn rates(from: u64, to: u64, step: u64) -> Vec<u64> {
    (from..=to).step_by(usize::try_from(step.max(1)).unwrap_or(usize::MAX)).collect()
}

pub(super) fn run(tpsctl: &Tpsctl, seconds: u64, rates: Vec<u64>) -> anyhow::Result<String> {
    let network = tpsctl.up("symptoms.yaml", &[])?;
    let mut steps = Vec::new();
    for rate in rates {
        let before = Look::at(&network);
        let mut waiting: f64 = 0.0;
        let loaded = network.load(rate.div_ceil(SHARDS), seconds, |network| {
            waiting = waiting.max(Look::at(network).waiting);
        });
        // A network that is past its limit may not become idle again: what was seen so far is still the answer.
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                eprintln!("the load at {rate} a second gave no record: {error:#}");
                break;
            }
        };
        let after = Look::at(&network);
        let step = Step {
            backlog: waiting,
            unheard: after.unheard - before.unheard,
            unendorsed: after.unendorsed - before.unendorsed,
            unavailable: after.unavailable - before.unavailable,
            ..of_record(&loaded.record, rate, seconds)
        };
        let is_over = step.skipped > 0 && step.missed > 0;
        eprintln!("{step:?}");
        steps.push(step);
        if is_over {
            break;
        }
    }
    Ok(render(&steps))
}

fn of_record(record: &Value, rate: u64, seconds: u64) -> Step {
    let number = |key: &str| record[key].as_u64().unwrap_or(0);
    let block_time = |key: &str| record["block_time_ms"][key].as_f64().unwrap_or(0.0);
    Step {
        rate,
        verdict: settle::verdict(record),
        settled: number("settled") / seconds.max(1),
        block_p50_ms: block_time("p50"),
        block_p90_ms: block_time("p90"),
        block_max_ms: block_time("max"),
        missed: number("missed_chunk_slots"),
        skipped: number("skipped_heights"),
        ..Step::default()
    }
}

fn render(steps: &[Step]) -> String {
    let mut table = Table::new([
        "rate",
        "settled",
        "block p50 ms",
        "p90",
        "max",
        "backlog",
        "missing endorsements",
        "unendorsed",
        "unavailable",
        "missed chunks",
        "skipped heights",
        "verdict",
    ]);
    for own in steps {
        table.row([
            own.rate.to_string(),
            own.settled.to_string(),
            format!("{:.0}", own.block_p50_ms),
            format!("{:.0}", own.block_p90_ms),
            format!("{:.0}", own.block_max_ms),
            format!("{:.0}", own.backlog),
            format!("{:.0}", own.unheard),
            format!("{:.0}", own.unendorsed),
            format!("{:.0}", own.unavailable),
            own.missed.to_string(),
            own.skipped.to_string(),
            own.verdict.clone(),
        ]);
    }
    format!("{}\nFirst shown: {}.", table.text(), first_shown(steps))
}

/// Symptoms in the order of the rates at which they first show; those of one rate are joined by `+`.
fn first_shown(steps: &[Step]) -> String {
    let symptoms: [Symptom; 5] = [
        ("block time", |own| own.block_p90_ms > SLOW * BLOCK_TIME_MIN_MS),
        ("backlog", |own| own.backlog > own.rate as f64 * BACKLOG_BLOCKS * BLOCK_TIME_MIN_MS / 1e3),
        ("missing endorsements", |own| own.unheard > 0.0 || own.unendorsed > 0.0),
        ("missed chunks", |own| own.missed > 0),
        ("skipped heights", |own| own.skipped > 0),
    ];
    let mut groups = Vec::new();
    let mut rest = symptoms.to_vec();
    for step in steps {
        let (shown, later): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, shows)| shows(step));
        rest = later;
        if !shown.is_empty() {
            let names: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
            groups.push(format!("{} ({})", names.join(" + "), step.rate));
        }
    }
    if !rest.is_empty() {
        let names: Vec<&str> = rest.iter().map(|(name, _)| *name).collect();
        groups.push(format!("never {}", names.join(", ")));
    }
    groups.join(", then ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symptoms_are_listed_in_the_order_of_rates() {
        let step = |rate: u64| Step { rate, block_p90_ms: 610.0, ..Step::default() };
        let steps = [
            step(1_000),
            Step { block_p90_ms: 950.0, backlog: 5_000.0, ..step(2_000) },
            Step { unendorsed: 2.0, missed: 2, ..step(3_000) },
        ];
        let expected = "block time + backlog (2000), then missing endorsements + missed chunks (3000), then \
                        never skipped heights";
        assert_eq!(first_shown(&steps), expected);
        assert!(render(&steps).ends_with(&format!("First shown: {expected}.")));
    }

    #[test]
    fn rates_rise_to_the_last() {
        assert_eq!(rates(4_000, 12_000, 4_000), [4_000, 8_000, 12_000]);
        assert_eq!(rates(4_000, 4_000, 0), [4_000]);
        assert!(rates(5, 4, 1).is_empty());
    }
}
