//! Telling whoever listens, and the journal, what happened.

use tokio::sync::mpsc;
use tpsctl_model::event::RunEvent;
use tpsctl_provider::{Journal, JournalEntry};

use crate::{clock, error::ControllerError};

/// The listener's end and the run's journal. Owned by the loop that owns the run's state.
#[derive(Debug)]
pub(crate) struct Events {
    sender: mpsc::Sender<RunEvent>,
    journal: Option<Journal>,
}

impl Events {
    /// Events to `sender` only, until [`Events::record_in`] names a journal.
    pub(crate) fn new(sender: mpsc::Sender<RunEvent>) -> Self {
        Self { sender, journal: None }
    }

    /// From now on, events are written to `journal` first.
    pub(crate) fn record_in(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    /// Records and tells. A listener that went away is no reason to stop; a journal that cannot be written is.
    pub(crate) async fn tell(&mut self, event: RunEvent) -> Result<(), ControllerError> {
        if let Some(journal) = &mut self.journal {
            let unix_ms = clock::unix_ns() / 1_000_000;
            journal.append(&JournalEntry { unix_ms, event: event.clone() })?;
        }
        let told = self.sender.send(event).await;
        drop(told);
        Ok(())
    }

    /// Tells a live figure, if there is room: the next one supersedes it. Not recorded.
    pub(crate) fn live(&self, event: RunEvent) {
        let told = self.sender.try_send(event);
        drop(told);
    }

    /// A way to tell for a stage that runs beside the loop. Not recorded.
    pub(crate) fn sender(&self) -> mpsc::Sender<RunEvent> {
        self.sender.clone()
    }
}
