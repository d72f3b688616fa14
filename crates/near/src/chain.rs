//! Chain ids, as far as they tell whose money is at stake.

/// Words of a chain id that stand for chains with real accounts.
const PROTECTED_WORDS: [&str; 2] = ["mainnet", "testnet"];

/// Whether a chain of this id may hold accounts that somebody else relies on, so that load is never made for it: one of its
/// words (letters and digits between other characters) is `mainnet` or `testnet`, in any case of letters. `near-testnet` and
/// `MainNet-v2` are protected as well: a benchmark chain can be renamed, a leaked key cannot be called back.
pub fn is_protected_chain(id: &str) -> bool {
    id.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| PROTECTED_WORDS.iter().any(|protected| word.eq_ignore_ascii_case(protected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_decide_and_not_parts_of_words() {
        for real in [
            "mainnet",
            "testnet",
            "MainNet",
            "TESTNET",
            "near-mainnet",
            "testnet-v2",
            " testnet ",
            "x.testnet",
        ] {
            assert!(is_protected_chain(real), "{real}");
        }
        for ours in ["", "benchmarknet", "localnet", "mytestnets", "forknet", "test-net"] {
            assert!(!is_protected_chain(ours), "{ours}");
        }
    }
}
