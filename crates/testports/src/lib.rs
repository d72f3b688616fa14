//! Ports for nodes that bind them later than the test chooses them.
//!
//! A port that was free a moment ago can be anybody's before it is used: the system gives those above
//! `net.ipv4.ip_local_port_range` to every connection and to everyone who binds port 0. So these are below that range,
//! and each process draws from blocks of its own, which it holds by a lock of a file until it ends.

use std::{
    env, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    ops::Range,
    process,
    sync::{Mutex, PoisonError},
};

/// Below what Linux gives away by itself.
const PORTS: Range<u16> = 10_000..32_000;
/// Ports of a block.
const BLOCK_LEN: u16 = 50;

/// The blocks of this process.
#[derive(Debug)]
struct Blocks {
    /// Locked until the process ends.
    held: Vec<fs_err::File>,
    candidates: Range<u16>,
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { held: Vec::new(), candidates: 0..0 });

/// A port that is free on both loopback addresses and that no other process draws from here while this one runs.
pub fn free_port() -> u16 {
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match blocks.candidates.find(|port| is_free(*port)) {
            Some(port) => return port,
            None => blocks.claim().expect("a block of ports that no process holds"),
        }
    }
}

/// As many of them as are asked for.
pub fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

/// One of them as an address.
pub fn free_addr() -> SocketAddr {
    (Ipv6Addr::LOCALHOST, free_port()).into()
}

impl Blocks {
    /// Takes the next block that nobody holds, beginning where this process is likely to be alone.
    fn claim(&mut self) -> io::Result<()> {
        let folder = env::temp_dir().join("tpsctl-test-ports");
        fs_err::create_dir_all(&folder)?;
        let blocks = u32::from((PORTS.end - PORTS.start) / BLOCK_LEN);
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for turn in 0..blocks {
            let index = process::id().wrapping_add(turn) % blocks;
            let start = PORTS.start + index as u16 * BLOCK_LEN;
            let path = folder.join(start.to_string());
            let file = match fs_err::OpenOptions::new().create(true).append(true).open(path) {
                Ok(file) => file,
                // Another user's.
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            // One that this process has already is held, too: by another descriptor.
            if file.file().try_lock().is_ok() {
                self.held.push(file);
                self.candidates = start..start + BLOCK_LEN;
                return Ok(());
            }
        }
        Err(last)
    }
}

/// Somebody outside the tests may listen there.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, port)).is_ok()
        && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_differ_and_are_free_beyond_one_block() {
        let first = free_port();
        // Somebody has the next one.
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1));
        let ports = free_ports::<120>();
        let different: BTreeSet<u16> = ports.into_iter().chain([first]).collect();
        assert_eq!(different.len(), 121);
        assert!(ports.iter().all(|port| PORTS.contains(port) && *port != first + 1), "{ports:?}");
        drop(taken);
        assert!(ports.into_iter().all(is_free));
        let held = BLOCKS.lock().expect("no panic").held.len();
        assert!(held >= 3, "{held}");
    }

    #[test]
    fn a_block_is_held_against_others() {
        let port = free_port();
        let start = port - port % BLOCK_LEN;
        let path = env::temp_dir().join("tpsctl-test-ports").join(start.to_string());
        let other = fs_err::OpenOptions::new().append(true).open(path).expect("the lock file");
        assert!(other.file().try_lock().is_err(), "{start}");
    }
}
