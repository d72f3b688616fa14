//! The metrics page: which series are wanted, and reading them.
//!
//! A neard page has some 8 000 lines; a few dozen are wanted. Lines are chosen by their metric's name first, and only
//! those go through `prometheus-parse`, one by one. That parser (0.2) passes over lines that it cannot read, and splits
//! labels at every comma and brace, also inside quotes; a wanted line that it does not read whole is an error here.

use std::collections::BTreeMap;

use prometheus_parse::{Scrape, Value};

/// Where a wanted metric must be present. A labelled series of neard's does not exist before its first use, so most
/// can only be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// On every node from its start.
    Everywhere,
    /// On chunk producers from their start.
    OnProducers,
    /// Nowhere: absent means not used yet.
    OnceUsed,
}

/// What kind of node writes the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A chunk producer.
    Producer,
    /// Any other node.
    Other,
}

/// A wanted metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its name; of a histogram, the name without suffix.
    pub name: &'static str,
    /// Whether it is a histogram, of which sum and count are kept.
    pub is_histogram: bool,
    /// Where it must be present.
    pub needed: Needed,
}

const fn plain(name: &'static str, needed: Needed) -> Wanted {
    Wanted { name, is_histogram: false, needed }
}

/// The series that are kept of every scrape.
pub const WANTED: &[Wanted] = &[
    plain("near_block_height_head", Needed::Everywhere),
    plain("near_final_block_height", Needed::Everywhere),
    plain("near_sync_status", Needed::Everywhere),
    plain("near_peer_connections_total", Needed::Everywhere),
    plain("near_gas_used", Needed::Everywhere),
    plain(POOL_ENTRIES, Needed::OnProducers),
    plain(POOL_SIZE, Needed::OnProducers),
    plain(DELAYED_RECEIPTS, Needed::OnProducers),
    plain(RECEIVED, Needed::OnceUsed),
    Wanted { name: "near_prepare_tx_rejected", is_histogram: true, needed: Needed::OnceUsed },
    plain("near_produce_chunk_transactions_limited_by", Needed::OnceUsed),
    plain("near_chunk_skipped_total", Needed::OnceUsed),
    plain("near_block_producer_excluded_chunks_count", Needed::OnceUsed),
    plain("near_chunk_transactions_total", Needed::OnceUsed),
];

/// Transactions in a pool, by shard uid (`s0.v3`).
pub(crate) const POOL_ENTRIES: &str = "near_transaction_pool_entries";
/// Bytes in a pool, by shard uid.
pub(crate) const POOL_SIZE: &str = "near_transaction_pool_size";
/// Receipts delayed, by shard id.
pub(crate) const DELAYED_RECEIPTS: &str = "near_delayed_receipts_count";
/// Transactions that a producer found valid, also those that its full pool then dropped (chain/client/src/rpc_handler.rs:262-295).
pub(crate) const RECEIVED: &str = "near_transaction_received_validator";
/// Transactions that chunk preparation dropped for good, by shard and reason.
pub(crate) const REJECTED_SUM: &str = "near_prepare_tx_rejected_sum";

/// A metrics page says less than it must, or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// A metric that such a node always has.
    #[error("metric {name} is missing")]
    Missing {
        /// Its name.
        name: &'static str,
    },
    /// A wanted line that cannot be read with certainty.
    #[error("metrics line cannot be read: {line}")]
    Unreadable {
        /// The line, shortened.
        line: String,
    },
    /// One series has two values.
    #[error("metrics page has two values for {series}")]
    Twice {
        /// The series.
        series: String,
    },
}

/// The wanted series of `page`, keyed `name{label="value"}`; an error where one that must be present is not.
pub fn read_page(page: &str, role: Role) -> Result<BTreeMap<String, f64>, PageError> {
    let mut values = BTreeMap::new();
    let mut found = vec![false; WANTED.len()];
    for line in page.lines() {
        let Some(index) = wanted_index(line) else { continue };
        let (key, value) = read_line(line)
            .ok_or_else(|| PageError::Unreadable { line: line.chars().take(120).collect() })?;
        found[index] = true;
        if values.insert(key.clone(), value).is_some() {
            return Err(PageError::Twice { series: key });
        }
    }
    let missing =
        WANTED.iter().zip(found).find(|(wanted, found)| !found && must_be_present(wanted.needed, role));
    match missing {
        Some((wanted, _)) => Err(PageError::Missing { name: wanted.name }),
        None => Ok(values),
    }
}

fn must_be_present(needed: Needed, role: Role) -> bool {
    match needed {
        Needed::Everywhere => true,
        Needed::OnProducers => role == Role::Producer,
        Needed::OnceUsed => false,
    }
}

/// The index in [`WANTED`] of the metric that a line gives a value of.
fn wanted_index(line: &str) -> Option<usize> {
    // Comments, empty lines and most others end here: all wanted names begin alike.
    if !line.starts_with("near_") {
        return None;
    }
    let name = line.split(['{', ' ', '\t']).next()?;
    WANTED.iter().position(|wanted| {
        if wanted.is_histogram {
            name.strip_prefix(wanted.name).is_some_and(|suffix| matches!(suffix, "_sum" | "_count"))
        } else {
            name == wanted.name
        }
    })
}

/// Key and value of a line; none unless the parser's reading accounts for every character of the labels.
fn read_line(line: &str) -> Option<(String, f64)> {
    let scrape = Scrape::parse(std::iter::once(Ok(line.to_owned()))).ok()?;
    let sample = scrape.samples.first()?;
    // Without TYPE lines the parser calls every value untyped.
    let Value::Untyped(value) = sample.value else { return None };
    let labels = sample.labels.to_string();
    let key =
        if labels.is_empty() { sample.metric.clone() } else { format!("{}{{{labels}}}", sample.metric) };
    let written = match line.rfind('}') {
        Some(end) => &line[..=end],
        None => line.split_whitespace().next()?,
    };
    // The parser orders labels by name, so equal length is what can be asked; a label lost or cut is shorter.
    (value.is_finite() && key.len() == written.len()).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    fn page(name: &str) -> String {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/neard/metrics"));
        fs_err::read_to_string(folder.join(name)).expect("fixture")
    }

    /// What the parser makes of the whole page, for the wanted names.
    fn read_whole(page: &str) -> BTreeMap<String, f64> {
        let scrape = Scrape::parse(page.lines().map(|line| Ok(line.to_owned()))).expect("no I/O");
        let names: Vec<String> = WANTED
            .iter()
            .flat_map(|wanted| {
                if wanted.is_histogram {
                    vec![format!("{}_sum", wanted.name), format!("{}_count", wanted.name)]
                } else {
                    vec![wanted.name.to_owned()]
                }
            })
            .collect();
        let value_of = |value: &Value| match value {
            Value::Untyped(value) | Value::Counter(value) | Value::Gauge(value) => *value,
            other => panic!("{other:?}"),
        };
        scrape
            .samples
            .iter()
            .filter(|sample| names.contains(&sample.metric))
            .map(|sample| {
                let labels = sample.labels.to_string();
                let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                (format!("{}{labels}", sample.metric), value_of(&sample.value))
            })
            .collect()
    }

    #[test]
    fn choosing_lines_first_changes_nothing() {
        for (name, series) in [("chunk-producer-idle.txt", 19), ("chunk-producer-overloaded.txt", 22)] {
            let page = page(name);
            let values = read_page(&page, Role::Producer).expect(name);
            assert_eq!(values, read_whole(&page), "{name}");
            assert_eq!(values.len(), series, "{name}: {values:#?}");
        }
    }

    #[test]
    fn the_overloaded_producer_says_why() {
        let values = read_page(&page("chunk-producer-overloaded.txt"), Role::Producer).expect("page");
        let get = |key: &str| values[key] as u64;
        assert_eq!(get("near_transaction_pool_entries{shard_id=\"s0.v3\"}"), 11_644);
        assert_eq!(get("near_transaction_received_validator"), 40_007);
        assert_eq!(get("near_prepare_tx_rejected_sum{reason=\"invalid_tx\",shard_id=\"0\"}"), 3);
        assert_eq!(
            get(
                "near_block_producer_excluded_chunks_count{reason=\"insufficient_endorsement\",shard_id=\"1\"}"
            ),
            1
        );
        assert!(!values.contains_key("near_final_block_height_in_epoch"));
    }

    #[test]
    fn what_must_be_there_is_never_taken_for_zero() {
        let whole = page("chunk-producer-idle.txt");
        for wanted in WANTED {
            let without: Vec<_> = whole.lines().filter(|line| !line.starts_with(wanted.name)).collect();
            let without = without.join("\n");
            let missing = Err(PageError::Missing { name: wanted.name });
            let result = read_page(&without, Role::Producer);
            assert_eq!(result == missing, wanted.needed != Needed::OnceUsed, "{}: {result:?}", wanted.name);
            let result = read_page(&without, Role::Other);
            assert_eq!(result == missing, wanted.needed == Needed::Everywhere, "{}: {result:?}", wanted.name);
        }
        let error = read_page("", Role::Other).expect_err("empty").to_string();
        assert_eq!(error, "metric near_block_height_head is missing");
    }

    #[test]
    fn lines_that_the_parser_misreads_are_errors() {
        let good = [
            ("near_gas_used 5", "near_gas_used", 5.0_f64),
            ("near_gas_used 5 1700000000000", "near_gas_used", 5.0),
            ("near_gas_used\t1.5e3", "near_gas_used", 1500.0),
            (
                "near_chunk_skipped_total{shard_id=\"1\"} 2 17",
                "near_chunk_skipped_total{shard_id=\"1\"}",
                2.0,
            ),
            ("near_chunk_skipped_total{b=\"1\",a=\"2\"} 3", "near_chunk_skipped_total{a=\"2\",b=\"1\"}", 3.0),
            ("near_chunk_skipped_total{a=\"two words\"} 3", "near_chunk_skipped_total{a=\"two words\"}", 3.0),
        ];
        for (line, key, value) in good {
            let (read, number) = read_line(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((read.as_str(), number.to_bits()), (key, value.to_bits()), "{line}");
        }
        for bad in [
            "near_gas_used",
            "near_gas_used five",
            "near_gas_used NaN",
            "near_gas_used +Inf",
            "near_chunk_skipped_total{a=\"x}y\"} 1",
            "near_chunk_skipped_total{a=\"x} 5 y\"} 1",
            "near_chunk_skipped_total{a=\"x,y\"} 1",
            "near_chunk_skipped_total{a=\"x=y\"} 1",
            "near_chunk_skipped_total{a=\"1\",a=\"2\"} 1",
            "near_chunk_skipped_total{a=\"\\\"\"} 1",
            "near_chunk_skipped_total{a=\"1\" 1",
            "near_chunk_skipped_total{} 1",
        ] {
            assert_eq!(read_line(bad), None, "{bad}");
        }
        let page = format!("{}near_gas_used 7\n", page("chunk-producer-idle.txt"));
        assert_eq!(
            read_page(&page, Role::Producer),
            Err(PageError::Twice { series: "near_gas_used".to_owned() })
        );
    }

    proptest! {
        #[test]
        fn garbage_does_not_panic(text in "(near_gas_used|near_chunk_skipped_total)?[{}=,\"\\\\ a-z0-9é\n]{0,60}") {
            prop_assert!(read_page(&text, Role::Other).is_err());
        }

        #[test]
        fn plain_labels_read_back(pairs in proptest::collection::btree_map("[a-z_]{1,8}", "[a-zA-Z0-9._ -]{1,12}", 1..4), value in any::<i32>()) {
            let labels: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            let key = format!("near_chunk_skipped_total{{{}}}", labels.join(","));
            prop_assert_eq!(read_line(&format!("{key} {value}")), Some((key, f64::from(value))));
        }
    }
}
