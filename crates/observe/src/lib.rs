//! Following blocks and scraping metrics, with explicit gaps; and what the two prove about pending and lost transfers.
//!
//! Two shells, [`BlockFollower`] and [`MetricsScraper`], read the network and hand on values; two pure parts, [`idle`]
//! and [`evidence`], conclude from them. Blocks count, metrics explain. What could not be read becomes a
//! [`Gap`](tpsctl_model::observation::Gap), never a zero.

mod clock;
pub mod evidence;
pub mod exposition;
pub mod follower;
mod gaps;
pub mod idle;
pub mod scraper;
mod series;

use std::net::SocketAddr;

use tpsctl_model::{NodeName, ShardId};

pub use clock::WallClock;
pub use evidence::Evidence;
pub use follower::{BlockFollower, FollowProgress};
pub use idle::{IdleProof, IdleQuestion};
pub use scraper::{MetricsScraper, ScrapeTarget};

/// A node's HTTP surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The node's name.
    pub node: NodeName,
    /// Its RPC address, which also serves `/metrics`.
    pub addr: SocketAddr,
}

/// A chunk producer and the shards whose chunks it makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// The node's name.
    pub node: NodeName,
    /// Its shards.
    pub shards: Vec<ShardId>,
}
