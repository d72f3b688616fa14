//! What four shards settle at a fixed rate, and what a transfer costs the nodes.

use serde_json::Value;

use super::{
    network::{Loaded, Tpsctl},
    table::Table,
};

const SHARDS: u64 = 4;

pub(super) fn run(tpsctl: &Tpsctl, seconds: u64, rate: u64) -> anyhow::Result<String> {
    let network = tpsctl.up("settle.yaml", &[])?;
    let loaded = network.load(rate.div_ceil(SHARDS), seconds, |_| {})?;
    Ok(render(&loaded, seconds))
}

fn render(loaded: &Loaded, seconds: u64) -> String {
    let Loaded { record, nodes_cpu, generator_cpu } = loaded;
    let number = |key: &str| record[key].as_u64().unwrap_or(0);
    let included = number("included");
    let each = nodes_cpu.as_secs_f64() * 1e6 / included.max(1) as f64;
    let mut table = Table::new([
        "asked for a second",
        "settled a second",
        "missed slots",
        "skipped heights",
        "block p90 ms",
        "verdict",
        "nodes' CPU us a transfer",
        "nodes' CPU s",
        "generator's CPU s",
    ]);
    table.row([
        (number("rate_per_shard") * SHARDS).to_string(),
        format!("{:.0}", number("settled") as f64 / seconds.max(1) as f64),
        format!("{} of {}", number("missed_chunk_slots"), number("chunk_slots")),
        number("skipped_heights").to_string(),
        format!("{:.0}", record["block_time_ms"]["p90"].as_f64().unwrap_or(0.0)),
        verdict(record),
        format!("{each:.1}"),
        format!("{:.1}", nodes_cpu.as_secs_f64()),
        format!("{:.1}", generator_cpu.as_secs_f64()),
    ]);
    table.text()
}

/// The verdict, with its cause where it is not a pass.
pub(super) fn verdict(record: &Value) -> String {
    let verdict = record["verdict"].as_str().unwrap_or("none");
    match record["cause"].as_str() {
        Some(cause) if !cause.is_empty() => format!("{verdict}: {cause}"),
        _ => verdict.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_record_becomes_a_row() {
        let record = serde_json::json!({
            "rate_per_shard": 3_000, "settled": 120_000, "included": 100_000, "missed_chunk_slots": 1,
            "chunk_slots": 64, "skipped_heights": 0, "block_time_ms": {"p90": 611.4}, "verdict": "fail",
            "cause": "1 of 64 slots",
        });
        let second = Duration::from_secs(1);
        let loaded = Loaded { record, nodes_cpu: 7 * second, generator_cpu: second };
        let text = render(&loaded, 10);
        let row: Vec<&str> = text.lines().nth(2).expect("a row").split('|').map(str::trim).collect();
        let expected = ["12000", "12000", "1 of 64", "0", "611", "fail: 1 of 64 slots", "70.0", "7.0", "1.0"];
        assert_eq!(row[1..10], expected);
    }
}
