//! What is sent, when, and with which signature: account keys, the throwaway-key signer, the seeded transaction
//! stream, nonces, and the pacer.
//!
//! Everything is a function of the run plan and of numbers passed in: no clock, no network, no allocation per
//! transaction. The same plan gives the same keys and the same stream, whatever the machine and its threads.

pub mod encode;
mod error;
pub mod keyring;
pub mod nonce;
pub mod pacer;
pub mod signer;
pub mod stream;

pub use encode::{Party, Sender, TransferEncoder};
pub use error::WorkloadError;
pub use keyring::{Keyring, ShardKeys};
pub use nonce::NonceRange;
pub use pacer::{Pacer, Permits};
pub use signer::{Signer, ThrowawayChain};
pub use stream::{Transfer, TransferStream, stream_fingerprint};
