//! Ctrl-C: the first asks, the second stops waiting. SIGTERM, SIGQUIT and a terminal that goes away (SIGHUP) ask too; a
//! node takes SIGHUP for the wish that it read its configuration again, as neard does.

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

/// Makes a limit on the size of files (`ulimit -f`) an error of the write, as a full disk is one, and not the end of the
/// program, which would leave its network behind. Must be called within a runtime.
fn survive_file_limit() -> std::io::Result<()> {
    // Who has asked for a signal is not ended by it, whether it is waited for or not.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// What the user asked for.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    /// Cancelled by the first signal: stop the load, tear down, report.
    pub(crate) first: CancellationToken,
    /// Cancelled by the second: stop waiting.
    pub(crate) second: CancellationToken,
}

impl Interrupts {
    /// Tokens that nothing has cancelled yet.
    pub(crate) fn new() -> Self {
        Self { first: CancellationToken::new(), second: CancellationToken::new() }
    }

    /// Listens until the second signal. Runs beside the command and is dropped with it.
    pub(crate) async fn listen(&self) -> std::io::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut hangup = signal(SignalKind::hangup())?;
        survive_file_limit()?;
        for token in [&self.first, &self.second] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = quit.recv() => {}
                _ = hangup.recv() => {}
            }
            token.cancel();
        }
        Ok(())
    }
}

/// The signals of a node, heard from the moment that this is made.
#[derive(Debug)]
pub(crate) struct NodeSignals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    hangup: Signal,
}

impl NodeSignals {
    /// Hears signals from now on. Must be called within a runtime.
    pub(crate) fn new() -> std::io::Result<Self> {
        survive_file_limit()?;
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Cancels `first` on the first signal to end and returns on the second; each SIGHUP goes to `reload`.
    pub(crate) async fn listen(mut self, first: CancellationToken, reload: mpsc::Sender<()>) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
                _ = self.quit.recv() => {}
                _ = self.hangup.recv() => {
                    // Where one waits already, it will read what is newest.
                    reload.try_send(()).ok();
                    continue;
                }
            }
            if first.is_cancelled() {
                return;
            }
            first.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal as Number, getpid, kill_process};

    use super::*;

    fn raise(signal: Number) {
        kill_process(getpid(), signal).expect("our own process");
    }

    #[tokio::test]
    async fn a_node_reloads_on_hangup_ends_on_the_first_and_at_once_on_the_second_signal() {
        let signals = NodeSignals::new().expect("signals");
        let first = CancellationToken::new();
        let (reload, mut reloads) = mpsc::channel(1);
        let mut listening = tokio::task::JoinSet::new();
        listening.spawn(signals.listen(first.clone(), reload));
        raise(Number::HUP);
        assert_eq!(reloads.recv().await, Some(()));
        assert!(!first.is_cancelled(), "SIGHUP does not end it");
        raise(Number::TERM);
        first.cancelled().await;
        assert!(listening.try_join_next().is_none(), "it may take its time");
        raise(Number::HUP);
        assert_eq!(reloads.recv().await, Some(()));
        raise(Number::INT);
        listening.join_next().await.expect("a task").expect("it ended");
    }
}
