//! What the figures were measured on.

use anyhow::Context as _;
use fs_err as fs;

/// One line: processor, cores, load, kernel.
pub(super) fn describe() -> anyhow::Result<String> {
    let cores = std::thread::available_parallelism().context("count the cores")?.get();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let (model, load) = (model(&cpuinfo), load_of_minutes(&load));
    Ok(format!("Machine: {model}, {cores} cores, Linux {}; load average at the start {load}.", kernel.trim()))
}

fn model(cpuinfo: &str) -> &str {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or("an unnamed processor", |(_, model)| model.trim())
}

fn load_of_minutes(loadavg: &str) -> String {
    loadavg.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nflags\t: fpu\n";
        assert_eq!(model(cpuinfo), "Some CPU @ 2.00GHz");
        assert_eq!(model("processor\t: 0\n"), "an unnamed processor");
        assert_eq!(load_of_minutes("0.25 1.10 2.00 1/99 1234\n"), "0.25 1.10 2.00");
    }
}
