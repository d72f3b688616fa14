//! The report page: one self-contained file without scripts, fonts or requests to anywhere.

use askama::Template;
use tpsctl_model::{
    load::UnsentCause,
    observation::LostCause,
    result::{Outcome, RunResult, ShardRecord, TrialRecord},
    verdict::Verdict,
};

use crate::{
    ReportError,
    chart::{Chart, Mark, Point, svg},
    number::{grouped, grouped_signed, milliseconds, missed_share, of, percent, settled_share, total},
    wording,
};

/// The report page of a run.
pub fn html(result: &RunResult) -> Result<String, ReportError> {
    let page =
        Page::of(result).map_err(|source| ReportError::Json { run_id: result.run_id.clone(), source })?;
    page.render().map_err(|source| ReportError::Page { run_id: result.run_id.clone(), source })
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    result: &'a RunResult,
    heading: String,
    /// Why there is no limit, in parts of text and code.
    why: Vec<(bool, &'a str)>,
    hint: Option<&'static str>,
    basis: String,
    goal: String,
    limited_by: Option<&'static str>,
    notice: Option<&'static str>,
    accounts: String,
    not_judged: Vec<String>,
    trials: Vec<TrialRow>,
    shard_tables: Vec<ShardTable>,
    /// SVG; everything in it is escaped where it is drawn.
    charts: Vec<String>,
    scenario: String,
    memory: String,
}

/// A trial's row in the tables of trials and of accounts, in the words of the page.
struct TrialRow {
    number: u32,
    rate: String,
    verdict: &'static str,
    cause: String,
    why: String,
    intended: String,
    sent: String,
    unsent: String,
    accepted: String,
    included: String,
    settled: String,
    settled_share: String,
    pending: String,
    lost: String,
    difference: String,
    missed: String,
    skipped: String,
    block_p90: String,
    block_max: String,
    lag_p99: String,
    load: String,
    drain: String,
}

struct ShardTable {
    caption: String,
    rows: Vec<ShardRow>,
}

struct ShardRow {
    shard: String,
    intended: String,
    sent: String,
    unsent: String,
    included: String,
    settled: String,
    missed: String,
}

impl<'a> Page<'a> {
    fn of(result: &'a RunResult) -> Result<Self, serde_json::Error> {
        let (heading, why) = wording::heading(result);
        Ok(Self {
            result,
            heading,
            why: why.map(wording::parts).unwrap_or_default(),
            hint: wording::hint(result),
            basis: wording::basis(result),
            goal: wording::goal(result),
            limited_by: (result.outcome == Outcome::Done).then(|| wording::limited_by(result.limited_by)),
            notice: result.node.embedded.then_some(wording::EMBEDDED_NOTICE),
            accounts: wording::accounts(result),
            not_judged: wording::not_judged(result),
            trials: result.trials.iter().map(trial_row).collect(),
            shard_tables: wording::deciding(result).into_iter().map(shard_table).collect(),
            charts: charts(result).iter().map(svg).collect(),
            scenario: serde_json::to_string_pretty(&result.scenario)?,
            memory: match result.host.memory_bytes {
                0 => "unknown".to_owned(),
                bytes => format!("{:.1} GB", bytes as f64 / 1e9),
            },
        })
    }
}

fn trial_row(trial: &TrialRecord) -> TrialRow {
    let (counts, times) = (&trial.counts, &trial.block_time_ms);
    let lag = &trial.send_lag_ms;
    TrialRow {
        number: trial.trial,
        rate: grouped(trial.rate_per_shard),
        verdict: trial.verdict.word(),
        cause: trial.cause.clone(),
        why: trial.why.clone(),
        intended: grouped(counts.intended),
        sent: grouped(counts.sent),
        unsent: by_cause(counts.unsent.iter().map(|(cause, number)| (unsent_words(*cause), *number))),
        accepted: counts.accepted.map_or("no answer".to_owned(), grouped),
        included: grouped(counts.included),
        settled: grouped(counts.settled),
        settled_share: judged_share(trial).map_or("-".to_owned(), percent),
        pending: grouped(counts.pending),
        lost: by_cause(counts.lost.iter().map(|(cause, number)| (lost_words(*cause), *number))),
        difference: grouped_signed(counts.difference),
        missed: of(counts.missed_chunk_slots, counts.chunk_slots),
        skipped: grouped(trial.skipped_heights),
        block_p90: milliseconds(times.p90, times.count),
        block_max: milliseconds(times.max, times.count),
        lag_p99: if lag.count == 0 { "-".to_owned() } else { format!("{:.1} ms", lag.p99) },
        load: format!("{:.1} s", trial.load_seconds),
        drain: format!("{:.1} s", trial.drain_seconds),
    }
}

/// The share that the backlog criterion judges. None of an invalid trial: what little was offered may well have settled.
fn judged_share(trial: &TrialRecord) -> Option<f64> {
    if matches!(trial.verdict, Verdict::Invalid { .. }) { None } else { settled_share(&trial.counts) }
}

fn shard_table(trial: &TrialRecord) -> ShardTable {
    let rate = grouped(trial.rate_per_shard);
    ShardTable {
        caption: format!("Trial {}, {rate} transfers/s per shard: {}", trial.trial, trial.verdict.word()),
        rows: trial.shards.iter().map(shard_row).collect(),
    }
}

fn shard_row(shard: &ShardRecord) -> ShardRow {
    ShardRow {
        shard: shard.shard.to_string(),
        intended: grouped(shard.intended),
        sent: grouped(shard.sent),
        unsent: by_cause(shard.unsent.iter().map(|(cause, number)| (unsent_words(*cause), *number))),
        included: shard.included.map_or("not known".to_owned(), grouped),
        settled: grouped(shard.settled),
        missed: of(shard.missed_chunk_slots, shard.chunk_slots),
    }
}

/// `0`, or `52: 40 pool full, 12 node ended`. The cell wraps, but not within a number.
fn by_cause(causes: impl Iterator<Item = (&'static str, u64)>) -> String {
    let whole = |number| grouped(number).replace(' ', "\u{a0}");
    let causes: Vec<(&str, u64)> = causes.filter(|(_, number)| *number > 0).collect();
    let parts: Vec<String> =
        causes.iter().map(|(words, number)| format!("{} {words}", whole(*number))).collect();
    match parts.as_slice() {
        [] => "0".to_owned(),
        [one] => one.clone(),
        _ => format!("{}: {}", whole(total(causes.iter().map(|(_, number)| *number))), parts.join(", ")),
    }
}

fn unsent_words(cause: UnsentCause) -> &'static str {
    match cause {
        UnsentCause::GeneratorLate => "generator late",
        UnsentCause::BackPressure => "back pressure",
        UnsentCause::NotConnected => "not connected",
        UnsentCause::NoBlockHash => "no block hash",
        UnsentCause::Stopped => "stopped",
    }
}

fn lost_words(cause: LostCause) -> &'static str {
    match cause {
        LostCause::PoolFull => "pool full",
        LostCause::RejectedInPreparation => "rejected in preparation",
        LostCause::ConnectionBroken => "connection broken",
        LostCause::NodeEnded => "node ended",
    }
}

fn charts(result: &RunResult) -> [Chart; 3] {
    let interval = result.knee.as_ref().map(|knee| (knee.per_shard_low, knee.per_shard_high));
    let points = |value: &dyn Fn(&TrialRecord) -> Option<f64>, unit: &str| -> Vec<Point> {
        let point = |trial: &TrialRecord| {
            value(trial).map(|value| Point {
                rate: trial.rate_per_shard,
                value,
                mark: mark(&trial.verdict),
                label: format!(
                    "trial {}, {} transfers/s per shard: {value:.2} {unit}, {}",
                    trial.trial,
                    grouped(trial.rate_per_shard),
                    trial.verdict.word()
                ),
            })
        };
        result.trials.iter().filter_map(point).collect()
    };
    let quantile = wording::block_time_name(result);
    let p90 = |trial: &TrialRecord| (trial.block_time_ms.count > 0).then_some(trial.block_time_ms.p90);
    [
        Chart {
            id: "missed",
            title: "Share of chunk slots missed against the configured rate".to_owned(),
            axis: "chunk slots missed, %".to_owned(),
            points: points(&|trial| missed_share(trial).map(|share| share * 100.0), "% of slots missed"),
            bound: Some(result.goal.missed_slots_max.0 * 100.0),
            interval,
            from_zero: true,
        },
        Chart {
            id: "settled",
            title: "Share of offered transfers settled by the end of the drain against the configured rate"
                .to_owned(),
            axis: "settled of offered by the end of the drain, %".to_owned(),
            points: points(&|trial| judged_share(trial).map(|share| share * 100.0), "% settled"),
            bound: Some(result.goal.settled_min.0 * 100.0),
            interval,
            from_zero: false,
        },
        Chart {
            id: "block-time",
            title: "Block time p90 against the configured rate".to_owned(),
            axis: "block time p90, ms".to_owned(),
            points: points(&p90, "ms"),
            // The record holds p90; the bound is another quantile's where the goal says so.
            bound: wording::block_time_bound_ms(result).filter(|_| quantile == "block time p90"),
            interval,
            from_zero: true,
        },
    ]
}

fn mark(verdict: &Verdict) -> Mark {
    match verdict {
        Verdict::Pass => Mark::Pass,
        Verdict::Fail { .. } => Mark::Fail,
        Verdict::Invalid { .. } => Mark::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use crate::testkit;

    use super::*;

    #[test]
    fn pages() {
        for (name, result) in testkit::named() {
            insta::assert_snapshot!(format!("html_{name}"), html(&result).unwrap());
        }
    }

    #[test]
    fn the_page_asks_for_nothing_outside_itself() {
        for result in testkit::all() {
            let page = html(&result).unwrap();
            for banned in ["http:", "https:", "<script", "<link", "@import", "url(", " src="] {
                assert!(!page.contains(banned), "{banned}");
            }
        }
    }

    #[test]
    fn whatever_a_node_or_a_file_says_is_escaped() {
        let evil = "<img src=x onerror=\"alert(1)\">&";
        let mut result = testkit::done();
        result.run_id = evil.to_owned();
        result.node.version = evil.to_owned();
        result.provider = evil.to_owned();
        result.warnings = vec![evil.to_owned()];
        result.outcome = Outcome::Invalid { why: evil.to_owned() };
        result.scenario = serde_json::json!({ evil: "</pre><script>" });
        for trial in &mut result.trials {
            (trial.why, trial.cause) = (evil.to_owned(), evil.to_owned());
        }
        let page = html(&result).unwrap();
        assert!(!page.contains("<img") && !page.contains("<script"));
    }

    /// Every element that is opened is closed, in order: a page that nests wrongly is drawn wrongly.
    #[test]
    fn elements_nest() {
        for result in testkit::all() {
            let page = html(&result).unwrap();
            let mut open = Vec::new();
            for tag in page.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
                let name = tag.split_whitespace().next().unwrap_or("");
                if let Some(closed) = name.strip_prefix('/') {
                    assert_eq!(open.pop().as_deref(), Some(closed));
                } else if !tag.ends_with('/') && !name.starts_with('!') && !matches!(name, "meta" | "br") {
                    open.push(name.to_owned());
                }
            }
            assert_eq!(open, Vec::<String>::new());
        }
    }

    /// A cell wider than its table's part of the page is cut off there: whatever may be long wraps, and on a narrow screen
    /// each cell is a line that says what it is.
    #[test]
    fn long_cells_wrap_and_every_cell_has_its_name() {
        for result in testkit::all() {
            let page = html(&result).unwrap();
            let cells = page.split("<td").skip(1).filter_map(|rest| rest.split_once('>'));
            for (attributes, rest) in cells {
                assert!(attributes.contains("data-label=\""), "{attributes}");
                let text = rest.split('<').next().unwrap_or("");
                assert!(text.chars().count() <= 24 || attributes.contains("words"), "{text}");
            }
        }
    }

    #[test]
    fn an_invalid_trial_has_no_settled_share_to_be_proud_of() {
        let mut trial = testkit::done().trials[3].clone();
        assert!(judged_share(&trial).is_some_and(|share| share > 0.99));
        trial.verdict = Verdict::Invalid { causes: vec![] };
        assert_eq!(judged_share(&trial), None);
    }

    #[test]
    fn only_the_embedded_node_carries_the_notice() {
        let mut result = testkit::done();
        assert!(html(&result).unwrap().contains("embedded node: not a measurement of neard"));
        result.node.embedded = false;
        assert!(!html(&result).unwrap().contains("embedded node"));
    }
}
