//! How far repeated quickstarts agree.

use serde_json::Value;

use super::{network::Tpsctl, table::Table};

/// What one run found, transfers a second over all shards.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    interval: Option<(u64, u64)>,
    outcome: String,
}

pub(super) fn run(tpsctl: &Tpsctl, count: usize) -> anyhow::Result<String> {
    let args = ["scenario", "run", "quickstart", "--json", "--quiet"].map(str::to_owned);
    let mut all = Vec::new();
    for number in 1..=count {
        eprintln!("quickstart {number} of {count}");
        all.push(found(&tpsctl.json(&args)?));
    }
    Ok(render(&all))
}

fn found(run: &Value) -> Found {
    let end = |key: &str| run["knee"][key].as_u64();
    let kind = run["outcome"]["kind"].as_str().unwrap_or("none");
    let why = run["outcome"]["why"].as_str().map_or_else(String::new, |why| format!(": {why}"));
    Found { interval: end("total_low").zip(end("total_high")), outcome: format!("{kind}{why}") }
}

fn width_percent((low, high): (u64, u64)) -> f64 {
    100.0 * high.saturating_sub(low) as f64 / high.max(1) as f64
}

fn render(all: &[Found]) -> String {
    let mut table = Table::new(["run", "lower", "upper", "width", "outcome"]);
    for (number, own) in (1..).zip(all) {
        let cells = own.interval.map_or(["-".to_owned(), "-".to_owned(), "-".to_owned()], |interval| {
            [interval.0.to_string(), interval.1.to_string(), format!("{:.1} %", width_percent(interval))]
        });
        table.row([number.to_string()].into_iter().chain(cells).chain([own.outcome.clone()]));
    }
    let intervals: Vec<(u64, u64)> = all.iter().filter_map(|own| own.interval).collect();
    let median = median(intervals.iter().map(|(low, high)| u64::midpoint(*low, *high)).collect());
    let holding = intervals.iter().filter(|(low, high)| (*low..=*high).contains(&median)).count();
    let widest = intervals.iter().copied().map(width_percent).fold(0.0, f64::max);
    format!(
        "{}\nMedian of the midpoints: {median} transfers/s; {holding} of {} runs have an interval that holds it; the widest is {widest:.1} %.",
        table.text(),
        all.len()
    )
}

fn median(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    let middle = numbers.len() / 2;
    match numbers.get(middle) {
        None => 0,
        Some(upper) if numbers.len().is_multiple_of(2) => u64::midpoint(numbers[middle - 1], *upper),
        Some(only) => *only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), 0);
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(median(vec![9, 1, 5, 7]), 6);
    }

    #[test]
    fn runs_without_an_interval_contain_nothing() {
        let run = |low: u64, high: u64| {
            let json = serde_json::json!({
                "knee": {"total_low": low, "total_high": high}, "outcome": {"kind": "done"},
            });
            found(&json)
        };
        let failed = serde_json::json!({"knee": null, "outcome": {"kind": "inconclusive", "why": "late"}});
        let text = render(&[run(90, 110), run(95, 105), run(150, 200), found(&failed)]);
        assert!(text.contains("| 1   | 90    | 110   | 18.2 % | done"), "{text}");
        assert!(text.contains("inconclusive: late"), "{text}");
        assert!(text.contains("Median of the midpoints: 100 transfers/s; 2 of 4 runs have"), "{text}");
        assert!(text.ends_with("the widest is 25.0 %."), "{text}");
    }
}
