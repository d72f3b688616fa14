//! Networks under a bench: brought up, loaded and torn down by the release binary, as users do it.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context as _;
use fs_err as fs;
use serde_json::Value;

use super::process;

/// How often a running load is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);

/// The program.
#[derive(Debug)]
pub(super) struct Tpsctl {
    program: PathBuf,
    runs_dir: PathBuf,
    scenarios: PathBuf,
}

impl Tpsctl {
    pub(super) fn new(program: PathBuf, root: &Path, runs_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let runs_dir = runs_dir.unwrap_or_else(|| root.join("target/bench-runs"));
        fs::create_dir_all(&runs_dir)?;
        Ok(Self { program, runs_dir, scenarios: root.join("crates/xtask/bench") })
    }

    fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--runs-dir").arg(&self.runs_dir).args(args).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end; the JSON that it prints, whatever its exit code says of the result.
    pub(super) fn json(&self, args: &[String]) -> anyhow::Result<Value> {
        let command = format!("tpsctl {}", args.join(" "));
        let mut shell = self.command(args);
        let output = shell.stderr(Stdio::inherit()).output().with_context(|| format!("start `{command}`"))?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("read what `{command}` printed ({})", output.status))
    }

    /// Brings up the network of a scenario of `crates/xtask/bench/`.
    pub(super) fn up(&self, scenario: &str, sets: &[String]) -> anyhow::Result<Network<'_>> {
        let path = self.scenarios.join(scenario);
        let mut args = vec!["up".to_owned(), path.display().to_string(), "--json".to_owned()];
        args.extend(sets.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        let status = self.json(&args)?;
        let run = status["run_id"].as_str().context("`tpsctl up` names no run")?.to_owned();
        let mut network = Network { tpsctl: self, run, pids: Vec::new(), addrs: Vec::new() };
        for node in status["nodes"].as_array().into_iter().flatten() {
            let pid = node["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
            network.pids.push(pid.context("a node has no process")?);
            let addr = node["rpc"].as_str().context("a node has no address")?;
            network.addrs.push(addr.trim_start_matches("http://").parse().context("read a node's address")?);
        }
        anyhow::ensure!(!network.pids.is_empty(), "the network has no nodes");
        Ok(network)
    }
}

/// A network that is up; dropping it tears it down.
#[derive(Debug)]
pub(super) struct Network<'t> {
    tpsctl: &'t Tpsctl,
    run: String,
    pub(super) pids: Vec<u32>,
    addrs: Vec<SocketAddr>,
}

/// A load that ended.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The trial's record.
    pub(super) record: Value,
    /// What the nodes used from its start to the end of the drain.
    pub(super) nodes_cpu: Duration,
    /// What the generator used, to within a look.
    pub(super) generator_cpu: Duration,
}

impl Network<'_> {
    /// Loads every shard at the same rate and waits for the drain; calls `look` now and then meanwhile.
    pub(super) fn load(
        &self,
        per_shard: u64,
        seconds: u64,
        mut look: impl FnMut(&Self),
    ) -> anyhow::Result<Loaded> {
        let (rate, duration) = (format!("{per_shard}tps"), format!("{seconds}s"));
        let args = ["inject", &self.run, "--rate", &rate, "--duration", &duration, "--json"];
        let mut command = self.tpsctl.command(&args.map(str::to_owned));
        let before = process::cpu_of_all(&self.pids)?;
        let mut child = command.stdout(Stdio::piped()).spawn().context("start `tpsctl inject`")?;
        let mut generator_cpu = Duration::ZERO;
        // The record is far shorter than what a pipe holds, so it can be read at the end.
        let status = loop {
            if let Some(status) = child.try_wait().context("wait for `tpsctl inject`")? {
                break status;
            }
            generator_cpu = process::cpu_of(child.id()).unwrap_or(Duration::ZERO).max(generator_cpu);
            look(self);
            process::look_on(LOOK_EVERY);
        };
        let mut printed = String::new();
        child.stdout.take().context("no output")?.read_to_string(&mut printed)?;
        let record = serde_json::from_str(&printed)
            .with_context(|| format!("read what `tpsctl inject` printed ({status})"))?;
        let nodes_cpu = process::cpu_of_all(&self.pids)?.saturating_sub(before);
        Ok(Loaded { record, nodes_cpu, generator_cpu })
    }

    /// The texts of all nodes' metrics; a node that does not answer is left out.
    pub(super) fn metrics(&self) -> Vec<String> {
        self.addrs.iter().filter_map(|addr| get(*addr, "/metrics").ok()).collect()
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        let mut command = self.tpsctl.command(&["down".to_owned(), self.run.clone()]);
        match command.stdout(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            other => eprintln!("`tpsctl down {}` failed: {other:?}", self.run),
        }
    }
}

/// The body of an HTTP answer.
fn get(addr: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, HTTP_TIMEOUT)?;
    stream.set_read_timeout(Some(HTTP_TIMEOUT))?;
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\nHost: {addr}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    anyhow::ensure!(head.split_whitespace().nth(1) == Some("200"), "answered {head}");
    Ok(body.to_owned())
}

/// The sum of a metric's samples in texts of `/metrics` whose labels hold `label`.
pub(super) fn sum(texts: &[String], name: &str, label: &str) -> f64 {
    let samples = texts.iter().flat_map(|text| text.lines()).filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (own, labels) = series.split_once('{').unwrap_or((series, ""));
        (own == name && labels.contains(label)).then(|| value.parse::<f64>().ok())?
    });
    samples.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_name_and_label() {
        let text = "# HELP a_total A\n# TYPE a_total counter\na_total{shard_id=\"0\",reason=\"x\"} 2\n\
                    a_total{shard_id=\"1\",reason=\"y\"} 5\na_total_more 100\nb 3\n";
        let texts = [text.to_owned(), text.to_owned()];
        assert_eq!(sum(&texts, "a_total", "reason=\"x\"").round() as u64, 4);
        assert_eq!(sum(&texts, "a_total", "").round() as u64, 14);
        assert_eq!(sum(&texts, "b", "").round() as u64, 6);
        assert_eq!(sum(&texts, "c", "").round() as u64, 0);
    }
}
