//! Telling whoever listens, and the journal, what happened.

use std::time::Duration;

use tokio::sync::mpsc;
use tpsctl_model::event::RunEvent;
use tpsctl_provider::{Journal, JournalEntry};

use crate::{clock, network::chain};

/// A listener that does not listen holds a run up this long for an event, not longer: a stopped terminal must not stop
/// a measurement.
const LISTENER_PATIENCE: Duration = Duration::from_secs(1);

/// The listener's end and the run's journal. Owned by the loop that owns the run's state.
#[derive(Debug)]
pub(crate) struct Events {
    sender: mpsc::Sender<RunEvent>,
    journal: Option<Journal>,
    warnings: Vec<String>,
}

impl Events {
    /// Events to `sender` only, until [`Events::record_in`] names a journal.
    pub(crate) fn new(sender: mpsc::Sender<RunEvent>) -> Self {
        Self { sender, journal: None, warnings: Vec::new() }
    }

    /// From now on, events are written to `journal` first.
    pub(crate) fn record_in(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    /// Records and tells. Nothing that happens here can stop a run: teardown relies on the ledger, not on the journal, so
    /// a journal that cannot be written is given up with a warning.
    pub(crate) async fn tell(&mut self, event: RunEvent) {
        if let Some(journal) = &mut self.journal {
            let unix_ms = clock::unix_ns() / 1_000_000;
            if let Err(fault) = journal.append(&JournalEntry { unix_ms, event: event.clone() }) {
                self.journal = None;
                let text = format!("the journal ends here: failed to {}", chain(&fault));
                self.show(RunEvent::Warning { text }).await;
            }
        }
        self.show(event).await;
    }

    /// Tells a warning, which `run.json` repeats.
    pub(crate) async fn warn(&mut self, text: String) {
        self.tell(RunEvent::Warning { text }).await;
    }

    /// Tells a live figure, if there is room: the next one supersedes it. Not recorded.
    pub(crate) fn live(&self, event: RunEvent) {
        let told = self.sender.try_send(event);
        drop(told);
    }

    /// All warnings so far.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    async fn show(&mut self, event: RunEvent) {
        if let RunEvent::Warning { text } = &event {
            self.warnings.push(text.clone());
        }
        let told = self.sender.send_timeout(event, LISTENER_PATIENCE).await;
        drop(told);
    }
}
