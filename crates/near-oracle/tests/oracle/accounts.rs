use std::collections::BTreeSet;

use near_primitives::{shard_layout::ShardLayout as Theirs, types::AccountId as TheirId};
use proptest::prelude::*;
use tpsctl_near::{AccountId, ShardLayout};

use super::{account_id, maybe_account_id};

/// Boundaries and as many shard ids, in any order, as they divide.
fn layout() -> impl Strategy<Value = (Vec<String>, Vec<u64>)> {
    proptest::collection::btree_set(account_id(), 0..20)
        .prop_flat_map(|boundaries| {
            let ids = proptest::collection::btree_set(0_u64..1_000, boundaries.len() + 1);
            (Just(boundaries), ids.prop_map(|ids| ids.into_iter().collect::<Vec<_>>()).prop_shuffle())
        })
        .prop_map(|(boundaries, ids): (BTreeSet<String>, Vec<u64>)| (boundaries.into_iter().collect(), ids))
}

fn ours(boundaries: &[String], ids: &[u64]) -> ShardLayout {
    ShardLayout::new(boundaries.iter().map(|id| id.parse().expect("id")).collect(), ids.to_vec())
        .expect("sorted")
}

fn theirs(boundaries: &[String], ids: &[u64]) -> Theirs {
    let boundaries = boundaries.iter().map(|id| id.parse().expect("id")).collect();
    let ids: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
    let split = ids.iter().map(|id| (*id, vec![*id])).collect();
    Theirs::v2(boundaries, ids, Some(split))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_same_texts_are_account_ids(text in maybe_account_id()) {
        let ours = text.parse::<AccountId>();
        let theirs = text.parse::<TheirId>();
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            prop_assert_eq!(borsh::to_vec(&ours)?, borsh::to_vec(&theirs)?);
            prop_assert_eq!(serde_json::to_string(&ours)?, serde_json::to_string(&theirs)?);
            let is_implicit = format!("{:?}", theirs.get_account_type()) == "NearImplicitAccount";
            prop_assert_eq!(ours.is_near_implicit(), is_implicit);
        }
    }

    #[test]
    fn account_ids_have_the_same_order(one in account_id(), other in account_id()) {
        let ours = one.parse::<AccountId>()?.cmp(&other.parse()?);
        prop_assert_eq!(ours, one.parse::<TheirId>()?.cmp(&other.parse()?));
    }

    #[test]
    fn accounts_lie_in_the_same_shard((boundaries, ids) in layout(), accounts in proptest::collection::vec(account_id(), 1..20)) {
        let (ours, theirs) = (ours(&boundaries, &ids), theirs(&boundaries, &ids));
        for account in accounts.iter().chain(&boundaries) {
            let shard = theirs.account_id_to_shard_id(&account.parse()?);
            prop_assert_eq!(ours.shard_of(&account.parse()?), Into::<u64>::into(shard), "{}", account);
            let index = theirs.get_shard_index(shard)?;
            prop_assert_eq!(ours.index_of(&account.parse()?), index);
        }
    }

    #[test]
    fn layouts_have_the_same_text((boundaries, ids) in layout()) {
        let (ours, theirs) = (ours(&boundaries, &ids), theirs(&boundaries, &ids));
        let text = serde_json::to_value(&ours)?;
        prop_assert_eq!(&text, &serde_json::to_value(&theirs)?);
        prop_assert_eq!(&serde_json::from_value::<Theirs>(text.clone())?, &theirs);
        prop_assert_eq!(&serde_json::from_value::<ShardLayout>(text)?, &ours);
        prop_assert_eq!(ours.version(), theirs.version());
    }
}

#[test]
fn the_default_layout_of_near_is_read() {
    // Its version is 0 and it has no split maps.
    let text = serde_json::to_value(Theirs::single_shard()).expect("JSON");
    let ours: ShardLayout = serde_json::from_value(text.clone()).expect("layout");
    assert_eq!(ours.len(), 1);
    assert_eq!(serde_json::to_value(&ours).expect("JSON"), text);
}
