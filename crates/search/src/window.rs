//! The measured window: which block intervals lie in it, which chunk slots they had and which were missed.

use std::collections::{BTreeMap, BTreeSet};

use tpsctl_model::{
    ShardId,
    observation::{BlockFact, Gap, Observation},
};

use crate::JudgedLoad;

/// The time from one block to the next, with the chunk slots of the heights in between. It belongs to the window in
/// which it *ends*.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interval {
    /// Timestamp of the later block, nanoseconds since the Unix epoch.
    pub(crate) ended_unix_ns: u64,
    /// From the block before; none where that block is not known.
    pub(crate) block_time_ms: Option<f64>,
    /// Heights in the interval times shards.
    pub(crate) slots: u64,
    /// Heights without a block.
    pub(crate) skipped_heights: u64,
    /// Slots without a new chunk, by shard; a skipped height misses the slots of all shards.
    pub(crate) missed: BTreeMap<ShardId, u64>,
}

/// The intervals that count for the goal, and the holes in what was observed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Window {
    /// In order of time.
    pub(crate) intervals: Vec<Interval>,
    /// Places, anywhere in the trial, where a block's predecessor was not observed: nothing can be counted there.
    pub(crate) holes: Vec<Gap>,
}

impl Window {
    /// Cuts the window out of `observation`.
    ///
    /// An interval counts when its later block's timestamp lies in the window (start included, end not). A stall
    /// across the window's end would escape that rule, just when the network is slowest. So when the window's last
    /// block is older than the window's end by more than the longest interval counted so far, the interval that is
    /// open at the end counts as well: up to the next block with all its heights, or, where no block followed, up to
    /// the end of the drain with one height that nobody filled.
    ///
    /// A trial that was cut short was not observed to its window's end: its window ends with the load, and without a
    /// next block an interval is only unfinished. Final blocks trail the chain's head, so that their absence says
    /// nothing there.
    pub(crate) fn of(load: &JudgedLoad<'_>, observation: &Observation, shards: &[ShardId]) -> Self {
        let is_cut_short = load.is_cut_short(observation);
        let planned = observation.window_to_unix_ns;
        let end = if is_cut_short { planned.min(load.report.ended_unix_ns) } else { planned };
        let mut window = Self { intervals: Vec::new(), holes: holes(&observation.blocks) };
        let in_window = observation.window_from_unix_ns..end;
        let mut before = None;
        for block in &observation.blocks {
            if in_window.contains(&block.timestamp_unix_ns) {
                window.intervals.push(interval(before, block, shards));
            }
            before = Some(block);
        }
        let seen_until = (!is_cut_short).then(|| observation.drained_unix_ns.max(end));
        let open = window.open_at(end, seen_until, &observation.blocks, shards);
        window.intervals.extend(open);
        window
    }

    /// The interval that is open at `end`, if it is a stall. Without a next block it lasted to `seen_until`, if known.
    fn open_at(
        &self,
        end: u64,
        seen_until: Option<u64>,
        blocks: &[BlockFact],
        shards: &[ShardId],
    ) -> Option<Interval> {
        let position = blocks.iter().rposition(|block| block.timestamp_unix_ns < end)?;
        let last = blocks.get(position)?;
        let longest_ms = self.block_times_ms().into_iter().fold(0.0, f64::max);
        if milliseconds(last.timestamp_unix_ns, end) <= longest_ms {
            return None;
        }
        match blocks.get(position + 1) {
            Some(next) if next.prev_height == last.height => Some(interval(Some(last), next, shards)),
            Some(_) => None,
            None => {
                let seen_until = seen_until?;
                Some(Interval {
                    ended_unix_ns: seen_until,
                    block_time_ms: Some(milliseconds(last.timestamp_unix_ns, seen_until)),
                    slots: shards.len() as u64,
                    skipped_heights: 1,
                    missed: shards.iter().map(|shard| (*shard, 1)).collect(),
                })
            }
        }
    }

    /// The block times of the window, in order of time.
    pub(crate) fn block_times_ms(&self) -> Vec<f64> {
        self.intervals.iter().filter_map(|interval| interval.block_time_ms).collect()
    }

    /// Chunk slots of the window.
    pub(crate) fn slots(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.slots).sum()
    }

    /// Heights in the window, with and without a block.
    pub(crate) fn heights(&self, shard_count: usize) -> u64 {
        self.slots().checked_div(shard_count as u64).unwrap_or(0)
    }

    /// Slots of all shards without a chunk.
    pub(crate) fn missed(&self) -> u64 {
        self.intervals.iter().map(Interval::missed_slots).sum()
    }

    /// Slots of `shard` without a chunk.
    pub(crate) fn missed_by(&self, shard: ShardId) -> u64 {
        self.intervals.iter().filter_map(|interval| interval.missed.get(&shard)).sum()
    }

    /// Heights without a block.
    pub(crate) fn skipped_heights(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.skipped_heights).sum()
    }
}

impl Interval {
    /// Slots of all shards without a chunk.
    pub(crate) fn missed_slots(&self) -> u64 {
        self.missed.values().sum()
    }
}

/// Milliseconds from `from` to `to`, both in nanoseconds; 0 when they are the other way round.
pub(crate) fn milliseconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}

fn interval(before: Option<&BlockFact>, block: &BlockFact, shards: &[ShardId]) -> Interval {
    let heights = block.height.saturating_sub(block.prev_height).max(1);
    let skipped = heights - 1;
    let included: BTreeSet<ShardId> =
        block.chunks.iter().filter(|chunk| chunk.included).map(|chunk| chunk.shard).collect();
    let known = before.filter(|before| before.height == block.prev_height);
    Interval {
        ended_unix_ns: block.timestamp_unix_ns,
        block_time_ms: known.map(|known| milliseconds(known.timestamp_unix_ns, block.timestamp_unix_ns)),
        slots: heights * shards.len() as u64,
        skipped_heights: skipped,
        missed: shards
            .iter()
            .map(|shard| (*shard, skipped + u64::from(!included.contains(shard))))
            .filter(|(_, missed)| *missed > 0)
            .collect(),
    }
}

/// Pairs of neighbours in the list that are not neighbours on the chain.
fn holes(blocks: &[BlockFact]) -> Vec<Gap> {
    blocks
        .windows(2)
        .filter_map(|pair| match pair {
            [before, block] if block.prev_height != before.height => Some(Gap {
                source: "blocks".to_owned(),
                from_unix_ns: before.timestamp_unix_ns,
                to_unix_ns: block.timestamp_unix_ns,
                cause: format!(
                    "block {} follows {} but {} was seen",
                    block.height, block.prev_height, before.height
                ),
            }),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tpsctl_model::{
        NodeName,
        observation::{ExitKind, NodeExit},
    };

    use crate::testkit::{SECOND_NS, START_NS, chain, inject, ordered};

    use super::*;

    const SHARDS: [ShardId; 2] = [ShardId(0), ShardId(1)];

    /// Blocks every second from second 0, window from second 3 to 8.5.
    fn steady() -> Observation {
        chain(&SHARDS, 12).window(3.0, 8.5).done()
    }

    fn cut(seen: &Observation) -> Window {
        Window::of(&ordered(&inject(&[(0, [0, 0])])), seen, &SHARDS)
    }

    #[test]
    fn intervals_belong_to_the_window_in_which_they_end() {
        let window = cut(&steady());
        assert_eq!(window.block_times_ms(), vec![1000.0; 6], "blocks of seconds 3 to 8");
        assert_eq!((window.slots(), window.missed(), window.skipped_heights()), (12, 0, 0));
        assert!(window.holes.is_empty());
    }

    #[test]
    fn a_skipped_height_misses_the_slots_of_all_shards() {
        let mut seen = steady();
        for block in &mut seen.blocks[5..] {
            block.height += 2;
        }
        for block in &mut seen.blocks[6..] {
            block.prev_height += 2;
        }
        seen.blocks[6].chunks[1].included = false;
        let window = cut(&seen);
        assert_eq!((window.skipped_heights(), window.missed(), window.slots()), (2, 5, 16));
        assert_eq!((window.missed_by(ShardId(0)), window.missed_by(ShardId(1))), (2, 3));
        assert_eq!(window.heights(2), 8);
    }

    #[test]
    fn a_stall_across_the_end_is_seen() {
        let mut seen = steady();
        // The block of second 6 is the window's last; the next comes at 14, two heights later.
        seen.blocks.truncate(8);
        seen.blocks[7].timestamp_unix_ns += 7 * SECOND_NS;
        seen.blocks[7].height += 2;
        let window = cut(&seen);
        assert_eq!(window.block_times_ms(), [1000.0, 1000.0, 1000.0, 1000.0, 8000.0]);
        assert_eq!((window.slots(), window.missed(), window.skipped_heights()), (14, 4, 2));
    }

    #[test]
    fn a_stall_that_never_ends_is_seen_up_to_the_end_of_the_drain() {
        let mut seen = steady();
        seen.blocks.truncate(6);
        seen.drained_unix_ns = seen.window_from_unix_ns + 17 * SECOND_NS;
        let window = cut(&seen);
        assert_eq!(window.block_times_ms(), [1000.0, 1000.0, 1000.0, 15_000.0]);
        assert_eq!((window.slots(), window.missed()), (8, 2));
    }

    /// Observation ends at second 5.2: the last final block is of second 3, two behind the head.
    fn broken_off() -> Observation {
        let mut seen = steady();
        seen.blocks.truncate(4);
        seen.drained_unix_ns = START_NS + 5_200_000_000;
        seen
    }

    #[test]
    fn what_nobody_observed_after_a_nodes_end_is_no_stall() {
        let mut seen = broken_off();
        let exit = ExitKind::Code(101);
        seen.exits.push(NodeExit { node: NodeName("cp0".to_owned()), unix_ns: seen.drained_unix_ns, exit });
        let mut report = inject(&[(0, [0, 0])]);
        report.ended_unix_ns = START_NS + 5_100_000_000;
        let window = Window::of(&ordered(&report), &seen, &SHARDS);
        assert_eq!(window.block_times_ms(), [1000.0]);
        assert_eq!((window.slots(), window.missed()), (2, 0));
    }

    #[test]
    fn what_nobody_observed_after_an_interrupt_is_no_stall() {
        let mut report = inject(&[(0, [0, 0])]);
        report.ended_unix_ns = START_NS + 5_100_000_000;
        let load = JudgedLoad { interrupted: true, ..ordered(&report) };
        let window = Window::of(&load, &broken_off(), &SHARDS);
        assert_eq!((window.block_times_ms(), window.missed()), (vec![1000.0], 0));
        assert_eq!(cut(&broken_off()).missed(), 2, "without the interrupt it is a stall");
        // Blocks of the drain are not of the window.
        assert_eq!(Window::of(&load, &steady(), &SHARDS).intervals.len(), 3, "seconds 3, 4 and 5");
    }

    #[test]
    fn a_stall_over_the_whole_window_is_seen() {
        let mut seen = steady();
        seen.blocks.truncate(4);
        seen.blocks[3].timestamp_unix_ns += 10 * SECOND_NS;
        let window = cut(&seen);
        assert_eq!(window.block_times_ms(), [11_000.0]);
    }

    #[test]
    fn an_ordinary_last_interval_is_not_counted_twice_over() {
        // Window ends at 8.5, the last block is 0.5 s old: shorter than the longest interval, so it stays out.
        assert_eq!(cut(&steady()).intervals.len(), 6);
    }

    #[test]
    fn a_block_that_was_not_observed_is_a_hole_and_gives_no_block_time() {
        let mut seen = steady();
        seen.blocks.remove(5);
        let window = cut(&seen);
        assert_eq!(window.holes.len(), 1);
        assert_eq!(window.block_times_ms(), vec![1000.0; 4]);
    }

    #[test]
    fn a_shard_that_a_block_does_not_list_is_missed() {
        let mut seen = steady();
        seen.blocks[4].chunks.pop();
        assert_eq!(cut(&seen).missed_by(ShardId(1)), 1);
    }
}
