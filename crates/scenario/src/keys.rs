//! Every key of a scenario, declared once.
//!
//! The table below is the only place that knows a key's name, type, default, bounds and meaning. The section structs,
//! [`KEYS`] and the reading and writing of values are made from it.

use std::collections::BTreeMap;

use tpsctl_model::{
    Bytes, Gas, Millis, Seed, Share, Tps, Yocto,
    plan::{KeyKind, NodeBinary, ProviderKind, Signing},
};

use crate::{
    GasPrice, reserved,
    text::{ChainId, Description, Fraction, Name},
    value::{Raw, Refusal, Shown, Value, quote},
};

/// One key: what the reference says of it, and how its value is checked and shown.
#[derive(Debug)]
pub struct Key {
    /// The section's name; empty for the keys of the top level.
    pub section: &'static str,
    /// The key's own name.
    pub name: &'static str,
    /// Section and name joined by a dot.
    pub path: &'static str,
    /// What it means, in one line.
    pub doc: &'static str,
    /// The text that stands for an absent key; none for a key that must be there.
    pub default: Option<&'static str>,
    /// The form of its value.
    pub form: &'static str,
    /// Least and greatest value, as texts; none where the type says it all.
    pub bounds: Option<(&'static str, &'static str)>,
    pub(crate) check: fn(&Key, &Raw) -> Result<(), Refusal>,
    pub(crate) show: fn(&Scenario) -> Shown,
    pub(crate) schema: fn(&Key) -> serde_json::Value,
}

/// One section of keys.
#[derive(Debug)]
pub struct Section {
    /// Its name; empty for the top level.
    pub name: &'static str,
    /// What its keys are about.
    pub doc: &'static str,
}

/// Reads `raw` as a value of `key` and compares it with the key's bounds.
fn read_within<T: Value>(key: &Key, raw: &Raw) -> Result<T, Refusal> {
    if let Some(refusal) = reserved::value(key.path, &raw.text) {
        return Err(refusal);
    }
    let value = T::read(raw)?;
    let Some((least, most)) = key.bounds else { return Ok(value) };
    let bound = |text: &str| T::read(&Raw { text: text.to_owned(), plain: true }).ok();
    let is_below = bound(least).and_then(|least| value.order(&least)).is_some_and(std::cmp::Ordering::is_lt);
    let is_above = bound(most).and_then(|most| value.order(&most)).is_some_and(std::cmp::Ordering::is_gt);
    if is_below || is_above {
        return Err(Refusal {
            message: format!("{} is out of range", quote(&raw.text)),
            help: Some(format!("from `{least}` to `{most}`")),
        });
    }
    Ok(value)
}

macro_rules! sections {
    ($(
        #[doc = $section_doc:literal]
        $section:ident $section_name:literal $prefix:literal : $Section:ident {$(
            #[doc = $doc:literal]
            $field:ident : $kind:ty = $default:expr $(, $least:literal to $most:literal)? ;
        )*}
    )*) => {
        $(
            #[doc = $section_doc]
            #[derive(Debug, Clone, PartialEq)]
            pub struct $Section {$(
                #[doc = $doc]
                pub $field: $kind,
            )*}
        )*

        /// A checked scenario. Only [`load`](crate::load) makes one, so whoever holds one holds valid values.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Scenario {$(
            $section: $Section,
        )*}

        impl Scenario {
            $(
                #[doc = $section_doc]
                pub fn $section(&self) -> &$Section {
                    &self.$section
                }
            )*

            /// Builds the scenario from checked texts, one for each path of [`KEYS`]; none if one is absent or wrong.
            pub(crate) fn build(raws: &BTreeMap<&'static str, Raw>) -> Option<Self> {
                Some(Self {$(
                    $section: $Section {$(
                        $field: <$kind as Value>::read(raws.get(concat!($prefix, stringify!($field)))?).ok()?,
                    )*},
                )*})
            }
        }

        /// Every section, in the order in which files write them.
        pub static SECTIONS: &[Section] = &[$(Section { name: $section_name, doc: $section_doc },)*];

        /// Every key, section by section.
        pub static KEYS: &[Key] = &[$($(Key {
            section: $section_name,
            name: stringify!($field),
            path: concat!($prefix, stringify!($field)),
            doc: $doc,
            default: $default,
            form: <$kind as Value>::FORM,
            bounds: sections!(@bounds $($least, $most)?),
            check: |key, raw| read_within::<$kind>(key, raw).map(drop),
            show: |scenario| scenario.$section.$field.show(),
            schema: crate::schema::of::<$kind>,
        },)*)*];
    };
    (@bounds) => { None };
    (@bounds $least:literal, $most:literal) => { Some(($least, $most)) };
}

sections! {
    /// What the scenario is.
    head "" "": Head {
        /// The scenario's name; part of each run's folder name.
        name: Name = None;
        /// What it is for, in a line.
        description: Description = Some("");
        /// One seed for genesis, keys and the transaction stream: the same seed gives the same bytes.
        seed: u64 = Some("1");
        /// Who makes the network: `local` starts processes on this host.
        provider: ProviderKind = Some("local");
    }
    /// The program that every node runs.
    node "node" "node.": Node {
        /// `embedded` for the built-in rehearsal node, or the path of a `neard`.
        binary: NodeBinary = Some("embedded");
        /// Scheduling priority of local nodes, so that they cannot starve the injector on a small host.
        nice: u8 = Some("10"), "0" to "19";
        /// Every node answers and blocks advance within this time from the start.
        ready_timeout: Millis = Some("30s"), "1s" to "1h";
        /// How long a node may take to end by itself before it is killed.
        stop_timeout: Millis = Some("5s"), "100ms" to "10m";
    }
    /// The chain that genesis describes.
    chain "chain" "chain.": Chain {
        /// The chain id; on `benchmarknet` neard lifts its congestion, witness and bandwidth limits.
        id: ChainId = Some("benchmarknet");
        /// Number of shards.
        shards: u32 = Some("4"), "1" to "256";
        /// Chunk producers for each shard, one node each.
        producers_per_shard: u32 = Some("1"), "1" to "16";
        /// With more than 1, each producer serves up to so many shards, and producers_per_shard is 1.
        shards_per_producer: u32 = Some("1"), "1" to "256";
        /// Validators that check chunks and produce nothing.
        chunk_validators: u32 = Some("0"), "0" to "256";
        /// Nodes that follow all shards and validate nothing.
        rpc_nodes: u32 = Some("1"), "0" to "16";
        /// Funded accounts in each shard, one key each; they send the load.
        accounts_per_shard: u32 = Some("5000"), "2" to "1000000";
        /// Balance of each account at genesis.
        account_balance: Yocto = Some("100NEAR"), "1yocto" to "1000000NEAR";
        /// `row` is fast, for our own injector; `seed` is also in `genesis/accounts/shard_<id>.json` for other tools.
        keys: KeyKind = Some("row");
        /// Gas limit of a chunk.
        gas_limit: Gas = Some("20Pgas"), "1Tgas" to "10000Pgas";
        /// Yocto per gas; a transfer takes two units of gas, but three (a refund as well) below 1000000000.
        min_gas_price: GasPrice = Some("1000000000"), "1" to "10000000000000000000000";
        /// Blocks in an epoch.
        epoch_length: u64 = Some("5000"), "10" to "10000000";
        /// Blocks for which a transaction stays valid; at most two epochs.
        transaction_validity: u64 = Some("5000"), "10" to "10000000";
        /// Chunk validators that have to check each chunk.
        mandates_per_shard: u64 = Some("1"), "1" to "1000";
        /// Shortest time between two blocks.
        block_time_min: Millis = Some("300ms"), "10ms" to "1m";
        /// After this long without a block the height is skipped; at least twice the shortest block time.
        block_time_max: Millis = Some("900ms"), "20ms" to "5m";
        /// Upper bound for that wait when heights are skipped one after the other.
        block_wait_max: Millis = Some("3s"), "20ms" to "10m";
        /// Share of block_time_max for which a block waits for late chunks before it goes without them.
        chunk_wait_mult: Fraction = Some("1/3"), "0/1" to "1/1";
        /// Room for waiting transactions in each shard's pool; what comes when it is full is dropped.
        pool_size_limit: Bytes = Some("100MB"), "1KB" to "100GB";
        /// How long a producer may add transactions to one chunk.
        prepare_time_limit: Millis = Some("200ms"), "1ms" to "10m";
    }
    /// How the nodes are connected.
    network "network" "network.": Network {
        /// Most fellow nodes that each connects to, others being reached through them; 0 for no such limit.
        max_peers: u32 = Some("0"), "0" to "1000";
    }
    /// What is sent.
    load "load" "load.": Load {
        /// `fixed_nonce` signs about forty times faster with throwaway keys; `rfc8032` is the ordinary way.
        signing: Signing = Some("fixed_nonce");
        /// Share of transfers whose receiver lies in another shard.
        cross_shard: Share = Some("0%");
        /// Amount of each transfer.
        amount: Yocto = Some("1yocto"), "0yocto" to "1000NEAR";
        /// After a stall of the generator, what fell due less than this ago is still sent; older counts as unsent.
        // The generator looks up to 20 ms apart (tpsctl-agent): with a bound below that it gives up what it could send.
        catch_up: Millis = Some("50ms"), "20ms" to "10s";
    }
    /// How long one trial is, and what makes it invalid (our own fault, so no verdict on the chain).
    trial "trial" "trial.": Trial {
        /// Load before the measured window.
        warmup: Millis = Some("1s"), "0" to "1h";
        /// The measured part of the load.
        window: Millis = Some("6s"), "1s" to "24h";
        /// After the load, this long until the settled share is judged.
        drain_timeout: Millis = Some("8s"), "0" to "1h";
        /// After the load, this long until the network has to be idle again; else the run ends.
        idle_timeout: Millis = Some("60s"), "1s" to "24h";
        /// How many invalid trials in a row at one rate are repeated before the run gives up.
        invalid_retries: u32 = Some("3"), "0" to "100";
        /// Invalid when the 99th percentile of the injector's own lag is this or more.
        send_lag_p99_max: Millis = Some("50ms"), "1ms" to "10s";
        /// Invalid when more than this share of the intended was unsent for causes of our own.
        unsent_max: Share = Some("0.1%");
        /// Invalid when blocks or metrics could not be read for longer than this.
        gap_max: Millis = Some("3s"), "100ms" to "10m";
    }
    /// What the network has to keep up in the window; every criterion must hold.
    goal "goal" "goal.": GoalKeys {
        /// Most chunk slots that may be missed.
        missed_slots_max: Share = Some("2%");
        /// The quantile of block times that is judged.
        block_time_quantile: Share = Some("90%"), "1%" to "100%";
        /// That quantile is at most this many times block_time_min.
        block_time_ratio_max: f64 = Some("1.5"), "1.0" to "1000.0";
        /// Least share of what was sent that is settled by the end of the drain.
        settled_min: Share = Some("98%");
    }
    /// How the limit is searched for: from below, then by bisection. Rates are for each shard.
    search "search" "search.": Search {
        /// The first rate.
        start: Tps = Some("500tps"), "1tps" to "1000000tps";
        /// While nothing fails, the next rate is this many times the last.
        growth: f64 = Some("2.0"), "1.05" to "10.0";
        /// No rate above this is tried; by default just under the 69000 that a 4 MB chunk every 300 ms can carry.
        max: Tps = Some("64000tps"), "1tps" to "1000000tps";
        /// Done when the interval is at most this share of its upper end.
        resolution: Share = Some("15%"), "0.1%" to "90%";
        /// Equal verdicts that each end of the interval needs.
        confirmations: u32 = Some("2"), "1" to "100";
        /// After this long, counted from the start of trial 0, no new trial begins.
        time_budget: Millis = Some("145s"), "1s" to "168h";
    }
}

impl Scenario {
    /// The scenario's name.
    pub fn name(&self) -> &str {
        self.head.name.as_str()
    }

    /// What it is for.
    pub fn description(&self) -> &str {
        self.head.description.as_str()
    }

    /// The run's seed.
    pub fn seed(&self) -> Seed {
        Seed(self.head.seed)
    }

    /// Who makes the network.
    pub fn provider(&self) -> ProviderKind {
        self.head.provider
    }
}

/// The key at `path`, such as `chain.shards`.
pub(crate) fn key(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether `name` is a section with keys below it.
pub(crate) fn is_section(name: &str) -> bool {
    !name.is_empty() && SECTIONS.iter().any(|section| section.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn defaults_and_bounds_are_values_of_their_keys() {
        for key in KEYS {
            let texts = key.default.into_iter().chain(key.bounds.into_iter().flat_map(|(a, b)| [a, b]));
            for text in texts {
                let raw = Raw { text: text.to_owned(), plain: true };
                assert_eq!((key.check)(key, &raw), Ok(()), "{}: {text}", key.path);
            }
        }
    }

    #[test]
    fn bounds_refuse_what_lies_outside() {
        let outside = [
            ("chain.shards", "0"),
            ("chain.shards", "257"),
            ("load.catch_up", "0"),
            ("load.catch_up", "19ms"),
            ("node.nice", "20"),
            ("chain.producers_per_shard", "0"),
            ("chain.shards_per_producer", "0"),
            ("chain.chunk_validators", "257"),
            ("network.max_peers", "1001"),
            ("chain.chunk_wait_mult", "4/3"),
            ("chain.gas_limit", "999Ggas"),
            ("chain.account_balance", "1000001NEAR"),
            ("chain.min_gas_price", "0"),
            ("search.growth", "1.0"),
            ("search.resolution", "0%"),
            ("trial.window", "999ms"),
        ];
        for (path, text) in outside {
            let key = key(path).unwrap();
            let refusal = (key.check)(key, &Raw { text: text.to_owned(), plain: true }).unwrap_err();
            assert_eq!(refusal.message, format!("`{text}` is out of range"), "{path}");
            assert!(refusal.help.unwrap().starts_with("from `"), "{path}");
        }
    }

    #[test]
    fn paths_are_unique_and_docs_are_one_sentence() {
        let paths: BTreeSet<_> = KEYS.iter().map(|key| key.path).collect();
        assert_eq!(paths.len(), KEYS.len());
        for key in KEYS {
            assert!(key.doc.ends_with('.') && key.doc.len() < 110, "{}: {}", key.path, key.doc);
            assert!(key.section.is_empty() || is_section(key.section), "{}", key.path);
        }
    }
}
