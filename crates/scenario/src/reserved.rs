//! Names that are kept for what is still to come: using one is a fault that says so, not an unknown key.

use crate::value::{Refusal, quote};

/// A key, a section, or one value of a key that exists.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) path: &'static str,
    /// Empty where the key itself is reserved, with all below it.
    pub(crate) value: &'static str,
    /// What it is for; reads after "it will".
    pub(crate) will: &'static str,
    /// What does the same today or comes nearest; reads after "until then".
    pub(crate) now: &'static str,
}

const fn key_of(path: &'static str, will: &'static str, now: &'static str) -> Reserved {
    Reserved { path, value: "", will, now }
}

const fn value_of(
    path: &'static str,
    value: &'static str,
    will: &'static str,
    now: &'static str,
) -> Reserved {
    Reserved { path, value, will, now }
}

const LOCAL: &str = "`provider: local` starts the nodes as processes on this host";
const RUN_BY_HAND: &str = "run each scenario by itself; `runs/<id>/run.json` holds all that it found";
const CHAIN: &str = "the keys of `chain` describe the network: one kind of producer, RPC nodes beside it";

/// All of them.
pub(crate) static RESERVED: &[Reserved] = &[
    value_of("provider", "kubernetes", "run the nodes on a Kubernetes cluster", LOCAL),
    value_of("provider", "terraform", "run the nodes on machines that Terraform makes", LOCAL),
    value_of(
        "provider",
        "attach",
        "load and measure a network that others run",
        "`tpsctl up` and `tpsctl inject` load a network of our own by hand",
    ),
    value_of("provider", "simulated", "plan with a model of the chain in virtual time", LOCAL),
    key_of(
        "limits",
        "choose between neard's lifted limits and those of the protocol",
        "`chain.id: benchmarknet` lifts them, any other id keeps them",
    ),
    key_of(
        "extends",
        "build on another scenario",
        "copy the file, or change single keys with `--set KEY=VALUE`",
    ),
    key_of("reference", "name a published result to compare with", "say it in `description`"),
    key_of(
        "injector",
        "choose how transactions reach the nodes",
        "they always go to the chunk producers, peer to peer",
    ),
    key_of("endpoints", "list the nodes of a network that others run", LOCAL),
    key_of("groups", "give a share of the nodes another binary or machine", CHAIN),
    key_of(
        "state",
        "choose between a fresh genesis and a fork of a snapshot",
        "the chain always begins at genesis",
    ),
    key_of(
        "agents",
        "spread the load over several injectors",
        "one injector in this process makes all of it; `load` says how",
    ),
    key_of("agent", "configure each injector", "`load` configures the one in this process"),
    key_of(
        "workload",
        "choose among kinds of transactions, patterns and schedules",
        "`load` describes transfers at a constant rate",
    ),
    key_of(
        "calibrate",
        "prove what the injector can do before a run",
        "`trial.send_lag_p99_max` makes a late trial invalid",
    ),
    key_of(
        "search.strategy",
        "choose how the limit is searched for",
        "the search rises by `search.growth` and bisects",
    ),
    key_of(
        "observe",
        "record and judge by further metrics",
        "`trials/NN/samples.ndjson` of a run holds what is recorded",
    ),
    key_of("environments", "repeat a run on fresh networks", RUN_BY_HAND),
    key_of(
        "sweep",
        "search once for each of several values of a key",
        "run once for each value, with `--set KEY=VALUE`",
    ),
    key_of(
        "soak",
        "hold a rate for hours",
        "`tpsctl up`, then `tpsctl inject RUN --rate RATE --duration 8h`",
    ),
    key_of("suite", "list scenarios to run one after the other", RUN_BY_HAND),
    key_of("store", "keep the results of many runs", "each run keeps its own in `runs/<id>/run.json`"),
    key_of("compare", "compare runs", "compare their `run.json`"),
    key_of(
        "baseline",
        "fail when a result is worse than an accepted one",
        "compare `run.json` with the one you accepted",
    ),
    key_of("kubernetes", "configure the Kubernetes provider", LOCAL),
    key_of("terraform", "configure the Terraform provider", LOCAL),
    key_of(
        "budget",
        "bound what a run may cost",
        "local processes cost nothing; `search.time_budget` bounds the time",
    ),
    key_of("lease", "end machines that nobody renews", "`tpsctl down` ends all that a run's ledger holds"),
    key_of(
        "artifacts",
        "copy a run's directory to where others find it",
        "`runs/<id>/` can be copied as it is",
    ),
    key_of("node.image", "name the container image of the nodes", "`node.binary` takes a path"),
    key_of(
        "faults",
        "stop, kill and delay nodes, or part them from each other, at given times",
        "signal the processes that `tpsctl status` lists",
    ),
    key_of("dashboards", "push dashboards to Grafana", "`report.html` of a run shows its charts"),
    key_of(
        "prometheus",
        "write scrape configuration for Prometheus",
        "`deployment.json` of a run lists every address",
    ),
    key_of("tracing", "send traces to a collector", "the log on stderr, with RUST_LOG=debug"),
    key_of(
        "serve",
        "show a run in a browser while it goes on",
        "the terminal shows it; `report.html` comes at the end",
    ),
    key_of("latency", "measure how long single transactions take", "block times are in every report"),
    key_of("stream", "stream blocks to many subscribers", "nodes answer over JSON-RPC"),
];

fn refusal(what: &str, reserved: &Reserved) -> Refusal {
    Refusal {
        message: format!("{what}not yet there: it will {}", reserved.will),
        help: Some(format!("until then: {}", reserved.now)),
    }
}

/// The refusal of a key that is reserved, or lies below one.
pub(crate) fn key(path: &str) -> Option<Refusal> {
    let is_below =
        |own: &str| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let found = RESERVED.iter().find(|own| own.value.is_empty() && is_below(own.path))?;
    Some(refusal("", found))
}

/// The refusal of a reserved value of a key that exists.
pub(crate) fn value(path: &str, text: &str) -> Option<Refusal> {
    let found = RESERVED.iter().find(|own| !own.value.is_empty() && own.path == path && own.value == text)?;
    Some(refusal(&format!("{} is ", quote(text)), found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn nothing_that_exists_is_reserved() {
        for Reserved { path, value, .. } in RESERVED {
            if value.is_empty() {
                assert!(keys::key(path).is_none() && !keys::is_section(path), "{path}");
                let below = format!("{path}.");
                assert!(keys::KEYS.iter().all(|key| !key.path.starts_with(&below)), "{path}");
            } else {
                let key = keys::key(path).expect("a key");
                let raw = crate::value::Raw { text: (*value).to_owned(), plain: true };
                assert!((key.check)(key, &raw).is_err(), "{path}: {value}");
            }
        }
    }

    #[test]
    fn what_lies_below_is_reserved_too_and_what_only_begins_alike_is_not() {
        assert!(
            key("limits").is_some() && key("limits.gas").is_some() && key("search.strategy.kind").is_some()
        );
        assert!(key("limitsx").is_none() && key("search").is_none() && key("strategy").is_none());
        assert!(value("provider", "kubernetes").is_some() && value("provider", "local").is_none());
        assert!(value("name", "kubernetes").is_none());
    }
}
