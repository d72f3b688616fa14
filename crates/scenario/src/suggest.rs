//! "Did you mean": the nearest known word.

/// The candidate that is nearest to `word`, if any is near enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// Below this Jaro-Winkler likeness a suggestion is more often wrong than right (`window` and `binary` have 0.5).
const LIKENESS_MIN: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let words = ["shards", "rpc_nodes", "block_time_min", "block_time_max"];
        assert_eq!(nearest("shard", words), Some("shards"));
        assert_eq!(nearest("Shards", words), Some("shards"));
        assert_eq!(nearest("block_time_mim", words), Some("block_time_min"));
        assert_eq!(nearest("colour", words), None);
        assert_eq!(nearest("", words), None);
    }
}
