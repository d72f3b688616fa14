//! config.json read again while the node runs, as neard does on SIGHUP (nearcore/src/dyn_config.rs:62-76).
//!
//! Taken over are the delays of block production and the time limit on choosing a chunk's transactions. What else changed
//! in the file is named in the log and waits for the next start; a file that cannot be followed changes nothing. neard
//! also reads validator_key.json again: this node does not, its roles are fixed at genesis.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use prometheus::{IntCounter, IntGauge, IntGaugeVec, Opts, Registry};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tpsctl_near::files::NodeConfigFile;

use super::{
    NodeError, clock,
    home::{read_config, tuning_of},
    metrics::{Metrics, add},
};
use crate::core::{Event, Tuning};

/// Keys that are taken over.
const TAKEN_OVER: [&str; 5] = [
    "consensus.chunk_wait_mult",
    "consensus.max_block_production_delay",
    "consensus.max_block_wait_delay",
    "consensus.min_block_production_delay",
    "produce_chunk_add_transactions_time_limit",
];

/// Keys that neard takes over and that nothing here depends on.
const WITHOUT_EFFECT: [&str; 2] =
    ["consensus.block_production_tracking_delay", "consensus.doomslug_step_period"];

/// Values of config.json by their path.
type Values = BTreeMap<String, Value>;

/// What the metrics say of the configuration, with neard's names (core/dyn-configs/src/metrics.rs,
/// core/chain-configs/src/metrics.rs).
#[derive(Debug)]
pub(super) struct ConfigMetrics {
    is_correct: IntGauge,
    reloads: IntCounter,
    reloaded_at: IntGauge,
    /// The values in force are 1, earlier ones 0.
    fields: IntGaugeVec,
}

impl ConfigMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let fields = Opts::new("near_config_mutable_field", "Timestamp and value of a mutable config field");
        Self {
            is_correct: add(
                registry,
                IntGauge::new("near_config_correct", "Are the current dynamically loadable configs correct"),
            ),
            reloads: add(
                registry,
                IntCounter::new(
                    "near_config_reloads_total",
                    "Number of times the configs were reloaded during the current run of the process",
                ),
            ),
            reloaded_at: add(
                registry,
                IntGauge::new(
                    "near_config_reload_timestamp_seconds",
                    "Timestamp of the last reload of the config",
                ),
            ),
            fields: add(registry, IntGaugeVec::new(fields, &["field_name", "timestamp", "value"])),
        }
    }

    fn set_correct(&self, is_correct: bool) {
        self.is_correct.set(i64::from(is_correct));
    }

    fn show(&self, tuning: Tuning, since: u64, value: i64) {
        for (name, text) in texts(tuning) {
            self.fields.with_label_values(&[name, &since.to_string(), &text]).set(value);
        }
    }
}

/// The values in force as neard's metric writes them.
fn texts(tuning: Tuning) -> [(&'static str, String); 5] {
    let duration = |own: Duration| {
        format!("Duration {{ seconds: {}, nanoseconds: {} }}", own.as_secs(), own.subsec_nanos())
    };
    let Tuning { timing, prepare_time } = tuning;
    let (numer, denom) = timing.chunk_wait_mult;
    [
        ("chunk_wait_mult", format!("Ratio {{ numer: {numer}, denom: {denom} }}")),
        ("max_block_production_delay", duration(timing.max_block_production_delay)),
        ("max_block_wait_delay", duration(timing.max_block_wait_delay)),
        ("min_block_production_delay", duration(timing.min_block_production_delay)),
        (
            "produce_chunk_add_transactions_time_limit",
            prepare_time.map_or("None".to_owned(), |own| format!("Some({})", duration(own))),
        ),
    ]
}

/// Takes the configuration over, whenever it is asked to.
#[derive(Debug)]
pub(super) struct Reloader {
    home: PathBuf,
    in_force: Values,
    tuning: Option<(Tuning, u64)>,
    events: mpsc::Sender<Event>,
    metrics: Arc<Metrics>,
}

/// What differs between the file and what is in force, in words.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    taken_over: Vec<String>,
    without_effect: Vec<String>,
    with_next_start: Vec<String>,
}

impl Reloader {
    pub(super) fn new(
        home: &Path,
        config: &NodeConfigFile,
        events: mpsc::Sender<Event>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let tuning = tuning_of(config).ok().map(|tuning| (tuning, clock::unix_seconds()));
        if let Some((tuning, since)) = tuning {
            metrics.config.show(tuning, since, 1);
        }
        metrics.config.set_correct(true);
        Self { home: home.to_owned(), in_force: values(config), tuning, events, metrics }
    }

    pub(super) async fn run(
        mut self,
        mut asked: mpsc::Receiver<()>,
        cancel: CancellationToken,
    ) -> Result<(), NodeError> {
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                // When nobody can ask any more, only the end is waited for.
                Some(()) = asked.recv() => {}
            }
            self.metrics.config.reloads.inc();
            self.metrics.config.reloaded_at.set(clock::unix_seconds().cast_signed());
            let home = self.home.clone();
            let read = tokio::task::spawn_blocking(move || read_config(&home)).await;
            let read = read.map_err(NodeError::Task)?.and_then(|config| {
                let fault = |fault| NodeError::Config { path: self.home.join("config.json"), fault };
                tuning_of(&config).map(|tuning| (config, tuning)).map_err(fault)
            });
            match read {
                Ok((config, tuning)) => self.take_over(&config, tuning).await,
                Err(error) => {
                    self.metrics.config.set_correct(false);
                    let cause = std::error::Error::source(&error).map(tracing::field::display);
                    tracing::warn!(%error, cause, "config.json is not taken over: the old values stay");
                }
            }
        }
    }

    async fn take_over(&mut self, config: &NodeConfigFile, tuning: Tuning) {
        let changes = changes(&mut self.in_force, &values(config));
        for change in &changes.without_effect {
            tracing::info!(change, "this change has no effect on the embedded node");
        }
        for change in &changes.with_next_start {
            tracing::warn!(change, "this change waits for the next start");
        }
        self.metrics.config.set_correct(true);
        if changes.taken_over.is_empty() {
            tracing::info!("config.json was read again: nothing to take over");
            return;
        }
        // Only when the node itself is ending does nobody listen.
        if self.events.send(Event::Tune(tuning)).await.is_err() {
            return;
        }
        if let Some((before, since)) = self.tuning.replace((tuning, clock::unix_seconds())) {
            self.metrics.config.show(before, since, 0);
            self.metrics.config.show(tuning, clock::unix_seconds(), 1);
        }
        for change in &changes.taken_over {
            tracing::info!(change, "config.json was read again: taken over");
        }
    }
}

/// Every value of the file by its path; durations are values.
fn values(config: &NodeConfigFile) -> Values {
    fn collect(path: &str, value: Value, into: &mut Values) {
        match value {
            Value::Object(fields) if !fields.contains_key("secs") => {
                for (name, value) in fields {
                    let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                    collect(&path, value, into);
                }
            }
            value => drop(into.insert(path.to_owned(), value)),
        }
    }
    let mut all = Values::new();
    // What was read from JSON can be written as JSON.
    collect("", serde_json::to_value(config).unwrap_or_default(), &mut all);
    all
}

/// Brings `in_force` to `new` where that takes effect, and says what differed.
fn changes(in_force: &mut Values, new: &Values) -> Changes {
    let mut changes = Changes::default();
    let paths: BTreeSet<String> = in_force.keys().chain(new.keys()).cloned().collect();
    for path in paths {
        let value = |values: &Values| values.get(&path).cloned().unwrap_or_default();
        let (old, new) = (value(in_force), value(new));
        if old == new {
            continue;
        }
        let change = format!("{path}: {} -> {}", text(&old), text(&new));
        if TAKEN_OVER.contains(&path.as_str()) {
            changes.taken_over.push(change);
            in_force.insert(path, new);
        } else if WITHOUT_EFFECT.contains(&path.as_str()) {
            changes.without_effect.push(change);
            in_force.insert(path, new);
        } else {
            changes.with_next_start.push(change);
        }
    }
    changes
}

/// A value as people read it.
fn text(value: &Value) -> String {
    // A ratio would be read as a duration too.
    let duration =
        value.is_object().then(|| serde_json::from_value::<Duration>(value.clone()).ok()).flatten();
    duration.map_or_else(|| value.to_string(), |own| humantime::format_duration(own).to_string())
}

#[cfg(test)]
mod tests {
    use tpsctl_near::files::Ratio;

    use super::*;

    #[test]
    fn changes_are_told_by_whether_they_take_effect() {
        let old = NodeConfigFile::default();
        let mut in_force = values(&old);
        for key in TAKEN_OVER.iter().chain(&WITHOUT_EFFECT) {
            assert!(in_force.contains_key(*key), "{key} is a key of config.json");
        }
        let mut new = old.clone();
        new.consensus.min_block_production_delay = Duration::from_millis(300);
        new.consensus.chunk_wait_mult = Ratio::new(1, 2).expect("ratio");
        new.produce_chunk_add_transactions_time_limit = Some(Duration::from_millis(200));
        new.consensus.doomslug_step_period = Duration::from_millis(20);
        new.network.max_num_peers = 7;
        new.rpc = None;
        let said = changes(&mut in_force, &values(&new));
        assert_eq!(
            said.taken_over,
            [
                "consensus.chunk_wait_mult: [1,3] -> [1,2]",
                "consensus.min_block_production_delay: 600ms -> 300ms",
                "produce_chunk_add_transactions_time_limit: null -> 200ms",
            ]
        );
        assert_eq!(said.without_effect.len(), 1);
        assert_eq!(
            said.with_next_start,
            [
                "network.max_num_peers: 40 -> 7",
                "rpc.addr: \"0.0.0.0:3030\" -> null",
                "rpc.enable_debug_rpc: false -> null",
                "rpc.limits_config.json_payload_max_size: 10485760 -> null",
                "rpc.polling_config.polling_interval: 200ms -> null",
                "rpc.polling_config.polling_timeout: 10s -> null",
            ]
        );
        let again = changes(&mut in_force, &values(&new));
        assert_eq!(again.taken_over, Vec::<String>::new(), "what was taken over is in force");
        assert_eq!(again.with_next_start, said.with_next_start, "what waits still waits");
    }

    #[test]
    fn delays_that_contradict_each_other_are_refused() {
        let config = NodeConfigFile::default();
        assert!(tuning_of(&config).is_ok());
        let fault = |change: fn(&mut NodeConfigFile)| {
            let mut changed = config.clone();
            change(&mut changed);
            tuning_of(&changed).expect_err("a fault")
        };
        let too_low = fault(|own| own.consensus.max_block_production_delay = Duration::from_millis(599));
        assert!(too_low.contains("min_block_production_delay is above"), "{too_low}");
        let short = fault(|own| own.consensus.max_block_wait_delay = Duration::from_secs(1));
        assert!(short.contains("above consensus.max_block_wait_delay"), "{short}");
        assert_eq!(
            fault(|own| own.consensus.max_block_wait_delay = Duration::MAX),
            "a delay or timeout is longer than a day"
        );
        let zero = fault(|own| {
            own.consensus.min_block_production_delay = Duration::ZERO;
            own.consensus.max_block_production_delay = Duration::ZERO;
        });
        assert!(zero.ends_with("is 0"), "{zero}");
    }

    #[test]
    fn values_are_written_as_neard_writes_them() {
        let config = NodeConfigFile {
            produce_chunk_add_transactions_time_limit: Some(Duration::from_millis(200)),
            ..NodeConfigFile::default()
        };
        let recorded = include_str!("../../../../testdata/neard/metrics/chunk-producer-idle.txt");
        for (name, text) in texts(tuning_of(&config).expect("sound")) {
            let start = format!("near_config_mutable_field{{field_name=\"{name}\",");
            let line = recorded.lines().find(|line| line.starts_with(&start)).expect("neard has it");
            assert!(line.ends_with(&format!("value=\"{text}\"}} 1")), "{line} is not {text}");
        }
    }
}
