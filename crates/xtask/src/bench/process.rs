//! What processes have used of the processor.

use std::time::Duration;

use fs_err as fs;

/// The kernel's unit in `/proc`: Linux tells user space hundredths of a second on every machine.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process so far; nothing if it is gone.
pub(super) fn cpu_of(pid: u32) -> Option<Duration> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| cpu_in(&stat))
}

/// Of all of them together. Fails where one is gone.
pub(super) fn cpu_of_all(pids: &[u32]) -> anyhow::Result<Duration> {
    let cpu = |pid: &u32| cpu_of(*pid).ok_or_else(|| anyhow::anyhow!("process {pid} is gone"));
    pids.iter().map(cpu).sum()
}

/// Lets measured time pass.
#[expect(
    clippy::disallowed_methods,
    reason = "a bench looks on for a stretch of time; nothing is waited for"
)]
pub(super) fn look_on(time: Duration) {
    std::thread::sleep(time);
}

fn cpu_in(stat: &str) -> Option<Duration> {
    // The name comes first, in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * ticks()?.checked_add(ticks()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_fourteenth_and_fifteenth_field() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16";
        assert_eq!(cpu_in(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu_in("42 (a) S 1 2"), None);
        assert_eq!(cpu_in(""), None);
    }

    #[test]
    fn this_process_is_there() {
        assert!(cpu_of(std::process::id()).is_some());
    }
}
