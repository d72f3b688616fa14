//! Nodes that may not all connect to each other, over real sockets.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::cluster::Cluster;

const VALIDATORS: usize = 10;
const PEERS_MAX: usize = 4;
/// All nodes share this process, and it the host.
const PATIENCE: Duration = Duration::from_secs(100);

/// A metric's value, all its series with this text in their labels together.
async fn metric(cluster: &Cluster, index: usize, name: &str, label: &str) -> f64 {
    let page = cluster.get(index, "/metrics").await.unwrap_or_default();
    let lines = page.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn network_capped_nodes_relay_for_each_other() {
    let cluster = Cluster::start_capped(VALIDATORS, PEERS_MAX);
    let deadline = Instant::now() + PATIENCE;
    let mut whole = 0;
    let mut height = 0;
    // Some blocks in a row with every chunk: so all validators reach those who need their word.
    while whole < 3 {
        assert!(Instant::now() < deadline, "{whole} whole blocks in a row at {height}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (_, answer) = cluster.call(0, "block", json!({"finality": "final"})).await;
        let header = &answer["result"]["header"];
        let at = header["height"].as_u64().unwrap_or(0);
        if at > height {
            let mask = header["chunk_mask"].as_array().cloned().unwrap_or_default();
            whole = if mask.iter().all(|is_new| *is_new == json!(true)) { whole + 1 } else { 0 };
            height = at;
        }
    }
    let mut relayed = 0.0;
    for index in 0..VALIDATORS {
        cluster.reach(index, height).await;
        relayed += metric(&cluster, index, "near_peer_message_received_by_type_total", "\"Routed\"").await;
    }
    assert!(relayed > 0.0);
    // Connections settle: those who were refused are gone, and nobody has too many.
    for index in 0..VALIDATORS {
        loop {
            let connections = metric(&cluster, index, "near_peer_connections_total", "").await;
            if (1.0..=PEERS_MAX as f64).contains(&connections) {
                break;
            }
            assert!(Instant::now() < deadline, "node {index} has {connections} connections");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    cluster.stop().await;
}
