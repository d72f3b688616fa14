//! Numbers as people read them.

use tpsctl_model::result::{TrialCounts, TrialRecord};

/// Groups of three digits, parted by a space: `1 234 567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// The same of a figure with `digits` after the point, the groups parted by a thin space, as on an axis.
pub(crate) fn grouped_thin(value: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if value < 0.0 { "-" } else { "" };
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    format!("{sign}{}{rest}", whole.replace(' ', "\u{2009}"))
}

/// The same with a sign where it is negative.
pub(crate) fn grouped_signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(value.unsigned_abs()))
}

/// A share in per cent with two digits after the point: `1.25 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Whole milliseconds; a dash where there was nothing to measure.
pub(crate) fn milliseconds(value: f64, count: u64) -> String {
    if count == 0 { "-".to_owned() } else { format!("{value:.0} ms") }
}

/// `k of n`; a dash where there were none.
pub(crate) fn of(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{} of {}", grouped(part), grouped(whole)) }
}

/// Share of the window's chunk slots that were missed; none without slots.
pub(crate) fn missed_share(trial: &TrialRecord) -> Option<f64> {
    ratio(trial.counts.missed_chunk_slots, trial.counts.chunk_slots)
}

/// What the backlog criterion judges: settled by the end of the drain, of the sent and what the network did not let
/// us send. None without load.
pub(crate) fn settled_share(counts: &TrialCounts) -> Option<f64> {
    let refused =
        total(counts.unsent.iter().filter(|(cause, _)| !cause.is_ours()).map(|(_, number)| *number));
    ratio(counts.settled_by_drain_end, counts.sent.saturating_add(refused))
}

/// The sum, which stays at the end of its range: a `run.json` may say anything.
pub(crate) fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_three() {
        let texts = [0, 7, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "7", "999", "1 000", "12 345", "1 234 567"]);
        assert_eq!(grouped_signed(-1_234), "-1 234");
        let thin = [(12_500.0, 0), (0.5, 1), (1_234.25, 2), (-4_000.0, 0)]
            .map(|(value, digits)| grouped_thin(value, digits));
        assert_eq!(thin, ["12\u{2009}500", "0.5", "1\u{2009}234.25", "-4\u{2009}000"]);
        assert_eq!((of(3, 0), of(3, 1_000)), ("-".to_owned(), "3 of 1 000".to_owned()));
    }
}
