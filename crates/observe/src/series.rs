//! Reading single series out of a [`MetricsSample`], whose keys are `name` or `name{label="value",...}`.

use tpsctl_model::observation::MetricsSample;

/// The series of the metric `name`: labels (empty, or with their braces) and value.
pub(crate) fn series<'a>(sample: &'a MetricsSample, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    sample
        .values
        .range(name.to_owned()..)
        .map_while(move |(key, value)| key.strip_prefix(name).map(|labels| (labels, *value)))
        .filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'))
}

/// The sum over all series of `name`; none where the node has no such series.
pub(crate) fn sum(sample: &MetricsSample, name: &str) -> Option<f64> {
    series(sample, name).map(|(_, value)| value).reduce(|sum, value| sum + value)
}

/// The value of `name` whose labels hold `label="value"`.
pub(crate) fn labelled(sample: &MetricsSample, name: &str, pair: &str) -> Option<f64> {
    series(sample, name)
        .find(|(labels, _)| labels.trim_matches(['{', '}']).split(',').any(|own| own == pair))
        .map(|(_, value)| value)
}

/// A counter or gauge as a whole number; what is below 0 or no number is 0.
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use tpsctl_model::NodeName;

    use super::*;

    #[test]
    fn series_are_found_by_name_and_label() {
        let values = [
            ("a", 1.0),
            ("a_b{x=\"1\"}", 2.0),
            ("a{x=\"1\",y=\"2\"}", 4.0),
            ("a{x=\"10\"}", 8.0),
            ("b", 16.0),
        ];
        let values = values.map(|(key, value)| (key.to_owned(), value)).into();
        let sample = MetricsSample { unix_ns: 0, node: NodeName("n".to_owned()), values };
        assert_eq!(sum(&sample, "a").map(whole), Some(13));
        assert_eq!(sum(&sample, "c"), None);
        assert_eq!(labelled(&sample, "a", "x=\"1\"").map(whole), Some(4));
        assert_eq!(labelled(&sample, "a", "x=\"2\""), None);
        assert_eq!(whole(-1.0), 0);
    }
}
