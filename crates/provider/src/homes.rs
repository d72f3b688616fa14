//! The nodes' home directories, as `neard run --home` reads them.

use std::{
    ffi::OsString,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use tpsctl_genesis::{NodeEndpoints, NodeKeys, epoch_config, epoch_config_path, node_config, node_keys};
use tpsctl_model::plan::{NodePlan, RunPlan};
use tpsctl_near::{
    KeyPair, PublicKey,
    files::{KeyFile, to_text},
};

use crate::{
    Bundle, DeployedNode, ProviderError, network::PreparedNode, ports::PortPair, process::NodeCommand,
};

/// Keys can be read by their owner only.
const SECRET_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;

/// Program and arguments that run a node in a home.
pub(crate) type CommandOf<'a> = &'a dyn Fn(&Path) -> (PathBuf, Vec<OsString>);

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A file below a home.
#[derive(Debug)]
struct HomeFile {
    name: String,
    text: String,
    mode: u32,
}

/// Writes the home of every node of the plan: each knows all others as boot nodes. What an earlier attempt left is
/// replaced.
pub(crate) fn prepare(
    run_directory: &Path,
    plan: &RunPlan,
    bundle: &Bundle,
    ports: Vec<PortPair>,
    command_of: CommandOf<'_>,
) -> Result<Vec<PreparedNode>, ProviderError> {
    let keys = node_keys(plan);
    let boot_nodes: Vec<_> =
        keys.iter().zip(&ports).map(|(keys, ports)| (keys.node.public(), ports.p2p)).collect();
    let mut prepared = Vec::new();
    for ((node, keys), ports) in plan.nodes.iter().zip(&keys).zip(ports) {
        let directory = run_directory.join("nodes").join(&node.name.0);
        let (home, log) = (directory.join("home"), directory.join("log"));
        let endpoints = NodeEndpoints { p2p: ports.p2p, rpc: ports.rpc, boot_nodes: boot_nodes.clone() };
        let files = files_of(plan, keys, &endpoints)?;
        write_home(&home, &files, &bundle.genesis_json)
            .map_err(|source| ProviderError::Home { node: node.name.clone(), source })?;
        let (program, arguments) = command_of(&home);
        let command = NodeCommand {
            node: node.name.clone(),
            program,
            arguments,
            nice: plan.node.nice,
            run_directory: run_directory.to_owned(),
            log: log.clone(),
        };
        let node = deployed(node, keys.node.public(), &ports, (home, log));
        prepared.push(PreparedNode { node, command, ports });
    }
    Ok(prepared)
}

/// The node as it will run; its pid is not known yet.
fn deployed(
    node: &NodePlan,
    public_key: PublicKey,
    ports: &PortPair,
    paths: (PathBuf, PathBuf),
) -> DeployedNode {
    let (home, log) = paths;
    let NodePlan { name, role } = node.clone();
    DeployedNode { name, role, p2p: ports.p2p, rpc: ports.rpc, pid: 0, public_key, home, log }
}

fn write_home(home: &Path, files: &[HomeFile], genesis_json: &Path) -> io::Result<()> {
    if fs::symlink_metadata(home).is_ok() {
        fs::remove_dir_all(home)?;
    }
    fs::create_dir_all(home)?;
    for file in files {
        let path = home.join(&file.name);
        fs::create_dir_all(path.parent().unwrap_or(home))?;
        // The mode counts when the file is made: the key is at no moment readable to others.
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).options_mut().mode(file.mode);
        options.open(path)?.write_all(file.text.as_bytes())?;
    }
    share(genesis_json, &home.join("genesis.json"))?;
    // What embedded nodes find their own part of genesis by, where the genesis stage made it.
    let index = genesis_json.with_extension("index.json");
    if index.exists() { share(&index, &home.join("genesis.index.json")) } else { Ok(()) }
}

/// One file for all nodes, unless the run directory spans file systems.
fn share(file: &Path, place: &Path) -> io::Result<()> {
    fs::hard_link(file, place).or_else(|_| fs::copy(file, place).map(drop))
}

/// All of a home but genesis.json.
fn files_of(
    plan: &RunPlan,
    keys: &NodeKeys,
    endpoints: &NodeEndpoints,
) -> Result<Vec<HomeFile>, ProviderError> {
    let fault = |source: Fault| ProviderError::Files { node: keys.name.clone(), source };
    let epoch_config = epoch_config(plan).map_err(|error| fault(error.into()))?;
    let config = node_config(plan, &keys.name, endpoints).map_err(|error| fault(error.into()))?;
    let mut files = vec![
        HomeFile {
            name: epoch_config_path(plan),
            text: to_text("epoch config", &epoch_config).map_err(|error| fault(error.into()))?,
            mode: PUBLIC_MODE,
        },
        HomeFile { name: "config.json".to_owned(), text: config, mode: PUBLIC_MODE },
        // neard names the owner of a node key so.
        key_file("node_key.json", "node", &keys.node).map_err(fault)?,
    ];
    if let Some(validator) = &keys.validator {
        files.push(key_file("validator_key.json", &keys.name.0, validator).map_err(fault)?);
    }
    Ok(files)
}

fn key_file(name: &'static str, owner: &str, key: &KeyPair) -> Result<HomeFile, Fault> {
    let file = KeyFile { account_id: Some(owner.parse()?), key: key.clone() };
    Ok(HomeFile { name: name.to_owned(), text: to_text(name, &file)?, mode: SECRET_MODE })
}
