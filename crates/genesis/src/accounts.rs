//! Load accounts' keys in the form that nearcore's own load generators read.

use std::io::{self, Write};

use serde::Serialize;
use tpsctl_near::{AccountId, KeyPair, PublicKey};
use tpsctl_workload::ShardKeys;

use crate::GenesisError;

/// One account (nearcore, tools/fork-network/src/cli.rs:1460-1467).
#[derive(Serialize)]
struct AccountKey {
    account_id: AccountId,
    public_key: PublicKey,
    secret_key: String,
    nonce: u64,
}

/// Writes the keys of one shard's accounts to `out`: a JSON array of `{account_id, public_key, secret_key, nonce}`, one
/// account a line, nonce 0 as at genesis. A run writes them as `genesis/accounts/shard_<id>.json`, `<id>` being
/// [`ShardKeys::shard`].
///
/// # Errors
/// For keys in a row ([`GenesisError::NoSeed`], with only the opening bracket written), and when `out` fails. `out` is
/// buffered and flushed here.
pub fn account_files(keys: &ShardKeys, out: impl io::Write) -> Result<(), GenesisError> {
    let write =
        |source| GenesisError::Write { what: format!("the account keys of shard {}", keys.shard()), source };
    let mut out = io::BufWriter::new(out);
    out.write_all(b"[").map_err(write)?;
    let mut separator: &[u8] = b"\n";
    for index in 0..keys.len() {
        let account_id = keys.account_id(index);
        let Some(seed) = keys.seed(index) else { return Err(GenesisError::NoSeed(account_id)) };
        let pair = KeyPair::from_seed(seed);
        let account =
            AccountKey { account_id, public_key: pair.public(), secret_key: pair.secret_text(), nonce: 0 };
        out.write_all(separator).map_err(write)?;
        serde_json::to_writer(&mut out, &account).map_err(|source| write(source.into()))?;
        separator = b",\n";
    }
    out.write_all(b"\n]\n").map_err(write)?;
    out.flush().map_err(write)
}
