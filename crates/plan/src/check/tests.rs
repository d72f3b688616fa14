use std::collections::BTreeSet;

use tpsctl_model::{Share, Yocto, plan::NodeRole};
use tpsctl_scenario::{load, resolve_name};

use super::*;

pub(crate) fn quickstart() -> RunPlan {
    let scenario = load(&resolve_name("quickstart").unwrap(), &[]).unwrap();
    crate::plan(&scenario, &host()).unwrap().plan
}

fn host() -> Capabilities {
    Capabilities {
        name: "local".to_owned(),
        nodes_max: None,
        cores: 2,
        memory_bytes: 8_000_000_000,
        files_max: 1_024,
        files_hard_max: 4_096,
    }
}

/// The names of the checks that find an error or a warning.
fn broken(change: impl FnOnce(&mut RunPlan)) -> Vec<&'static str> {
    let mut plan = quickstart();
    change(&mut plan);
    let checked = check(&plan, &host()).into_iter();
    checked.filter(|own| !own.holds && own.severity != Severity::Note).map(|own| own.check).collect()
}

/// What no scenario's bounds allow, but a plan read from disk could hold.
#[test]
fn plans_that_no_scenario_makes_are_refused_too() {
    assert_eq!(broken(|plan| plan.accounts.balance = Yocto(u128::MAX / 20_001)), ["supply_fits"]);
    assert_eq!(broken(|plan| plan.accounts.prefixes.swap(1, 2)), ["accounts_in_their_shards"]);
    assert_eq!(broken(|plan| plan.chain.boundary_accounts.reverse()), ["accounts_in_their_shards"]);
    let too_long = broken(|plan| plan.accounts.prefixes[0] = "0".repeat(60));
    assert!(too_long.contains(&"accounts_in_their_shards"));
    assert_eq!(broken(|plan| plan.nodes[0].name.0 = "Node".to_owned()), ["accounts_in_their_shards"]);
    let dwarf = |plan: &mut RunPlan| {
        if let NodeRole::Producer { stake, .. } = &mut plan.nodes[0].role {
            *stake = Yocto(1);
        }
    };
    assert_eq!(broken(dwarf), ["stake_has_a_seat"]);
    assert_eq!(broken(|plan| drop(plan.nodes.remove(0))), ["every_shard_has_a_producer"]);
    let usurper = |plan: &mut RunPlan| {
        let stake = Yocto(60_000_000 * tpsctl_model::ids::YOCTO_PER_NEAR);
        plan.nodes[4].role = NodeRole::ChunkValidator { stake };
        plan.chain.mandates_per_shard = 2;
    };
    assert_eq!(broken(usurper), ["seats_go_to_the_producers"]);
}

#[test]
fn a_single_account_can_only_pay_other_shards() {
    let suffice = |accounts: u32, cross_shard: f64| {
        let mut plan = quickstart();
        plan.accounts.per_shard = accounts;
        plan.load.cross_shard = Share(cross_shard);
        super::load::accounts_suffice(&plan, &host()).is_fine
    };
    assert!(suffice(2, 0.0) && !suffice(1, 0.0) && suffice(1, 1.0) && !suffice(0, 1.0));
}

/// Notes tell what a figure means; they never keep a run from starting.
#[test]
fn notes_speak_at_their_bounds() {
    let speaks = |name: &str, change: fn(&mut RunPlan)| {
        let mut plan = quickstart();
        change(&mut plan);
        check(&plan, &host()).into_iter().any(|own| own.check == name && !own.holds)
    };
    for (mandates, is_spoken) in [(1, true), (2, true), (3, true), (4, false), (68, false)] {
        let mut plan = quickstart();
        plan.chain.mandates_per_shard = mandates;
        let spoken =
            check(&plan, &host()).into_iter().any(|own| own.check == "two_thirds_can_endorse" && !own.holds);
        assert_eq!(spoken, is_spoken, "{mandates} mandates");
    }
    assert!(!speaks("gas_has_no_refund", |_| {}));
    assert!(speaks("gas_has_no_refund", |plan| plan.chain.min_gas_price = Yocto(999_999_999)));
    assert!(!speaks("kickouts_move_no_shard", |_| {}));
    assert!(speaks("kickouts_move_no_shard", |plan| plan.chain.epoch_length_blocks = 483));
    assert!(speaks("late_chunks_are_seen", |_| {}));
    assert!(!speaks("late_chunks_are_seen", |plan| plan.chain.chunk_wait_mult = (1, 6)));
    assert!(speaks("nodes_have_cores", |_| {}));
    assert!(!speaks("nodes_have_cores", |plan| plan.nodes.truncate(2)));
}

#[test]
fn names_are_unique_and_every_check_says_what_it_sees() {
    let names: BTreeSet<_> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), CHECKS.len());
    for own in check(&quickstart(), &host()) {
        assert!(
            !own.sentence.is_empty() && !own.figure.is_empty() && !own.sentence.ends_with('.'),
            "{own:?}"
        );
    }
}
