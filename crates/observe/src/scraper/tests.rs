//! Against nodes that are real HTTP servers with a recorded page.

use std::{path::PathBuf, sync::Mutex};

use axum::{Router, routing::get};
use tokio::{net::TcpListener, time::timeout};

use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

fn recorded() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/neard/metrics/chunk-producer-idle.txt");
    fs_err::read_to_string(PathBuf::from(path)).expect("fixture")
}

type Page = Arc<Mutex<String>>;

async fn node(name: &str, page: &str, servers: &mut JoinSet<()>) -> (ScrapeTarget, Page) {
    let page = Arc::new(Mutex::new(page.to_owned()));
    let shown = Arc::clone(&page);
    let app =
        Router::new().route("/metrics", get(move || async move { shown.lock().expect("no panic").clone() }));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port 0");
    let addr = listener.local_addr().expect("bound");
    servers.spawn(async move { axum::serve(listener, app).await.expect("serve") });
    let endpoint = Endpoint { node: NodeName(name.to_owned()), addr };
    (ScrapeTarget { endpoint, role: Role::Producer }, page)
}

#[tokio::test]
async fn samples_come_from_every_node_until_cancelled() {
    let mut servers = JoinSet::new();
    let (first, _) = node("node0", &recorded(), &mut servers).await;
    let (second, _) = node("node1", &recorded(), &mut servers).await;
    let scraper = MetricsScraper::new(&[first, second]).expect("scraper");
    let (sender, mut samples) = mpsc::channel(SAMPLES_CHANNEL_LEN);
    let (gaps, _) = watch::channel(BTreeMap::new());
    let cancel = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let clock = WallClock::start();
    tasks.spawn(scraper.run(clock, sender, gaps, cancel.clone()));
    let mut seen: BTreeMap<NodeName, Vec<u64>> = BTreeMap::new();
    while seen.len() < 2 || seen.values().any(|times| times.len() < 2) {
        let sample = timeout(PATIENCE, samples.recv()).await.expect("in time").expect("still scraping");
        assert_eq!(sample.values["near_final_block_height"].to_bits(), 18_f64.to_bits());
        seen.entry(sample.node).or_default().push(sample.unix_ns);
    }
    assert!(seen.values().all(|times| times.is_sorted() && times.iter().all(|at| *at <= clock.unix_ns())));
    cancel.cancel();
    let gaps =
        timeout(PATIENCE, tasks.join_next()).await.expect("in time").expect("one task").expect("no panic");
    assert_eq!(gaps, []);
}

#[tokio::test]
async fn a_page_without_a_needed_metric_is_no_sample_but_a_gap() {
    let mut servers = JoinSet::new();
    let (target, page) = node("node0", &recorded(), &mut servers).await;
    let scraper = MetricsScraper::new(std::slice::from_ref(&target)).expect("scraper");
    let (sender, mut samples) = mpsc::channel(SAMPLES_CHANNEL_LEN);
    let (gaps, mut shown) = watch::channel(BTreeMap::new());
    let mut tasks = JoinSet::new();
    let cancel = CancellationToken::new();
    tasks.spawn(scraper.run(WallClock::start(), sender, gaps, cancel.clone()));
    timeout(PATIENCE, samples.recv()).await.expect("in time").expect("a good page first");
    let poor: Vec<_> = {
        let page = recorded();
        page.lines()
            .filter(|line| !line.starts_with("near_transaction_pool_size"))
            .map(str::to_owned)
            .collect()
    };
    *page.lock().expect("no panic") = poor.join("\n");
    timeout(PATIENCE, shown.wait_for(|gaps| !gaps.is_empty()))
        .await
        .expect("in time")
        .expect("still scraping");
    *page.lock().expect("no panic") = recorded();
    timeout(PATIENCE, samples.recv()).await.expect("in time").expect("good again");
    cancel.cancel();
    let gaps =
        timeout(PATIENCE, tasks.join_next()).await.expect("in time").expect("one task").expect("no panic");
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(gaps[0].source, "node0");
    assert_eq!(gaps[0].cause, "read the metrics of node0: metric near_transaction_pool_size is missing");
}

#[tokio::test]
async fn one_scrape_of_all_tells_the_good_from_the_dead() {
    let mut servers = JoinSet::new();
    let (good, _) = node("node0", &recorded(), &mut servers).await;
    let (empty, _) = node("node1", "", &mut servers).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port 0");
    let addr = listener.local_addr().expect("bound");
    drop(listener);
    let dead =
        ScrapeTarget { endpoint: Endpoint { node: NodeName("node2".to_owned()), addr }, role: Role::Other };
    let scraper = MetricsScraper::new(&[good, empty, dead]).expect("scraper");
    let results: Vec<_> = scraper.scrape_once(WallClock::start()).await.into_values().collect();
    assert!(
        matches!(&results[..], [Ok(_), Err(ScrapeError::Page { .. }), Err(ScrapeError::Fetch { .. })]),
        "{results:?}"
    );
}
