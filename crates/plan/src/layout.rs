//! Where the shards' boundaries lie, and the account prefixes that fall between them by construction.

use tpsctl_model::ShardId;

/// A shard layout and a prefix for the accounts of each shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Ascending; one fewer than shards.
    pub(crate) boundary_accounts: Vec<String>,
    /// By shard index.
    pub(crate) shard_ids: Vec<ShardId>,
    /// By shard index: every account id that begins with it lies in that shard.
    pub(crate) prefixes: Vec<String>,
}

/// The layout of nearcore's benchmark cases: boundaries `a01`, `a02`, ..., ids 0, 1, ...; accounts of the first shard begin
/// with zeros, those of the others with their shard's own boundary. Numbers are padded to at least two digits and to
/// equal length: unpadded, `a10` would sort before `a2`, and neard does not notice.
pub(crate) fn layout(shards: u32) -> Layout {
    let width = shards.saturating_sub(1).to_string().len().max(2);
    let boundary_accounts: Vec<_> = (1..shards).map(|index| format!("a{index:0width$}")).collect();
    // As long as a boundary, so that all transactions have one size. A single shard has no boundary to match.
    let first = "0".repeat(boundary_accounts.first().map_or(2, String::len));
    let prefixes = std::iter::once(first).chain(boundary_accounts.iter().cloned()).collect();
    Layout { boundary_accounts, shard_ids: (0..u64::from(shards)).map(ShardId).collect(), prefixes }
}

#[cfg(test)]
mod tests {
    use tpsctl_near::{AccountId, ShardLayout};

    use super::*;

    #[test]
    fn as_nearcore_writes_its_cases() {
        let four = layout(4);
        assert_eq!(four.boundary_accounts, ["a01", "a02", "a03"]);
        assert_eq!(four.prefixes, ["000", "a01", "a02", "a03"]);
        assert_eq!(layout(1).prefixes, ["00"]);
        assert_eq!(layout(1).boundary_accounts, [""; 0]);
        assert_eq!(layout(100).boundary_accounts[98], "a99");
        assert_eq!(layout(101).boundary_accounts[0], "a001");
    }

    #[test]
    fn every_account_lies_in_its_shard() {
        for shards in 1..=256_u32 {
            let drawn = layout(shards);
            let boundaries: Vec<AccountId> =
                drawn.boundary_accounts.iter().map(|id| id.parse().unwrap()).collect();
            let near = ShardLayout::new(boundaries, drawn.shard_ids.iter().map(|id| id.0).collect()).unwrap();
            for (index, prefix) in drawn.prefixes.iter().enumerate() {
                for account in [0, 9, 10, 999_999] {
                    let id: AccountId = format!("{prefix}_user_{account}").parse().unwrap();
                    assert_eq!(near.index_of(&id), index, "{id} of {shards} shards");
                }
            }
        }
    }
}
