//! Run events to the terminal: a live line on a terminal, plain lines elsewhere. Everything here goes to stderr.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;
use tpsctl_model::{
    event::{RunEvent, Stage, TrialPhase},
    result::TrialRecord,
    verdict::Verdict,
};

use crate::cli::Color;

/// Where there is no live line, what goes on is told again after this long without a line.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The same while a trial's load runs: how long that takes is known.
const LOAD_SILENCE_MAX: Duration = Duration::from_mins(1);

/// Renders the events of one run.
#[derive(Debug)]
pub(crate) struct Renderer {
    bar: ProgressBar,
    live: bool,
    quiet: bool,
    colour: bool,
    load: Option<(Instant, u64)>,
    headline: String,
    /// What goes on, as the live line says it.
    doing: String,
    /// How long it may go on without a line.
    silence_max: Duration,
    /// When the last line was written.
    told: Instant,
}

/// Whether `stream` should have colour.
pub(crate) fn wants_colour(color: Color, is_terminal: bool) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none(),
    }
}

impl Renderer {
    /// A renderer for stderr.
    pub(crate) fn new(color: Color, quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let live = is_terminal && !quiet && color != Color::Never;
        let target = if live { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed:>4}") {
            bar.set_style(style);
        }
        if live {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        let colour = wants_colour(color, is_terminal);
        Self {
            bar,
            live,
            quiet,
            colour,
            load: None,
            headline: String::new(),
            doing: String::new(),
            silence_max: SILENCE_MAX,
            told: Instant::now(),
        }
    }

    /// Says what still goes on, when that was not said for long and there is no live line to say it. To be called now and
    /// then, also without an event.
    pub(crate) fn look(&mut self) {
        if let Some(text) = self.overdue(Instant::now()) {
            self.line(&text);
        }
    }

    fn overdue(&self, now: Instant) -> Option<String> {
        let is_due =
            !self.live && !self.doing.is_empty() && now.duration_since(self.told) >= self.silence_max;
        is_due.then(|| format!("{:>9}  {}", "still", self.doing))
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::RunStarted { run_id, directory } => self.line(&format!("run {run_id} in {directory}")),
            RunEvent::StageStarted { stage } => self.head(stage_doing(*stage)),
            RunEvent::StageDone { stage, summary } => {
                self.line(&format!("{:>9}  {summary}", stage_name(*stage)));
            }
            RunEvent::NodeStarted { node, pid } => {
                self.head(&format!("starting nodes: {node} is process {pid}"));
            }
            RunEvent::NodeEnded { node, exit } => {
                self.line(&self.paint("33", &format!("  node     {node} ended: {exit}")));
            }
            RunEvent::TrialStarted { trial, rate_per_shard, load_ms, why } => {
                self.load = Some((Instant::now(), *load_ms));
                self.line(&format!("     next  {rate_per_shard}/s per shard: {why}"));
                self.head(&format!("trial {trial}, {rate_per_shard}/s per shard"));
            }
            RunEvent::Live { .. } => self.live(event),
            RunEvent::TrialDone { record } => {
                self.line(&self.trial_line(record));
                self.head("waiting until the network is idle again");
            }
            RunEvent::Warning { text } => self.line(&self.paint("33", &format!("warning: {text}"))),
            RunEvent::Interrupted => {
                self.line(
                    "interrupted: stopping the load, tearing down, writing the report (Ctrl-C again: stop waiting)");
            }
        }
    }

    /// Ends the live line.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn live(&mut self, event: &RunEvent) {
        let RunEvent::Live { inject, height, settled, missed_chunk_slots, phase, .. } = event else { return };
        self.silence_max = match phase {
            TrialPhase::Load => LOAD_SILENCE_MAX,
            TrialPhase::Drain => SILENCE_MAX,
        };
        let phase = match (phase, self.load) {
            (TrialPhase::Load, Some((began, load_ms))) => {
                format!("load {:.0} of {:.0} s", began.elapsed().as_secs_f64(), load_ms as f64 / 1_000.0)
            }
            _ => "waiting until all is settled and the network idle".to_owned(),
        };
        let unsent = if inject.unsent > 0 { format!(", unsent {}", inject.unsent) } else { String::new() };
        self.doing = format!(
            "{}, {phase}: height {height}, missed {missed_chunk_slots}, sent {}{unsent}, settled {settled}",
            self.headline, inject.sent
        );
        self.bar.set_message(self.doing.clone());
    }

    fn head(&mut self, text: &str) {
        text.clone_into(&mut self.headline);
        text.clone_into(&mut self.doing);
        self.silence_max = SILENCE_MAX;
        self.bar.set_message(text.to_owned());
    }

    /// One finished line above the live one. A closed stderr is no reason to end a run.
    fn line(&mut self, text: &str) {
        self.told = Instant::now();
        if self.quiet {
            return;
        }
        self.bar.suspend(|| {
            let written = writeln!(std::io::stderr().lock(), "{text}");
            drop(written);
        });
    }

    fn trial_line(&self, record: &TrialRecord) -> String {
        let verdict = match record.verdict {
            Verdict::Pass => self.paint("32", "pass   "),
            Verdict::Fail { .. } => self.paint("31", "fail   "),
            Verdict::Invalid { .. } => self.paint("33", "invalid"),
        };
        let cause = if record.cause.is_empty() { String::new() } else { format!("  {}", record.cause) };
        format!(
            "{:>8} {:>2}  {:>6}/s per shard  {verdict}  sent {:>7}, included {:>7}, missed {} chunk slots, block p90 {}{cause}",
            "trial",
            record.trial,
            record.rate_per_shard,
            record.counts.sent,
            record.counts.included,
            of(record.counts.missed_chunk_slots, record.counts.chunk_slots),
            milliseconds(&[record.block_time_ms.p90], record.block_time_ms.count),
        )
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `3 of 40`; a dash where there were none, as in the summary's table.
fn of(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{part} of {whole}") }
}

/// Whole milliseconds of a distribution; a dash where there was nothing to measure.
fn milliseconds(values: &[f64], count: u64) -> String {
    if count == 0 {
        return "-".to_owned();
    }
    let values: Vec<_> = values.iter().map(|value| format!("{value:.0}")).collect();
    format!("{} ms", values.join("/"))
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Plan => "plan",
        Stage::Genesis => "genesis",
        Stage::Provision => "network",
        Stage::Search => "search",
        Stage::Report => "report",
        Stage::Teardown => "teardown",
    }
}

fn stage_doing(stage: Stage) -> &'static str {
    match stage {
        Stage::Plan => "planning",
        Stage::Genesis => "writing genesis",
        Stage::Provision => "starting nodes, waiting for blocks",
        Stage::Search => "searching for the limit",
        Stage::Report => "writing the report",
        Stage::Teardown => "ending every process",
    }
}

/// What became of every transfer of one trial, for a person.
pub(crate) fn trial_in_words(record: &TrialRecord) -> String {
    let counts = &record.counts;
    let mut text = format!(
        "{} at {} transfers/s per shard for {:.1} s{}\n",
        record.verdict.word(),
        record.rate_per_shard,
        record.load_seconds,
        if record.cause.is_empty() { String::new() } else { format!(": {}", record.cause) }
    );
    let causes = |text: &mut String, cause: String, count: u64| {
        text.push_str(&format!("    {cause:<24} {count:>9}\n"));
    };
    text.push_str(&format!("  intended                   {:>9}\n", counts.intended));
    text.push_str(&format!("  sent                       {:>9}\n", counts.sent));
    for (cause, count) in &counts.unsent {
        causes(&mut text, format!("unsent: {}", word(cause)), *count);
    }
    text.push_str(&format!("  included                   {:>9}\n", counts.included));
    text.push_str(&format!("  pending                    {:>9}\n", counts.pending));
    for (cause, count) in &counts.lost {
        causes(&mut text, format!("lost: {}", word(cause)), *count);
    }
    text.push_str(&format!("  unexplained                {:>9}\n", counts.difference));
    let times = &record.block_time_ms;
    text.push_str(&format!(
        "  missed chunk slots         {:>9}\n  block time p50/p90/max     {}\n  send lag p99               {:.1} ms\n",
        of(counts.missed_chunk_slots, counts.chunk_slots),
        milliseconds(&[times.p50, times.p90, times.max], times.count),
        record.send_lag_ms.p99
    ));
    text
}

/// A cause's name as `run.json` writes it.
fn word<T: serde::Serialize>(cause: &T) -> String {
    serde_json::to_value(cause).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tpsctl_model::load::InjectTick;

    use super::*;

    fn renderer(quiet: bool) -> Renderer {
        Renderer::new(Color::Never, quiet)
    }

    fn live(phase: TrialPhase) -> RunEvent {
        RunEvent::Live {
            trial: 1,
            inject: InjectTick { intended: 90, sent: 80, unsent: 10 },
            height: 42,
            settled: 70,
            missed_chunk_slots: 0,
            phase,
        }
    }

    #[test]
    fn a_long_wait_is_told_where_there_is_no_live_line() {
        let mut renderer = renderer(false);
        let later = |renderer: &Renderer, wait: Duration| renderer.overdue(renderer.told + wait);
        assert_eq!(later(&renderer, SILENCE_MAX), None, "nothing goes on");
        renderer.event(&RunEvent::StageStarted { stage: Stage::Teardown });
        assert_eq!(later(&renderer, Duration::from_secs(9)), None);
        assert_eq!(later(&renderer, SILENCE_MAX).as_deref(), Some("    still  ending every process"));
        renderer.event(&live(TrialPhase::Load));
        assert_eq!(later(&renderer, SILENCE_MAX), None, "how long the load takes is known");
        assert!(later(&renderer, LOAD_SILENCE_MAX).is_some());
        renderer.event(&live(TrialPhase::Drain));
        let text = later(&renderer, SILENCE_MAX).expect("overdue");
        assert!(text.contains("waiting until all is settled and the network idle: height 42"), "{text}");
        assert!(text.contains("sent 80, unsent 10, settled 70"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        assert_eq!((of(0, 0), of(0, 40)), ("-".to_owned(), "0 of 40".to_owned()));
        assert_eq!(milliseconds(&[0.0, 0.0], 0), "-");
        assert_eq!(milliseconds(&[301.2, 420.0], 7), "301/420 ms");
    }
}
