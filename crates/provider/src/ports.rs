//! Free ports on the loopback interface.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use crate::ProviderError;

/// Two ports that stay ours until this is dropped: right before the node starts that will bind them. The gap in between
/// cannot be closed, hence [`ProviderError::is_port_taken`].
#[derive(Debug)]
pub(crate) struct PortPair {
    pub(crate) p2p: SocketAddr,
    pub(crate) rpc: SocketAddr,
    _held: [TcpListener; 2],
}

/// Reserves a pair for each of `nodes` nodes, all at once, so that none is given twice.
pub(crate) fn reserve(nodes: usize) -> Result<Vec<PortPair>, ProviderError> {
    let pairs: io::Result<Vec<_>> = (0..nodes).map(|_| pair()).collect();
    pairs.map_err(|source| ProviderError::Ports { ports: 2 * nodes, source })
}

fn pair() -> io::Result<PortPair> {
    let p2p = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let rpc = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(PortPair { p2p: p2p.local_addr()?, rpc: rpc.local_addr()?, _held: [p2p, rpc] })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_differ_are_held_and_free_again() {
        let pairs = reserve(20).expect("free ports");
        let ports: BTreeSet<_> = pairs.iter().flat_map(|pair| [pair.p2p, pair.rpc]).collect();
        assert_eq!(ports.len(), 40);
        for port in &ports {
            assert!(TcpListener::bind(port).is_err(), "{port} is held");
        }
        drop(pairs);
        for port in &ports {
            TcpListener::bind(port).expect("free again");
        }
    }
}
