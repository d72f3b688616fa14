//! Quantiles by nearest rank: always an observed value, never an interpolated one.

use tpsctl_model::{Share, load::QuantilesMs};

/// Guards `ceil` against products such as 0.07 x 100 = 7.000000000000001.
const ROUNDING: f64 = 1e-9;

/// The smallest number of observations out of `count` that make up the share `quantile` (at least 1).
pub(crate) fn rank(count: usize, quantile: Share) -> usize {
    let exact = quantile.0 * count as f64;
    ((exact - ROUNDING).ceil().max(1.0) as usize).min(count.max(1))
}

/// The `quantile` of `values_ms` by nearest rank: the value of rank ceil(q x n) in ascending order. None without values.
pub(crate) fn quantile_ms(values_ms: &[f64], quantile: Share) -> Option<f64> {
    let mut sorted = values_ms.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(rank(sorted.len(), quantile) - 1).copied()
}

/// The usual quantiles of `values_ms` by nearest rank; all 0 without values.
pub(crate) fn quantiles_ms(values_ms: &[f64]) -> QuantilesMs {
    let at = |share| quantile_ms(values_ms, Share(share)).unwrap_or(0.0);
    QuantilesMs { count: values_ms.len() as u64, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nearest_rank() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let found = quantiles_ms(&ten);
        assert_eq!(found, QuantilesMs { count: 10, p50: 5.0, p90: 9.0, p99: 10.0, max: 10.0 });
        assert_eq!(quantiles_ms(&[]), QuantilesMs::default());
        assert_eq!(quantile_ms(&[7.0], Share(0.0)), Some(7.0));
        assert_eq!(rank(100, Share(0.07)), 7);
    }

    proptest! {
        #[test]
        fn a_quantile_is_an_observation_that_covers_its_share(
            values in prop::collection::vec(0.0..1e6_f64, 1..60), share in 0.0..=1.0_f64,
        ) {
            let found = quantile_ms(&values, Share(share)).unwrap();
            prop_assert!(values.iter().any(|value| value.total_cmp(&found).is_eq()));
            let covered = values.iter().filter(|value| **value <= found).count() as f64;
            prop_assert!(covered + 1e-6 >= share * values.len() as f64);
        }
    }
}
