//! `/metrics`: names, types and labels.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Report, Subject,
    report::{Checked, ensure, fail, skip},
};

const RECORDED: [&str; 2] = [
    include_str!("../../../testdata/neard/metrics/chunk-producer-idle.txt"),
    include_str!("../../../testdata/neard/metrics/chunk-producer-overloaded.txt"),
];

/// On every node from its start.
const ALWAYS: &[&str] = &[
    "near_block_height_head",
    "near_final_block_height",
    "near_gas_used",
    "near_is_validator",
    "near_peer_connections_total",
    "near_cpu_usage_ratio",
    "near_memory_usage_bytes",
    "near_sync_status",
    "near_node_protocol_version",
    "near_current_protocol_version",
    "near_build_info",
    "near_client_tracked_shards",
    "near_is_chunk_producer_for_shard",
    "near_applying_chunks_time",
    "near_block_processing_time",
    "near_rpc_total_count",
    "near_rpc_processing_time",
    "near_peer_message_received_by_type_total",
    "near_async_queue_pending_messages",
];

/// Only after their first use, or with a role.
const ONCE_USED: &[&str] = &[
    "near_transaction_processed_total",
    "near_transaction_processed_successfully_total",
    "near_chunk_skipped_total",
    "near_chunk_transactions_total",
    "near_transaction_pool_entries",
    "near_transaction_pool_size",
    "near_transaction_received_validator",
    "near_produce_chunk_transactions_limited_by",
    "near_prepare_tx_rejected",
    "near_delayed_receipts_count",
    "near_congestion_level",
    "near_produce_chunk_time",
    "near_chunk_state_witness_total_size",
    "near_chunk_state_witness_validation_time",
    "near_block_producer_excluded_chunks_count",
    "near_block_producer_endorsed_stake_ratio",
    "near_block_producer_missing_endorsement_count",
    "near_chunk_endorsements_accepted",
    "near_validators_chunks_produced",
    "near_validators_chunks_expected",
    "near_validators_blocks_produced",
    "near_validators_blocks_expected",
];

/// What a page says of each metric: its type, and the label names of its series.
#[derive(Debug, Default)]
struct Page(BTreeMap<String, Metric>);

#[derive(Debug, Default)]
struct Metric {
    kind: String,
    labels: BTreeSet<BTreeSet<String>>,
    series: usize,
}

pub(crate) async fn check(subject: &Subject, report: &mut Report) {
    let own = match subject.page().await {
        Ok(text) => Page::read(&text),
        Err(outcome) => return report.add("metrics/page", Err(outcome)),
    };
    let mut recorded = Page::default();
    for text in RECORDED {
        recorded.add(text);
    }
    for (names, is_always) in [(ALWAYS, true), (ONCE_USED, false)] {
        for name in names {
            report.add(format!("metrics/{name}"), metric(name, is_always, &own, &recorded));
        }
    }
    report.add("metrics/others_are_neards", others(&own, &recorded));
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        page.add(text);
        page
    }

    fn add(&mut self, text: &str) {
        let mut current = String::new();
        for line in text.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                name.clone_into(&mut current);
                kind.trim().clone_into(&mut self.0.entry(current.clone()).or_default().kind);
            } else if !line.starts_with('#')
                && let Some(metric) = self.0.get_mut(&current)
                && line.starts_with(&current)
            {
                metric.series += 1;
                metric.labels.insert(label_names(line));
            }
        }
    }
}

/// Names of labels, without `le`, which a histogram's buckets have.
fn label_names(line: &str) -> BTreeSet<String> {
    let Some((_, rest)) = line.split_once('{') else { return BTreeSet::new() };
    let labels = rest.rsplit_once('}').map_or(rest, |(labels, _)| labels);
    let names = labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name.trim());
    names.filter(|name| *name != "le").map(str::to_owned).collect()
}

fn metric(name: &str, is_always: bool, own: &Page, recorded: &Page) -> Checked {
    let Some(metric) = own.0.get(name).filter(|metric| metric.series > 0) else {
        return if is_always {
            fail("a metric that every node has", "nothing")
        } else {
            skip("not used yet, or not by a node of this role")
        };
    };
    let Some(recorded) = recorded.0.get(name) else {
        return skip("the recordings do not have it");
    };
    ensure(metric.kind == recorded.kind, format!("type {}", recorded.kind), &metric.kind)?;
    ensure(
        recorded.series == 0 || metric.labels.is_subset(&recorded.labels),
        format!("labels {:?}", recorded.labels),
        format!("{:?}", metric.labels),
    )
}

/// Where a name is neard's, so are type and labels.
fn others(own: &Page, recorded: &Page) -> Checked {
    let is_wrong = |(name, metric): (&String, &Metric)| {
        let recorded = recorded.0.get(name)?;
        (recorded.kind != metric.kind).then(|| format!("{name} is a {}", metric.kind))
    };
    let wrong: Vec<String> = own.0.iter().filter_map(is_wrong).collect();
    ensure(wrong.is_empty(), "neard's types", wrong.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::read(text)
    }

    #[test]
    fn the_recordings_conform_to_themselves() {
        let mut recorded = Page::default();
        for text in RECORDED {
            recorded.add(text);
        }
        for text in RECORDED {
            let own = page(text);
            for name in ALWAYS {
                assert_eq!(metric(name, true, &own, &recorded), Ok(()), "{name}");
            }
            for name in ONCE_USED {
                let checked = metric(name, false, &own, &recorded);
                assert!(!matches!(checked, Err(crate::Outcome::Fail { .. })), "{name}: {checked:?}");
            }
            assert_eq!(others(&own, &recorded), Ok(()));
        }
    }

    #[test]
    fn wrong_types_and_labels_are_found() {
        let recorded = page("# TYPE a counter\na{shard_id=\"1\"} 5\n# TYPE b gauge\nb 1\n");
        let right = page("# TYPE a counter\na{shard_id=\"s 7\"} 0\n");
        assert_eq!(metric("a", true, &right, &recorded), Ok(()));
        for wrong in [
            "# TYPE a gauge\na{shard_id=\"1\"} 5\n",
            "# TYPE a counter\na{shard=\"1\"} 5\n",
            "# TYPE a counter\na 5\n",
            "# TYPE a counter\n",
            "",
        ] {
            assert!(metric("a", true, &page(wrong), &recorded).is_err(), "{wrong}");
        }
        assert!(others(&page("# TYPE b counter\nb 1\n"), &recorded).is_err());
    }
}
