//! What this process takes of the machine, from /proc; elsewhere than on Linux it stays at zero.

use std::{sync::Mutex, time::Duration};

use fs_err as fs;
use prometheus::IntGauge;

use super::maker::Maker;
use crate::shell::lock::lock;

/// The kernel's unit of times in /proc, which every Linux tells programs in.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct HostMetrics {
    cpu_usage: IntGauge,
    memory_usage: IntGauge,
    /// When processor time was looked at last, and what it was.
    last: Mutex<Option<(Duration, u64)>>,
}

impl HostMetrics {
    pub(super) fn new(make: &Maker) -> Self {
        Self {
            cpu_usage: make.gauge(("near_cpu_usage_ratio", "Percent of CPU usage")),
            memory_usage: make.gauge(("near_memory_usage_bytes", "Amount of RAM memory usage")),
            last: Mutex::default(),
        }
    }

    /// Looks at the process; `now` is the time since some fixed moment.
    pub(super) fn refresh(&self, now: Duration) {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        if let Some(bytes) = resident_bytes(&read("/proc/self/status")) {
            self.memory_usage.set(bytes.cast_signed());
        }
        let Some(ticks) = cpu_ticks(&read("/proc/self/stat")) else { return };
        let mut last = lock(&self.last);
        if let Some(percent) = last.and_then(|last| percent(last, (now, ticks))) {
            self.cpu_usage.set(percent);
        }
        *last = Some((now, ticks));
    }
}

/// Whole percents of one processor, all threads together, between two looks.
fn percent((then, old): (Duration, u64), (now, new): (Duration, u64)) -> Option<i64> {
    let seconds = now.checked_sub(then)?.as_secs_f64();
    let spent = new.saturating_sub(old) as f64 / TICKS_PER_SECOND;
    (seconds > 0.0).then(|| (100.0 * spent / seconds) as i64)
}

/// User and system time in `/proc/self/stat`: fields 14 and 15, counted behind the name, which may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Resident memory in `/proc/self/status`, which tells it in KiB.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_as_it_is_written() {
        let stat = "41 (a) b) S 1 41 41 0 -1 4194560 100 0 0 0 730 27 0 0 20 0 4 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(757));
        assert_eq!(cpu_ticks("41 (short) S 1"), None);
        assert_eq!(cpu_ticks(""), None);
        assert_eq!(resident_bytes("VmHWM:\t  20 kB\nVmRSS:\t    12 kB\n"), Some(12 * 1024));
        assert_eq!(resident_bytes("VmRSS: many kB"), None);
        let second = Duration::from_secs(1);
        assert_eq!(percent((second, 100), (11 * second, 1_350)), Some(125), "all threads together");
        assert_eq!(percent((second, 100), (second, 100)), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_takes_memory() {
        let metrics = HostMetrics::new(&Maker(prometheus::Registry::new()));
        metrics.refresh(Duration::ZERO);
        assert!(metrics.memory_usage.get() > 100_000, "{:?}", metrics.memory_usage);
        let ticks = metrics.last.lock().expect("not poisoned").expect("looked").1;
        assert_eq!(metrics.cpu_usage.get(), 0, "of no time there is no share");
        assert!(cpu_ticks(&fs::read_to_string("/proc/self/stat").expect("proc")) >= Some(ticks));
    }
}
