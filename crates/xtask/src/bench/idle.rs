//! What networks without load take of a core.

use std::time::Duration;

use super::{
    network::{Tpsctl, sum},
    process,
    table::Table,
};
use crate::steps::now;

/// Connections and first blocks are made in this time; they are not idleness.
const SETTLE_IN: Duration = Duration::from_secs(10);

pub(super) fn run(tpsctl: &Tpsctl, seconds: u64, producers: u32) -> anyhow::Result<String> {
    let mut table = Table::new(["network", "share of a core", "CPU s", "blocks", "looked on s"]);
    let many = |block_time: (&str, &str)| {
        let (min, max) = block_time;
        vec![
            format!("chain.shards={producers}"),
            format!("chain.block_time_min={min}"),
            format!("chain.block_time_max={max}"),
        ]
    };
    let networks = [
        ("4 shards, 600ms blocks".to_owned(), "idle-4.yaml", Vec::new()),
        (format!("{producers} producers, 2.5s blocks"), "idle-70.yaml", many(("2.5s", "5s"))),
        (format!("{producers} producers, 600ms blocks"), "idle-70.yaml", many(("600ms", "1800ms"))),
    ];
    for (name, scenario, sets) in networks {
        let network = tpsctl.up(scenario, &sets)?;
        process::look_on(SETTLE_IN);
        let height = || {
            let texts: Vec<String> = network.metrics().into_iter().take(1).collect();
            sum(&texts, "near_block_height_head", "")
        };
        let (from, began) = (height(), now());
        let before = process::cpu_of_all(&network.pids)?;
        process::look_on(Duration::from_secs(seconds));
        let used = process::cpu_of_all(&network.pids)?.saturating_sub(before);
        let looked = began.elapsed().as_secs_f64();
        table.row([
            name,
            format!("{:.1} %", 100.0 * used.as_secs_f64() / looked),
            format!("{:.2}", used.as_secs_f64()),
            format!("{:.0}", height() - from),
            format!("{looked:.0}"),
        ]);
    }
    Ok(table.text())
}
