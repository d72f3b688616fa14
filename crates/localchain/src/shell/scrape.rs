//! The answer to `/metrics`: the core is asked to bring them up to date first.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    driver::{Inputs, Query},
    metrics::Metrics,
};

/// A core that is busier than this is not waited for: then the metrics are a little old.
const FRESH_WITHIN: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Scrape {
    metrics: Arc<Metrics>,
    inputs: Inputs,
}

impl Scrape {
    pub(super) fn new(metrics: Arc<Metrics>, inputs: Inputs) -> Self {
        Self { metrics, inputs }
    }

    /// The text of `/metrics`.
    pub(super) async fn text(&self) -> prometheus::Result<String> {
        let refresh = async {
            let (answer, is_done) = oneshot::channel();
            if self.inputs.queries.send(Query::Metrics(answer)).await.is_ok() {
                // No answer where the node ends meanwhile.
                drop(is_done.await);
            }
        };
        // Late or not, there is something to show.
        drop(tokio::time::timeout(FRESH_WITHIN, refresh).await);
        self.metrics.text()
    }
}
