//! Who runs: names, stakes, and the shard that the chain's own rule gives each producer.

use tpsctl_model::{
    NodeName, ShardId, Yocto,
    ids::YOCTO_PER_NEAR,
    plan::{NodePlan, NodeRole},
};

/// Stake of every producer: that of nearcore's own test networks (core/chain-configs/src/test_utils.rs:33-36). Equal
/// stakes give every producer the same share of blocks, chunks and mandates.
const STAKE: Yocto = Yocto(50_000_000 * YOCTO_PER_NEAR);

/// All nodes: producers in the order in which the chain ranks them, then RPC nodes. Every producer is a validator
/// account called like its node; numbers are padded with zeros so that the order of names is that of numbers, because
/// the chain ranks equal stakes by account id.
pub(crate) fn nodes(shard_ids: &[ShardId], producers_per_shard: u32, rpc_nodes: u32) -> Vec<NodePlan> {
    let count = u32::try_from(shard_ids.len()).unwrap_or(u32::MAX).saturating_mul(producers_per_shard);
    let names = numbered("node", count);
    let stakes: Vec<_> = names.iter().map(|name| (name.as_str(), STAKE)).collect();
    let producers = assign(&stakes, shard_ids.len()).into_iter().map(|(ranked, shard)| NodePlan {
        name: NodeName(names[ranked].clone()),
        role: NodeRole::Producer { shard: shard_ids[shard], stake: STAKE },
    });
    let followers = numbered("rpc", rpc_nodes)
        .into_iter()
        .map(|name| NodePlan { name: NodeName(name), role: NodeRole::Rpc });
    producers.chain(followers).collect()
}

/// `prefix0` to `prefix<count-1>`, padded to equal length.
fn numbered(prefix: &str, count: u32) -> Vec<String> {
    let width = count.saturating_sub(1).to_string().len();
    (0..count).map(|index| format!("{prefix}{index:0width$}")).collect()
}

/// neard's assignment of chunk producers to shards at genesis: ranked by stake, the greater first, ties by account id
/// (chain/epoch-manager/src/validator_selection.rs:339-383), each goes to the shard with the fewest producers so far,
/// ties to the lowest index (shard_assignment/mod.rs:325-345). With fewer producers than shards (`minimum_validators_per_shard`
/// is 1) they would serve several shards each; a plan has at least one a shard.
///
/// Returns, in rank order, the position in `producers` and the shard's index.
fn assign(producers: &[(&str, Yocto)], shards: usize) -> Vec<(usize, usize)> {
    let mut ranked: Vec<_> = producers.iter().enumerate().collect();
    ranked.sort_by(|(_, (a, a_stake)), (_, (b, b_stake))| b_stake.cmp(a_stake).then_with(|| a.cmp(b)));
    let mut filled = vec![0_u32; shards];
    let mut assigned = Vec::with_capacity(producers.len());
    for (position, _) in ranked {
        // The first of the least filled: `min_by_key` keeps the first minimum.
        let Some((shard, _)) = filled.iter().enumerate().min_by_key(|(_, count)| **count) else { break };
        filled[shard] += 1;
        assigned.push((position, shard));
    }
    assigned
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn greater_stakes_come_first_and_ties_go_by_account_id() {
        let producers = [("b", Yocto(1)), ("a", Yocto(1)), ("z", Yocto(9)), ("c", Yocto(1)), ("d", Yocto(1))];
        // Ranks: z, a, b, c, d over two shards.
        assert_eq!(assign(&producers, 2), [(2, 0), (1, 1), (0, 0), (3, 1), (4, 0)]);
        assert_eq!(assign(&producers, 0), []);
    }

    #[test]
    fn without_padding_the_chain_would_rank_node10_before_node2() {
        let names: Vec<_> = (0..11).map(|index| format!("node{index}")).collect();
        let producers: Vec<_> = names.iter().map(|name| (name.as_str(), STAKE)).collect();
        assert_eq!(assign(&producers, 11)[2], (10, 2), "node10 would get shard 2");
        assert_eq!(numbered("node", 11)[2], "node02");
        assert_eq!(numbered("node", 10)[9], "node9");
        assert_eq!(numbered("rpc", 0), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn producer_i_serves_shard_i_modulo_shards(shards in 1_u64..200, per_shard in 1_u32..5, rpc in 0_u32..12) {
            let ids: Vec<_> = (0..shards).map(ShardId).collect();
            let all = nodes(&ids, per_shard, rpc);
            prop_assert_eq!(all.len() as u64, shards * u64::from(per_shard) + u64::from(rpc));
            prop_assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name), "names ascend");
            for (index, node) in all.iter().enumerate() {
                match node.role {
                    NodeRole::Producer { shard, stake } => {
                        prop_assert_eq!(shard.0, index as u64 % shards);
                        prop_assert_eq!(stake, STAKE);
                    }
                    NodeRole::Rpc => prop_assert!(index as u64 >= shards * u64::from(per_shard)),
                }
            }
        }
    }
}
