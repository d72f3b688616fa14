//! Shard layout V2: sorted boundary accounts, one shard id for each interval (core/primitives/src/shard_layout/v2.rs).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::AccountId;

/// Version that nearcore's constructor gives a V2 layout and that shard uids carry.
pub const LAYOUT_VERSION: u32 = 3;

/// How accounts map to shards: index = number of boundaries that are not above the account id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "LayoutFile", into = "LayoutFile")]
pub struct ShardLayout {
    boundaries: Vec<AccountId>,
    shard_ids: Vec<u64>,
    version: u32,
    has_split_maps: bool,
}

/// A layout that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Boundaries must be one fewer than shards.
    #[error("{boundaries} boundary accounts cannot divide {shards} shards: one fewer is needed")]
    Count {
        /// Given.
        boundaries: usize,
        /// Given.
        shards: usize,
    },
    /// Boundaries must ascend.
    #[error("boundary account `{0}` does not sort after the one before it")]
    Unsorted(AccountId),
    /// Ids must differ.
    #[error("shard id {0} is given twice")]
    DuplicateId(u64),
    /// Only V2 is known.
    #[error("only shard layout V2 is understood")]
    Version,
}

impl ShardLayout {
    /// A layout with these boundaries and shard ids by index.
    pub fn new(boundaries: Vec<AccountId>, shard_ids: Vec<u64>) -> Result<Self, LayoutError> {
        Self::with_version(boundaries, shard_ids, LAYOUT_VERSION)
    }

    fn with_version(
        boundaries: Vec<AccountId>,
        shard_ids: Vec<u64>,
        version: u32,
    ) -> Result<Self, LayoutError> {
        if boundaries.len() + 1 != shard_ids.len() {
            return Err(LayoutError::Count { boundaries: boundaries.len(), shards: shard_ids.len() });
        }
        if let Some(pair) = boundaries.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(LayoutError::Unsorted(pair[1].clone()));
        }
        for (index, id) in shard_ids.iter().enumerate() {
            if shard_ids[..index].contains(id) {
                return Err(LayoutError::DuplicateId(*id));
            }
        }
        Ok(Self { boundaries, shard_ids, version, has_split_maps: true })
    }

    /// Shard ids by index.
    pub fn shard_ids(&self) -> &[u64] {
        &self.shard_ids
    }

    /// Boundary accounts, ascending.
    pub fn boundaries(&self) -> &[AccountId] {
        &self.boundaries
    }

    /// The layout's version, as shard uids carry it.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Number of shards.
    pub fn len(&self) -> usize {
        self.shard_ids.len()
    }

    /// Never: a layout has at least one shard.
    pub fn is_empty(&self) -> bool {
        self.shard_ids.is_empty()
    }

    /// The index of the shard that holds `account`.
    pub fn index_of(&self, account: &AccountId) -> usize {
        self.boundaries.partition_point(|boundary| boundary <= account)
    }

    /// The id of the shard that holds `account`.
    pub fn shard_of(&self, account: &AccountId) -> u64 {
        self.shard_ids[self.index_of(account)]
    }

    /// The index of the shard `id`, if it is in the layout.
    pub fn index_of_id(&self, id: u64) -> Option<usize> {
        self.shard_ids.iter().position(|own| *own == id)
    }
}

/// JSON form: `{"V2": {...}}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum LayoutFile {
    V2(LayoutV2File),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct LayoutV2File {
    boundary_accounts: Vec<AccountId>,
    shard_ids: Vec<u64>,
    id_to_index_map: BTreeMap<u64, usize>,
    index_to_id_map: BTreeMap<usize, u64>,
    shards_split_map: Option<BTreeMap<u64, Vec<u64>>>,
    shards_parent_map: Option<BTreeMap<u64, u64>>,
    version: u32,
}

impl TryFrom<LayoutFile> for ShardLayout {
    type Error = LayoutError;
    fn try_from(LayoutFile::V2(file): LayoutFile) -> Result<Self, LayoutError> {
        let mut layout = Self::with_version(file.boundary_accounts, file.shard_ids, file.version)?;
        layout.has_split_maps = file.shards_split_map.is_some();
        Ok(layout)
    }
}

impl From<ShardLayout> for LayoutFile {
    fn from(layout: ShardLayout) -> Self {
        let ids = layout.shard_ids.clone();
        Self::V2(LayoutV2File {
            boundary_accounts: layout.boundaries,
            id_to_index_map: ids.iter().enumerate().map(|(index, id)| (*id, index)).collect(),
            index_to_id_map: ids.iter().copied().enumerate().collect(),
            shards_split_map: layout.has_split_maps.then(|| ids.iter().map(|id| (*id, vec![*id])).collect()),
            shards_parent_map: layout.has_split_maps.then(|| ids.iter().map(|id| (*id, *id)).collect()),
            shard_ids: layout.shard_ids,
            version: layout.version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> AccountId {
        text.parse().expect("valid id")
    }

    #[test]
    fn accounts_go_to_the_interval_that_holds_them() {
        let layout = ShardLayout::new(vec![id("a01"), id("a02")], vec![0, 1, 2]).expect("valid");
        for (account, shard) in
            [("000_user_0", 0), ("a00", 0), ("a01", 1), ("a01_user_9", 1), ("a02", 2), ("zz", 2)]
        {
            assert_eq!(layout.shard_of(&id(account)), shard, "{account}");
        }
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert!(ShardLayout::new(vec![], vec![]).is_err());
        assert!(ShardLayout::new(vec![id("a02"), id("a01")], vec![0, 1, 2]).is_err());
        assert!(ShardLayout::new(vec![id("a01")], vec![0, 0]).is_err());
    }
}
