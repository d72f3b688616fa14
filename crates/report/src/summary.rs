//! The run in a terminal: at most 25 lines, legible without colour.

use tpsctl_model::result::{Outcome, RunResult, TrialRecord};

use crate::{
    number::{grouped, milliseconds, of},
    wording,
};

/// Most lines of trials; with more, the last are shown.
const TRIAL_LINES: usize = 10;
/// Most warnings that are written out.
const WARNING_LINES: usize = 2;
/// Most characters of a cause in the table; the report has it whole.
const CAUSE_WIDTH: usize = 64;

const BOLD: &str = "1";
const GREEN: &str = "32";
const RED: &str = "31";
const YELLOW: &str = "33";

/// The summary of a run that lies in `directory`. `colour` adds escape codes and changes nothing else.
pub fn summary(result: &RunResult, directory: &str, colour: bool) -> String {
    let paint = Paint { colour };
    let mut lines = vec![paint.with(BOLD, &wording::headline(result))];
    lines.push(format!("  goal: {}", wording::goal(result)));
    if result.outcome == Outcome::Done {
        lines.push(format!("  stopped by: {}", wording::limited_by(result.limited_by)));
    }
    lines.push(format!("  {}", wording::basis(result)));
    lines.extend(wording::hint(result).map(|hint| format!("  hint: {hint}")));
    if result.node.embedded {
        lines.push(format!("  {}", wording::EMBEDDED_NOTICE));
    }
    lines.push(String::new());
    if !result.trials.is_empty() {
        lines.extend(trial_table(result, paint));
        lines.push(String::new());
    }
    lines.push(format!("accounts {}", wording::accounts(result)));
    lines.extend(not_judged(result));
    lines.extend(warnings(&result.warnings, paint));
    lines.push(match result.processes_left {
        0 => "processes left: 0".to_owned(),
        left => paint.with(RED, &format!("PROCESSES LEFT: {left}. End them: tpsctl down {}", result.run_id)),
    });
    let directory = directory.trim_end_matches('/');
    lines.push(format!("run directory: {directory}/  report: {directory}/report.html"));
    lines.join("\n") + "\n"
}

#[derive(Debug, Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

const HEADINGS: [&str; 9] =
    ["trial", "rate/shard", "verdict", "intended", "sent", "included", "missed slots", "block p90", "cause"];

fn trial_table(result: &RunResult, paint: Paint) -> Vec<String> {
    let shown = if result.trials.len() > TRIAL_LINES { TRIAL_LINES - 1 } else { TRIAL_LINES };
    let earlier = result.trials.len().saturating_sub(shown);
    let rows: Vec<[String; 9]> = result.trials.iter().skip(earlier).map(cells).collect();
    let widths: Vec<usize> = HEADINGS
        .iter()
        .enumerate()
        .map(|(column, heading)| {
            rows.iter()
                .map(|row| row.get(column).map_or(0, String::len))
                .chain([heading.len()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut lines = vec![table_line(&HEADINGS.map(str::to_owned), &widths, Paint { colour: false })];
    if earlier > 0 {
        lines.push(format!("{earlier} earlier trials are in the report"));
    }
    lines.extend(rows.iter().map(|row| table_line(row, &widths, paint)));
    lines
}

fn cells(trial: &TrialRecord) -> [String; 9] {
    let counts = &trial.counts;
    [
        trial.trial.to_string(),
        grouped(trial.rate_per_shard),
        trial.verdict.word().to_owned(),
        grouped(counts.intended),
        grouped(counts.sent),
        grouped(counts.included),
        of(counts.missed_chunk_slots, counts.chunk_slots),
        milliseconds(trial.block_time_ms.p90, trial.block_time_ms.count),
        shortened(&trial.cause),
    ]
}

fn shortened(cause: &str) -> String {
    if cause.chars().count() <= CAUSE_WIDTH {
        return cause.to_owned();
    }
    let kept: String = cause.chars().take(CAUSE_WIDTH - 3).collect();
    format!("{}...", kept.trim_end())
}

/// Numbers to the right, words to the left; colour only on the verdict, around the padded word.
fn table_line(row: &[String; 9], widths: &[usize], paint: Paint) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = match column {
            2 => {
                let padded = format!("{cell:<width$}");
                verdict_code(cell).map_or(padded.clone(), |code| paint.with(code, &padded))
            }
            8 => cell.clone(),
            _ => format!("{cell:>width$}"),
        };
        line.push_str(&text);
        line.push_str("  ");
    }
    line.trim_end().to_owned()
}

fn verdict_code(word: &str) -> Option<&'static str> {
    match word {
        "pass" => Some(GREEN),
        "fail" => Some(RED),
        "invalid" => Some(YELLOW),
        _ => None,
    }
}

/// The first trial with accounts that are not judged, the others counted.
fn not_judged(result: &RunResult) -> Option<String> {
    let all = wording::not_judged(result);
    let first = all.first()?;
    let more = all.len() - 1;
    let rest = if more > 0 { format!("; {more} more in the report") } else { String::new() };
    Some(format!("  {first}{rest}"))
}

fn warnings(warnings: &[String], paint: Paint) -> Vec<String> {
    let label = paint.with(YELLOW, "warning:");
    let mut lines: Vec<String> =
        warnings.iter().take(WARNING_LINES).map(|warning| format!("{label} {}", one_line(warning))).collect();
    if warnings.len() > WARNING_LINES {
        lines.push(format!("{label} and {} more in the report", warnings.len() - WARNING_LINES));
    }
    lines
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use tpsctl_model::result::NotJudged;

    use crate::testkit;

    use super::*;

    /// Most lines of a summary, so that it fits a terminal together with the command.
    const LINES_MAX: usize = 25;

    #[test]
    fn summaries() {
        for (name, result) in testkit::named() {
            let directory = format!("runs/{}", result.run_id);
            insta::assert_snapshot!(format!("summary_{name}"), summary(&result, &directory, false));
        }
    }

    #[test]
    fn colour_adds_nothing_but_escape_codes() {
        for result in testkit::all() {
            let mut plain = summary(&result, "runs/a", true);
            for code in [BOLD, GREEN, RED, YELLOW, "0"] {
                plain = plain.replace(&format!("\x1b[{code}m"), "");
            }
            assert_eq!(plain, summary(&result, "runs/a", false));
        }
    }

    #[test]
    fn a_long_run_still_fits_a_terminal() {
        let mut result = testkit::done();
        let trial = result.trials[5].clone();
        result.trials.extend(std::iter::repeat_n(trial, 40));
        result.warnings = (0..10).map(|number| format!("warning\n{number}")).collect();
        let own = NotJudged { trial: 5, transfers: 9, why: "a node ended".to_owned() };
        result.accounting.not_judged = vec![own; 4];
        let text = summary(&result, "runs/a", false);
        assert!(text.lines().count() <= LINES_MAX, "{text}");
        assert!(
            text.contains("trial 5, not judged: 9 transfers, since a node ended; 3 more in the report\n"),
            "{text}"
        );
        assert!(text.contains(" earlier trials are in the report"));
    }

    #[test]
    fn only_the_embedded_node_carries_the_notice() {
        let mut result = testkit::done();
        assert!(summary(&result, "runs/a", false).contains("embedded node: not a measurement of neard"));
        result.node.embedded = false;
        assert!(!summary(&result, "runs/a", false).contains("embedded node"));
    }

    #[test]
    fn processes_that_are_left_cannot_be_overlooked() {
        let mut result = testkit::done();
        result.processes_left = 2;
        let text = summary(&result, "runs/a", false);
        let wanted = "PROCESSES LEFT: 2. End them: tpsctl down 20261201-101500-quickstart";
        assert!(text.lines().any(|line| line == wanted), "{text}");
    }

    #[test]
    fn the_directory_is_the_one_that_was_given() {
        let text = summary(&testkit::done(), "/data/runs/a/", false);
        let wanted = "run directory: /data/runs/a/  report: /data/runs/a/report.html";
        assert!(text.lines().any(|line| line == wanted), "{text}");
    }

    #[test]
    fn open_accounts_cannot_be_overlooked() {
        let mut result = testkit::done();
        result.accounting.closed = false;
        result.accounting.difference = 3;
        result.trials[4].counts.difference = 3;
        let text = summary(&result, "runs/a", false);
        assert!(text.contains("accounts OPEN, 3 transfers unexplained: sent "), "{text}");
    }
}
