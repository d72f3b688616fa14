//! Who runs: names, stakes, and the shards that the chain's own rule gives each producer.

use tpsctl_model::{
    NodeName, ShardId, Yocto,
    ids::YOCTO_PER_NEAR,
    plan::{NodePlan, NodeRole},
};

/// Stake of every validator: that of nearcore's own test networks (core/chain-configs/src/test_utils.rs:33-36). Equal
/// stakes give every producer the same share of blocks and chunks, and every validator the same of mandates.
const STAKE: Yocto = Yocto(50_000_000 * YOCTO_PER_NEAR);

/// How many nodes of each kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeCounts {
    pub(crate) producers: u32,
    pub(crate) chunk_validators: u32,
    pub(crate) rpc: u32,
}

/// All nodes: producers in the order in which the chain ranks them, then validators that produce nothing, then RPC nodes.
/// Every validator's account is called like its node; numbers are padded with zeros so that the order of names is that of
/// numbers, because the chain ranks equal stakes by account id. By name producers come before the other validators, so
/// that the seats of producers, which are as many as they are, are theirs.
pub(crate) fn nodes(shard_ids: &[ShardId], counts: NodeCounts) -> Vec<NodePlan> {
    let names = numbered("node", counts.producers);
    let stakes: Vec<_> = names.iter().map(|name| (name.as_str(), STAKE)).collect();
    let producers = assign(&stakes, shard_ids.len()).into_iter().map(|(ranked, shards)| {
        let shards = shards.into_iter().map(|shard| shard_ids[shard]).collect();
        plan(names[ranked].clone(), NodeRole::Producer { shards, stake: STAKE })
    });
    let validators = numbered("validator", counts.chunk_validators).into_iter();
    let followers = numbered("rpc", counts.rpc).into_iter();
    producers
        .chain(validators.map(|name| plan(name, NodeRole::ChunkValidator { stake: STAKE })))
        .chain(followers.map(|name| plan(name, NodeRole::Rpc)))
        .collect()
}

fn plan(name: String, role: NodeRole) -> NodePlan {
    NodePlan { name: NodeName(name), role }
}

/// `prefix0` to `prefix<count-1>`, padded to equal length.
fn numbered(prefix: &str, count: u32) -> Vec<String> {
    let width = count.saturating_sub(1).to_string().len();
    (0..count).map(|index| format!("{prefix}{index:0width$}")).collect()
}

/// neard's assignment of chunk producers to shards at genesis: ranked by stake, the greater first, ties by account id
/// (chain/epoch-manager/src/validator_selection.rs:339-383), each goes to the shard with the fewest producers so far,
/// ties to the lowest index (shard_assignment/mod.rs:325-345). Where there are fewer producers than shards
/// (`minimum_validators_per_shard` is 1), the shards go round the producers (shard_assignment/mod.rs:102-134).
///
/// Returns, in rank order, the position in `producers` and the indices of the shards.
fn assign(producers: &[(&str, Yocto)], shards: usize) -> Vec<(usize, Vec<usize>)> {
    let mut ranked: Vec<_> = producers.iter().enumerate().collect();
    ranked.sort_by(|(_, (a, a_stake)), (_, (b, b_stake))| b_stake.cmp(a_stake).then_with(|| a.cmp(b)));
    let count = ranked.len();
    let shards_of = |rank: usize| {
        if count < shards { (rank..shards).step_by(count).collect() } else { vec![rank % shards] }
    };
    let positions = ranked.into_iter().map(|(position, _)| position).enumerate();
    positions.filter(|_| shards > 0).map(|(rank, position)| (position, shards_of(rank))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn greater_stakes_come_first_and_ties_go_by_account_id() {
        let producers = [("b", Yocto(1)), ("a", Yocto(1)), ("z", Yocto(9)), ("c", Yocto(1)), ("d", Yocto(1))];
        // Ranks: z, a, b, c, d over two shards.
        let expected = [(2, vec![0]), (1, vec![1]), (0, vec![0]), (3, vec![1]), (4, vec![0])];
        assert_eq!(assign(&producers, 2), expected);
        assert_eq!(assign(&producers, 0), []);
    }

    #[test]
    fn too_few_producers_take_the_shards_in_turn() {
        let producers = [("b", Yocto(1)), ("a", Yocto(1))];
        assert_eq!(assign(&producers, 5), [(1, vec![0, 2, 4]), (0, vec![1, 3])]);
        assert_eq!(assign(&[], 5), []);
    }

    #[test]
    fn without_padding_the_chain_would_rank_node10_before_node2() {
        let names: Vec<_> = (0..11).map(|index| format!("node{index}")).collect();
        let producers: Vec<_> = names.iter().map(|name| (name.as_str(), STAKE)).collect();
        assert_eq!(assign(&producers, 11)[2], (10, vec![2]), "node10 would get shard 2");
        assert_eq!(numbered("node", 11)[2], "node02");
        assert_eq!(numbered("node", 10)[9], "node9");
        assert_eq!(numbered("rpc", 0), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn shard_i_is_served_by_producer_i_modulo_their_number(
            shards in 1_u64..200, producers in 1_u32..400, chunk_validators in 0_u32..12, rpc in 0_u32..12,
        ) {
            let ids: Vec<_> = (0..shards).map(ShardId).collect();
            let all = nodes(&ids, NodeCounts { producers, chunk_validators, rpc });
            prop_assert_eq!(all.len() as u32, producers + chunk_validators + rpc);
            let validating = (producers + chunk_validators) as usize;
            let names = all[..validating].windows(2);
            prop_assert!({ let mut names = names; names.all(|pair| pair[0].name < pair[1].name) }, "names ascend");
            prop_assert!(all[..validating].iter().all(|node| node.role.stake() == Some(STAKE)));
            for (index, node) in all.iter().enumerate() {
                let serves = (0..shards).filter(|shard| node.role.produces(ShardId(*shard)));
                let expected = (0..shards).filter(|shard| {
                    if u64::from(producers) < shards {
                        *shard % u64::from(producers) == index as u64
                    } else {
                        index < producers as usize && index as u64 % shards == *shard
                    }
                });
                prop_assert_eq!(serves.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            }
        }
    }
}
